"""The scenario in which tokens go to targets that are placed by hand, by the explicit construction of a control.

A frame has the n tokens and then their n targets, so that targets are moved as tokens are.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from attnflow._common.checks import InputError
from attnflow.control.circle_caps import steer_circle
from attnflow.control.steering import Steering, sped_up, steer
from attnflow.experiments.control_scenarios import tokens_and_targets
from attnflow.experiments.scenarios import Scenario, Settings
from attnflow.explorer.recording import Frame

FRAMES = 240  # of a run: ten seconds of the page
MOST_TOKENS = 40  # for which the construction takes a second
USED = ("n", "d", "seed", "end")  # settings that act


@dataclass(frozen=True)
class SteerSettings(Settings):
    """Settings of tokens on the circle or on the sphere that go to targets; `end` is the time of the whole control."""


STEER = Scenario(
    "steer-sphere",
    "Tokens on the sphere go to their targets, the hollow dots, one at a time; the others do not move.",
    "2411.04551",
    SteerSettings(space="sphere", n=8, d=3, end=12.0),
)


def change(settings: SteerSettings, changes: dict[str, Any]) -> SteerSettings:
    """Settings with some replaced; those of attention have no effect and cannot be changed."""
    for name, value in changes.items():
        if name not in USED and value != getattr(settings, name):
            raise InputError(f"`{name}` would change nothing here: the control is that of its construction. Leave it.")
    changed = replace(settings, **changes)
    if changed.d not in (2, 3):
        raise InputError(f"`d` must be 2, the circle, or 3, the sphere, in this scenario, but it is {changed.d}.")
    if not 1 <= changed.n <= MOST_TOKENS:
        raise InputError(f"`n` must be from 1 to {MOST_TOKENS} in this scenario, but it is {changed.n}.")
    return changed


def steered(settings: SteerSettings, placed: Any) -> Steering:
    """The control for the tokens and targets of the settings, or for those placed by hand, in the time `end`."""
    n = settings.n
    first, last, of_search = tokens_and_targets(replace(_plain(settings), start="sphere"))
    if placed is not None:
        if [len(row) for row in placed] != [settings.d] * (2 * n):
            raise InputError(f"`tokens` must be {n} places and {n} targets of {settings.d} coordinates.")
        points = np.array(placed)
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        if not np.all(lengths > 0):
            raise InputError("A token on the sphere must have a direction, but one of `tokens` is zero.")
        first, last = np.split(points / lengths, 2)
    found = steer_circle(first, last) if settings.d == 2 else steer(first, last, rng=of_search)
    return sped_up(found, found.time / settings.end)


def frames(found: Steering) -> list[Frame]:
    """The tokens and their targets at times that are evenly spread, by SciPy; colours are those of the tokens."""
    times, tokens = np.linspace(0, found.time, FRAMES), found.tokens
    states, starts = [], found.control.times
    for piece, start, end in zip(found.control.pieces, starts[:-1], starts[1:], strict=True):
        inside = times[(times >= start) & (times < end)] - start
        solved = solve_ivp(
            _rate(piece.perceptron, tokens.shape), (0, end - start), tokens.ravel(), t_eval=[*inside, end - start],
            method="DOP853", rtol=1e-9, atol=1e-11,
        ).y.T.reshape(-1, *tokens.shape)  # fmt: skip
        states += [*solved[:-1]]
        tokens = solved[-1] / np.linalg.norm(solved[-1], axis=1, keepdims=True)
    states = [*states, tokens][:FRAMES]
    colours = np.tile(1 + np.arange(len(tokens)), 2)
    return [
        Frame(index, float(time), np.concatenate([state, found.targets]), colours=colours)
        for index, (time, state) in enumerate(zip(times[: len(states)], states, strict=True))
    ]


def _rate(drift: Any, shape: tuple[int, ...]) -> Any:
    activation = {"hat": lambda z: np.maximum(1 - np.abs(z), 0), "relu": lambda z: np.maximum(z, 0)}[drift.activation]

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(shape)
        pull = activation(x @ drift.inner.T + drift.bias) @ drift.outer.T
        return (pull - (x * pull).sum(axis=-1, keepdims=True) * x).ravel()

    return rate


def _plain(settings: SteerSettings) -> Settings:
    return Settings(**{entry.name: getattr(settings, entry.name) for entry in fields(Settings)})
