"""Statements about discrete layers: which conclusions of continuous time hold for steps of finite size.

With V = I a layer averages tokens with the tokens that they attend to, whatever the step, and averages do not leave a
hull or a cone. With V = -I a layer can overshoot, and conclusions that hold for small steps fail for large ones.
`surviving_steps` checks a statement for several sizes of step.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse.snapshots import tokens_of
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Full
from attnflow.results.provenance import solver_of
from attnflow.solvers.layers import Layers
from attnflow.theorems import hypotheses as given
from attnflow.theorems.spectral_hypotheses import scores_are_definite
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, Verdict, is_true

FEWEST_LAYERS, MOST_LAYERS = 60, 20_000  # of a run with another step than the example's
RELATIVE_LIMIT_DISTANCE = 1e-3  # over the size of the tokens, from a limit that infinitely many layers would reach
LAYER_ROUNDING = 1e-12  # a few thousand roundings of numbers of size one


def surviving_steps(statement: Statement, steps: Sequence[float]) -> dict[float, Verdict]:
    """The verdict on the statement's example for every size of step.

    The example's time span is kept, with at least 60 layers where steps are so large that it
    would have fewer.

    Parameters
    ----------
    statement
        One of this family: its example is solved by `Layers`.
    steps
        Sizes of one layer's step.
    """
    example = statement.example()
    if not isinstance(example.solver, Layers):
        raise InputError(f"`statement` must be about discrete layers, but {statement.id!r} is about continuous time.")
    span = float(example.times[-1] - example.times[0])
    return {float(step): statement.check_instance(_with_step(example, float(step), span)) for step in steps}


def _with_step(example: Instance, step: float, span: float) -> Instance:
    require_positive_number(step, "steps")
    count = max(FEWEST_LAYERS, round(span / step))
    if count > MOST_LAYERS:
        raise InputError(f"`steps` must be at least {span / MOST_LAYERS:.2g} for this example, but one is {step:g}.")
    return Instance(example.flow, example.tokens, step * np.arange(count + 1), Layers(step), example.seed)


def _measure_cluster(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    middle, last = (_width(tokens_of(run).values[layer]) for layer in (run.sizes["time"] // 2, -1))
    why, trend = "a thousandth of the sphere's radius", _trend(run, middle, last)
    return _of_layers(
        run, Measurement("largest distance between two tokens", last, RELATIVE_LIMIT_DISTANCE, why, open=trend)
    )


def _trend(run: xr.Dataset, middle: float, last: float) -> str:
    """The distance from the limit after the last layer, and whether it has fallen since the middle of the run."""
    trend = "and falling" if last < middle else f"after {middle:.2g} half way"
    return f"after {int(run.steps)} layers it is {last:.2g}, {trend}"


def _width(tokens: np.ndarray) -> float:
    return float(pdist(tokens).max(initial=0.0))


def _rescaled_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (given.rescaled(flow), given.plain(flow), given.attention_is(flow, Softmax), given.value_is(flow))


def _measure_hull(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    tokens = tokens_of(run).values
    directions = initial.sphere(64, tokens.shape[-1], rng=0)
    heights = (tokens @ directions.T).max(axis=1)
    growth = float(np.diff(heights, axis=0).max() / np.abs(tokens[0]).max())
    why = "rounding; a layer only averages"
    return _of_layers(
        run, Measurement("largest growth of the hull's width in 64 directions", growth, LAYER_ROUNDING, why)
    )


def _measure_polytope(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    scores = given.score_matrix(flow)
    middle, last = (_miss_of_limit_set(tokens_of(run).values[at], scores) for at in (run.sizes["time"] // 2, -1))
    why, trend = "a thousandth of the tokens' size", _trend(run, middle, last)
    quantity = "largest | |Az|^2 - max_v <Az, Av> | over max |Az|^2"
    moving = _moving(tokens_of(run).values)
    return _of_layers(run, Measurement(quantity, last, RELATIVE_LIMIT_DISTANCE, why, open=trend, unsettled=moving))


def _moving(tokens: np.ndarray) -> str:
    """A sentence if the last layer still moved the tokens, else nothing."""
    if len(tokens) < 2:
        return "there is only one layer"
    move = float(np.abs(tokens[-1] - tokens[-2]).max() / (np.abs(tokens[-1]).max() or 1.0))
    return (
        f"the last layer kept still moves tokens by {move:.1e} of their size" if move > RELATIVE_LIMIT_DISTANCE else ""
    )


def _miss_of_limit_set(tokens: np.ndarray, scores: np.ndarray) -> float:
    gram = tokens @ scores @ tokens.T
    own = np.diag(gram)
    return float(np.abs(gram.max(axis=1) - own).max() / own.max())


def _shrinking_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (
        is_true("tokens x in R^d", isinstance(flow, EuclideanAttention), "space"),
        given.plain(flow),
        given.attention_is(flow, Softmax),
        given.mask_is(flow, Full),
        given.value_is(flow, -1.0),
    )


def _measure_shrinking(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    scores = given.score_matrix(flow)
    lengths = np.einsum("tid,de,tie->t", tokens_of(run), scores, tokens_of(run))
    return _monotone(run, "largest growth in a layer of sum_i <x_i, Q^T K x_i>, over its first value", -lengths)


def _energy_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (
        *given.full_attention(flow),
        given.scores_are_inner_products(flow),
        given.value_is(flow, -1.0),
        given.beta_at_least(flow, 0.0),
    )


def _measure_energy(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    tokens, beta = tokens_of(run).values, given.beta_of(flow)
    energies = np.exp(beta * (np.einsum("tid,tjd->tij", tokens, tokens) - 1)).mean(axis=(1, 2))
    return _monotone(run, "largest growth of the energy in a layer, over its first value", -energies)


def _monotone(run: xr.Dataset, quantity: str, rising: np.ndarray) -> Measurement:
    """The largest fall of a quantity that should rise; NaN where the run broke off before any fall."""
    falls = -np.diff(rising) / abs(rising[0])
    finite = falls[np.isfinite(falls)]
    worst = float(finite.max()) if len(finite) else np.nan
    worst = worst if len(finite) == len(falls) or worst > LAYER_ROUNDING else np.nan
    return _of_layers(run, Measurement(quantity, worst, LAYER_ROUNDING, "rounding"))


def _of_layers(run: xr.Dataset, measured: Measurement) -> Measurement:
    """The measurement of a run of layers with a residual that is not negative; NaN for other runs."""
    solver = solver_of(run)
    applies = isinstance(solver, Layers) and float(solver.residual) >= 0
    value = measured.value if applies else np.nan
    return dataclasses.replace(measured, value=value)


def _instance(flow: AbstractDynamics, tokens: np.ndarray, step: float, layers: int) -> Instance:
    return Instance(flow, tokens, step * np.arange(layers + 1), Layers(step))


def _on_sphere(value: float, tokens: np.ndarray, step: float, layers: int) -> Instance:
    head = Head.bilinear(np.eye(3), value * np.eye(3))
    return _instance(SphereAttention(head, Softmax(1.0)), tokens, step, layers)


def _in_space(kind: type, value: float, step: float, layers: int) -> Instance:
    head = Head.bilinear(np.eye(3), value * np.eye(3))
    return _instance(kind(head), initial.box(12, 3, -1.0, 1.0, rng=0), step, layers)


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="layers-single-cluster",
            paper="arXiv:2312.10794, cone collapse, in discrete layers",
            says="With V = I, tokens that start in an open hemisphere gather in one point, layer by layer.",
            setting=lambda flow: (*given.full_attention(flow), given.value_is(flow)),
            start=lambda _, tokens: (given.in_an_open_hemisphere(tokens),),
            proved=False,
        ),
        _measure_cluster,
        lambda: _on_sphere(1.0, initial.hemisphere(12, 3, rng=0), 0.1, 200),
        lambda: _on_sphere(-1.0, initial.hemisphere(12, 3, rng=0), 0.1, 200),
        continuous=False,
    ),
    Statement(
        Theorem(
            id="layers-shrinking-hull",
            paper="arXiv:2305.05465, discrete time",
            says="With V = I the convex hull of the rescaled tokens never grows, whatever the step.",
            setting=_rescaled_setting,
        ),
        _measure_hull,
        lambda: _in_space(RescaledAttention, 1.0, 0.1, 150),
        lambda: _in_space(RescaledAttention, -0.5, 0.1, 150),
        continuous=False,
    ),
    Statement(
        Theorem(
            id="layers-polytope",
            paper="arXiv:2305.05465 Theorem 3.1 in discrete time",
            says="With V = I and Q^T K > 0 the rescaled tokens end where |Az|^2 = max_v <Az, Av>, in discrete layers "
            "too.",
            setting=lambda flow: (*_rescaled_setting(flow), given.mask_is(flow, Full)),
            spectral=(scores_are_definite,),
            start=lambda _, tokens: (given.distinct(tokens),),
            proved=False,
        ),
        _measure_polytope,
        lambda: _in_space(RescaledAttention, 1.0, 0.1, 150),
        lambda: _in_space(RescaledAttention, -0.5, 0.1, 150),
        continuous=False,
    ),
    Statement(
        Theorem(
            id="layers-shrinking-tokens",
            paper="arXiv:2305.05465, V = -I, in discrete layers",
            says="With V = -I and Q^T K > 0 the sum of <x_i, Q^T K x_i> never grows, if layers are short.",
            setting=_shrinking_setting,
            spectral=(scores_are_definite,),
            proved=False,
        ),
        _measure_shrinking,
        lambda: _in_space(EuclideanAttention, -1.0, 0.1, 150),
        lambda: _in_space(EuclideanAttention, 1.0, 0.1, 150),
        continuous=False,
    ),
    Statement(
        Theorem(
            id="layers-falling-energy",
            paper="arXiv:2312.10794, gradient flow with V = -I, in discrete layers",
            says="With V = -I the energy of tokens on the sphere falls from layer to layer, if layers are short.",
            setting=_energy_setting,
            start=lambda _, tokens: (given.at_least_two_tokens(tokens),),
            proved=False,
        ),
        _measure_energy,
        lambda: _on_sphere(-1.0, initial.sphere(12, 3, rng=0), 0.1, 200),
        lambda: _on_sphere(1.0, initial.sphere(12, 3, rng=0), 0.1, 200),
        continuous=False,
    ),
)
