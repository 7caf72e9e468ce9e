"""The reasons for which a fast sum does not serve a flow: space, heads, rule, mask."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow.model.fast_sums.problem import Positions
from attnflow.model.heads import Head
from attnflow.model.masks import Full


def first_reason(flow: Any, *reasons: Callable[[Any], str | None]) -> str | None:
    """The first of the reasons that holds for a flow; weights that change in time are one for every method."""
    if not flow.heads:
        return "the flow has no heads"
    if not all(type(head) is Head for head in flow.heads):
        return "weights change in time"
    return next((reason for find in reasons if (reason := find(flow))), None)


def reason_of_rule(rules: tuple) -> Callable[[Any], str | None]:
    """The reason of a flow whose attention is none of `rules`."""
    return lambda flow: None if type(flow.attention) in rules else f"the attention is {type(flow.attention).__name__}"


def reason_of_size(flow: Any) -> str | None:
    """The reason of a flow whose queries have more than three coordinates."""
    largest = max(len(head.query) for head in flow.heads)
    return None if largest <= 3 else f"queries have {largest} coordinates, more than 3"


def reason_of_mask(flow: Any) -> str | None:
    """The reason of a flow whose mask is not one by positions."""
    if Positions.of(flow.mask) is None:
        return f"the mask is {flow.mask!r}"
    return None


def reason_of_full_mask(flow: Any) -> str | None:
    """The reason of a flow with any mask."""
    return None if type(flow.mask) is Full else f"the mask is {flow.mask!r}"


def reason_of_sphere(d: int) -> Callable[[Any], str | None]:
    """The reason of a flow outside the sphere of R^d, or whose queries or keys vary in length."""

    def reason(flow: Any) -> str | None:
        if not flow.is_on_sphere or flow.dimension != d:
            return f"tokens are {'on the sphere' if flow.is_on_sphere else 'not on the sphere'} of R^{flow.dimension}"
        matrices = [np.asarray(matrix) for head in flow.heads for matrix in (head.query, head.key)]
        is_round = all(_is_conformal(matrix, d) for matrix in matrices)
        return None if is_round else "Q and K do not map the sphere to a sphere"

    return reason


def reason_of_modes(most: int) -> Callable[[Any], str | None]:
    """The reason of a flow whose kernel e^{kappa cos} needs more than `most` modes, about 10 sqrt(kappa)."""

    def reason(flow: Any) -> str | None:
        norms = [np.prod([np.linalg.norm(np.asarray(one), 2) for one in (head.query, head.key)]) for head in flow.heads]
        kappa = abs(float(flow.attention.beta)) * float(max(norms))
        modes = 10 * math.sqrt(kappa)
        return None if modes <= most else f"beta |Q| |K| = {kappa:.2g} needs {modes:.1e} modes, more than {most:,}"

    return reason


def _is_conformal(matrix: np.ndarray, d: int) -> bool:
    """Whether a matrix is a multiple of an orthogonal one, up to rounding."""
    square = matrix.T @ matrix
    scale = float(np.trace(square)) / d
    if matrix.shape != (d, d) or not 0 < scale < math.inf:
        return False
    return bool(np.allclose(square, scale * np.eye(d), rtol=0, atol=1e-14 * scale))
