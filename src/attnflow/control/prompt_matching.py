"""`match_prompts`: one control under which every prompt collapses to a point, and each point goes to its target."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from attnflow._common.checks import InputError, require_on_sphere
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow.control.point_plan import plan
from attnflow.control.steering import TIGHT, with_targets
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.attention import Softmax
from attnflow.model.heads import Head
from attnflow.model.perceptron import Perceptron

WIDEST_CAP = np.pi / 3  # around the pole to which tokens are gathered: all of them are then in one hemisphere
COLLAPSED = 1e-11  # largest distance of a token from the mean of its prompt; errors of the solve are 1e-12
LEAST_DISTANCE = 1e-2  # between the points of two prompts; closer ones are separated before they collapse
LONGEST_COLLAPSE = 60.0  # time; within a hemisphere distances fall like e^{-t} in the end
MOST_SEPARATIONS = 10  # random perceptrons that are tried


@dataclass(frozen=True)
class PromptMatching:
    """A control with the prompts (prompts, n, d) and their targets (prompts, d).

    Examples
    --------
    >>> import attnflow as af
    >>> prompts = af.initial.hemisphere(6, 3, rng=0).reshape(2, 3, 3)
    >>> found = af.control.match_prompts(prompts, np.eye(3)[:2], rng=0)
    >>> found.control.pieces[-1].name, found.terminal_error < 1e-8
    ('prompt 0', True)
    >>> found.run.tokens.dims
    ('run', 'time', 'token', 'coordinate')
    """

    control: Schedule
    prompts: np.ndarray
    targets: np.ndarray

    @cached_property
    def run(self) -> xr.Dataset:
        """The runs of all prompts under the control, by a tight solve, with the targets as a variable."""
        return with_targets(self.control.run(self.prompts, saves=33, solver=TIGHT), self.targets[:, None])

    @property
    def terminal_error(self) -> float:
        """The largest distance of a last token from the target of its prompt."""
        return float(np.linalg.norm(self.run.final_tokens.values - self.targets[:, None], axis=-1).max())


@takes_rng
def match_prompts(prompts: Any, targets: Any, rng: Rng = None) -> PromptMatching:
    """One control on the sphere, d >= 3, that takes all tokens of prompt k to the point ``targets[k]``.

    1. Gather: a constant drift P_x omega, until all tokens are within an angle of pi/3 from omega; -omega is the point
       farthest from all tokens. tan(a/2) of the angle a to omega falls like e^{-t}.
    2. Disentangle, if the points of two prompts would be closer than 1e-2: a random strip moves tokens of both.
    3. Cluster: attention with B = 0 and V = I, x_i' = P_i(mean of its prompt). In a hemisphere around omega the least
       <omega, x_i> cannot fall, so |mean| >= 1/2, and all tokens converge to one point (the hull shrinks).
    4. Match: the points, one after the other, by strips (`steer`), which move a whole prompt within rounding.

    Gathering and clustering are one piece each, so that the number of pieces is about that of prompts, independent of
    n; the theorem of arXiv:2411.04551, known here second-hand, states O(d N).

    Parameters
    ----------
    prompts
        Unit vectors, shape (prompts, n, d).
    targets
        Unit vectors, shape (prompts, d).
    rng
        None, an integer, a Generator or a SeedSequence, for the strips that are drawn at random.

    Examples
    --------
    >>> import attnflow as af
    >>> prompts = af.initial.sphere(12, 3, rng=0).reshape(3, 4, 3)
    >>> found = af.control.match_prompts(prompts, np.eye(3), rng=0)
    >>> len(found.control.pieces), found.terminal_error < 1e-8
    (5, True)
    """
    tokens, ends = _checked(prompts, targets)
    generator = np.random.default_rng(seed_sequence(rng))
    pieces, tokens = _gathered(tokens, generator)
    for _ in range(MOST_SEPARATIONS + 1):
        duration, points = _collapse(tokens)
        distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + 2 * np.eye(len(points))
        if distances.min() >= LEAST_DISTANCE:
            break
        separation = _random_strip(tokens, generator)
        pieces, tokens = [*pieces, separation], _moved(separation, tokens)
    else:
        i, j = np.unravel_index(int(np.argmin(distances)), distances.shape)
        raise InputError(f"Prompts {i} and {j} were not separated by {MOST_SEPARATIONS} perceptrons. Are they equal?")
    d = tokens.shape[-1]
    head = Head(np.zeros((d, d)), np.zeros((d, d)), np.eye(d))
    pieces.append(Piece(duration, heads=(head,), name="cluster"))
    moves = plan("sphere", points, ends, generator)
    pieces += [one.piece(f"prompt {index}") for index, one in moves]
    return PromptMatching(Schedule(tuple(pieces), attention=Softmax(0.0)), np.asarray(prompts, float), ends)


def _checked(prompts: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    tokens, ends = np.asarray(prompts, float), np.asarray(targets, float)
    if tokens.ndim != 3 or ends.shape != (len(tokens), tokens.shape[-1]) or tokens.shape[-1] < 3:
        raise InputError(
            "`prompts` must have shape (prompts, n, d) with d >= 3 and `targets` (prompts, d), but their shapes are "
            f"{tokens.shape} and {ends.shape}."
        )
    require_on_sphere(tokens, "prompts")
    require_on_sphere(ends, "targets")
    apart = np.linalg.norm(ends[:, None] - ends[None], axis=-1) + 2 * np.eye(len(ends))
    if apart.min() == 0:
        i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
        raise InputError(f"`targets` must be distinct, but those of prompts {i} and {j} are equal.")
    return tokens, ends


def _gathered(tokens: np.ndarray, rng: np.random.Generator) -> tuple[list[Piece], np.ndarray]:
    """The piece that gathers all tokens around a pole, and the tokens after it; no piece where they are gathered."""
    d = tokens.shape[-1]
    poles = rng.normal(size=(512, d))
    poles = np.concatenate([tokens.mean(axis=(0, 1))[None], poles])
    poles = poles / np.linalg.norm(poles, axis=1, keepdims=True)
    lowest = (tokens.reshape(-1, d) @ poles.T).min(axis=0)
    pole, angle = poles[np.argmax(lowest)], float(np.arccos(lowest.max()))
    if angle <= WIDEST_CAP:
        return [], tokens
    duration = np.log(np.tan(angle / 2) / np.tan(WIDEST_CAP / 2))
    # hat(0) = 1: the drift is omega everywhere.
    piece = Piece(float(duration), Perceptron(pole[:, None], np.zeros((1, d)), [0.0], "hat"), name="gather")
    return [piece], _moved(piece, tokens)


def _random_strip(tokens: np.ndarray, rng: np.random.Generator) -> Piece:
    """A strip of half-width 1/2 around a random token, in which tokens drift in a random direction for time 1/2."""
    d = tokens.shape[-1]
    normal, direction = (vector / np.linalg.norm(vector) for vector in rng.normal(size=(2, d)))
    centre = float(normal @ tokens.reshape(-1, d)[rng.integers(tokens.size // d)])
    return Piece(0.5, Perceptron(direction[:, None], 2 * normal[None], [-2 * centre], "hat"), name="disentangle")


def _moved(piece: Piece, tokens: np.ndarray) -> np.ndarray:
    """The tokens after a piece without attention, by SciPy."""
    drift: Any = piece.perceptron

    def rate(_, flat):
        x = flat.reshape(tokens.shape)
        pull = np.maximum(1 - np.abs(x @ drift.inner.T + drift.bias), 0) @ drift.outer.T
        return (pull - (x * pull).sum(axis=-1, keepdims=True) * x).ravel()

    last = solve_ivp(rate, (0, piece.duration), tokens.ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return _on_sphere(last.reshape(tokens.shape))


def _collapse(tokens: np.ndarray) -> tuple[float, np.ndarray]:
    """The time after which x_i' = P_i(mean) has collapsed every prompt, and the points where they are then."""

    def rate(_, flat):
        x = flat.reshape(tokens.shape)
        pull = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
        return (pull - (x * pull).sum(axis=-1, keepdims=True) * x).ravel()

    def spread(_, flat):
        x = flat.reshape(tokens.shape)
        return float(np.linalg.norm(x - x.mean(axis=1, keepdims=True), axis=-1).max()) - COLLAPSED

    spread.terminal = True
    found = solve_ivp(
        rate, (0, LONGEST_COLLAPSE), tokens.ravel(), method="DOP853", rtol=1e-12, atol=1e-15, events=spread
    )
    return float(found.t[-1]), _on_sphere(found.y[:, -1].reshape(tokens.shape).mean(axis=1))


def _on_sphere(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=-1, keepdims=True)
