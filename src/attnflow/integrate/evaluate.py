"""Velocity and attention weights of a model at given tokens, without integration."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.precision import cast, double
from attnflow.analyse.snapshots import tokens_of
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.fast_sums.choice import LEAST_TOKENS, with_method
from attnflow.model.validation import require_flow, require_one_configuration, require_tokens_of
from attnflow.results.provenance import flow_of

MAX_ENTRIES = 10**9  # of the attention weights of a run: 8 GB


def velocity(flow: AbstractDynamics, tokens: Any, time: float = 0.0) -> np.ndarray:
    """The velocity of every token, shape (n, d), in float64.

    Parameters
    ----------
    flow
        The model.
    tokens
        One configuration, shape (n, d).
    time
        The time, which matters for weights that change in time.

    Examples
    --------
    One token in the plane under V = I moves along itself.

    >>> import attnflow as af
    >>> af.velocity(af.EuclideanAttention(af.Head.identity(2)), [[1.0, 2.0]])
    array([[1., 2.]])
    """
    with double():
        state = _state(flow, tokens)
        flow = with_method(flow, np.asarray(state.tokens))
        return np.asarray(_velocity(cast(flow, "float64"), jnp.asarray(time, "float64"), state).tokens)


def velocities(flow: AbstractDynamics, tokens: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The velocities (states, n, d) of several configurations (states, n, d), each at its own time, in float64."""
    if tokens.shape[1] >= LEAST_TOKENS:  # each has its own method of summation
        return np.stack([velocity(flow, state, time) for state, time in zip(tokens, times, strict=True)])
    with double():
        state, count = _states(flow, tokens), len(tokens)
        # A power of two, the last repeated: few numbers of states are compiled.
        chosen = np.minimum(np.arange(2 ** (count - 1).bit_length()), count - 1)
        padded = jax.tree.map(lambda leaf: leaf[chosen], state)
        at = jnp.asarray(np.asarray(times, "float64")[chosen])
        return np.asarray(_velocities(cast(flow, "float64"), at, padded).tokens)[:count]


def attention_matrix(flow: AbstractDynamics, tokens: Any, time: float = 0.0, *, rows: Any = None) -> np.ndarray:
    """The attention weights in float64: shape (n, n), or (heads, n, n) for several heads.

    With `rows`, a list of token numbers, only the weights of these tokens are computed, shape (rows, n), which is
    possible for many tokens, too.

    Parameters
    ----------
    flow
        The model.
    tokens
        One configuration, shape (n, d).
    time
        The time, which matters for weights that change in time.
    rows
        Numbers of the tokens whose weights are wanted. None: those of all tokens.

    Examples
    --------
    At beta = 0 all weights are equal.

    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(2), af.Softmax(beta=0.0))
    >>> af.attention_matrix(flow, np.eye(2))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    with double():
        state = _state(flow, tokens)
        numbers = None if rows is None else jnp.asarray(_require_rows(rows, len(state.tokens)))
        matrices = np.asarray(_matrices(cast(flow, "float64"), jnp.asarray(time, "float64"), state, numbers))
    return matrices[0] if len(matrices) == 1 else matrices


def attention_over_time(run: xr.Dataset, flow: AbstractDynamics | None = None) -> xr.DataArray:
    """The attention weights P(t) of a run at its saved times.

    The axes are ([run,] time, [head,] token, attended). Weights are NaN after the end of a run that ended early.

    Parameters
    ----------
    run
        A dataset made by `simulate`; it records its flow.
    flow
        The flow, if the file does not hold it.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.SphereAttention(af.Head.identity(2)), np.eye(2), [0.0, 5.0])
    >>> af.attention_over_time(run).dims
    ('time', 'token', 'attended')
    """
    tokens = tokens_of(run)
    model: AbstractDynamics = flow_of(run) if flow is None else flow
    n, heads = tokens.sizes["token"], len(model.heads)
    _require_moderate(tokens.size // tokens.shape[-1] * n * heads)
    times = np.broadcast_to(run.time.values, tokens.shape[:-2])
    flat = tokens.values.reshape(-1, *tokens.shape[-2:]).astype(float)
    weights = np.full((len(flat), heads, n, n), np.nan)
    for place in np.flatnonzero(np.all(np.isfinite(flat), axis=(1, 2))):
        weights[place] = attention_matrix(model, flat[place], times.flat[place]).reshape(heads, n, n)
    shaped = weights.reshape(*tokens.shape[:-2], heads, n, n)
    labelled = xr.DataArray(shaped, dims=(*tokens.dims[:-2], "head", "token", "attended"), name="attention")
    coordinates = {name: tokens.coords[name] for name in tokens.dims[:-2] if name in tokens.coords}
    return labelled.assign_coords(coordinates).squeeze("head" if heads == 1 else [])


def _require_moderate(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise InputError(
            f"Attention at all times has {entries:.2g} entries, more than {MAX_ENTRIES:.0e}. Take fewer times "
            "or runs, such as `run.isel(time=[0, -1])`."
        )


def _require_rows(rows: Any, n: int) -> np.ndarray:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not np.all((numbers >= 0) & (numbers < n)):
        raise InputError(f"`rows` must be numbers of tokens, 0 to {n - 1}, in a list, but it is {str(rows)[:60]}.")
    return numbers


def _state(flow: AbstractDynamics, tokens: Any) -> State:
    require_flow(flow)
    return jax.tree.map(jnp.asarray, State.of(flow, require_one_configuration(flow, tokens)))


def _states(flow: AbstractDynamics, tokens: np.ndarray) -> State:
    require_flow(flow)
    return jax.tree.map(jnp.asarray, State.of(flow, require_tokens_of(flow, tokens)))


@eqx.filter_jit
def _velocities(flow, times, states):
    return jax.lax.map(lambda one: flow.velocity(*one), (times, states))


@eqx.filter_jit
def _velocity(flow, time, state):
    return flow.velocity(time, state)


@eqx.filter_jit
def _matrices(flow, time, state, rows):
    return flow.attention_matrices(time, state, rows)
