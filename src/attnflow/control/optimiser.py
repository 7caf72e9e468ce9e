"""`optimise`: weights of attention in pieces that take tokens to targets soonest, or with the least energy."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.precision import double
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow._common.threads import one_blas_thread
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import require_pair, require_possible
from attnflow.control.regions import Regions
from attnflow.control.shooting import SteeringSearch
from attnflow.control.speed_limits import SpeedLimit, require_time
from attnflow.control.steering import SearchReport, Steering, least_distance
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.attention import Softmax
from attnflow.model.heads import Head

OBJECTIVES = {
    "arrive": 2,
    "energy": 2,
    "soonest": 8,
    "label": 2,
}  # with the order of the Schatten norm of V in the cost
MOST_STEPS = 400  # of the minimisation


@takes_rng
def optimise(
    tokens: Any,
    targets: Any,
    pieces: int = 8,
    objective: str = "soonest",
    time: float | None = None,
    norm: float | None = None,
    radius: float | None = None,
    apart: float | None = None,
    rng: Rng = None,
) -> Steering:
    r"""Weights of one softmax head, without perceptron, that take all tokens to their targets at once on the sphere.

    Fits by least squares (|x(T) - y|^2 and a falling multiple of the energy, single shooting, derivatives of JAX)
    lead to weights that arrive. Among those, a trust-region method with second derivatives minimises a cost, and Newton
    steps on a tight solve end the search. One token alone is turned in the plane of its place and its target, which
    takes the shortest possible time, so that there is nothing to search.

    "energy" is the integral of |V|^2 + |Q^T K|^2 / 100 in a given time, with Frobenius norms. "soonest" is the time
    under a bound on |V|: a factor of V is one of time, so that the time at |V| = 1 is the integral of |V|, and by
    Cauchy and Schwarz at most (T times the integral of |V|^2)^{1/2}, which is minimised: equal where |V| is constant,
    as it can be made with many pieces. The operator norm has no derivative where singular values are equal; the cost
    has the Schatten norm of order 8, within d^{1/8} of it, and the term |Q^T K|^2 / 100, so that scores stay moderate.
    "arrive" ends with the fits. "label" ends with fits to caps: every token within `radius` of its target, which is the
    point of its label, so that tokens of one label share it.

    Parameters
    ----------
    tokens, targets
        First and last tokens, (n, d), or (prompts, n, d) for several prompts under one control.
    pieces
        Number of pieces; n (d - 1) conditions need about as many entries of V and Q^T K, 2 d^2 in each piece.
    objective
        "soonest", "energy", "arrive" or "label".
    time
        For "energy" the time of the control (None: twice the largest angle). Otherwise the time that is allowed.
    norm
        Operator norm |V| of every piece; None: 1, or for "energy" free.
    radius
        For "label": the largest distance of a last token from its target.
    apart
        For "arrive" and "label": a least distance between two tokens of one prompt, all the way. None: any.
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
    >>> found.gap < 1.000001, found.terminal_error < 1e-8
    (True, True)
    """
    first, last = require_pair("sphere", tokens, targets)
    require_count(pieces, "pieces")
    require_known(objective, OBJECTIVES, "objective")
    regions = _regions(first, last, objective, radius, apart)
    if regions.radius == 0:
        require_possible(FlowFamily(perceptron=False), first, last)
    budget = _budget(first, last, objective, time, norm, regions.radius)
    d = first.shape[-1]
    generator = np.random.default_rng(seed_sequence(rng))
    weights = generator.normal(size=(pieces, 2, d, d)) * np.array([1.0, 0.3])[None, :, None, None]
    as_prompts = lambda points: points.reshape(-1, *points.shape[-2:])
    search = SteeringSearch(as_prompts(first), as_prompts(last), weights.shape, budget.end, OBJECTIVES[objective])
    with double(), one_blas_thread():
        weights, report = _searched(search, weights.ravel(), objective, budget.allowed, regions)
    control = _schedule(weights.reshape(search.shape), budget.end / pieces, budget.norm)
    return Steering(control, first, last, report)


@dataclass(frozen=True)
class _Budget:
    """The time of the search, the norm of V (None: free), and the time that is allowed (None: any)."""

    end: float
    norm: float | None
    allowed: float | None


def _regions(first: np.ndarray, last: np.ndarray, objective: str, radius: float | None, apart: float | None) -> Regions:
    """The conditions that are asked for; InputError for those that have no meaning or contradict the tokens."""
    if (radius is None) != (objective != "label"):
        raise InputError("`radius` belongs to the objective 'label' and to no other. Give both or none of them.")
    if apart is not None and objective not in ("arrive", "label"):
        raise InputError("`apart` is of the objectives 'arrive' and 'label'. Leave it out, or choose one of them.")
    for name, value in (("radius", radius), ("apart", apart)):
        if value is not None:
            require_positive_number(value, name)
    found = Regions(radius or 0.0, apart or 0.0)
    least = least_distance(first)
    if found.apart and least < found.apart:
        raise InputError(
            f"`apart` must be at most the least distance of the first tokens, {least:.6g}, but it is {apart}."
        )
    if found.apart and not found.radius and (least := least_distance(last)) < found.apart:
        raise InputError(f"`apart` must be at most the least distance of the targets, {least:.6g}, but it is {apart}.")
    equal = (first[..., :, None, :] == first[..., None, :, :]).all(axis=-1)
    wanted = np.linalg.norm(last[..., :, None, :] - last[..., None, :, :], axis=-1)
    wrong = np.argwhere(equal & (wanted > 2 * found.radius)) if found.radius else []
    if len(wrong):
        i, j = map(int, wrong[0][-2:])
        raise InputError(f"Tokens {i} and {j} are equal and stay equal, but they have different labels.")
    return found


def _budget(
    first: np.ndarray, last: np.ndarray, objective: str, time: float | None, norm: float | None, radius: float
) -> _Budget:
    distances = np.linalg.norm(last - first, axis=-1)
    angles = 2 * np.arcsin(np.clip(distances / 2, 0, 1)) - 2 * np.arcsin(min(radius / 2, 1.0))
    angle = float(angles.max())
    if angle <= 0:
        raise InputError("All tokens are at their targets: there is nothing to do.")
    for name, value in (("time", time), ("norm", norm)):
        if value is not None:
            require_positive_number(value, name)
    if objective == "energy":
        if norm is not None:
            raise InputError("`norm` is of the other objectives; the least energy chooses |V| itself.")
        return _Budget(2 * angle if time is None else time, None, None)
    norm = 1.0 if norm is None else norm
    if time is not None:
        farthest = int(np.argmax(angles.reshape(-1, angles.shape[-1]).max(axis=0)))
        require_time(SpeedLimit(norm, angle / norm, farthest), time)
    return _Budget(2 * angle, norm, time)


def _searched(
    search: SteeringSearch, weights: np.ndarray, objective: str, allowed: float | None, regions: Regions
) -> tuple[np.ndarray, SearchReport]:
    """The weights that were reached, and what is known of them."""
    if objective == "soonest" and (turned := rotation(search)) is not None:
        time = search.time(turned)
        return turned, SearchReport(objective, time, time, steps=0, allowed_time=allowed)
    weights = search.fitted(weights) if regions.are_points else regions.fitted(search, weights)
    if regions.radius == 0:
        weights = search.corrected(weights)
    before, steps = float(search.cost(weights)), 0
    missed = float(np.abs(search.tight(weights)).max())
    if objective in ("energy", "soonest") and missed < 1e-6:  # without an arrival there is nothing to minimise among
        better, steps = search.minimised(weights, MOST_STEPS)
        better = search.corrected(better)
        # A minimisation that has lost the targets, or has not lowered the cost, is not kept.
        if float(np.abs(search.tight(better)).max()) < 1e-8 and float(search.cost(better)) <= before:
            weights = better
    report = SearchReport(
        objective, float(search.cost(weights)), before, steps, allowed_time=allowed,
        radius=regions.radius, apart=regions.apart,
    )  # fmt: skip
    if not regions.are_points:  # conditions of a minimum are those of targets that are points
        return weights, report
    multipliers, rest = search.multipliers(weights)
    return weights, replace(report, stationarity=rest, pontryagin=search.check(weights, multipliers))


def rotation(search: SteeringSearch) -> np.ndarray | None:
    """Weights with B = 0 and V = a (u x^T - x u^T) that turn one token x by its angle a to y, in the plane of x and u.

    The token moves at speed |V|, which is the speed limit. None for more than one place or target.
    """
    d = search.shape[-1]
    starts, ends = (np.unique(points.reshape(-1, d), axis=0) for points in (search.prompts, search.targets))
    if len(starts) > 1 or len(ends) > 1 or d == 1:
        return None
    x, y = starts[0], ends[0]
    across = y - (x @ y) * x
    if np.linalg.norm(across) < 1e-8:  # opposite points: every plane through them serves
        across = np.eye(d)[int(np.argmin(np.abs(x)))]
        across = across - (x @ across) * x
    u = across / np.linalg.norm(across)
    weights = np.zeros(search.shape)
    weights[:, 1] = np.arctan2(y @ u, x @ y) / search.end * (np.outer(u, x) - np.outer(x, u))
    return weights.ravel()


def _schedule(weights: np.ndarray, duration: float, norm: float | None) -> Schedule:
    """The pieces with |V| = norm: a factor of V is one of time."""
    made = []
    for number, (scores, value) in enumerate(weights):
        factor = 1.0 if norm is None else float(np.linalg.norm(value, 2)) / norm
        made.append(Piece(duration * factor, heads=(Head.bilinear(scores, value / factor),), name=f"piece {number}"))
    return Schedule(tuple(made), attention=Softmax(1.0))
