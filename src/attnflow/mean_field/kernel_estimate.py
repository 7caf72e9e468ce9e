"""Modes of the Gaussian kernel density estimate of tokens on the line."""

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from attnflow._common.checks import InputError, require_all_finite, require_positive_number
from attnflow._common.memory import require_array_memory

POINTS_PER_WIDTH = 16  # grid points on the bandwidth beta^-1/2; tokens are shared between their two neighbours
TRUNCATION = 8.0  # bandwidths, beyond which the kernel is below 1e-13


def kernel_modes(tokens: Any, beta: float) -> int:
    """The number of local maxima of sum_i e^{-beta (x - x_i)^2 / 2} on the line.

    Around a maximum the weighted mean of beta (x - x_i)^2 is at most 1, so that the sum is at least e^{-1/2} there:
    lower maxima are of rounding and are not counted. For n standard normal tokens the expected number is of the order
    (beta log beta)^{1/2} if n^c < beta < n^{2 - c} (arXiv:2412.09080).

    Examples
    --------
    Two tokens have two maxima if their distance is more than two bandwidths.

    >>> import attnflow as af
    >>> [af.mean_field.kernel_modes([0.0, distance], beta=1.0) for distance in (1.9, 2.1)]
    [1, 2]
    """
    places = np.asarray(tokens, dtype=float).ravel()
    require_positive_number(beta, "beta")
    if not len(places):
        raise InputError("`tokens` must have at least one token, but it is empty.")
    require_all_finite(places, "tokens", ("token",))
    spacing = beta**-0.5 / POINTS_PER_WIDTH
    margin = int(TRUNCATION * POINTS_PER_WIDTH) + 2
    position = (places - places.min()) / spacing + margin
    count = int(position.max()) + margin + 2
    require_array_memory(3, count, what=f"A grid that resolves beta = {beta:g}", what_to_do="Use a smaller beta.")
    below = position.astype(int)
    share = position - below
    heights = np.bincount(below, 1 - share, count) + np.bincount(below + 1, share, count)
    width = float(POINTS_PER_WIDTH)
    density = gaussian_filter1d(heights, width, mode="constant", truncate=TRUNCATION) * width * np.sqrt(2 * np.pi)
    inner = density[1:-1]
    is_mode = (inner > density[:-2]) & (inner >= density[2:]) & (inner > 0.9 * np.exp(-0.5))
    return int(is_mode.sum())
