"""Tokens of a dataset or an array with named axes, and functions of one snapshot applied to all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError

SNAPSHOT = ("token", "coordinate")


def tokens_of(run: Any) -> xr.DataArray:
    """Tokens with the named axes ([run,] [time,] token, coordinate), from a dataset, a DataArray or an array.

    An array of shape (n, d) is one snapshot, (times, n, d) a run, (runs, times, n, d) an ensemble.
    """
    if isinstance(run, xr.Dataset):
        if "tokens" not in run:
            raise InputError("`run` holds no tokens. Simulate with `keep_tokens=True`, or pass an array of tokens.")
        run = run.tokens
    if isinstance(run, xr.DataArray):
        if run.dims[-2:] != SNAPSHOT:
            raise InputError(f"The last two axes of `run` must be (token, coordinate), but they are {run.dims[-2:]}.")
        return run
    array = np.asarray(run, dtype=float)
    if not 2 <= array.ndim <= 4 or 0 in array.shape:
        raise InputError(f"Tokens must have shape ([runs,] [times,] n, d), but the shape is {array.shape}.")
    return xr.DataArray(array, dims=(("run", "time")[4 - array.ndim :] if array.ndim > 2 else ()) + SNAPSHOT)


def over_snapshots(
    function: Callable[[np.ndarray], Any],
    run: Any,
    name: str,
    missing: Any = np.nan,
    dims: tuple[str, ...] = (),
    **attributes: Any,
) -> xr.DataArray:
    """`function(tokens)` of every snapshot (n, d), with the axes of the run; `missing` where a token is not finite.

    `function` returns a number, or an array whose axes are `dims`.
    """
    tokens = tokens_of(run)
    lead = tokens.shape[:-2]
    flat = tokens.values.reshape(-1, *tokens.shape[-2:])
    is_finite = np.all(np.isfinite(flat), axis=(1, 2))
    results = [np.asarray(function(one)) if ok else None for one, ok in zip(flat, is_finite, strict=True)]
    example = next((result for result in results if result is not None), np.asarray(missing))
    filler = np.full(example.shape, missing)
    values = np.stack([filler if result is None else result for result in results]).reshape(lead + example.shape)
    coordinates = {key: value for key, value in tokens.coords.items() if set(value.dims) <= set(tokens.dims[:-2])}
    coordinates |= {key: tokens.coords[key] for key in dims if key in tokens.coords}
    return xr.DataArray(values, coordinates, tokens.dims[:-2] + dims, name, attributes)
