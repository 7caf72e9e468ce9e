"""`steer`: a control that takes every token to its target, and what it costs."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import require_pair, require_possible
from attnflow.control.point_plan import plan
from attnflow.control.pontryagin import PontryaginCheck
from attnflow.control.speed_limits import SpeedLimit, require_time, speed_limit
from attnflow.control.weight_schedules import Schedule
from attnflow.solvers.adaptive import Adaptive

TIGHT = Adaptive(rtol=1e-11, atol=1e-13)  # the solve that judges a control, which is not made by solving


@dataclass(frozen=True)
class SearchReport:
    """What a search has reached: the cost before and after the minimisation, and how far it is from a minimum.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.optimise(np.eye(3)[:1], np.eye(3)[1:2], pieces=2, rng=0)
    >>> found.search.objective, found.search.cost <= found.search.first_cost
    ('soonest', True)
    >>> found.search.rows()
    {'cost': '1.5708 (soonest)'}
    """

    objective: str
    """What is minimised, in the word of `optimise`."""
    cost: float
    """Its value at the end."""
    first_cost: float
    """Its value before the minimisation."""
    steps: int
    """Number of steps of the minimisation."""
    stationarity: float | None = None
    """Part of the gradient of the cost that no constraint balances, over the gradient: zero at a minimum. None where
    targets are caps or tokens are kept apart."""
    pontryagin: PontryaginCheck | None = None
    """How far the control is from Pontryagin's conditions, where they were checked."""
    allowed_time: float | None = None
    """The longest time that the search allowed. None: any."""
    radius: float = 0.0
    """The largest distance from a target that is allowed; zero: targets are points."""
    apart: float = 0.0
    """The least distance between two tokens of a prompt that is allowed."""

    def rows(self) -> dict[str, str]:
        """The report by line."""
        cost = f"{self.cost:.6g} ({self.objective})"
        check = self.pontryagin
        if check is None:
            return {"cost": cost}
        return {
            "cost": f"{cost}, {self.first_cost:.6g} before {self.steps} steps; {self.stationarity:.1g} of its gradient "
            "is not balanced",
            "dH/du": f"{check.mean_residual:.1g} in the mean of a piece, {check.largest_residual:.2g} at most",
            "H": f"drifts by {check.drift.max():.1g} within a piece",
        }


def least_distance(tokens: np.ndarray) -> float:
    """The least distance of two tokens of one prompt, tokens (..., n, d); infinity for single tokens."""
    rows, columns = np.triu_indices(tokens.shape[-2], 1)
    between = np.linalg.norm(tokens[..., rows, :] - tokens[..., columns, :], axis=-1)
    return float(between.min(initial=np.inf))


def with_targets(run: xr.Dataset, targets: np.ndarray) -> xr.Dataset:
    """The run with the target of every token as a variable."""
    wanted = np.broadcast_to(targets, run.final_tokens.shape)
    return run.assign(
        target=xr.Variable(run.final_tokens.dims, wanted, {"long_name": "target of the token", "units": "1"})
    )


@dataclass(frozen=True)
class Steering:
    """A control with the tokens and targets that it is made for; every number is measured when it is asked for.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.steer(np.eye(3)[:1], np.eye(3)[1:2])
    >>> round(found.time, 4), round(found.limit.time, 4), round(found.gap, 3)
    (1.7627, 1.5708, 1.122)
    >>> found.has_arrived, found.terminal_error < 1e-8
    (True, True)
    >>> round(found.run.final_time.item(), 4)
    1.7627

    The least distance of two tokens on the way, and the stationarity, which only a search has.

    >>> found = af.control.steer(np.eye(3)[:2], np.eye(3)[1:])
    >>> 0 < found.least_distance < 1.5, found.stationarity
    (True, None)
    """

    control: Schedule
    tokens: np.ndarray
    targets: np.ndarray
    search: SearchReport | None = None
    """What the search has reached; None for constructions."""

    @cached_property
    def run(self) -> xr.Dataset:
        """The tokens from piece to piece by a tight solve, with the targets as a variable."""
        return with_targets(self.control.run(self.tokens, saves=17, solver=TIGHT), self.targets)

    @property
    def terminal_error(self) -> float:
        """The largest distance of a last token from its target."""
        return float(np.linalg.norm(self.run.final_tokens.values - self.targets, axis=-1).max())

    @property
    def stationarity(self) -> float | None:
        """Part of the gradient of the cost that no constraint balances, over the gradient; None for constructions."""
        return None if self.search is None else self.search.stationarity

    @property
    def least_distance(self) -> float:
        """The least distance of two tokens of one prompt at the times of `run`."""
        return least_distance(self.run.tokens.transpose(..., "token", "coordinate").values)

    @property
    def has_arrived(self) -> bool:
        """Whether all tokens are at their targets, within 1e-8 or in the cap that is asked for, in the time that is
        allowed, and no two of them closer on the way than is allowed."""
        if (search := self.search) is None:
            return self.terminal_error < 1e-8
        is_in_time = search.allowed_time is None or self.time <= search.allowed_time * (1 + 1e-12)
        is_apart = search.apart == 0 or self.least_distance >= search.apart
        return self.terminal_error < (search.radius or 1e-8) and is_in_time and is_apart

    @property
    def time(self) -> float:
        """The sum of all durations."""
        return float(self.control.times[-1])

    @property
    def limit(self) -> SpeedLimit:
        """The shortest time that the norms of the weights allow, to targets or to caps around them."""
        limit = speed_limit(self.control.flow(), self.tokens, self.targets)
        radius = 0.0 if self.search is None else self.search.radius
        if radius == 0:
            return limit
        return replace(limit, time=max(limit.time - 2 * float(np.arcsin(min(radius / 2, 1.0))) / limit.speed, 0.0))

    @property
    def gap(self) -> float:
        """The time over the shortest one that the norms of the weights allow."""
        return float(self.limit.gap(self.time))

    def __str__(self) -> str:
        n, prompts = self.tokens.shape[-2], "" if self.tokens.ndim == 2 else f"{len(self.tokens)} prompts of "
        rows = {
            "tokens": f"{prompts}{n} to {n} targets",
            "pieces": f"{len(self.control.pieces)}, {self.control.switches} switches",
            "time": f"{self.time:.6g}, {self.gap:.3g} times the limit {self.limit.time:.6g} by operator norms",
            "error": f"{self.terminal_error:.2g}, the largest distance from a target by a tight solve",
        }
        if self.search is not None:
            rows |= self.search.rows()
            if self.search.apart:
                rows["apart"] = f"{self.least_distance:.4g} at least, {self.search.apart:.4g} asked for"
            if not self.has_arrived:
                rows["stalled"] = "not all that was asked for holds; this is what was reached"
                if (allowed := self.search.allowed_time) is not None:
                    rows["stalled"] += f". The time allowed is {allowed:.6g}"
        return "\n".join(f"  {name:<8}{words}" for name, words in rows.items())


@takes_rng
def steer(
    tokens: Any,
    targets: Any,
    space: str = "sphere",
    time: float | None = None,
    norm: float | None = None,
    rng: Rng = None,
) -> Steering:
    """A control that takes every token to its target exactly, one token at a time, by a perceptron without attention.

    Each piece is a strip mover (`attnflow.control`): it moves one token along the great circle, in R^d along the line,
    to its target at speed one at most, and leaves all others where they are, bit for bit. Tokens that are equal move
    together. A token whose way is blocked makes a detour, which is one more piece.

    Parameters
    ----------
    tokens, targets
        First and last tokens, (n, d): on the sphere with d >= 3 (for d = 2 see `steer_circle`), or in R^d, d >= 2.
    space
        "sphere", or "euclidean", where the flow is a neural ODE.
    time, norm
        Time and operator norm of W, which bounds the speed of a token, that are allowed. With one of them the other
        follows; without both the norm is one.
    rng
        Seed of the directions that are tried.

    Raises
    ------
    InputError
        For tokens off the sphere, an obstruction (`obstructions`), a time below the speed limit of the norm
        (`speed_limit`), and tokens too close to be separated.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.steer(af.initial.sphere(5, 3, rng=0), af.initial.sphere(5, 3, rng=1), rng=0)
    >>> len(found.control.pieces), found.terminal_error < 1e-10
    (5, True)
    """
    first, last = require_pair(space, tokens, targets)
    if first.ndim != 2:
        raise InputError(f"`tokens` must have shape (n, d) here, but the shape is {first.shape}. See `match_prompts`.")
    least = 3 if space == "sphere" else 2
    require_possible(FlowFamily(space=space), first, last)
    if first.shape[1] < least:
        raise InputError(
            f"Strips separate tokens for d >= {least} on this space, but d = {first.shape[1]}. "
            + ("Use `steer_circle`." if space == "sphere" else "Add a coordinate that is zero.")
        )
    atoms, rows = np.unique(first, axis=0, return_index=True)
    moves = plan(space, atoms, last[rows], np.random.default_rng(seed_sequence(rng)))
    if not moves:
        raise InputError("All tokens are at their targets: there is nothing to do.")
    pieces = tuple(one.piece(f"token {rows[index]}") for index, one in moves)
    return _scaled(Steering(Schedule(pieces, space), first, last), time, norm)


def sped_up(found: Steering, factor: float) -> Steering:
    """The motion of perceptrons at `factor` times the speed: W is multiplied and durations are divided by it."""
    pieces = [
        replace(piece, duration=piece.duration / factor, perceptron=replace(drift, outer=factor * drift.outer))
        for piece in found.control.pieces
        if (drift := piece.perceptron) is not None
    ]
    return Steering(replace(found.control, pieces=tuple(pieces)), found.tokens, found.targets)


def _scaled(found: Steering, time: float | None, norm: float | None) -> Steering:
    """The same motion at another speed, within the time and the norm of W that are allowed."""
    for name, value in (("time", time), ("norm", norm)):
        if value is not None:
            require_positive_number(value, name)
    if time is None and norm is None:
        return found
    scaled = sped_up(found, norm if norm is not None else found.time / float(time or 1.0))
    if time is not None:
        require_time(scaled.limit, time)
        if scaled.time > time * (1 + 1e-12):
            raise InputError(
                f"Moving one token after the other with this `norm` takes the time {scaled.time:.6g}, but {time:.6g} is"
                f" allowed; the limit of the norm is {scaled.limit.time:.6g}. Allow a larger norm or more time."
            )
    return scaled
