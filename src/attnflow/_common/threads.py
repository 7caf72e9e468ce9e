"""Threads of linear algebra."""

from contextlib import AbstractContextManager


def one_blas_thread() -> AbstractContextManager:
    """A context in which BLAS uses one thread: in products of small matrices its threads mostly wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")
