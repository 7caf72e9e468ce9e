"""`optimise`: weights of attention in pieces that take tokens to targets soonest, or with the least energy."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.precision import double
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow._common.threads import one_blas_thread
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import require_pair, require_possible
from attnflow.control.shooting import SteeringSearch
from attnflow.control.speed_limits import SpeedLimit, require_time
from attnflow.control.steering import SearchReport, Steering
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.attention import Softmax
from attnflow.model.heads import Head

OBJECTIVES = {"arrive": 2, "energy": 2, "soonest": 8}  # with the order of the Schatten norm of V in the cost
MOST_STEPS = 400  # of the minimisation


@takes_rng
def optimise(
    tokens: Any,
    targets: Any,
    pieces: int = 8,
    objective: str = "soonest",
    time: float | None = None,
    norm: float | None = None,
    rng: Rng = None,
) -> Steering:
    r"""Weights of one softmax head, without perceptron, that take all tokens to their targets at once on the sphere.

    Fits by least squares (|x(T) - y|^2 and a falling multiple of the energy, single shooting, derivatives of JAX)
    lead to weights that arrive. Among those, a trust-region method with second derivatives minimises a cost, and Newton
    steps on a tight solve end the search.

    "energy" is the integral of |V|^2 + |Q^T K|^2 / 100 in a given time, with Frobenius norms. "soonest" is the time
    under a bound on |V|: a factor of V is one of time, and for any norm the least integral of |V|^2 in a given time
    has constant |V| and therefore the least integral of |V|, which is the time at |V| = 1 (Cauchy and Schwarz). The
    operator norm has no derivative where singular values are equal; the cost has the Schatten norm of order 8, within
    d^{1/8} of it. "arrive" ends with the fits.

    Parameters
    ----------
    tokens, targets
        First and last tokens, (n, d), or (prompts, n, d) for several prompts under one control.
    pieces
        Number of pieces; n (d - 1) conditions need about as many entries of V and Q^T K, 2 d^2 in each piece.
    objective
        "soonest", "energy" or "arrive".
    time
        For "energy" the time of the control (None: twice the largest angle). Otherwise the time that is allowed.
    norm
        |V| of every piece for "soonest" and "arrive"; None: 1.
    rng
        Seed of the first weights.

    Returns
    -------
    Steering
        The control that was reached, also where the search has stalled: `terminal_error` is that of a tight solve, and
        `search` says how far the cost is from a minimum.

    Raises
    ------
    InputError
        For an obstruction, and for a time below the speed limit of the norm.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.optimise(np.eye(3)[:1], np.eye(3)[1:2], pieces=2, rng=0)
    >>> found.gap < 1.01, found.terminal_error < 1e-8
    (True, True)
    """
    first, last = require_pair("sphere", tokens, targets)
    require_count(pieces, "pieces")
    require_known(objective, OBJECTIVES, "objective")
    require_possible(FlowFamily(perceptron=False), first, last)
    budget = _budget(first, last, objective, time, norm)
    d = first.shape[-1]
    generator = np.random.default_rng(seed_sequence(rng))
    weights = generator.normal(size=(pieces, 2, d, d)) * np.array([1.0, 0.3])[None, :, None, None]
    as_prompts = lambda points: points.reshape(-1, *points.shape[-2:])
    search = SteeringSearch(as_prompts(first), as_prompts(last), weights.shape, budget.end, OBJECTIVES[objective])
    with double(), one_blas_thread():
        weights, report = _searched(search, weights.ravel(), objective, budget.allowed)
    control = _schedule(weights.reshape(search.shape), budget.end / pieces, budget.norm)
    return Steering(control, first, last, report)


@dataclass(frozen=True)
class _Budget:
    """The time of the search, the norm of V (None: free), and the time that is allowed (None: any)."""

    end: float
    norm: float | None
    allowed: float | None


def _budget(first: np.ndarray, last: np.ndarray, objective: str, time: float | None, norm: float | None) -> _Budget:
    angles = 2 * np.arcsin(np.clip(np.linalg.norm(last - first, axis=-1) / 2, 0, 1))
    angle = float(angles.max())
    if angle == 0:
        raise InputError("All tokens are at their targets: there is nothing to do.")
    for name, value in (("time", time), ("norm", norm)):
        if value is not None:
            require_positive_number(value, name)
    if objective == "energy":
        if norm is not None:
            raise InputError("`norm` is of the objectives 'soonest' and 'arrive'; the least energy chooses |V| itself.")
        return _Budget(2 * angle if time is None else time, None, None)
    norm = 1.0 if norm is None else norm
    if time is not None:
        farthest = int(np.argmax(angles.reshape(-1, angles.shape[-1]).max(axis=0)))
        require_time(SpeedLimit(norm, angle / norm, farthest), time)
    return _Budget(2 * angle, norm, time)


def _searched(
    search: SteeringSearch, weights: np.ndarray, objective: str, allowed: float | None
) -> tuple[np.ndarray, SearchReport]:
    """The weights that were reached, and what is known of them."""
    weights = search.corrected(search.fitted(weights))
    before, steps = float(search.cost(weights)), 0
    missed = float(np.abs(search.tight(weights)).max())
    if objective != "arrive" and missed < 1e-6:  # without an arrival there is nothing to minimise among
        better, steps = search.minimised(weights, MOST_STEPS)
        better = search.corrected(better)
        # A minimisation that has lost the targets, or has not lowered the cost, is not kept.
        if float(np.abs(search.tight(better)).max()) < 1e-8 and float(search.cost(better)) <= before:
            weights = better
    multipliers, rest = search.multipliers(weights)
    report = SearchReport(
        objective, float(search.cost(weights)), before, steps, rest, search.check(weights, multipliers), allowed
    )
    return weights, report


def _schedule(weights: np.ndarray, duration: float, norm: float | None) -> Schedule:
    """The pieces with |V| = norm: a factor of V is one of time."""
    made = []
    for number, (scores, value) in enumerate(weights):
        factor = 1.0 if norm is None else float(np.linalg.norm(value, 2)) / norm
        made.append(Piece(duration * factor, heads=(Head.bilinear(scores, value / factor),), name=f"piece {number}"))
    return Schedule(tuple(made), attention=Softmax(1.0))
