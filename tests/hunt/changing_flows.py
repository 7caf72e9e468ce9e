"""Random flows with a drift by perceptrons and with weights that change in time, against the oracle."""

from typing import Any, NamedTuple

import jax
import numpy as np
from tests.helpers import oracle
from tests.hunt.against_oracle import TIGHT, TIMES, Finding, relative
from tests.hunt.random_flows import a_mask, a_rule, a_scheme, some_heads

import attnflow as af

STEP, RESIDUAL, LAYERS = 0.2, 0.9, 4


class Changing(NamedTuple):
    """A flow, the oracle of each piece of its schedule, and first tokens."""

    flow: Any
    models: list[Any]
    """One more than switches."""
    switches: list[float]
    tokens: np.ndarray
    radii: np.ndarray | None
    words: str

    def model_at(self, time: float) -> Any:
        """The oracle that acts at a time; at a switch, the later of the two."""
        return self.models[int(np.searchsorted(self.switches, time, side="right"))]

    @property
    def given(self) -> np.ndarray:
        """Tokens as a user passes them: with their lengths where they have some."""
        return self.tokens if self.radii is None else self.radii[:, None] * self.tokens


def check(seed: int) -> Finding:
    """The largest error of case number `seed`: velocity, path, and layers of every third."""
    case = draw(seed)
    errors = {"velocity": _velocity_error(case), "path": _path_error(case)}
    if seed % 3 == 0 and not isinstance(case.models[0], oracle.Rescaled):
        errors["layers"] = _layers_error(case)
    place = max(errors, key=lambda name: np.inf if np.isnan(errors[name]) else errors[name])
    return Finding(case.words, errors[place], place)


def draw(seed: int) -> Changing:
    """Case number `seed`: heads that are constant, jump or turn, and no, a constant or a jumping perceptron."""
    rng = np.random.default_rng([seed, 82])
    n, d = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    spaces = ["R^d", "sphere", "sphere", "rescaled"] if d > 1 else ["R^d", "rescaled"]
    space = str(rng.choice(spaces))
    switches = sorted(float(time) for time in rng.choice([0.1, 0.2, 0.27, 0.4], int(rng.integers(1, 4)), replace=False))
    rule, their_rule, rule_words = a_rule(rng)
    mask, their_mask, mask_words = a_mask(rng, n)
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    drift = "none" if space == "rescaled" else str(rng.choice(["none", "constant", "jumping", "jumping"]))
    kind = str(rng.choice(["constant", "jumping", "turning"] if drift == "jumping" else ["jumping", "turning"]))
    heads, their_heads = _heads(rng, d, kind, switches)
    drifts = [None] * (len(switches) + 1)
    if drift != "none":
        ours["perceptron"], drifts = _perceptron(rng, d, drift == "jumping", switches)
        if kind == "constant" and rng.random() < 0.3:
            heads, their_heads = [], [[] for _ in drifts]
    radii = None
    if space == "sphere":
        ours["normalisation"], theirs["normalisation"], name, has_radii = a_scheme(rng)
        mask_words += f", {name}"
        radii = rng.uniform(0.5, 2.0, n) if has_radii else None
    if space == "rescaled":
        ours["rescaling"] = theirs["frame"] = rng.normal(size=(d, d)) / 2
    if rng.random() < 0.3:
        ours["masses"] = theirs["masses"] = rng.uniform(0.2, 4.0, n)
    if rng.random() < 0.2:
        ours["frozen"] = theirs["frozen"] = rng.random(n) < 0.4
    flow, model = _SPACES[space]
    models = [
        model(weights, their_rule, their_mask, perceptron=one, **theirs)
        for weights, one in zip(their_heads, drifts, strict=True)
    ]
    tokens = 0.6 * rng.normal(size=(n, d))
    if space == "sphere":
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    words = f"seed {seed}: {space}, n = {n}, d = {d}, {len(heads)} heads {kind}, {drift} perceptron, {rule_words}, {mask_words}"
    return Changing(flow(heads, rule, mask, **ours), models, switches, tokens, radii, words)


_SPACES = {
    "R^d": (af.EuclideanAttention, oracle.Euclidean),
    "rescaled": (af.RescaledAttention, oracle.Rescaled),
    "sphere": (af.SphereAttention, oracle.Sphere),
}


def _heads(rng: np.random.Generator, d: int, kind: str, switches: list[float]) -> tuple[list, list[list]]:
    """One or two heads, and for every piece those of the oracle."""
    if kind == "constant":
        ours, theirs = some_heads(rng, d)
        return ours, [theirs] * (len(switches) + 1)
    count, k = int(rng.integers(1, 3)), int(rng.integers(1, d + 2))
    shapes = (k, d), (k, d), (d, d)
    drawn = [
        [oracle.Weights(*(rng.normal(size=shape) / np.sqrt(d) for shape in shapes)) for _ in range(len(switches) + 1)]
        for _ in range(count)
    ]
    if kind == "jumping":
        pieces = [af.PiecewiseHead(switches, [af.Head(*one) for one in weights]) for weights in drawn]
        return pieces, [list(weights) for weights in zip(*drawn, strict=True)]
    turning = [_turning(weights) for weights in drawn]
    smooth = [af.TimeDependentHead(lambda time, at=at: af.Head(*at(time, jax.numpy)), dimension=d) for at in turning]
    return smooth, [[lambda time, at=at: at(time, np) for at in turning]] * (len(switches) + 1)


def _turning(weights: list) -> Any:
    """Weights whose V turns from one matrix to another and whose Q grows."""
    first, second = weights[0], weights[1]

    def at(time: Any, numpy: Any) -> oracle.Weights:
        value = numpy.cos(3 * time) * first.value + numpy.sin(3 * time) * second.value
        return oracle.Weights(first.query * (1 + time), first.key, value)

    return at


def _perceptron(rng: np.random.Generator, d: int, jumps: bool, switches: list[float]) -> tuple[Any, list]:
    """A perceptron, constant or jumping, and for every piece that of the oracle."""
    width, name = int(rng.integers(1, 5)), str(rng.choice(list(af.Perceptron.activations)))
    drawn = [
        (rng.normal(size=(d, width)), rng.normal(size=(width, d)), rng.normal(size=width))
        for _ in range(len(switches) + 1 if jumps else 1)
    ]
    ours = [af.Perceptron(*weights, name) for weights in drawn]
    theirs = [oracle.perceptron(*weights, name) for weights in drawn]
    return (af.PiecewisePerceptron(switches, ours), theirs) if jumps else (ours[0], theirs * (len(switches) + 1))


def _velocity_error(case: Changing) -> float:
    """At a time inside a piece and at the first switch."""
    radii = np.ones(len(case.tokens)) if case.radii is None else case.radii
    errors = []
    for time in (0.3, case.switches[0]):
        expected, _ = case.model_at(time).velocity(time, case.tokens, radii)
        with jax.disable_jit():
            errors.append(relative(af.velocity(case.flow, case.given, time=time), expected))
    return max(errors)


def _path_error(case: Changing) -> float:
    run = af.simulate(case.flow, case.given, TIMES, solver=TIGHT, progress=False)
    try:
        expected, radii = oracle.solve_in_pieces(case.models, case.switches, case.tokens, TIMES, case.radii)
    except oracle.UnsolvedError:  # the package must not solve it either
        return 0.0 if bool(run.failed) else np.inf
    error = relative(run.tokens.values, expected)
    return error if case.radii is None else max(error, relative(run.radius.values, radii))


def _layers_error(case: Changing) -> float:
    """Layers of the weights at the beginning of each."""
    tokens, radii = case.tokens, np.ones(len(case.tokens)) if case.radii is None else case.radii
    times = STEP * np.arange(LAYERS + 1)
    run = af.simulate(case.flow, case.given, times, solver=af.Layers(STEP, RESIDUAL), progress=False)
    error = 0.0
    for k, time in enumerate(times[:-1]):
        tokens, radii = case.model_at(time).layer(time, tokens, radii, STEP, RESIDUAL)
        error = max(error, relative(run.tokens.values[k + 1], tokens))
    return error if case.radii is None else max(error, relative(run.radius.values[-1], radii))
