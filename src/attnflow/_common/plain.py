"""Numbers as JSON knows them, numbers beside their errors, and evenly spaced indices."""

import math
from typing import Any

import numpy as np


def json_value(value: Any) -> Any:
    """The Python value of a NumPy scalar; other values are returned as they are. Infinities and NaN become None.

    Examples
    --------
    >>> json_value(np.float64(0.5)), json_value(np.int64(3)), json_value("text"), json_value(np.nan)
    (0.5, 3, 'text', None)
    """
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def number_or_text(value: float) -> float | str:
    """A finite number as a float; an infinity or NaN as text, which JSON can hold.

    Examples
    --------
    >>> number_or_text(2), number_or_text(np.inf)
    (2.0, 'inf')
    """
    return float(value) if math.isfinite(value) else str(value)


def number_with_error(value: float, error: float) -> float | str:
    """The number, or the text "0 ± error" where its size is not above the error: then its digits mean nothing.

    Examples
    --------
    >>> number_with_error(0.25, 1e-15), number_with_error(7.8e-16, 2.7e-15)
    (0.25, '0 ± 3e-15')
    """
    return f"0 ± {error:.0e}" if abs(value) <= error else float(value)


def text_with_error(value: float, error: float, digits: int = 3) -> str:
    """The number to some digits, or "0 ± error" where its size is not above the error.

    Examples
    --------
    >>> text_with_error(0.25, 1e-15), text_with_error(0.0, 1e-15)
    ('0.25', '0 ± 1e-15')
    """
    shown = number_with_error(value, error)
    return shown if isinstance(shown, str) else f"{shown:.{digits}g}"


def interval_texts(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A number and the ends of its interval, rounded to two digits of half its width.

    Examples
    --------
    >>> interval_texts(2.000021, 1.999832, 2.000214), interval_texts(1001.0, 998.52, 1003.48)
    (('2.00002', '1.99983', '2.00021'), ('1001', '998.5', '1003.5'))
    >>> interval_texts(0.5, 0.5, 0.5), interval_texts(np.nan, -np.inf, np.inf)
    (('0.5', '0.5', '0.5'), ('nan', '-inf', 'inf'))
    """
    half = (high - low) / 2
    decimals = 1 - math.floor(math.log10(half)) if math.isfinite(half) and half > 0 else 4
    # At most ten digits: the default tolerance of runs is 1e-9.
    first, second, third = (f"{round(float(one), decimals):.10g}" for one in (value, low, high))
    return first, second, third


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """At most `most` of the indices 0, ..., count - 1, evenly spaced; the first and, if `most` > 1, the last are kept.

    Examples
    --------
    >>> evenly_spaced(11, 3), evenly_spaced(3, 11)
    (array([ 0,  5, 10]), array([0, 1, 2]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
