"""Where float64 ends: from which time on a rescaled run cannot tell scores apart."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._precision import double
from attnflow.attention import Sinkhorn, Softmax
from attnflow.dynamics import AbstractDynamics, RescaledAttention
from attnflow.exponential import scaled_exponential


def resolution_note(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """A sentence if rounding of the scores exceeds one at some saved time, else nothing.

    Scores are e^{2t} times products of tokens of size one; once their rounding error is
    above one, softmax among near ties is decided by rounding, as hardmax would be.
    """
    if not isinstance(flow, RescaledAttention) or not isinstance(flow.attention, Softmax | Sinkhorn):
        return ""
    times, tokens = _known_states(run)
    errors = _score_errors(flow, times, tokens)
    # A run that ended early has NaN, which is not above one.
    blurred = times[errors > 1]
    if len(blurred) == 0:
        return ""
    return (
        f"From about t = {blurred.min():.3g} on float64 cannot separate scores that differ by less than one: "
        "near ties of attention are decided by rounding, as by hardmax."
    )


def _known_states(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the longest token at each, over runs and tokens."""
    if "tokens" in run:
        axes = [axis for axis in run.tokens.dims if axis not in ("time", "coordinate")]
        return run.time.values, np.abs(run.tokens).max(axes).values
    axes = [axis for axis in run.final_tokens.dims if axis != "coordinate"]
    return np.atleast_1d(run.final_time.max().values), np.abs(run.final_tokens).max(axes).values[None]


def _score_errors(flow: RescaledAttention, times: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Rounding error of beta <Q x_i, K x_j>, from the size of every coordinate of z."""
    heads = [head.at(times[-1]) for head in flow.heads]

    def log_error(time, size):
        matrix, log_scale = scaled_exponential(jnp.asarray(flow.rescaling_matrix), time)
        reach = jnp.abs(matrix) @ size
        products = [(jnp.abs(head.query) @ reach) @ (jnp.abs(head.key) @ reach) for head in heads]
        return 2 * log_scale + jnp.log(jnp.max(jnp.stack(products)))

    with double():
        logs = np.asarray(jax.vmap(log_error)(jnp.asarray(times), jnp.asarray(sizes)))
    beta = abs(float(flow.attention.beta))
    return np.exp(np.minimum(logs, 700)) * beta * np.finfo(float).eps
