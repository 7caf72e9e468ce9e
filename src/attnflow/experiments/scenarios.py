"""Named experiments: each is a set of words that a user may change one by one."""

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.seeds import seed_sequence
from attnflow.experiments import specs
from attnflow.integrate.request import MIN_STEP_AT_JUMPS
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention, SphereAttention
from attnflow.model.heads import Head, RedrawnHead
from attnflow.model.mlp import MLP
from attnflow.model.noise import Noise
from attnflow.solvers.base import AbstractSolver

SPACES = ("euclidean", "rescaled", "sphere")
SPACINGS = ("linear", "log")


@dataclass(frozen=True)
class Settings:
    """Everything a user would vary, in words and numbers."""

    space: str = "sphere"
    n: int = 32
    d: int = 3
    beta: float = 1.0
    attention: str = "softmax"
    mask: str = "full"
    heads: int = 1
    query_key: str = "identity"
    value: str = "identity"
    redraw: float | None = None
    normalisation: str = "post"
    mlp: str | None = None
    kappa: float | None = None
    start: str = "sphere"
    end: float = 10.0
    saves: int = 101
    spacing: str = "linear"
    solver: str | None = None
    rtol: float = 1e-8
    atol: float = 1e-10
    runs: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Scenario:
    """A named experiment."""

    name: str
    sentence: str
    paper: str
    settings: Settings = field(default_factory=Settings)
    coalesces: bool = False
    """Whether tokens that have met become one, to go through all metastable states."""


@dataclass(frozen=True)
class Setup:
    """What `simulate` takes."""

    flow: AbstractDynamics
    tokens: np.ndarray
    times: np.ndarray
    solver: AbstractSolver | None
    rng: np.random.SeedSequence


def get(name: str) -> Scenario:
    """The scenario of that name."""
    require_known(name, CATALOGUE, "scenario")
    return CATALOGUE[name]


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves one as it is."""
    known = {entry.name for entry in fields(Settings)}
    given = {name: value for name, value in changes.items() if value is not None}
    for name in given:
        require_known(name, known, "setting")
    changed = replace(settings, **given)
    if specs.is_file(changed.start):
        tokens = specs.read_numbers(changed.start, "start")
        changed = replace(changed, d=given.get("d", tokens.shape[-1]), n=given.get("n", tokens.shape[-2]))
    if changed.start.startswith("angles"):
        changed = replace(changed, n=len(specs.split(changed.start, "start")[1]) or 1)
    _require_effect(changed, given)
    return changed


def _require_effect(settings: Settings, given: dict[str, Any]) -> None:
    """A setting that could not change anything was a misunderstanding."""
    is_given = specs.is_file(settings.start) or settings.start.startswith("angles")
    solver = (settings.solver or ("stochastic-heun" if settings.kappa is not None else "tsit5")).partition(":")[0]
    reasons = {
        "n": ("`start` says how many tokens there are", is_given),
        "runs": ("`start` says how many runs there are", is_given),
        "beta": ("hardmax has no temperature", settings.attention.startswith("hardmax")),
        "rtol": (f"the solver {solver!r} has fixed steps", solver not in specs.ADAPTIVE),
        "atol": (f"the solver {solver!r} has fixed steps", solver not in specs.ADAPTIVE),
    }
    for name, (reason, is_idle) in reasons.items():
        if name in given and is_idle:
            raise InputError(f"`{name}` would change nothing here: {reason}. Leave it out.")


def build(settings: Settings) -> Setup:
    """The model, tokens, times and solver behind some settings.

    Weights, start and noise have seeds of their own, spawned from `settings.seed`.
    """
    _require_numbers(settings)
    seed = seed_sequence(settings.seed)
    for_weights, for_start, for_noise = seed.spawn(3)
    return Setup(
        flow=_flow(settings, for_weights),
        tokens=specs.start(settings.start, settings.n, settings.d, settings.runs, for_start),
        times=_times(settings),
        solver=_solver(settings),
        rng=for_noise,
    )


def _solver(settings: Settings) -> AbstractSolver | None:
    """None where noise needs the solver that `simulate` knows."""
    if settings.solver is None and settings.kappa is not None:
        return None
    solver = specs.solver(settings.solver or "tsit5", settings.rtol, settings.atol)
    is_discontinuous = settings.attention.startswith("hardmax") and settings.solver is None
    return replace(solver, min_step=MIN_STEP_AT_JUMPS) if is_discontinuous else solver


def _flow(settings: Settings, seed: np.random.SeedSequence) -> AbstractDynamics:
    require_known(settings.space, SPACES, "space")
    if settings.space != "sphere" and settings.normalisation != "post":
        raise InputError(
            f"`normalisation` {settings.normalisation!r} belongs to the sphere, but the space is "
            f"{settings.space!r}. Use the sphere, or leave the normalisation out."
        )
    parts: dict[str, Any] = {
        "heads": _heads(settings, seed),
        "attention": specs.attention(settings.attention, settings.beta),
        "mask": specs.mask(settings.mask),
        "mlp": None if settings.mlp is None else MLP(np.eye(settings.d), settings.mlp),
        "noise": None if settings.kappa is None else Noise(settings.kappa),
    }
    if settings.space == "sphere":
        return SphereAttention(**parts, normalisation=specs.normalisation(settings.normalisation))
    return RescaledAttention(**parts) if settings.space == "rescaled" else EuclideanAttention(**parts)


def _heads(settings: Settings, seed: np.random.SeedSequence) -> list:
    if settings.redraw is not None:
        laws = {"query_key": settings.query_key, "value": settings.value}
        numbers = [int(child.generate_state(1)[0]) for child in seed.spawn(settings.heads)]
        return [RedrawnHead(settings.d, settings.redraw, number, **laws) for number in numbers]
    heads = []
    for child in seed.spawn(settings.heads):
        for_scores, for_value = child.spawn(2)
        query_key = specs.matrix(settings.query_key, settings.d, for_scores, "query_key")
        value = specs.matrix(settings.value, settings.d, for_value, "value")
        heads.append(Head.bilinear(query_key, value))
    return heads


def _times(settings: Settings) -> np.ndarray:
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


_RESCALED = partial(Settings, space="rescaled", start="box:-5,5")
_LAYERNORM = partial(Settings, n=32, d=3, end=30.0)

CATALOGUE = {
    scenario.name: scenario
    for scenario in (
        Scenario("boolean", "On the line attention becomes zeros and ones: all follow the first or the last token.",
                 "2305.05465", _RESCALED(start="box:-1,1", n=40, d=1, end=20.0)),
        Scenario("polytope", "With V = I the rescaled tokens gather at the vertices of a polygon, rarely elsewhere.",
                 "2305.05465", _RESCALED(n=20, d=2)),
        Scenario("polytope-3d", "With V = I in space the rescaled tokens gather at the vertices of a polyhedron.",
                 "2305.05465", _RESCALED(n=40, d=3)),
        Scenario("hyperplanes", "A simple positive leading eigenvalue: tokens gather on parallel lines.",
                 "2305.05465", _RESCALED(n=40, d=2, value="published-2d", end=15.0)),
        Scenario("hyperplanes-3d", "A simple positive leading eigenvalue in space: tokens gather on parallel planes.",
                 "2305.05465", _RESCALED(n=40, d=3, value="published-3d-growing", end=15.0)),
        Scenario("codim2", "Two positive eigenvalues: parallel lines in space, as the codimension conjecture says.",
                 "2305.05465", _RESCALED(n=40, d=3, value="published-codim2", end=15.0)),
        Scenario("mixed", "V = diag(1, 1, -1/2): a polygon in the first two coordinates, free in the third.",
                 "2305.05465", _RESCALED(n=40, d=3, value="diagonal:1,1,-0.5")),
        Scenario("minus-identity", "V = -I: all tokens go to zero, but only like one over the root of time.",
                 "2305.05465", Settings(space="euclidean", n=40, d=2, value="minus-identity", start="box:-5,5",
                                        end=1000.0, spacing="log")),
        Scenario("multihead", "Four heads with random queries and keys on the sphere.",
                 "2312.10794", Settings(n=40, d=3, heads=4, query_key="gaussian", end=15.0)),
        Scenario("sphere", "Softmax attention on the sphere gathers all tokens in one point.",
                 "2312.10794", Settings(n=64, d=3, end=15.0)),
        Scenario("sphere-usa", "Unnormalised attention on the sphere, a gradient flow.",
                 "2312.10794", Settings(n=64, d=3, attention="unnormalised", end=15.0)),
        Scenario("kuramoto", "beta = 0 on the circle: Kuramoto oscillators with identical frequencies.",
                 "2312.10794", Settings(n=64, d=2, beta=0.0, attention="unnormalised", start="circle", end=15.0)),
        Scenario("causal", "Causal attention with V = I: every token ends where the first one started.",
                 "2411.04990", Settings(n=32, d=3, mask="causal", end=300.0, spacing="log")),
        Scenario("renyi", "Causal attention at beta = 64 on the circle: the first tokens of each region hold clusters.",
                 "2411.04990", Settings(n=200, d=2, beta=64.0, mask="causal", start="circle", end=150.0,
                                        spacing="log")),
        Scenario("staircase", "Five tokens at beta = 2000: the energy climbs from one metastable level to the next.",
                 "2410.06833", Settings(n=5, d=2, beta=2000.0, attention="unnormalised:1",
                                        start="angles:0,0.0425,0.17,0.34,0.595"), coalesces=True),
        Scenario("metastable", "200 tokens on the circle through every metastable state, to a time of order e^beta.",
                 "2410.06833", Settings(n=200, d=2, beta=100.0, start="circle"), coalesces=True),
        Scenario("conjecture1", "Two causal tokens whose second rests away from the leading eigenvector for ever.",
                 "2411.04990", Settings(n=2, d=2, beta=4.0, mask="causal", start="circle", value="diagonal:2,1",
                                        query_key="diagonal:-1,1", runs=400, end=60.0)),
        Scenario("hardmax", "Only the best match counts: tokens run to leaders, at the rate e^-t.",
                 "2407.01602", _RESCALED(n=20, d=2, attention="hardmax")),
        Scenario("noisy", "Attention against noise on the circle: order wins above a critical kappa.",
                 "2312.10794", Settings(n=200, d=2, attention="unnormalised", start="circle", kappa=8.0, end=20.0)),
        Scenario("layernorm-post", "Post-LN: tokens meet exponentially fast.", "2510.22026", _LAYERNORM()),
        Scenario("layernorm-pre", "Pre-LN: lengths grow and tokens meet like one over the square of time.",
                 "2510.22026", _LAYERNORM(normalisation="pre", start="gaussian")),
        Scenario("layernorm-mix", "Mix-LN: Post-LN until t = 3, then Pre-LN.",
                 "2510.22026", _LAYERNORM(normalisation="mix:3", start="gaussian")),
        Scenario("layernorm-peri", "Peri-LN: what attention sends is normalised too.",
                 "2510.22026", _LAYERNORM(normalisation="peri", start="gaussian")),
        Scenario("layernorm-ngpt", "nGPT: steps of fixed size alpha on the sphere.",
                 "2510.22026", _LAYERNORM(normalisation="ngpt:0.2")),
        Scenario("layernorm-sqrt", "LayerNorm scaling: later layers count less, by the root of depth.",
                 "2510.22026", _LAYERNORM(normalisation="sqrt")),
        Scenario("sinkhorn", "Doubly stochastic attention on the sphere.",
                 "2110.11773", Settings(n=64, d=3, attention="sinkhorn:9", end=15.0)),
        Scenario("mlp", "A ReLU layer after attention.",
                 "2305.05465", _RESCALED(n=40, d=2, mlp="relu")),
        Scenario("layers", "Discrete layers on the sphere: step 0.1, then normalisation.",
                 "2312.10794", Settings(n=64, d=3, solver="layers:0.1", end=15.0, saves=151)),
        Scenario("redrawn", "Random weights, drawn anew every unit of time.",
                 "2512.01868", Settings(n=40, d=3, query_key="gaussian", value="gaussian", redraw=1.0, end=20.0)),
    )
}  # fmt: skip
