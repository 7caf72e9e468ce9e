"""`speed_limit`: the shortest time in which weights of given norms can take tokens to targets."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.control.known_obstructions import require_pair
from attnflow.model.attention import AbstractAttention, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head, PiecewiseHead
from attnflow.model.normalisation import Post
from attnflow.model.perceptron import Perceptron, PiecewisePerceptron

LARGEST_VALUES = {"tanh": 1.0, "hat": 1.0}  # of |sigma|; the other activations only have |sigma(y)| <= |y|


@dataclass(frozen=True)
class SpeedLimit:
    """A bound `speed` on the speed of every token, the time that the farthest token needs, and its index.

    Examples
    --------
    >>> import attnflow as af
    >>> af.control.SpeedLimit(speed=1.0, time=2.0, token=0).gap(3.0)
    1.5
    """

    speed: float
    time: float
    token: int

    def gap(self, time: float) -> float:
        """The time of a control over the shortest possible one."""
        return math.inf if self.time == 0 else time / self.time


def speed_limit(flow: AbstractDynamics, tokens: Any, targets: Any) -> SpeedLimit:
    """A lower bound on the time in which weights with the norms of those of `flow` take tokens to targets.

    On the sphere, with operator norms, softmax weights sum to one and |x_j| = 1, hence

        |x_i'| <= sum_h |V_h| + |W| min(|U| + |b|, sqrt(p) max|sigma|),

    for unnormalised attention with |V_h| multiplied by e^{beta (|Q^T K| - offset)}, so that the time is at least the
    largest angle over this speed. In R^d, |x|' <= L |x| + c with L = sum_h |V_h| + |W| |U| and c = |W| |b| bounds the
    distance by (R + c/L)(e^{LT} - 1), where R is the largest |x_j(0)|; a bounded activation adds to c in place of L.
    Weights in pieces count with their largest bound.

    Examples
    --------
    One token and |V| = 1: the angle itself. The generator of the rotation attains it.

    >>> import attnflow as af
    >>> turn = af.EuclideanAttention(af.Head(value=[[0.0, -1.0], [1.0, 0.0]]))
    >>> flow = af.SphereAttention(turn.heads)
    >>> limit = af.control.speed_limit(flow, [[1.0, 0.0]], [[0.0, 1.0]])
    >>> run = af.simulate(flow, [[1.0, 0.0]], [0.0, limit.time], progress=False)
    >>> bool(np.allclose(run.final_tokens, [[0.0, 1.0]], atol=1e-7))
    True
    """
    _require_served(flow)
    first, last = require_pair("sphere" if flow.is_on_sphere else "euclidean", tokens, targets)
    distances = np.linalg.norm(last - first, axis=-1).reshape(-1, first.shape[-2]).max(axis=0)
    token = int(np.argmax(distances))
    growth, constant = _bounds(flow)
    if flow.is_on_sphere:
        speed = growth + constant
        return SpeedLimit(speed, _over(2 * math.asin(min(distances[token] / 2, 1.0)), speed), token)
    radius = float(np.linalg.norm(first, axis=-1).max())
    return SpeedLimit(growth * radius + constant, _growing_time(distances[token], radius, growth, constant), token)


def require_time(limit: SpeedLimit, budget: float) -> None:
    """Raise InputError for a budget of time below the limit."""
    if budget < limit.time:
        raise InputError(
            f"The time must be at least {limit.time:.6g}, since token {limit.token} has speed at most {limit.speed:.6g}"
            f", but {budget:.6g} is allowed. Allow more time, or a norm at least "
            f"{limit.time / budget:.4g} times larger."
        )


def _growing_time(distance: float, radius: float, growth: float, constant: float) -> float:
    if growth == 0:
        return _over(distance, constant)
    return math.log1p(distance / (radius + constant / growth)) / growth if distance else 0.0


def _over(distance: float, speed: float) -> float:
    return 0.0 if distance == 0 else math.inf if speed == 0 else distance / speed


def _bounds(flow: AbstractDynamics) -> tuple[float, float]:
    """L and c of |x|' <= L |x| + c, the largest over all pieces of time."""
    times = [-np.inf, *flow.jumps(-np.inf, np.inf)]
    found = [_bounds_at(flow, time) for time in times]
    return max(one for one, _ in found), max(two for _, two in found)


def _bounds_at(flow: AbstractDynamics, time: float) -> tuple[float, float]:
    growth = sum(_norm(head.value_matrix) * _largest_weight(flow.attention, head) for head in _heads(flow, time))
    drift = _perceptron(flow, time)
    if drift is None:
        return growth, 0.0
    outer, inner, bias = _norm(drift.outer), _norm(drift.inner), float(np.linalg.norm(drift.bias))
    bounded = LARGEST_VALUES.get(drift.activation, np.inf) * math.sqrt(len(drift.inner))
    if not flow.is_on_sphere and math.isfinite(bounded):
        return growth, outer * bounded
    if flow.is_on_sphere:
        return growth, outer * min(inner + bias, bounded)
    return growth + outer * inner, outer * bias


def _largest_weight(attention: AbstractAttention, head: Head) -> float:
    """A bound on the sum of a row of attention on the sphere."""
    if not isinstance(attention, Unnormalised):
        return 1.0
    return math.exp(float(attention.beta) * (_norm(head.query_key) - float(attention.offset)))


def _norm(matrix: Any) -> float:
    return float(np.linalg.norm(np.asarray(matrix), 2))


def _heads(flow: AbstractDynamics, time: float) -> list[Head]:
    return [_piece(head.switches, head.heads, time) if isinstance(head, PiecewiseHead) else head for head in flow.heads]  # pyright: ignore[reportReturnType]


def _perceptron(flow: AbstractDynamics, time: float) -> Perceptron | None:
    drift: Any = flow.perceptron
    return _piece(drift.switches, drift.pieces, time) if isinstance(drift, PiecewisePerceptron) else drift


def _piece(switches: Any, pieces: Any, time: float) -> Any:
    return pieces[int(np.searchsorted(np.asarray(switches), time, side="right"))]


def _require_served(flow: AbstractDynamics) -> None:
    is_plain = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
    is_known = all(isinstance(part, Head | PiecewiseHead) for part in flow.heads)
    is_known = is_known and (flow.perceptron is None or isinstance(flow.perceptron, Perceptron | PiecewisePerceptron))
    is_bounded = isinstance(flow, EuclideanAttention) and not isinstance(flow.attention, Unnormalised)
    if not (is_plain or is_bounded) or not is_known or flow.mlp is not None or flow.noise is not None:
        raise InputError(
            "The speed limit is known for weights that are constant or in pieces, without MLP and noise, on the sphere "
            f"under Post-LN, or in R^d without unnormalised attention, but the flow is {flow!r}."
        )
