"""Exponents of beta by which counts grow, in words with their intervals."""

from typing import Any

import numpy as np

from attnflow.analyse.renyi_counts import growth_exponent

FEWEST_RUNS = 5  # with fewer the bootstrap has too few different samples for an interval of 95 %


def exponent_in_words(betas: Any, counts: Any, digits: int = 2) -> str:
    """The exponent of beta of counts over (beta, run) with its 95 % interval, or the reason why there is none.

    Examples
    --------
    >>> betas, counts = [1.0, 4.0, 16.0], np.array([[2], [4], [8]])
    >>> exponent_in_words(betas, counts + [[0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    '0.47 (0.42 to 0.50)'
    >>> exponent_in_words(betas, counts + [0, 0, 0, 0, 0, 0])
    '0.50 (no interval: all 6 runs have the same counts)'
    >>> exponent_in_words(betas, counts + [0, 1])
    '0.44 (no interval from 2 runs)'
    """
    counts = np.asarray(counts)
    runs, fitted = counts.shape[1], growth_exponent(betas, counts)
    slope = f"{fitted.slope:.{digits}f}"
    if runs < FEWEST_RUNS:
        return f"{slope} (no interval from {runs} run{'' if runs == 1 else 's'})"
    if np.all(counts == counts[:, :1]):
        return f"{slope} (no interval: all {runs} runs have the same counts)"
    return f"{slope} ({fitted.low:.{digits}f} to {fitted.high:.{digits}f})"
