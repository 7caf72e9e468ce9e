"""Threads of linear algebra."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def one_blas_thread() -> AbstractContextManager:
    """A context in which BLAS uses one thread: in products of small matrices its threads mostly wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")


def on_cores(function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """The results of a function for each of the items, in their order, computed by one thread a core.

    It pays where most of the time is spent in linear algebra, which lets other threads run; within `one_blas_thread`
    threads of BLAS do not compete with these.

    Examples
    --------
    >>> on_cores(abs, [-2, 3])
    [2, 3]
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))
