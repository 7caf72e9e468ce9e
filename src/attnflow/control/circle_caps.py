"""`steer_circle`: tokens on the circle to targets in the same order, one at a time, inside caps."""

from typing import Any

import numpy as np
from scipy.integrate import quad

from attnflow._common.checks import InputError
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import require_pair, require_possible
from attnflow.control.steering import Steering
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.perceptron import Perceptron

LONGEST_ARC = 1.0  # radians of one motion, so that its cap is within a quarter of the circle of its centre
MOST_ROUNDS = 200  # in each of which every token moves as far as its neighbours let it


def cap_mover(start: np.ndarray, end: np.ndarray, radius: float, name: str = "") -> Piece:
    """The piece (<gamma, x> - cos(radius))_+ P_x omega that takes a token from `start` to `end` on the unit sphere.

    gamma is the midpoint of the arc of length 2 a between them and omega = (end - start)/|end - start|, so that the
    great circle is invariant. At the angle s from gamma a token on it has the speed (cos s - cos radius) cos s, and
    arrives after the integral of 1/speed from -a to a. Tokens at an angle of `radius` or more from gamma do not move.

    Parameters
    ----------
    start, end
        Unit vectors less than pi apart.
    radius
        Angular radius of the cap, above half of their angle and at most pi/2.
    name
        What the piece does, for tables and messages.

    Examples
    --------
    >>> import attnflow as af
    >>> piece = af.control.cap_mover(np.array([1.0, 0.0]), np.array([np.cos(0.5), np.sin(0.5)]), radius=0.5)
    >>> run = af.control.Schedule([piece]).run([[1.0, 0.0], [0.0, 1.0]])
    >>> angles = np.arctan2(*run.final_tokens.values.T[::-1])
    >>> angles.round(6)  # the second token is outside of the cap
    array([0.5     , 1.570796])
    """
    chord, middle = end - start, start + end
    half = float(np.arcsin(min(np.linalg.norm(chord) / 2, 1.0)))
    if not half < radius <= np.pi / 2:
        raise InputError(f"`radius` must lie between half of the arc, {half:.6g}, and pi/2, but it is {radius:.6g}.")
    edge = np.cos(radius)
    duration = quad(lambda s: 1 / ((np.cos(s) - edge) * np.cos(s)), -half, half, epsabs=1e-13, epsrel=1e-13)[0]
    gamma, omega = middle / np.linalg.norm(middle), chord / np.linalg.norm(chord)
    return Piece(float(duration), Perceptron(omega[:, None], gamma[None], [-edge], "relu"), name=name)


def steer_circle(tokens: Any, targets: Any) -> Steering:
    """A control that takes tokens on the circle to targets in the same cyclic order, one token at a time.

    Each piece is a cap mover, a perceptron with one ReLU, on an arc without other tokens. A token whose target lies
    beyond its neighbour goes half of the way to the neighbour, and on in the next round.

    Raises
    ------
    InputError
        Where the order of tokens would have to change (`obstructions`): no flow with full attention does it.

    Examples
    --------
    >>> import attnflow as af
    >>> tokens = af.initial.on_circle(np.array([0.0, 1.0, 2.0]))
    >>> targets = af.initial.on_circle(np.array([0.5, 2.5, 3.0]))
    >>> af.control.steer_circle(tokens, targets).terminal_error < 1e-9
    True
    """
    first, last = require_pair("sphere", tokens, targets)
    if first.ndim != 2 or first.shape[1] != 2:
        raise InputError(f"`tokens` must have shape (n, 2), but it is {first.shape}. For d >= 3 use `steer`.")
    require_possible(FlowFamily(), first, last)
    atoms, rows = np.unique(first, axis=0, return_index=True)
    pieces = _pieces(_angles(atoms), last[rows], rows)
    if not pieces:
        raise InputError("All tokens are at their targets: there is nothing to do.")
    return Steering(Schedule(tuple(pieces)), first, last)


def _angles(points: np.ndarray) -> np.ndarray:
    return np.arctan2(points[:, 1], points[:, 0])


def _pieces(angles: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> list[Piece]:
    """Rounds in which every token, in the order of the circle, moves towards its target."""
    order = np.argsort(angles)
    places = angles[order]
    ends = _lifted(places, _angles(targets)[order])
    pieces: list[Piece] = []
    for _ in range(MOST_ROUNDS):
        if np.array_equal(places, ends):
            return pieces
        for index in np.argsort(-np.abs(ends - places)):
            pieces += _motion(places, ends, int(index), f"token {rows[order[index]]}")
    raise InputError(f"Tokens are so close that {MOST_ROUNDS} rounds do not bring them to their targets.")


def _lifted(places: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Angles of the targets as increasing numbers within one turn, by whole turns as near to the tokens as possible."""
    steps = np.mod(np.diff(targets), 2 * np.pi)
    lifted = np.concatenate([[targets[0]], targets[0] + np.cumsum(steps)])
    return lifted - 2 * np.pi * np.round(np.mean(lifted - places) / (2 * np.pi))


def _motion(places: np.ndarray, ends: np.ndarray, index: int, name: str) -> list[Piece]:
    """The motion of one token, at most up to half of the way to its neighbour; `places` is changed."""
    start, end = places[index], ends[index]
    if start == end:
        return []
    ahead = np.sign(end - start)
    n = len(places)
    gaps = {1.0: np.inf, -1.0: np.inf}
    if n > 1:
        gaps[1.0] = (places[(index + 1) % n] - start) % (2 * np.pi)
        gaps[-1.0] = (start - places[index - 1]) % (2 * np.pi)
    reach = min(abs(end - start), LONGEST_ARC, gaps[ahead] / 2)
    stop = end if reach == abs(end - start) else start + ahead * reach
    # The cap ends halfway to the nearer of the neighbours behind the start and ahead of the stop.
    room = min(gaps[ahead] - reach, gaps[-ahead], 1.0)
    points = [np.array([np.cos(angle), np.sin(angle)]) for angle in (start, stop)]
    places[index] = stop
    return [cap_mover(*points, radius=reach / 2 + 0.75 * room, name=name)]
