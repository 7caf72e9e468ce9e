"""Parallel hyperplanes, or subspaces of higher codimension, on which rescaled tokens lie."""

from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.analyse import hyperplanes
from attnflow.analyse.spectra import spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head

MAX_SUBSPACES = 3  # the number that the theorem allows
MAX_CODIMENSION = 2  # in space that is a line


def shown_subspaces(flow: AbstractDynamics, tokens: np.ndarray, tolerance: float) -> dict[str, Any] | None:
    """The at most three parallel subspaces on which rescaled tokens lie, of the highest codimension with so few.

    Points x of a subspace satisfy <row, x> = level for every row. The result is None if tokens lie on more
    subspaces, or if the leading eigenvalue of V is not simple, real and positive.
    """
    head = flow.heads[0]
    if not isinstance(flow, RescaledAttention) or len(flow.heads) > 1 or not isinstance(head, Head):
        return None
    value = np.asarray(head.value_matrix)
    eigenvalues_of_value = spectrum(value)
    is_growing = eigenvalues_of_value.is_leading_simple and eigenvalues_of_value.leading.value.real > 0
    if not is_growing or tokens.shape[1] < 2:
        return None
    eigenvalues, rows = hyperplanes.left_eigenvectors(value)
    growing = int(np.count_nonzero(np.real(eigenvalues) > 0))
    for codimension in range(min(growing, tokens.shape[1] - 1, MAX_CODIMENSION), 0, -1):
        try:
            groups = hyperplanes.parallel_subspaces(tokens, value, codimension, tolerance)
        except InputError:  # this codimension would separate a pair of complex eigenvalues
            continue
        if groups.count <= MAX_SUBSPACES:
            return {"rows": rows[:codimension].tolist(), "levels": groups.levels.tolist()}
    return None
