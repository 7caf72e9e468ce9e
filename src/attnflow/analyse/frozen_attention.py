"""Frozen attention: the rescaled flow with its weights kept at those of the start.

With V = I the rescaled tokens obey Z' = (P(t) - I) Z. Keeping P(0) makes this linear, the backward
form of a master equation: Z(t) is a sum of modes v_k e^{-(1 - lambda_k) t}, with lambda_k and v_k the
eigenvalues and eigenvectors of P(0). True attention sharpens as e^{2t}, so that the prediction holds for
a limited time, longer where P changes little: tokens near the origin, a small beta, tight clusters.

`attention` is the matrix P(0), shape (n, n); `errors` are those that `error` returns, over time.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow._common.checks import (
    InputError,
    require_all_finite,
    require_positive_number,
    require_times,
    require_tokens,
)
from attnflow.analyse.eigenvalue_errors import eigenvalue_errors
from attnflow.analyse.snapshots import tokens_of

__all__ = ["error", "predict", "rate_errors", "rates", "valid_until"]

MAX_CONDITION = 1e6  # of the eigenvectors; their inverse loses this factor of precision


def rates(attention: Any) -> np.ndarray:
    """1 - lambda_k for the eigenvalues of P, by their real part; the first is 0, the rate of the consensus mode.

    Examples
    --------
    >>> rates([[0.75, 0.25], [0.25, 0.75]])
    array([0. , 0.5])
    """
    decay = 1 - np.linalg.eigvals(_stochastic(attention))
    decay = decay[np.argsort(decay.real, kind="stable")]
    decay[0] -= decay[0] if abs(decay[0]) < 1e-12 else 0  # exactly zero in theory
    return decay.real if np.all(decay.imag == 0) else decay


def rate_errors(attention: Any) -> np.ndarray:
    """The rounding error of every one of the `rates`, in the same order: a smaller rate is zero within its error.

    They are those of `eigenvalue_errors`, at most 2, the largest distance of two eigenvalues of P.

    Examples
    --------
    >>> bool(rate_errors([[0.75, 0.25], [0.25, 0.75]]).max() < 1e-14)
    True
    """
    eigenvalues, errors = eigenvalue_errors(_stochastic(attention))
    return np.minimum(errors, 2.0)[np.argsort(1 - np.real(eigenvalues), kind="stable")]


def predict(attention: Any, tokens: Any, times: Any) -> np.ndarray:
    """e^{t (P - I)} Z at every time, shape (times, n, d).

    It is a sum over eigenvectors, or the matrix exponential where P is defective or nearly so, as causal
    weights can be. Both give the same numbers.

    Examples
    --------
    >>> predict([[0.5, 0.5], [0.5, 0.5]], [[1.0], [-1.0]], [0.0, 1.0])[1].round(6).tolist()
    [[0.367879], [-0.367879]]
    """
    matrix, tokens, times = _stochastic(attention), require_tokens(tokens), np.asarray(times, dtype=float)
    if tokens.ndim != 2 or len(matrix) != len(tokens):
        raise InputError(
            f"`tokens` must be {len(matrix)} rows, as `attention` has, but their shape is {tokens.shape}. Take one run."
        )
    require_all_finite(times, "times", ("position",))
    elapsed = times - times[0]
    eigenvalues, vectors = np.linalg.eig(matrix)
    if np.linalg.cond(vectors) > MAX_CONDITION:
        return np.stack([expm(t * (matrix - np.eye(len(matrix)))) @ tokens for t in elapsed])
    amplitudes = np.linalg.solve(vectors, tokens.astype(complex))
    decay = np.exp(np.multiply.outer(elapsed, eigenvalues - 1))
    return np.real(np.einsum("ik,tk,kd->tid", vectors, decay, amplitudes))


def error(attention: Any, run: Any) -> xr.DataArray:
    """|prediction - tokens| / |tokens| of a rescaled run with V = I, over time (and runs); NaN where not finite.

    Parameters
    ----------
    attention
        P at the first time: shape (n, n), or (runs, n, n) for an ensemble. `attnflow.attention_matrix` gives it.
    run
        A dataset or array of z over ([run,] time, token, coordinate).

    Examples
    --------
    Weights that never change are predicted at all times.

    >>> path = predict([[0.5, 0.5], [0.5, 0.5]], [[1.0], [-1.0]], [0.0, 1.0, 2.0])
    >>> run = xr.DataArray(path, {"time": [0.0, 1.0, 2.0]}, ("time", "token", "coordinate"))
    >>> error([[0.5, 0.5], [0.5, 0.5]], run).values
    array([0., 0., 0.])
    """
    tokens = tokens_of(run)
    if "time" not in tokens.coords:
        raise InputError("`run` must have times, but it has no `time` coordinate. Pass what `simulate` returned.")
    if "run" in tokens.dims:
        matrices = np.broadcast_to(attention, (tokens.sizes["run"], *np.shape(attention)[-2:]))
        parts = [error(matrix, tokens.isel(run=place)) for place, matrix in enumerate(matrices)]
        return xr.concat(parts, tokens.run if "run" in tokens.coords else "run")
    if not np.all(np.isfinite(tokens.values[0])):
        values = np.full(tokens.sizes["time"], np.nan)
    else:
        predicted = predict(attention, tokens.values[0], tokens.time.values)
        lengths = np.linalg.norm(tokens.values, axis=(1, 2))
        apart = np.linalg.norm(predicted - tokens.values, axis=(1, 2))
        values = np.divide(apart, lengths, out=np.where(apart > 0, np.inf, apart), where=lengths > 0)
    return xr.DataArray(values, {"time": tokens.time}, ("time",), "frozen_attention_error")


def valid_until(errors: xr.DataArray, tolerance: float = 0.05) -> xr.DataArray:
    """The first time at which the error exceeds `tolerance`, interpolated linearly between saved times.

    Infinity where it never does, NaN where an error before it is not known.

    Examples
    --------
    >>> growing = xr.DataArray([0.0, 0.1, 0.3], {"time": [0.0, 1.0, 2.0]}, ("time",))
    >>> float(valid_until(growing, tolerance=0.2))
    1.5
    """
    require_positive_number(tolerance, "tolerance")
    times = require_times(errors.time.values)
    return xr.apply_ufunc(
        lambda row: _first_crossing(times, row, tolerance),
        errors,
        input_core_dims=[["time"]],
        vectorize=True,
        output_dtypes=[float],
    ).rename("valid_until")


def _first_crossing(times: np.ndarray, row: np.ndarray, tolerance: float) -> float:
    over = np.flatnonzero(row > tolerance)
    known = over[0] if len(over) else len(row)
    if np.any(np.isnan(row[:known])):
        return np.nan
    if not len(over):
        return np.inf
    if over[0] == 0 or not np.isfinite(row[over[0]]):
        return float(times[over[0]])
    before, after = row[over[0] - 1], row[over[0]]
    share = (tolerance - before) / (after - before)
    return float(times[over[0] - 1] + share * (times[over[0]] - times[over[0] - 1]))


def _stochastic(attention: Any) -> np.ndarray:
    """A square matrix whose rows are weights that add up to one."""
    matrix = np.asarray(attention, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"`attention` must be one n x n matrix of weights, but its shape is {matrix.shape}.")
    require_all_finite(matrix, "attention", ("row", "column"))
    off = np.abs(matrix.sum(axis=1) - 1)
    if np.any(off > 1e-6) or np.any(matrix < 0):
        raise InputError(
            f"Rows of `attention` must be weights that add up to one, but row {int(np.argmax(off))} adds up to "
            f"{matrix[np.argmax(off)].sum():.6g}. Use softmax attention, or divide each row by its sum."
        )
    return matrix
