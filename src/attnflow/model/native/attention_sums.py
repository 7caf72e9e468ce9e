"""Attention sums by the native kernel of `attention_sums.cpp`, on a CPU for which it was built.

The kernel computes rules that are exponentials of scores, under masks that show an interval of columns to every row,
and the transposes of their derivatives, for gradients. All other rules and masks, other devices and derivatives along a
direction are computed by XLA, to the same numbers up to rounding.
"""

import ctypes
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Tokens
from attnflow.model.native.library import PULLBACKS, TARGETS, is_built, library

CORES = os.cpu_count() or 1
MAX_COORDINATES = 32  # of keys and of values; beyond, the matrix products of XLA are faster


def sums_of_others(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, log_weights: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sums over j != r_i of e^{<q_i, k_j> + c_j - b_i} v_j, with the sums of the weights as a last column, and b_i.

    Row i is the token r_i of `rows`, which does not see itself. b_i is the largest exponent of row i, so that no sum
    underflows; terms below e^-37 of the largest, which is less than rounding, are left out.
    """
    if not is_built():
        return _sums_of_others_in_numpy(queries, keys, values, log_weights, rows)
    arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in (queries, keys, values, log_weights)]
    itself = np.ascontiguousarray(rows, dtype=np.int64)
    sums, best = np.empty((len(queries), values.shape[1] + 1)), np.empty(len(queries))
    pointers = [array.ctypes.data for array in (*arrays, itself, sums, best)]
    _sums_of_others()(len(queries), len(keys), keys.shape[1], values.shape[1], *pointers, CORES)
    return sums, best


@functools.cache
def _sums_of_others():
    function = library().sums_of_others
    function.argtypes = [ctypes.c_int64] * 4 + [ctypes.c_void_p] * 7 + [ctypes.c_int64]
    function.restype = None
    return function


def _sums_of_others_in_numpy(queries, keys, values, log_weights, rows):
    exponents = queries @ keys.T + log_weights
    exponents[np.arange(len(rows)), rows] = -np.inf
    best = exponents.max(axis=1)
    weights = np.exp(exponents - best[:, None])
    return np.column_stack([weights @ values, weights.sum(axis=1)]), best


def sums_within_reach(
    queries: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    log_weights: np.ndarray,
    before: int | None = None,
    after: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The sums of e^{<q_i, k_j> + c_j - b_i} v_j over the columns from i - before to i + after, and b_i.

    The sums of the weights are a last column. None for `before` or `after` is no limit. b_i is zero, or the largest
    exponent of row i if exponents could be far from zero.
    """
    rows, columns = len(queries), len(keys)
    before, after = (rows + columns if reach is None else reach for reach in (before, after))
    if not is_built():
        return _sums_within_reach_in_numpy(queries, keys, values, log_weights, before, after)
    arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in (queries, keys, values, log_weights)]
    sums, shifts = np.empty((rows, values.shape[1] + 1)), np.empty(rows)
    pointers = [array.ctypes.data for array in (*arrays, sums, shifts)]
    sizes = (rows, columns, keys.shape[1], values.shape[1])
    _sums_within_reach()(*sizes, *pointers[:4], before, after, *pointers[4:], CORES)
    return sums, shifts


@functools.cache
def _sums_within_reach():
    function = library().sums_within_reach
    function.argtypes = [*[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2]
    function.argtypes += [ctypes.c_int64]
    function.restype = None
    return function


def _sums_within_reach_in_numpy(queries, keys, values, log_weights, before, after):
    ahead = np.arange(len(keys))[None, :] - np.arange(len(queries))[:, None]
    exponents = np.where((ahead >= -before) & (ahead <= after), queries @ keys.T + log_weights, -np.inf)
    best = exponents.max(axis=1)
    best = np.where(np.isfinite(best), best, 0)
    weights = np.exp(exponents - best[:, None])
    return np.column_stack([weights @ values, weights.sum(axis=1)]), best


def weighted_sums(
    queries: Tokens,
    keys: Tokens,
    values: Tokens,
    log_weights: AnyArray | None,
    scale: AnyArray | None,
    *,
    factor: AnyArray | float,
    reach: tuple[int, int],
    relative: bool,
) -> AnyArray:
    """The sums over j of e^{f <q_i, k_j> + c_j} v_j and, as a last column, the sums of the weights.

    Parameters
    ----------
    queries, keys, values
        One row for each token.
    log_weights
        c_j, one number for each column; None for zero.
    scale
        Factor on the differences between the scores of a row and the largest of them; None for no factor.
    factor
        f, the factor of the scores. Apart from it, the kernel sees whether queries and keys are the same.
    reach
        The numbers of positions before and after its own that a row sees.
    relative
        Whether the sums of each row may be divided by a number of the kernel's choice, so that none overflows or
        vanishes.
    """
    rows, channels = queries.shape[0], values.shape[1]
    call = jax.ffi.ffi_call(
        TARGETS[queries.dtype.name],
        jax.ShapeDtypeStruct((rows, channels + 1), queries.dtype),
        vmap_method="broadcast_all",
    )
    one = jnp.ones(())
    optional = [one if array is None else array for array in (log_weights, factor, scale)]
    before, after = reach
    return call(
        *(jnp.asarray(array, queries.dtype) for array in (queries, keys, values, *optional)),
        before=np.int64(before),
        after=np.int64(after),
        relative=relative,
        scaled=scale is not None,
        weighted=log_weights is not None,
    )


def pulled_back(
    queries: Tokens,
    keys: Tokens,
    values: Tokens,
    log_weights: AnyArray,
    cotangents: AnyArray,
    *,
    reach: tuple[int, int],
    relative: bool,
    weighted: bool,
) -> tuple[AnyArray, ...]:
    """The transposed derivative of averages, or of sums, in queries, keys, values and log weights (`pair_pullback.h`).

    Parameters
    ----------
    queries, keys, values, log_weights
        q, k, v and c of the weights e^{<q_i, k_j> + c_j}, with any number of leading axes.
    cotangents
        Those of the averages, or with a last column for the sums of the weights where not `relative`.
    reach
        The numbers of positions before and after its own that a row sees.
    relative
        Whether the results are averages, and not sums.
    weighted
        Whether c is not zero; its derivative is zero otherwise.
    """
    added = cotangents[..., :1]
    call = jax.ffi.ffi_call(
        PULLBACKS[queries.dtype.name],
        tuple(jax.ShapeDtypeStruct(array.shape, queries.dtype) for array in (queries, keys, values, log_weights)),
        vmap_method="broadcast_all",
    )
    if not relative:
        cotangents, added = cotangents[..., :-1], cotangents[..., -1:]
    before, after = reach
    arrays = (queries, keys, values, log_weights, cotangents, added)
    options = {"before": np.int64(before), "after": np.int64(after), "fixed": not relative, "weighted": weighted}
    return tuple(call(*arrays, **options))
