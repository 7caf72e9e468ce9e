"""Renamed arguments and functions: the old word is accepted for one release and warns."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from attnflow._common.checks import InputError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def renamed_argument(old: str, new: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorator of a function whose keyword argument `old` is now called `new`.

    Examples
    --------
    >>> @renamed_argument("size", "tokens")
    ... def matrix_entries(*, tokens):
    ...     return tokens**2
    >>> matrix_entries(tokens=3)
    9
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     matrix_entries(size=3)
    9
    >>> print(caught[0].message)
    `size` is now called `tokens`; the old word will be refused in the next release. Write tokens=...
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def renaming(*positional: Any, **named: Any) -> Any:
            if old in named:
                if new in named:
                    raise InputError(f"`{old}` is the old word for `{new}`, but both are given. Leave `{old}` out.")
                warnings.warn(
                    f"`{old}` is now called `{new}`; the old word will be refused in the next release. Write {new}=...",
                    FutureWarning,
                    stacklevel=2,
                )
                named[new] = named.pop(old)
            return function(*positional, **named)

        return renaming

    return decorate


def renamed_function(old: str, new: str, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function under its old name, which warns.

    Examples
    --------
    >>> square = renamed_function("square", "power_two", lambda number: number**2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     square(3)
    9
    >>> print(caught[0].message)
    `square` is now called `power_two`; the old name will be removed in the next release.
    """

    @functools.wraps(function)
    def renaming(*positional: Parameters.args, **named: Parameters.kwargs) -> Result:
        warnings.warn(
            f"`{old}` is now called `{new}`; the old name will be removed in the next release.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*positional, **named)

    return renaming
