"""Checks of a flow and of its tokens."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import (
    InputError,
    require_on_sphere,
    require_positive_lengths,
    require_tokens,
)
from attnflow.model.dynamics import AbstractDynamics


def require_flow(flow: Any) -> None:
    """Raise ValueError unless `flow` is one of attnflow's models."""
    if not isinstance(flow, AbstractDynamics):
        raise InputError(
            f"`flow` must be an `EuclideanAttention`, `RescaledAttention` or `SphereAttention`, but it is {flow!r}."
        )


def require_tokens_of(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    """The tokens as a finite array that fits the flow: dimension, space, masses, frozen tokens, mask."""
    tokens = require_tokens(tokens)
    n, d = tokens.shape[-2:]
    if d != flow.dimension:
        raise InputError(
            f"`tokens` must have {flow.dimension} coordinates, as the heads do, but they have {d} "
            f"(shape {tokens.shape})."
        )
    if flow.has_radii:
        require_positive_lengths(tokens, "tokens")
    elif flow.is_on_sphere:
        require_on_sphere(tokens, "tokens")
    sizes = {"masses": flow.masses, "frozen": flow.frozen}
    for name, values in sizes.items():
        if values is not None and len(values) != n:
            raise InputError(f"`{name}` must have one entry for each token, {n}, but it has {len(values)}.")
    _require_mask(flow, n)
    return tokens


def require_one_configuration(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    """The tokens as an array of shape (n, d) that fits the flow, for functions that take no ensemble."""
    tokens = require_tokens_of(flow, tokens)
    if tokens.ndim != 2:
        raise InputError(f"`tokens` must have shape (n, d) here, but the shape is {tokens.shape}. Take one run.")
    return tokens


def _require_mask(flow: AbstractDynamics, n: int) -> None:
    size = flow.mask.size()
    if size is not None and size != n:
        raise InputError(f"`mask` is made for {size} tokens, but there are {n}.")
    every = np.arange(n)
    sees_itself = flow.mask.visible(every, every)
    if sees_itself is None or bool(np.all(sees_itself)):
        return
    moves = np.ones(n, bool) if flow.frozen is None else ~np.asarray(flow.frozen)
    for row in np.flatnonzero(moves & ~np.asarray(sees_itself)):
        if not np.any(np.asarray(flow.mask.visible(jnp.asarray(row), every))):
            raise InputError(
                f"`mask` hides everything from token {row + 1}, so that its attention weights are not defined. "
                "Let it see at least itself, or freeze it with `frozen`."
            )
