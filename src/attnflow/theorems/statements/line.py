"""Attention on the line (arXiv:2305.05465, d = 1): the Boolean limit of the attention matrix, and escaping tokens."""

import dataclasses

import numpy as np
import xarray as xr
from scipy.special import lambertw

from attnflow.analyse import attention_matrices, leaders
from attnflow.model import initial
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import BOOLEAN_LIMIT
from attnflow.theorems.moving_frame import (
    accuracy,
    attention_at,
    frame,
    on_whole_runs,
    plain_tokens,
    size_of,
    still_falling,
    with_value,
)
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

PAPER = "arXiv:2305.05465"
BOOLEAN_TOLERANCE = 1e-8  # distance of weights from 0 and 1; by t = 12 it is below rounding


# The attention matrix becomes Boolean


@on_whole_runs
def _boolean_limit(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    extremes = leaders.extremes(run.initial_tokens.values[None]).values[0]

    def missed(index):
        """The largest weight off the better of the two extremes, over all rows but one, which may differ."""
        matrix = attention_at(flow, run, index)
        off = [np.delete(matrix, leader, axis=1).sum(axis=1) for leader in extremes]
        rows = np.sort(np.min(off, axis=0))
        return float(rows[-2] if len(rows) > 2 else rows[-1])

    value = missed(len(run.time) - 1)
    is_boolean = attention_matrices.distance_to_boolean(attention_at(flow, run, -1)) <= BOOLEAN_TOLERANCE
    text = "" if is_boolean else still_falling(run.time.values, missed) or "P is not Boolean yet"
    quantity = f"the weight not on token {extremes[0] + 1} or {extremes[1] + 1}, in all rows of P but one,"
    return Measurement(quantity, value, BOOLEAN_TOLERANCE, "1 - P falls below rounding by t = 12", open=text)


@on_whole_runs
def _boolean_rate(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    growth = float(given.value_matrix(flow)[0, 0])
    times, z = run.time.values, frame(flow, run)[..., 0]
    why, quantity = (
        "the slope is exact up to e^{-Vt}",
        "the relative error of the slope of log(-log(1 - P)), expected V, or 2V where the best match stays alone,",
    )
    errors, first_depths, depths, transients, is_steady = [], [], [], [], True
    least, greatest = leaders.extremes(run.initial_tokens.values[None]).values[0]
    for row in {least, greatest}:
        # Tokens on the line keep their order, so that the best match of a token is the extreme on its side of 0.
        late_times, log_missing, is_alone = _log_missing(
            flow, times, z, row, best=greatest if z[-1, row] > 0 else least
        )
        if len(late_times) < 5:
            text = f"only {len(late_times)} of the saved times resolve 1 - P"
            return Measurement(quantity, np.inf, 0.01, why, open=text)
        # -log(1 - P) is e^{2Vt} z_row (z_best - z_next), whose last factor goes like e^{-Vt} or to a positive limit.
        slope = attention_matrices.doubly_exponential_rate(late_times, log_missing).slope
        errors.append(abs(slope / (growth * (2 if is_alone[-1] else 1)) - 1))
        is_steady &= bool(is_alone[0] == is_alone[-1])
        first_depths.append(-log_missing[0])
        depths.append(-log_missing[-1])
        # A token converges to its limit like e^{-Vt}, and the slope of its row does too.
        first = int(np.searchsorted(times, late_times[0]))
        transients.append(np.exp(growth * (times[0] - times[first])) * size_of(z) / abs(z[first, row]))
    value = float(max(errors))
    # Near the origin weights stay equal for a while: the law begins where a weight is 1 - e^-10 or more.
    is_late = is_steady and min(first_depths) > 10 and min(depths) > 1e3 and max(transients) < 0.005
    text = "" if is_late else f"at t = {times[-1]:g} (1 - P = e^-{min(depths):.3g}) transients are not over"
    return Measurement(quantity, value, 0.01, why, open=text)


def _log_missing(
    flow: AbstractDynamics, times: np.ndarray, z: np.ndarray, row: int, best: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Late times, log(1 - P) of a row's weight on its `best` match at these, and whether no other token is near that.

    The weight is computed from the scores. A token converges to the limit of the best match, to 0 or beyond it, so that
    half of the distance from 0 tells near from far. Used are the second half of the times at which the best and the
    next token are farther apart than solver errors.
    """
    value, scale = float(given.value_matrix(flow)[0, 0]), float(given.score_matrix(flow)[0, 0])
    gaps = np.abs(np.delete(z, best, axis=1) - z[:, [best]]).min(axis=1)
    is_resolved = (gaps > 1e-6 * np.abs(z).max(axis=1)) & (2 * value * times < 600)
    scores = scale * np.exp(2 * value * times[is_resolved])[:, None] * z[is_resolved, row, None] * z[is_resolved]
    missing = attention_matrices.log_of_missing_weight(scores)[:, best]
    is_late = (np.arange(len(missing)) >= len(missing) // 2) & (missing < 0)
    is_alone = gaps > 0.5 * np.abs(z[:, best])
    return times[is_resolved][is_late], missing[is_late], is_alone[is_resolved][is_late]


# Tokens far from 0


def escape_length(n: int) -> float:
    """A > 0 with A^2 = n^2 e^{-A^2}.

    Examples
    --------
    >>> length = escape_length(10)
    >>> bool(abs(length**2 - 100 * np.exp(-(length**2))) < 1e-12)
    True
    """
    return float(np.sqrt(np.real(lambertw(float(n) ** 2))))


def _escape_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    scale = float(np.abs(given.score_matrix(flow) - 1).max())
    return (
        *given.transformer(flow),
        given.dimension_is(flow, 1),
        given.value_is(flow),
        at_most("beta Q K = 1", scale, given.MATRIX_TOLERANCE, "in the score", "scores"),
    )


def _beyond_escape_length(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    del flow
    distance = float(np.abs(tokens).max())
    return (above("some token is farther from 0 than A", distance, escape_length(len(tokens)), "in its distance"),)


@on_whole_runs
def _escape(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    x = plain_tokens(flow, run)[..., 0]
    outside = np.abs(x[0]) > escape_length(x.shape[1])
    growth = np.diff(np.sign(x[0, outside]) * x[:, outside], axis=0) / np.abs(x[:-1, outside])
    tolerance, why, unknown = accuracy(run, 1.0)
    quantity = f"the least relative growth of the {outside.sum()} tokens beyond A between saved times"
    return Measurement(quantity, float(growth.min()), -tolerance, why, "at least", unknown)


def _line(value: float) -> Instance:
    return with_value(np.array([[value]]), initial.box(20, 1, -1.0, 1.0, rng=0), 12.0)


STATEMENTS: tuple[Statement, ...] = (
    Statement(BOOLEAN_LIMIT, _boolean_limit, lambda: _line(1.0), lambda: _line(-1.0)),
    Statement(
        dataclasses.replace(
            BOOLEAN_LIMIT,
            id="boolean-rate",
            says="On the line the row of a token whose rescaled limit is not 0 becomes Boolean doubly exponentially: "
            "1 - P ~ exp(-c e^{Vt}), and exp(-c e^{2Vt}) if no other token has the limit of its best match.",
            start=lambda _, tokens: (given.distinct(tokens), given.at_least_two_tokens(tokens)),
        ),
        _boolean_rate,
        lambda: _line(1.0),
        lambda: _line(-1.0),
    ),
    Statement(
        Theorem(
            id="escaping-tokens",
            paper=f"{PAPER}, the constant A of the case d = 1",
            says="On the line a token farther from 0 than A, A^2 = n^2 e^{-A^2}, moves away from 0 for ever.",
            setting=_escape_setting,
            start=_beyond_escape_length,
        ),
        _escape,
        lambda: with_value(np.eye(1), initial.box(12, 1, rng=0), 5.0),
        lambda: with_value(np.eye(1), initial.box(12, 1, -1.0, 1.0, rng=0), 5.0),
    ),
)
