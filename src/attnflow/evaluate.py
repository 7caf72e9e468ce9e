"""One look at a model, without running it."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow import door
from attnflow._checks import InputError
from attnflow._precision import cast, double
from attnflow.dynamics import AbstractDynamics, State


def velocity(flow: AbstractDynamics, tokens: Any, time: float = 0.0) -> np.ndarray:
    """Velocity of every token, shape (n, d), in float64.

    Examples
    --------
    One token in the plane under V = I moves along itself.

    >>> import attnflow as af
    >>> af.velocity(af.EuclideanAttention(af.Head.identity(2)), [[1.0, 2.0]])
    array([[1., 2.]])
    """
    with double():
        state = _state(flow, tokens)
        return np.asarray(_velocity(cast(flow, "float64"), jnp.asarray(time, "float64"), state).tokens)


def attention_matrix(flow: AbstractDynamics, tokens: Any, time: float = 0.0) -> np.ndarray:
    """Attention weights in float64: shape (n, n), or (heads, n, n) for several heads.

    Examples
    --------
    At beta = 0 everyone counts the same.

    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(2), af.Softmax(beta=0.0))
    >>> af.attention_matrix(flow, np.eye(2))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    with double():
        state = _state(flow, tokens)
        matrices = np.asarray(_matrices(cast(flow, "float64"), jnp.asarray(time, "float64"), state))
    return matrices[0] if len(matrices) == 1 else matrices


def _state(flow: AbstractDynamics, tokens: Any) -> State:
    door.require_flow(flow)
    tokens = door.require_tokens_of(flow, tokens)
    if tokens.ndim != 2:
        raise InputError(f"`tokens` must have shape (n, d) here, but the shape is {tokens.shape}. Take one run.")
    if not flow.has_radii:
        return State(jnp.asarray(tokens))
    radii = np.linalg.norm(tokens, axis=-1)
    return State(jnp.asarray(tokens / radii[:, None]), jnp.asarray(radii))


@eqx.filter_jit
def _velocity(flow, time, state):
    return flow.velocity(time, state)


@eqx.filter_jit
def _matrices(flow, time, state):
    return flow.attention_matrices(time, state)
