"""Renyi centres of the first tokens of a flow."""

import numpy as np

from attnflow.analyse import renyi
from attnflow.model.dynamics import AbstractDynamics


def renyi_centres(flow: AbstractDynamics, tokens: np.ndarray) -> list[int]:
    """Renyi centres of the first tokens; empty unless the flow is causal, on the sphere and beta > 0."""
    beta = flow.beta
    if beta is None or beta <= 0 or not (flow.is_causal and flow.is_on_sphere) or tokens.shape[1] < 2:
        return []
    is_centre = renyi.centres(tokens, min(renyi.separation(beta), np.pi)).values
    return [int(token) for token in np.flatnonzero(is_centre)]
