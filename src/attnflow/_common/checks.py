"""Checks of arguments. Each raises InputError, a ValueError: argument, expected, found, what to do."""

import difflib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

LARGEST = 1e150  # its square is still a number


class InputError(ValueError):
    """An argument that cannot be used; the message says what was expected, what was found and what to do."""


def require_count(value: Any, argument: str, least: int = 1) -> None:
    """Require a whole number, at least `least`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InputError(f"`{argument}` must be a whole number, at least {least}, but it is {value!r}.")


def require_odd_count(value: Any, argument: str) -> None:
    """Require a positive odd number."""
    require_count(value, argument)
    if value % 2 == 0:
        raise InputError(
            f"`{argument}` must be odd, so that rows are divided by their sums last, "
            f"but it is {value}. Use {value + 1}."
        )


def require_finite_number(value: Any, argument: str) -> None:
    """Require one finite number."""
    if not _is_concrete(value):
        return
    is_number = isinstance(value, int | float | np.generic | np.ndarray) or hasattr(value, "dtype")
    is_number = is_number and np.shape(value) == () and np.asarray(value).dtype.kind in "fiub"
    if not is_number or not np.isfinite(value):
        found = f"{float(value):g}" if is_number else repr(value)
        raise InputError(f"`{argument}` must be one finite number, but it is {found}.")


def require_positive_number(value: Any, argument: str, what_to_do: str = "") -> None:
    """Require one finite number above zero."""
    require_finite_number(value, argument)
    if _is_concrete(value) and not value > 0:
        raise InputError(f"`{argument}` must be above zero, but it is {value}. {what_to_do}".strip())


def require_resolvable(rtol: Any, dtype: str) -> None:
    """Require a relative tolerance above the rounding error of the numbers."""
    least = 10 * float(np.finfo(dtype).eps)
    if _is_concrete(rtol) and rtol < least:
        raise InputError(
            f"`rtol` must be at least {least:.1e} in {dtype}, whose rounding is that large, but it is {rtol:.1e}."
        )


def require_matrix(value: Any, argument: str) -> None:
    """Require a finite matrix."""
    if not _is_concrete(value):
        return
    if np.ndim(value) != 2:
        raise InputError(
            f"`{argument}` must be a matrix, but it has shape {np.shape(value)}. Use numpy.eye(d) for the identity."
        )
    require_all_finite(value, argument, ("row", "column"))
    largest = float(np.max(np.abs(value), initial=0.0))
    if largest > LARGEST:
        raise InputError(
            f"`{argument}` must have entries below {LARGEST:g}, or products overflow, but one is {largest:.3g}."
        )


def require_square(value: Any, argument: str) -> None:
    """Require a finite square matrix."""
    require_matrix(value, argument)
    rows, columns = np.shape(value)
    if rows != columns:
        raise InputError(
            f"`{argument}` must be a square matrix, since it maps tokens to tokens, but it is {rows} x {columns}."
        )


def require_all_finite(values: Any, argument: str, axes: tuple[str, ...]) -> None:
    """Require finite numbers; the message says how many are not and where the first of them is."""
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum takes a tenth of the time, and no sum of numbers that are not finite is finite. It is one of NumPy:
        # while JAX compiles a function, its sums have no value, even of constants.
        if np.isfinite(np.sum(np.asarray(values))):
            return
    bad = np.argwhere(~np.isfinite(np.asarray(values)))
    if len(bad) == 0:
        return
    where = f"{argument}{[int(index) for index in bad[0]]} ({', '.join(axes)})"
    found = np.asarray(values)[tuple(bad[0])]
    raise InputError(
        f"`{argument}` must be finite, but {len(bad)} of {np.size(values)} numbers are not: "
        f"the first is {found} at {where}. Remove or replace it."
    )


def require_on_sphere(tokens: np.ndarray, argument: str, atol: float = 1e-6) -> None:
    """Require tokens of length one."""
    lengths = np.sqrt(np.einsum("...k,...k->...", tokens, tokens))
    errors = np.abs(lengths - 1.0)
    off = int(np.sum(errors > atol))
    if off == 0:
        return
    worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
    raise InputError(
        f"`{argument}` must lie on the unit sphere, but {off} of {lengths.size} tokens do not: "
        f"{_entry(argument, worst)} has length {lengths[worst]:.6g}, expected 1 within {atol:g}. "
        "If only directions matter, divide each row by its length first. "
        "If lengths matter, use `EuclideanAttention` instead of `SphereAttention`."
    )


def require_positive_lengths(tokens: np.ndarray, argument: str) -> None:
    """Require tokens other than the zero vector, which has no direction."""
    lengths = np.linalg.norm(tokens, axis=-1)
    if np.all(lengths > 0):
        return
    worst = np.unravel_index(int(np.argmin(lengths)), lengths.shape)
    raise InputError(
        f"`{argument}` must have a direction, but {_entry(argument, worst)} is the zero vector. "
        "Replace it by any other point."
    )


def require_times(times: Any) -> np.ndarray:
    """Two or more strictly increasing finite times, as float64."""
    try:
        times = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`times` must be a list of numbers, but it is {times!r}. Use numpy.linspace(0, 5, 51)."
        ) from None
    if times.ndim != 1 or len(times) < 2:
        raise InputError(
            "`times` must be a list of at least two times, the first one being the start, "
            f"but it has shape {times.shape}. Use numpy.linspace(0, 5, 51)."
        )
    require_all_finite(times, "times", ("position",))
    steps = np.diff(times)
    if np.all(steps > 0):
        return times
    first = int(np.argmax(steps <= 0))
    raise InputError(
        f"`times` must increase, but time {times[first + 1]:g} at position {first + 1} follows "
        f"{times[first]:g}. Sort them and drop repeated ones."
    )


def require_tokens(tokens: Any) -> np.ndarray:
    """Finite tokens of shape (n, d) or (runs, n, d), as a float array."""
    try:
        array = np.asarray(tokens)
    except ValueError:
        raise InputError(
            "`tokens` must have shape (n, d), but its rows have different lengths. Give every token d coordinates."
        ) from None
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"`tokens` must be real numbers, but their type is {array.dtype}. "
            "Convert them with numpy.asarray(tokens, dtype=float)."
        )
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(
            "`tokens` must have shape (n, d), or (runs, n, d) for an ensemble, all at least 1, "
            f"but the shape is {array.shape}. One token in R^d is tokens[None, :]."
        )
    axes = ("run", "token", "coordinate")[-array.ndim :]
    require_all_finite(array, "tokens", axes)
    largest = float(np.abs(array).max())
    if largest > LARGEST:
        raise InputError(
            f"`tokens` must be below {LARGEST:g}, or their scores overflow, but one is {largest:.3g}. Rescale them."
        )
    return np.array(array, dtype=np.float64)


def require_known(name: str, known: Iterable[str], argument: str) -> None:
    """Require one of the known names; the message suggests the nearest of them."""
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    hint = f"Did you mean {_either(near)}?" if near else f"Known: {', '.join(known)}."
    raise InputError(f"`{argument}` {name!r} is not known. {hint}")


def _either(names: list[str]) -> str:
    return " or ".join(repr(name) for name in names)


def _entry(argument: str, index: tuple) -> str:
    """The entry of an array argument as it is written in Python, such as tokens[0, 3]."""
    return f"{argument}[{', '.join(str(int(place)) for place in index)}]"


def _is_concrete(value: Any) -> bool:
    """False for JAX's tracers, whose values are not known yet."""
    jax = sys.modules.get("jax")
    return jax is None or not isinstance(value, jax.core.Tracer)
