"""Seeds: any `rng=` argument becomes one recorded seed sequence."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from attnflow._common.checks import InputError

Rng = None | int | np.random.Generator | np.random.SeedSequence
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def takes_rng(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorator of a function with an argument `rng`: the word `seed` is refused with the right one.

    Examples
    --------
    >>> import attnflow as af
    >>> af.initial.sphere(2, 3, seed=4)
    Traceback (most recent call last):
    attnflow._common.checks.InputError: `sphere` has no argument `seed`. Write `rng=4`.
    """

    @functools.wraps(function)
    def checked(*positional: Any, **named: Any) -> Any:
        if "seed" in named:
            raise InputError(f"`{function.__name__}` has no argument `seed`. Write `rng={named['seed']!r}`.")
        return function(*positional, **named)

    return checked


def seed_sequence(rng: Rng) -> np.random.SeedSequence:
    """The seed sequence behind an `rng=` argument.

    None draws fresh entropy from the system; a generator is advanced by one draw.
    """
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(int(rng.integers(2**63)))
    is_seed = isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0
    if rng is not None and not is_seed:
        raise InputError(
            "`rng` must be None, a non-negative integer, a numpy Generator or a SeedSequence, "
            f"but it is {rng!r}. Pass an integer to make the draw repeatable."
        )
    return np.random.SeedSequence(None if rng is None else int(rng))


def run_seeds(seed: np.random.SeedSequence, numbers: range) -> list[np.random.SeedSequence]:
    """The seeds of the runs with these numbers: run i has its own whatever the number of runs, batches or workers.

    Unlike `seed.spawn`, asking twice gives the same seeds.
    """
    return [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, run)) for run in numbers]
