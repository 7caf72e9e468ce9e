"""Words of a setting as objects: "causal+window:8", "pair:0.5,2", "rk4:0.01". The words are listed in `vocabulary`."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow._common.seeds import Rng
from attnflow.experiments.number_files import read_numbers
from attnflow.experiments.vocabulary import MATRICES, OBSERVABLES, SETTINGS, Vocabulary, Word, is_file
from attnflow.model import masks
from attnflow.model.attention import AbstractAttention
from attnflow.model.normalisation import AbstractNormalisation
from attnflow.solvers.base import AbstractSolver

LARGEST_ENTRY = 1e100  # of a matrix: three factors of that size are still floats


def matrix(word: str | np.ndarray, d: int, rng: Rng, argument: str) -> np.ndarray:
    """A d x d matrix by its spectrum, from a file, or as it is; `argument` is the option, for messages."""
    if isinstance(word, np.ndarray):
        made = word
    else:
        made = read_numbers(word, argument) if is_file(word) else object_of(word, argument, MATRICES, d=d, rng=rng)
    largest = float(np.max(np.abs(made), initial=0.0))
    if largest > LARGEST_ENTRY:
        raise InputError(
            f"The entries of `{argument}` must be at most {LARGEST_ENTRY:g} in size, since their products must be "
            f"finite, but one is {largest:.3g}."
        )
    return made


def mask(given: str | np.ndarray | list) -> masks.AbstractMask:
    """A mask: a word, several joined with a plus, the matrix of a boolean mask, or a list of masks that are joined."""
    if isinstance(given, np.ndarray):
        return masks.boolean(given != 0)
    parts = given.split("+") if isinstance(given, str) else given
    if len(parts) == 1:
        return _mask(parts[0]) if isinstance(parts[0], str) else mask(parts[0])
    return functools.reduce(operator.and_, map(mask, parts))


def _mask(word: str) -> masks.AbstractMask:
    return masks.boolean(read_numbers(word, "mask") != 0) if is_file(word) else object_of(word, "mask")


def observable(word: str, argument: str) -> Callable:
    """An observable."""
    return object_of(word, argument, OBSERVABLES)


def attention(word: str, beta: float) -> AbstractAttention:
    """An attention rule."""
    return object_of(word, "attention", beta=beta)


def normalisation(word: str) -> AbstractNormalisation:
    """A normalisation scheme."""
    return object_of(word, "normalisation")


def solver(word: str, rtol: float, atol: float) -> AbstractSolver:
    """A solver; adaptive ones use the tolerances, the others a step."""
    return object_of(word, "solver", rtol=rtol, atol=atol)


def start(word: str, n: int, d: int, runs: int | range | None, rng: Rng) -> np.ndarray:
    """First tokens by their law, or from a file."""
    return read_numbers(word, "start") if is_file(word) else object_of(word, "start", n=n, d=d, runs=runs, rng=rng)


def split(word: str, argument: str) -> tuple[str, list[float]]:
    """The name and the numbers of a word.

    Examples
    --------
    >>> split("pair:0.5,2", "value")
    ('pair', [0.5, 2.0])
    """
    name, _, tail = word.partition(":")
    try:
        return name, [float(number) for number in tail.split(",")] if tail else []
    except ValueError:
        raise InputError(
            f"`{argument}` {word!r} must be a name, then a colon and numbers with commas between, such as '{name}:1' "
            f"or '{name}:0.5,2'."
        ) from None


def object_of(text: str, argument: str, vocabulary: Vocabulary | None = None, **given: Any) -> Any:
    """The object that the word `text` of a setting stands for; `given` goes to all words of the setting."""
    name, numbers = split(text, argument)
    known = (vocabulary or SETTINGS[argument]).words
    require_known(name, known, argument)
    word = known[name]
    if word.count:
        _require_count(word, numbers, f"`{argument}` {name!r}", given["d"])
    else:
        numbers = _with_defaults(word, numbers, f"`{argument}` {name!r}")
    if word.size is not None and word.size != given["d"]:
        raise InputError(
            f"`{argument}` {name!r} is a matrix of size {word.size}, but d is {given['d']}. "
            f"Leave d as it is, or choose another `{argument}`."
        )
    return word.make(*numbers, **given)


def _require_count(word: Word, numbers: list[float], which: str, d: int) -> None:
    if word.count == "any":
        if not numbers:
            raise InputError(f"{which} needs an angle for every token after the colon, such as 'angles:0,0.5,2'.")
        return
    needed = {"d": d, "d^2": d * d}[word.count]
    if len(numbers) != needed:
        raise InputError(
            f"{which} needs {word.count} = {needed} numbers after the colon ({word.numbers}), "
            f"but it has {len(numbers)}."
        )


def _with_defaults(word: Word, numbers: list[float], which: str) -> list[float]:
    """The numbers given, whole where they must be, with defaults for those left out."""
    if len(numbers) > len(word.defaults):
        most = len(word.defaults)
        taken = "no number" if most == 0 else "at most one number" if most == 1 else f"at most {most} numbers"
        raise InputError(f"{which} takes {taken} after the colon, but it has {len(numbers)}.")
    given = [
        _whole(number, which) if isinstance(default, int) else number
        for number, default in zip(numbers, word.defaults, strict=False)
    ]
    return [*given, *word.defaults[len(numbers) :]]


def _whole(number: float, which: str) -> int:
    if not float(number).is_integer():  # infinities and NaN are none
        raise InputError(f"{which} takes a whole number after the colon, but it is {number:g}.")
    return int(number)
