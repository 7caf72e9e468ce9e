"""Named scenarios: settings in words and numbers that can be changed one by one, and the run behind them.

Examples
--------
A scenario, with two settings changed, simulated:

>>> import attnflow as af
>>> scenario = af.scenarios.get("polytope")
>>> scenario.sentence
'V = I in the plane. Theory: rescaled tokens have limits on a polygon.'
>>> settings = af.scenarios.change(scenario.settings, {"n": 12, "seed": 4})
>>> setup = af.scenarios.build(settings)
>>> run = af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng)
>>> run.sizes["token"], float(run.final_time)
(12, 20.0)

`CATALOGUE` has all scenarios by name; `Settings` explains itself by its fields, and the words that each setting knows
are printed by ``attnflow run --help``.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number, require_tokens
from attnflow._common.memory import require_array_memory
from attnflow._common.seeds import seed_sequence
from attnflow.experiments import specs
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.effects import require_effect
from attnflow.experiments.number_files import read_numbers
from attnflow.experiments.settings import Scenario, Settings
from attnflow.experiments.vocabulary import SPACES, is_file, known_words, lists_tokens
from attnflow.integrate.request import default_solver
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.heads import Head, RedrawnHead
from attnflow.model.mlp import MLP
from attnflow.model.noise import Noise
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver

__all__ = ["CATALOGUE", "Scenario", "Settings", "Setup", "build", "change", "get", "scenario"]

SPACINGS = ("linear", "log")


@dataclass(frozen=True)
class Setup:
    """The arguments of `simulate`.

    Examples
    --------
    >>> import attnflow as af
    >>> setup = af.scenario("sphere", n=6)
    >>> setup.tokens.shape[0]
    6
    >>> af.scenario("boolean")
    Setup(flow=RescaledAttention(heads=Head(query=identity 1 x 1, key=identity 1 x 1, value=identity 1 x 1), \
attention=Softmax(beta=1), mask=masks.full), tokens=40 x 1, times=101 from 0 to 20, \
solver=Adaptive(rtol=1e-08, atol=1e-10, order=5, stiff=False, max_steps=10000000, min_step=0))
    """

    flow: AbstractDynamics
    """The model."""
    tokens: np.ndarray
    """The first tokens."""
    times: np.ndarray
    """Times at which tokens are kept."""
    solver: AbstractSolver | None
    """The solver; None: that of `simulate`."""
    rng: np.random.SeedSequence
    """Seed of the noise."""

    def __eq__(self, other: object) -> bool:
        arrays = ("tokens", "times")
        return (
            isinstance(other, Setup)
            and (self.flow, self.solver, self.rng.state) == (other.flow, other.solver, other.rng.state)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
        )

    def __repr__(self) -> str:
        tokens = " x ".join(map(str, np.shape(self.tokens)))
        return f"Setup(flow={self.flow!r}, tokens={tokens}, times={times_in_words(self.times)}, solver={self.solver!r})"


def times_in_words(times: np.ndarray) -> str:
    """The number of times, the first and the last.

    Examples
    --------
    >>> times_in_words(np.linspace(0, 20, 101))
    '101 from 0 to 20'
    """
    return f"{len(times)} from {times[0]:g} to {times[-1]:g}"


def get(name: str) -> Scenario:
    """The scenario of that name.

    Examples
    --------
    >>> get("polytope").paper
    '2305.05465'
    """
    _require_tokens_of(name)
    require_known(name, CATALOGUE, "scenario")
    return CATALOGUE[name]


def scenario(name: str, **changes: Any) -> Setup:
    """Flow, tokens, times, solver and seed of a named scenario, with some of its settings changed.

    Parameters
    ----------
    name
        A name that `attnflow list` prints.
    changes
        Settings by name, such as ``n=50``: the fields of `scenarios.Settings`.

    Examples
    --------
    >>> import attnflow as af
    >>> setup = af.scenario("renyi", beta=100, n=50)
    >>> setup.flow.attention, setup.tokens.shape
    (Softmax(beta=100), (50, 2))
    >>> run = af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng)
    """
    return build(change(get(name).settings, changes))


def _require_tokens_of(name: str) -> None:
    """Refuse scenarios that have no flow of tokens, with the function that takes them."""
    from attnflow.experiments.control_scenarios import CONTROLS
    from attnflow.experiments.law_scenarios import LAWS

    for scenarios, function in ((LAWS, "law_scenario"), (CONTROLS, "control_scenario")):
        if name in scenarios:
            raise InputError(
                f"The scenario '{name}' has no flow of tokens. Use `{function}('{name}')`, or `attnflow run {name}`."
            )


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves a setting as it is.

    A `start` that lists its tokens sets `n`, and from a file also `d`.

    Parameters
    ----------
    settings
        The settings before.
    changes
        New values by name.

    Examples
    --------
    >>> change(get("sphere").settings, {"beta": 9.0, "n": None}).beta
    9.0
    """
    known = {entry.name for entry in fields(Settings)}
    given = {name: value for name, value in changes.items() if value is not None}
    for name in given:
        require_known(name, known, "setting")
    changed = replace(settings, **given)
    if is_file(changed.start):
        tokens = require_tokens(read_numbers(changed.start, "start"))
        changed = replace(changed, d=given.get("d", tokens.shape[-1]), n=given.get("n", tokens.shape[-2]))
    elif lists_tokens(changed.start):
        changed = replace(changed, n=len(specs.split(changed.start, "start")[1]) or 1)
    require_effect(given, changed)
    return changed


def build(settings: Settings, **parts: Any) -> Setup:
    """The model, tokens, times and solver behind some settings.

    Weights, start and noise have seeds of their own, spawned from `settings.seed`. `parts` are objects in place of what
    the settings say: fields of `Setup` but `flow`, parts of the flow, and matrices `query_key` and `value`.

    Examples
    --------
    >>> import attnflow as af
    >>> setup = build(get("sphere").settings)
    >>> setup.flow.is_on_sphere
    True
    """
    _require_numbers(settings)
    seed = seed_sequence(settings.seed)
    for_weights, for_start, for_noise = seed.spawn(3)
    of_setup = {name: parts.pop(name) for name in ("tokens", "times", "solver", "rng") if name in parts}
    flow = _flow(settings, for_weights, parts)
    if "tokens" not in of_setup:
        of_setup["tokens"] = specs.start(settings.start, settings.n, settings.d, settings.runs, for_start)
    standard = {"times": times_of(settings), "solver": _solver(settings, flow), "rng": for_noise}
    return Setup(flow=flow, **(standard | of_setup))


def _solver(settings: Settings, flow: AbstractDynamics) -> AbstractSolver | None:
    """The solver that is named, or the default of `simulate` with the tolerances of the settings; None with noise."""
    if settings.solver is not None:
        return specs.solver(settings.solver, settings.rtol, settings.atol)
    default = default_solver(flow)
    return replace(default, rtol=settings.rtol, atol=settings.atol) if isinstance(default, Adaptive) else None


def _flow(settings: Settings, seed: np.random.SeedSequence, given: dict[str, Any]) -> AbstractDynamics:
    require_known(settings.space, known_words("space"), "space")
    if settings.space != "sphere" and settings.normalisation != "post":
        raise InputError(
            f"`normalisation` {settings.normalisation!r} belongs to the sphere, but the space is "
            f"{settings.space!r}. Use the sphere, or leave the normalisation out."
        )
    if settings.mlp is not None:
        require_known(settings.mlp, MLP.activations, "mlp")
    matrices = {name: given.pop(name, getattr(settings, name)) for name in ("query_key", "value")}
    parts: dict[str, Any] = {
        "attention": specs.attention(settings.attention, settings.beta),
        "mlp": None if settings.mlp is None else MLP(np.eye(settings.d), settings.mlp),
        "noise": None if settings.kappa is None else Noise(settings.kappa),
    }
    if "mask" not in given:
        parts["mask"] = specs.mask(settings.mask)
    if "heads" not in given:
        parts["heads"] = _heads(settings, seed, **matrices)
    if settings.space == "sphere":
        parts["normalisation"] = specs.normalisation(settings.normalisation)
    return SPACES.words[settings.space].make(**(parts | given))


def _heads(settings: Settings, seed: np.random.SeedSequence, query_key: Any, value: Any) -> list:
    if settings.redraw is not None:
        laws = {"query_key": query_key, "value": value}
        for name, law in laws.items():
            if not isinstance(law, str):
                raise InputError(f"`{name}` must be a law where weights are drawn again, but it is a matrix.")
        numbers = [int(child.generate_state(1)[0]) for child in seed.spawn(settings.heads)]
        return [RedrawnHead(settings.d, settings.redraw, number, **laws) for number in numbers]
    heads = []
    for child in seed.spawn(settings.heads):
        for_scores, for_value = child.spawn(2)
        matrices = (
            specs.matrix(query_key, settings.d, for_scores, "query_key"),
            specs.matrix(value, settings.d, for_value, "value"),
        )
        heads.append(Head.bilinear(*matrices))
    return heads


def times_of(settings: Settings) -> np.ndarray:
    """The times that are kept."""
    require_known(settings.spacing, SPACINGS, "spacing")
    if settings.spacing == "linear":
        return np.linspace(0, settings.end, settings.saves)
    later = np.geomspace(settings.end, settings.end / 1e5, settings.saves - 1)[::-1]
    return np.concatenate([[0.0], later])


def _require_numbers(settings: Settings) -> None:
    for name in ("n", "d", "heads"):
        require_count(getattr(settings, name), name)
    require_count(settings.saves, "saves", least=2)
    require_count(settings.seed, "seed", least=0)
    require_positive_number(settings.end, "end")
    if settings.redraw is not None:
        require_positive_number(settings.redraw, "redraw")
    if settings.runs is not None:
        require_count(settings.runs, "runs")
    n, d, runs = settings.n, settings.d, settings.runs or 1
    # Four copies at least: numbers that are drawn, their directions, the first and the last state of the result.
    what = f"{runs} run{'' if runs == 1 else 's'} of {n} tokens in dimension {d}"
    require_array_memory(4, n, d, runs, what=what)
    require_array_memory(settings.heads, 4, d, d, what=f"{settings.heads} heads in dimension {d}")
    require_array_memory(settings.saves, what=f"A list of {settings.saves} times")
