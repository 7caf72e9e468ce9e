"""Moments and values of Taylor series around the centres of equal cells of the circle, by `cell_series.cpp`."""

import ctypes
import functools

import numpy as np

from attnflow.model.native.attention_sums import CORES
from attnflow.model.native.library import is_built, library

TERMS = 8  # of a series, as in `cell_series.cpp`


def is_available() -> bool:
    """Whether the library is built and has these functions with as many terms."""
    return is_built() and _has_functions()


def moments(angles: np.ndarray, columns: np.ndarray, cells: int) -> np.ndarray:
    """sum_j columns_j u_j^p over the tokens of each cell, shape (cells, columns, terms).

    u in [-1, 1] is the place of a token between the two ends of its cell.
    """
    angles, columns = np.ascontiguousarray(angles), np.ascontiguousarray(columns)
    found = np.empty((cells, columns.shape[1], TERMS))
    _function("cell_moments")(len(angles), cells, columns.shape[1], *_addresses(angles, columns, found), CORES)
    return found


def values(angles: np.ndarray, table: np.ndarray) -> np.ndarray:
    """sum_p table[c, i, p] u^p at every angle, shape (angles, columns); `table` has the shape of `moments`."""
    angles, table = np.ascontiguousarray(angles), np.ascontiguousarray(table)
    found = np.empty((len(angles), table.shape[1]))
    _function("cell_values")(len(angles), *table.shape[:2], *_addresses(angles, table, found), CORES)
    return found


def _addresses(*arrays: np.ndarray) -> list[int]:
    return [array.ctypes.data for array in arrays]


@functools.cache
def _function(name: str):
    function = getattr(library(), name)
    function.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 3 + [ctypes.c_int64]
    function.restype = None
    return function


@functools.cache
def _has_functions() -> bool:
    try:  # a library built before has none of them
        terms = library().cell_series_terms
    except AttributeError:
        return False
    terms.restype = ctypes.c_int64
    return terms() == TERMS
