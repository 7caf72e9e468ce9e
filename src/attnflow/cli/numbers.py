"""Numbers as the commands print them: four significant digits, zero with its error, whole columns alike."""

import math
from collections.abc import Sequence
from typing import Any

from attnflow._common.rounding import ROUNDING

DIGITS = 4  # significant digits of a printed number


def rounding_of(dtype: str) -> float:
    """The error below which printed quantities of size one are rounding: `ROUNDING` for float64, larger for others.

    Examples
    --------
    >>> rounding_of("float64"), f"{rounding_of('float32'):.0e}"
    (1e-14, '5e-06')
    """
    import numpy as np

    return ROUNDING * float(np.finfo(dtype).eps / np.finfo("float64").eps)


def number(value: float | None, error: float = 0.0) -> str:
    """The number to four significant digits; "0 ± error" where it is not above its error, and nothing for None.

    Examples
    --------
    >>> number(149.598), number(1e30), number(4.8e-17, 1e-14), number(None)
    ('149.6', '1e+30', '0 ± 1e-14', '')
    """
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    is_resolved = error == 0 or abs(value) > error
    return f"{value + 0.0:.{DIGITS}g}" if is_resolved else f"0 ± {error:.0e}"  # + 0.0 turns -0 into 0


def number_range(values: Any) -> str:
    """A number, or the least and the largest of several, nested or not; "not formed" where one is missing.

    Examples
    --------
    >>> number_range(12), number_range([3, 5, 4]), number_range([[2, 2], [2, 2]]), number_range([1.5, None])
    ('12', '3 to 5', '2', 'not formed')
    """
    single = flat(values)
    if any(value is None for value in single):
        return "not formed"
    least, most = number(min(single)), number(max(single))
    return least if least == most else f"{least} to {most}"


def flat(values: Any) -> list[Any]:
    """The entries of a nested list, or a single value, as a list."""
    return [one for value in values for one in flat(value)] if isinstance(values, list) else [values]


def column(values: Sequence[float | None], error: float = 0.0) -> list[str]:
    """The numbers of a column with equally many decimals, so that the largest has four significant digits.

    Where that would leave a number without two significant digits, all are printed by themselves. Whole numbers have no
    decimals. Nothing is printed for None, and "0 ± error" for a number that is not above its error.

    Examples
    --------
    >>> column([12.6612, 4.0571, None]), column([16.0, 2.0]), column([0.5, 1e-7])
    (['12.66', '4.06', ''], ['16', '2'], ['0.5', '1e-07'])
    >>> column([0.25, 1.5e-32], error=1e-14)
    ['0.2500', '0 ± 1e-14']
    """
    nonzero = [abs(value) for value in values if value is not None and abs(value) > error]
    if not all(value is None or math.isfinite(value) for value in values):
        return [number(value, error) for value in values]
    if max(nonzero, default=0.0) < 1e6 and all(value is None or value == round(value) for value in values):
        return ["" if value is None else str(round(value)) for value in values]
    if not nonzero:
        return [number(value, error) for value in values]
    decimals = DIGITS - 1 - math.floor(math.log10(max(nonzero)))
    is_fixed = 0 <= decimals <= 6 and min(nonzero) >= 10 ** (1 - decimals)
    if not is_fixed:
        return [number(value, error) for value in values]
    return [
        f"{value:.{decimals}f}" if value is not None and abs(value) > error else number(value, error)
        for value in values
    ]


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number of things in words.

    Examples
    --------
    >>> counted(1, "head"), counted(0, "head"), counted(2, "is undecided", "are undecided")
    ('1 head', '0 heads', '2 are undecided')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def interval_text(low: float, high: float) -> str:
    """An interval with two digits of its ends, or as many as it takes to tell them apart; nothing if that is rounding.

    Examples
    --------
    >>> interval_text(-0.2753, 0.3072), interval_text(0.9903, 0.9943), interval_text(11 / 12 - 1e-16, 11 / 12)
    ('[-0.28, 0.31]', '[0.99, 0.994]', '')
    """
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return ""
    texts = ([f"{end:.{digits}g}" for end in (low, high)] for digits in range(2, 18))
    return f"[{', '.join(next((pair for pair in texts if pair[0] != pair[1]), [str(low), str(high)]))}]"
