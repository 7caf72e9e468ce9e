"""Numbers as JSON knows them, and evenly spaced indices."""

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


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """At most `most` of the indices 0, ..., count - 1, evenly spaced; the first and, if `most` > 1, the last are kept.

    Examples
    --------
    >>> evenly_spaced(11, 3), evenly_spaced(3, 11)
    (array([ 0,  5, 10]), array([0, 1, 2]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
