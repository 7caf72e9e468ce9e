"""Statements about plateaus: their lengths, and the energy levels on them."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist

from attnflow.analyse import cluster_tracks, clusters, energy, plateau_forecasts
from attnflow.coalescence.merge_forecast import LARGEST_CORRECTION, next_order, softmax_log_merge_duration
from attnflow.model import initial
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Full
from attnflow.theorems.hypotheses import (
    attention_is,
    beta_of,
    distinct,
    mask_is,
    on_the_sphere,
    scores_are_inner_products,
    self_attention,
    value_is,
)
from attnflow.theorems.measurements import on_a_path, present
from attnflow.theorems.statement import Computation, Instance, OnCoalescing, Statement
from attnflow.theorems.statements.metastable import weights_at_most_one
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

MIN_PLATEAU = 0.05  # share of the total log time: shorter pauses are not counted as plateaus


def _pair_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    extras = (flow.mlp, flow.noise, flow.frozen)
    setting = (
        on_the_sphere(flow),
        is_true("no noise, MLP or frozen tokens", all(extra is None for extra in extras)),
        attention_is(flow, Softmax),
        mask_is(flow, Full),
        scores_are_inner_products(flow),
        value_is(flow),
        at_most("two tokens, with masses or without", abs(len(tokens) - 2), 0, "tokens"),
    )
    if len(tokens) != 2:
        return setting
    angle = _angle(tokens)
    places = (distinct(tokens), above("not antipodal", np.pi - angle, 1e-6, "radians"))
    if not all(one.holds for one in places):  # the expansion has no meaning there
        return (*setting, *places)
    correction = _next_order(angle, beta_of(flow))
    large = at_most("beta large for this angle", correction, LARGEST_CORRECTION, "(the relative correction)")
    return (*setting, *places, large)


def _angle(tokens: np.ndarray) -> float:
    return float(clusters.angle(np.linalg.norm(tokens[0] - tokens[1])))


def _next_order(angle: float, beta: float) -> float:
    """Relative size of the next terms in 1/beta; infinity where the expansion does not apply."""
    return float(next_order(angle, beta)) if beta * np.sin(angle) ** 2 > 0 else np.inf


def merge_time(angle: float, beta: float, masses: Sequence[float] = (1.0, 1.0)) -> float:
    """Time in which two clusters at an angle merge: e^{beta (1 - cos)} / (beta (r + 1/r) sin^2), r the ratio of masses.

    Examples
    --------
    >>> round(merge_time(0.8, 40.0, (1.0, 3.0)))
    2706
    """
    return float(np.exp(log_merge_time(angle, beta, masses)))


def log_merge_time(angle: float, beta: float, masses: Sequence[float] = (1.0, 1.0)) -> float:
    """Logarithm of `merge_time`, for times beyond floats."""
    return float(softmax_log_merge_duration(angle, beta, *masses))


@on_a_path
def _pair(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    first = _angle(run.initial_tokens.values)
    beta = beta_of(flow)
    masses = (1.0, 1.0) if flow.masses is None else [float(mass) for mass in np.asarray(flow.masses)]
    expected = merge_time(first, beta, masses)
    times, tokens = present(run)
    angles = np.array([_angle(snapshot) for snapshot in tokens])
    spacing = float(np.diff(times).max(initial=0.0)) / expected
    found = _crossing(times - times[0], angles, first / 2) / expected
    tolerance = 2 * _next_order(first, beta) + spacing
    # A pair that has not merged well after the predicted time is a failure; before that time nothing is decided.
    is_early = np.isnan(found) and (times[-1] - times[0]) / expected < 1 + tolerance
    return Measurement(
        quantity=f"relative error of the time to half the angle, expected {expected:.4g}",
        value=np.nan if is_early else abs(np.nan_to_num(found, nan=np.inf) - 1),
        tolerance=tolerance,
        why="twice the next terms of the expansion in 1/beta, and the spacing of the saved times",
        open=f"the run ends at {(times[-1] - times[0]) / expected:.3g} of the predicted time" if is_early else "",
    )


def _pair_of_merges(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    angle, beta, has_merged = _angle(run.initial_tokens.values), beta_of(flow), run.sizes["merge"] > 0
    masses = (1.0, 1.0) if flow.masses is None else [float(mass) for mass in np.asarray(flow.masses)]
    expected = log_merge_time(angle, beta, masses)
    # A close pair still needs a time of order one for each factor of e by which its gap shrinks.
    tail = 2 * float(np.log(angle / run.attrs["merge"]) * np.exp(-expected))
    return Measurement(
        quantity=f"relative error of the merge time, expected e^{expected:.4g}",
        value=abs(float(np.expm1(run.merge_log_time[0] - expected))) if has_merged else np.nan,
        tolerance=2 * _next_order(angle, beta) + tail,
        why="twice the next terms of the expansion in 1/beta, and the last approach to the merging distance",
        open="" if has_merged else "the clusters have not merged",
    )


def _crossing(times: np.ndarray, values: np.ndarray, level: float) -> float:
    """Time at which falling values first pass a level, by linear interpolation; NaN if they do not."""
    below = np.flatnonzero(values < level)
    if len(below) == 0 or below[0] == 0:
        return np.nan
    last, now = below[0] - 1, below[0]
    return float(times[last] + (times[now] - times[last]) * (values[last] - level) / (values[last] - values[now]))


def _pair_example(angle: float = 0.8, beta: float = 40.0) -> Instance:
    masses = (1.0, 3.0)
    flow = SphereAttention(Head.identity(2), Softmax(beta), masses=np.array(masses))
    tokens = initial.on_circle(np.array([0.0, angle]))
    return Instance(flow, tokens, np.linspace(0, 1.3 * merge_time(angle, beta, masses), 261))


# Energy levels


def _staircase_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    beta = beta_of(flow)
    closest = float(clusters.angle(pdist(tokens).min())) if len(tokens) > 1 else np.nan
    # Pairs this far apart contribute less than 1/beta each.
    least = float(np.sqrt(2 * np.log(beta) / beta)) if np.isfinite(beta) and beta > 1 else 0.0
    return (
        *self_attention(flow),
        weights_at_most_one(flow),
        above("beta > 1", beta, 1.0, "in beta"),
        at_most("d = 2", abs(flow.dimension - 2), 0, "in the dimension"),
        above("first tokens sqrt(2 log beta / beta) apart", closest, least, "radians"),
    )


@on_a_path
def _staircase(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    beta = beta_of(flow)
    times, tokens = present(run)
    found = clusters.over_time(tokens, 0.5 / np.sqrt(beta)).values
    has_log_time = np.sum(times > 0) > 1
    stairs = cluster_tracks.plateaus(times, found.max(axis=1) + 1, MIN_PLATEAU, log=True) if has_log_time else []
    middles = [int(np.searchsorted(times, np.sqrt(stair.start * stair.end))) for stair in stairs]
    heights = energy.normalised(tokens, beta).values
    errors = [abs(heights[at] - energy.level(np.bincount(found[at]))) for at in middles]
    return Measurement(
        quantity=f"largest distance of the energy on {len(stairs)} plateaus from sum_q m_q^2 / n^2",
        value=max(errors) if len(stairs) > 1 else np.nan,
        tolerance=1 / beta,
        why="neighbouring clusters at this distance still contribute up to 1/beta",
        open=f"{len(stairs)} plateaus were seen, a staircase needs two" if len(stairs) < 2 else "",
    )


def _staircase_example(beta: float = 40.0) -> Instance:
    flow = SphereAttention(Head.identity(2), Softmax(beta))
    tokens = initial.on_circle(np.cumsum([0.0, 0.5, 0.65, 0.8]))
    return Instance(flow, tokens, np.r_[0.0, np.geomspace(1e-2, 3e4, 160)])


def _staircase_on_coalescing(flow: AbstractDynamics, run: xr.Dataset) -> Sequence[Hypothesis]:
    """The same hypotheses, with distances between the clusters on plateaus instead of the first tokens."""
    beta, stairs = beta_of(flow), _stairs(run)
    closest = min((float(clusters.angle(_smallest_gap(run, place))) for place in stairs), default=np.inf)
    least = float(np.sqrt(2 * np.log(beta) / beta)) if np.isfinite(beta) and beta > 1 else 0.0
    return (
        *self_attention(flow),
        weights_at_most_one(flow),
        above("beta > 1", beta, 1.0, "in beta"),
        above("clusters on plateaus sqrt(2 log beta / beta) apart", closest, least, "radians"),
    )


def _stairs(run: xr.Dataset) -> list[int]:
    """Indices of merges followed by a plateau longer than MIN_PLATEAU of the total log time."""
    times = run.merge_log_time.values
    lengths = np.diff(times)
    return np.flatnonzero(lengths > MIN_PLATEAU * lengths.sum()).tolist() if len(lengths) else []


def _smallest_gap(run: xr.Dataset, merge: int) -> float:
    """Smallest distance of two clusters as the plateau after a merge begins."""
    place = int(np.searchsorted(run.log_time.values, run.merge_log_time.values[merge]))
    places = np.unique(run.tokens.values[min(place, run.sizes["state"] - 1)], axis=0)
    return float(pdist(places).min(initial=2.0))


def _staircase_of_merges(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    stairs = _stairs(run)
    errors = np.abs(run.energy_after.values - run.level_after.values)[stairs]
    return Measurement(
        quantity=f"largest distance of the energy on {len(stairs)} plateaus from sum_q m_q^2 / n^2",
        value=float(errors.max()) if len(stairs) > 1 else np.nan,
        tolerance=1 / beta_of(flow),
        why="neighbouring clusters at this distance still contribute up to 1/beta",
        open=f"{len(stairs)} plateaus were seen, a staircase needs two" if len(stairs) < 2 else "",
    )


# Lengths of plateaus


def _length_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    del tokens
    extras = (flow.mlp, flow.noise, flow.frozen)
    return (
        on_the_sphere(flow),
        is_true("no noise, MLP or frozen tokens", all(extra is None for extra in extras)),
        attention_is(flow, Softmax, Unnormalised),
        mask_is(flow, Full),
        scores_are_inner_products(flow),
        value_is(flow),
        at_most("beta >= 20, so that plateaus are long", 20.0, beta_of(flow), "in beta"),
    )


def _lengths(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    known = run.isel(merge=plateau_forecasts.is_forecast(run))
    shares = np.abs(known.log_duration - known.forecast_log_duration) / known.forecast_error
    return Measurement(
        quantity=f"largest error of the logarithm of {shares.size} forecast lengths, over the error of its forecast",
        value=float(shares.max()) if shares.size else np.nan,
        tolerance=1.0,
        why="a forecast's error is twice the sum of the next terms of the expansion in 1/beta, the share of the last "
        "approach, and the speed of the runner-up pair over that of the first",
        open="" if shares.size else "no plateau was forecast: none was long, with one isolated pair far from antipodal",
    )


def _lengths_example(beta: float = 60.0) -> Instance:
    flow = SphereAttention(Head.identity(3), Softmax(beta))
    return Instance(flow, initial.sphere(8, 3, rng=1), np.array([0.0]), coalesces=True)


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(
        Theorem(
            id="pair-merge-time",
            paper="leading order for large beta; compare arXiv:2410.06833 and arXiv:2512.01868",
            says="Two isolated clusters at angle th merge after e^{beta (1 - cos th)} / (beta (r + 1/r) sin^2 th), "
            "r being the ratio of their masses.",
            start=_pair_hypotheses,
        ),
        measure=_pair,
        coalescing=OnCoalescing(_pair_of_merges),
        example=_pair_example,
        control=lambda: _pair_example(beta=4.0),
    ),
    Statement(
        Theorem(
            id="staircase-levels",
            paper="arXiv:2410.06833",
            says="On a plateau with clusters of m_q tokens the normalised energy is sum_q m_q^2 / n^2, "
            "so a merge of a and b raises it by 2 m_a m_b / n^2.",
            start=_staircase_hypotheses,
        ),
        measure=_staircase,
        coalescing=OnCoalescing(_staircase_of_merges, _staircase_on_coalescing),
        example=_staircase_example,
        control=lambda: _staircase_example(beta=4.0),
    ),
    Statement(
        Theorem(
            id="plateau-lengths",
            paper="the pair formula applied to every plateau; compare arXiv:2410.06833",
            says="If, as a plateau begins, the pair formula puts one pair of clusters long before all others, the "
            "plateau lasts as long as that pair needs: e^{beta (1 - cos th)} / (beta (r + 1/r) sin^2 th), th being its "
            "angle.",
            start=_length_hypotheses,
            proved=False,
        ),
        measure=None,
        coalescing=OnCoalescing(_lengths),
        example=_lengths_example,
        control=lambda: _lengths_example(beta=4.0),
    ),
)
