"""The time from which on rounding decides the attention weights of a rescaled run."""

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow._common.precision import double
from attnflow.model.attention import Sinkhorn, Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention


def resolution_note(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """A sentence with the first time at which the rounding error of the scores exceeds one, or an empty text.

    Scores grow like e^{2t} for V = I. Once their rounding error is above one, rounding decides between nearly equal
    scores, as it would under hardmax.
    """
    if not isinstance(flow, RescaledAttention) or not isinstance(flow.attention, Softmax | Sinkhorn):
        return ""
    times, sizes = _known_sizes(run)
    beta = abs(float(flow.attention.beta))
    precision = float(np.finfo(run.final_tokens.dtype).eps)  # 1e-300 is zero in float32
    # A run that ended early has NaN, which is not above one.
    log_errors = _log_scores(flow, times, sizes) + np.log(beta * precision + 1e-300)
    is_unresolved = log_errors > 0
    if not np.any(is_unresolved):
        return ""
    since = _crossing(times, log_errors, int(np.argmax(is_unresolved)))
    return (
        f"From about t = {since:.3g} on {run.final_tokens.dtype} cannot separate scores that differ by less than one: "
        "near ties of attention are decided by rounding, as by hardmax."
    )


def _crossing(times: np.ndarray, logs: np.ndarray, first: int) -> float:
    """The time at which the logarithm crosses zero before index `first`, by linear interpolation."""
    if first == 0 or not np.isfinite(logs[first - 1]):
        return float(times[first])
    return float(np.interp(0.0, logs[first - 1 : first + 1], times[first - 1 : first + 1]))


def _known_sizes(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The times, and at each the largest absolute value of every coordinate over runs and tokens."""
    if "tokens" in run:
        axes = [axis for axis in run.tokens.dims if axis not in ("time", "coordinate")]
        return run.time.values, np.abs(run.tokens).max(axes).values.astype(float)
    axes = [axis for axis in run.final_tokens.dims if axis != "coordinate"]
    sizes = np.abs(run.final_tokens).max(axes).values[None]
    return np.atleast_1d(run.final_time.max().values), sizes.astype(float)


def _log_scores(flow: RescaledAttention, times: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The logarithm of a bound on |<Q x_i, K x_j>|, from the largest absolute coordinates of z.

    With x = e^{tV} z and the growth rate g, |<Q x_i, K x_j>| <= e^{2gt} <|Q| b, |K| b>, b = |e^{t(V - gI)}| max|z|.
    """
    value = np.asarray(flow.rescaling_matrix)
    growth = float(np.max(np.linalg.eigvals(value).real))
    frames = expm(times[:, None, None] * (value - growth * np.eye(len(value))))
    bound = np.einsum("tij,tj->ti", np.abs(frames), sizes)
    with double():
        heads = [head.at(jnp.asarray(times[-1])) for head in flow.heads]
    products = [
        np.sum((bound @ np.abs(np.asarray(head.query)).T) * (bound @ np.abs(np.asarray(head.key)).T), axis=-1)
        for head in heads
    ]
    with np.errstate(divide="ignore"):
        return 2 * growth * times + np.log(np.max(products, axis=0))
