"""Reductions over the runs of a cell: means with their errors, quantiles, counts. NaN are left out."""

import warnings

import numpy as np


def mean(values: np.ndarray) -> np.ndarray:
    """The mean over the first axis; NaN where no run has a value.

    Examples
    --------
    >>> mean(np.array([[1.0, np.nan], [3.0, np.nan]]))
    array([ 2., nan])
    """
    count = valid_runs(values)
    return np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)


def mean_error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean, s / sqrt(runs); NaN for fewer than two runs.

    Examples
    --------
    >>> mean_error(np.array([1.0, 3.0])).item()
    1.0
    """
    count = valid_runs(values)
    squares = np.nansum((values - mean(values)) ** 2, axis=0)
    return np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1)), np.nan)


def valid_runs(values: np.ndarray) -> np.ndarray:
    """The number of runs that have a value."""
    return np.isfinite(values).sum(axis=0)


def quantiles(values: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
    """The quantiles over the first axis, which becomes the axis of levels.

    Examples
    --------
    >>> quantiles(np.array([1.0, 2.0, 4.0]), (0.0, 0.5))
    array([1., 2.])
    """
    if not np.isnan(values).any():
        return np.quantile(values, levels, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a time that no run has reached
        return np.nanquantile(values, levels, axis=0)


def counts(values: np.ndarray) -> np.ndarray:
    """The number of runs with the value 0, 1, 2, ..., the first axis, up to the largest value that occurs.

    Examples
    --------
    >>> counts(np.array([1.0, 2.0, 2.0, np.nan]))
    array([0, 1, 2])
    """
    largest = int(np.nanmax(values, initial=0, where=np.isfinite(values)))
    return np.stack([np.sum(values == value, axis=0) for value in range(largest + 1)])
