"""Random flows against the oracle: weights, velocity, path, layers."""

from typing import NamedTuple

import jax
import numpy as np
from tests.helpers import oracle
from tests.hunt.random_flows import Case, draw

import attnflow as af

TIMES = [0.0, 0.2, 0.5]
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
LARGEST_ERROR = 1e-8  # relative to tokens of size one: a hundred times the tolerance of a step


class Finding(NamedTuple):
    """One case, the largest relative error found in it, and where. Infinite where only one of the two solves it."""

    words: str
    error: float
    place: str

    @property
    def is_wrong(self) -> bool:
        """Whether the error is more than solver and rounding explain; NaN is."""
        return not self.error <= LARGEST_ERROR


def check(seed: int) -> Finding:
    """The largest error of case number `seed`."""
    case = draw(seed)
    errors = {"weights": _weights_error(case), "velocity": _velocity_error(case), "path": _path_error(case)}
    if seed % 5 == 0 and not isinstance(case.model, oracle.Rescaled):
        errors["layers"] = _layers_error(case)
    place = max(errors, key=lambda name: np.inf if np.isnan(errors[name]) else errors[name])
    return Finding(case.words, errors[place], place)


def _given(case: Case) -> np.ndarray:
    """Tokens as a user passes them: with their lengths where they have some."""
    return case.tokens if case.radii is None else case.radii[:, None] * case.tokens


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(np.asarray(found) - expected).max() / max(1.0, np.abs(expected).max()))


def _weights_error(case: Case) -> float:
    expected = case.model.attention(0.3, case.tokens)
    with jax.disable_jit():
        weights = af.attention_matrix(case.flow, _given(case), time=0.3)
    return relative(np.asarray(weights).reshape(expected.shape), expected)


def _velocity_error(case: Case) -> float:
    radii = np.ones(len(case.tokens)) if case.radii is None else case.radii
    expected, _ = case.model.velocity(0.3, case.tokens, radii)
    with jax.disable_jit():
        return relative(af.velocity(case.flow, _given(case), time=0.3), expected)


def _path_error(case: Case) -> float:
    run = af.simulate(case.flow, _given(case), TIMES, solver=TIGHT, progress=False)
    try:
        expected, radii = oracle.solve(case.model, case.tokens, TIMES, case.radii)
    except oracle.UnsolvedError:  # the package must not solve it either
        return 0.0 if bool(run.failed) else np.inf
    error = relative(run.tokens.values, expected)
    return error if case.radii is None else max(error, relative(run.radius.values, radii))


def _layers_error(case: Case) -> float:
    expected, radii = oracle.layers(case.model, case.tokens, 4, 0.2, 0.9, case.radii)
    run = af.simulate(case.flow, _given(case), 0.2 * np.arange(5), solver=af.Layers(0.2, 0.9), progress=False)
    error = relative(run.tokens.values, expected)
    return error if case.radii is None else max(error, relative(run.radius.values, radii))
