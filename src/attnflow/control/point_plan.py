"""The order in which tokens go to their targets, one at a time, and the detours of those that are blocked."""

import numpy as np

from attnflow._common.checks import InputError
from attnflow.control.strips import LEAST_HALF_WIDTH, Strip, strip

DETOURS = 32  # random places that are tried for a token that is blocked
PIECES_PER_TOKEN = 6  # the number that is proved to suffice


def plan(space: str, tokens: np.ndarray, targets: np.ndarray, rng: np.random.Generator) -> list[tuple[int, Strip]]:
    """Strips in the order in which they act, each with the index of its token.

    At every step the token with the widest strip moves to its target. If all are blocked, because a target is taken or
    a great circle passes through another token, one token makes a detour to a random place.
    """
    places, moves = tokens.copy(), []
    left = {index for index in range(len(tokens)) if not np.array_equal(tokens[index], targets[index])}
    while left:
        if len(moves) >= PIECES_PER_TOKEN * len(tokens):
            raise InputError(
                f"No control of {PIECES_PER_TOKEN * len(tokens)} pieces was found: tokens lie too close to each other, "
                "or to targets of others. Move targets by 1e-3 or more."
            )
        index, chosen = max(
            ((one, _from(space, places, one, targets[one], rng)) for one in sorted(left)),
            key=lambda pair: pair[1].room,
        )
        if chosen.room < LEAST_HALF_WIDTH:
            index, chosen = _detour(space, places, targets, sorted(left), rng)
        places[index] = chosen.end
        moves.append((index, chosen))
        left -= {index} if np.array_equal(places[index], targets[index]) else set()
    return moves


def _from(space: str, places: np.ndarray, index: int, end: np.ndarray, rng: np.random.Generator) -> Strip:
    return strip(space, places[index].copy(), end, np.delete(places, index, axis=0), rng)


def _detour(
    space: str, places: np.ndarray, targets: np.ndarray, left: list[int], rng: np.random.Generator
) -> tuple[int, Strip]:
    """The motion to a random place for which both strips, to it and from it to the target, are widest.

    Tokens whose targets are free come first: they arrive then, while others only make room.
    """
    found = []
    for index in left[:8]:
        others = np.delete(places, index, axis=0)
        room = np.linalg.norm(others - targets[index], axis=1).min(initial=1.0)
        is_taken = room < LEAST_HALF_WIDTH
        for place in _random_places(space, places, targets[index], 1.0 if is_taken else room / 2, rng):
            first = strip(space, places[index].copy(), place, others, rng)
            second = np.inf if is_taken else strip(space, place, targets[index], others, rng).room
            width = min(first.room, second)
            found.append((width >= LEAST_HALF_WIDTH and not is_taken, width, index, first))
    return max(found, key=lambda one: one[:2])[2:]


def _random_places(
    space: str, places: np.ndarray, target: np.ndarray, near: float, rng: np.random.Generator
) -> np.ndarray:
    """Places anywhere, and as many at about the distance `near` from the target."""
    draws = rng.normal(size=(2 * DETOURS, places.shape[1]))
    units = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    close = target + near * units[DETOURS:]
    if space == "sphere":
        return np.concatenate([units[:DETOURS], close / np.linalg.norm(close, axis=1, keepdims=True)])
    return np.concatenate([places.mean(axis=0) + (places.std() + 1.0) * draws[:DETOURS], close])
