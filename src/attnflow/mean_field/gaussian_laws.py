"""Laws that stay Gaussian: softmax attention in R^d.

Among tokens of law N(m, S) the weight e^{beta <x, B y>} shifts the mean to m + beta S B^T x, so that
x' = sum_h V_h (m + beta S B_h^T x) is affine in x and the law stays Gaussian (arXiv:2501.18322):

    m' = sum_h V_h (m + beta S B_h^T m),    S' = A S + S A^T,  A = beta sum_h V_h S B_h^T.

For d = 1 and one head, s = s_0 / (1 - 2 beta v b s_0 t), which is infinite at t = 1 / (2 beta v b s_0) if v b > 0.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from attnflow._common.checks import InputError, require_all_finite, require_resolvable, require_times
from attnflow.mean_field.circle_field import beta_of, constant_heads
from attnflow.model import masks
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.results.descriptions import described

LARGEST = 1e12  # norm of the covariance, relative to the first, at which it counts as infinite


def gaussian(flow: AbstractDynamics, mean: Any, covariance: Any, times: Any, *, rtol: float = 1e-10) -> xr.Dataset:
    """Mean and covariance of the law of tokens in R^d that starts as a Gaussian law; exact in the mean-field limit.

    Parameters
    ----------
    flow
        `EuclideanAttention` with softmax attention, a full mask and constant heads.
    mean, covariance
        Those of the first law: (d,) and (d, d), symmetric and positive semidefinite.
    times
        Times at which they are saved.
    rtol
        Relative tolerance of the integration (DOP853 of SciPy).

    Returns
    -------
    xarray.Dataset
        `mean` (time, row) and `covariance` (time, row, column). A covariance that becomes infinite in finite time ends
        it early; `blow_up_time` is then the time at which its norm had grown by 1e12, else infinity.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head(value=[[-1.0]]))
    >>> law = af.mean_field.gaussian(flow, [0.0], [[1.0]], [0.0, 2.0])
    >>> law.covariance.values.ravel().round(6)  # 1 / (1 + 2 t)
    array([1. , 0.2])
    """
    euclidean, saved = _require_served(flow), require_times(times)
    require_resolvable(rtol, "float64")
    first_mean, first_covariance = _first_law(mean, covariance, euclidean.dimension)
    d, scale = euclidean.dimension, max(np.abs(first_covariance).max(), np.finfo(float).tiny)
    beta = beta_of(euclidean)
    heads = [(np.asarray(head.value_matrix), np.asarray(head.query_key)) for head in constant_heads(euclidean)]

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        here, spread = state[:d], state[d:].reshape(d, d)
        growth = beta * sum(value @ spread @ product.T for value, product in heads)
        total = sum(value for value, _ in heads)
        drift = total @ here + growth @ here
        change = growth @ spread
        return np.concatenate([drift, (change + change.T).ravel()])

    def is_infinite(_: float, state: np.ndarray) -> float:
        return LARGEST * scale - np.abs(state[d:]).max()

    is_infinite.terminal = True  # type: ignore[attr-defined]
    first = np.concatenate([first_mean, first_covariance.ravel()])
    atol = 1e-3 * rtol * max(scale, np.abs(first_mean).max())
    found = solve_ivp(rate, (saved[0], saved[-1]), first, "DOP853", saved, events=is_infinite, rtol=rtol, atol=atol)
    if not found.success:
        raise InputError(
            f"The covariance cannot be integrated ({found.message}). Use a larger `rtol` or smaller weights."
        )
    has_ended = found.status == 1
    end = float(found.t_events[0][0]) if has_ended else np.inf
    states = found.y.T
    variables = {
        "mean": (("time", "row"), states[:, :d]),
        "covariance": (("time", "row", "column"), states[:, d:].reshape(-1, d, d)),
        "blow_up_time": ((), end),
    }
    sentence = f"The covariance is infinite at t = {end:.6g}." if has_ended else f"Reached t = {saved[-1]:.6g}."
    attributes = {"outcome": sentence, "flow": repr(flow), "rtol": rtol}
    return described(xr.Dataset(variables, {"time": found.t}, attributes))


def _require_served(flow: AbstractDynamics) -> EuclideanAttention:
    """The flow, if Gaussian laws stay Gaussian under it; any other raises InputError."""
    parts = (getattr(flow, name) for name in ("mlp", "perceptron", "noise", "masses", "frozen"))
    is_served = (
        isinstance(flow, EuclideanAttention)
        and isinstance(flow.attention, Softmax)
        and flow.mask == masks.full
        and all(isinstance(head, Head) for head in flow.heads)
        and all(part is None for part in parts)
    )
    if not is_served:
        raise InputError(
            "Gaussian laws stay Gaussian under EuclideanAttention with softmax attention, a full mask and constant "
            f"heads, without MLP, perceptron, noise, masses or frozen tokens, but the flow is {flow!r}."
        )
    assert isinstance(flow, EuclideanAttention)
    return flow


def _first_law(mean: Any, covariance: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    centre, spread = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
    if centre.shape != (d,) or spread.shape != (d, d):
        raise InputError(
            f"`mean` and `covariance` must have the shapes {(d,)} and {(d, d)} of the flow, "
            f"but they are {centre.shape} and {spread.shape}."
        )
    require_all_finite(centre, "mean", ("row",))
    require_all_finite(spread, "covariance", ("row", "column"))
    least = np.linalg.eigvalsh((spread + spread.T) / 2).min()
    if not np.allclose(spread, spread.T) or least < -1e-12 * max(np.abs(spread).max(), 1.0):
        raise InputError(
            f"`covariance` must be symmetric and positive semidefinite, but its least eigenvalue is {least:.4g}."
        )
    return centre, spread
