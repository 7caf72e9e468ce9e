"""Pools compute batches: in this process, in local processes, on a Dask cluster, or by any executor."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import connection, process
from typing import Any, Protocol

from attnflow._common.checks import InputError, require_count
from attnflow._common.extras import require_extra
from attnflow.sweeps.batches import Computed

Compute = Callable[[Any], Computed]  # a function of a module, which other processes can import
SECONDS_TO_CONNECT = 10  # to a scheduler of Dask
BATCHES_OF_UNKNOWN_EXECUTOR = 16  # handed out at a time to an executor that does not say how many it computes


class Pool(Protocol):
    """A place that computes batches."""

    slots: int
    """Batches to hand out at a time."""

    def submit(self, function: Compute, batch: Any) -> Future:
        """Begin to compute a batch."""
        ...

    def replace_workers(self) -> None:
        """Start new workers, after one of them has died."""
        ...


class ThisProcess:
    """Batches in this process, one after the other, each on all cores."""

    slots = 1

    def submit(self, function: Compute, batch: Any) -> Future:
        """The finished computation of a batch."""
        future: Future = Future()
        try:
            future.set_result(function(batch))
        except Exception as error:
            future.set_exception(error)
        return future

    def replace_workers(self) -> None:
        """Do nothing: there are no workers."""


class LocalProcesses:
    """Batches in processes of this machine, which end with this one."""

    def __init__(self, workers: int):
        self.slots = workers + 1  # one waits, so that no process does
        self._workers = workers
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        method = multiprocessing.get_context("spawn")  # a fork would copy the locks of JAX's threads
        return ProcessPoolExecutor(self._workers, method, initializer=_end_with_parent)

    def submit(self, function: Compute, batch: Any) -> Future:
        """The computation of a batch."""
        return self._pool.submit(function, batch)

    def replace_workers(self) -> None:
        """Start new processes in place of all."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._started()

    def close(self) -> None:
        """End all processes; batches that have not begun are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, even if that was killed, and quietly on Ctrl-C."""
    parent = process.parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    threading.Thread(target=watch, daemon=True).start()


class OwnExecutor:
    """Batches by an executor that the user has made, and closes."""

    def __init__(self, executor: Executor, slots: int = BATCHES_OF_UNKNOWN_EXECUTOR):
        self._executor, self.slots = executor, slots

    def submit(self, function: Compute, batch: Any) -> Future:
        """The computation of a batch."""
        return self._executor.submit(function, batch)

    def replace_workers(self) -> None:
        """Raise InputError: only the user can start another executor."""
        raise InputError(
            "A worker of `executor` has died, and the executor is broken. Make a new one: the same call continues the "
            "sweep."
        )


@contextmanager
def pool_of(workers: int | None, dask: Any, executor: Executor | None) -> Iterator[Pool]:
    """The pool that the arguments of `sweep` ask for, closed at the end."""
    given = [
        name for name, value in (("workers", workers), ("dask", dask), ("executor", executor)) if value is not None
    ]
    if len(given) > 1:
        raise InputError(f"`{given[0]}` and `{given[1]}` both say where to compute. Give one of them.")
    if workers is not None:
        require_count(workers, "workers")
        local = LocalProcesses(workers)
        with contextlib.closing(local):
            yield local
    elif dask is not None:
        with _dask_client(dask) as client:
            yield _of_client(client)
    elif executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise InputError(f"`executor` must have the method `submit`, but it is {executor!r}.")
        yield OwnExecutor(executor)
    else:
        yield ThisProcess()


@contextmanager
def _dask_client(dask: Any) -> Iterator[Any]:
    """The client of a cluster: as given, or connected to an address and closed at the end."""
    require_extra("sweep", "A Dask cluster")
    from distributed import Client

    if isinstance(dask, Client):
        yield dask
        return
    try:
        client = Client(dask, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except Exception as error:  # what answers may be another program, whose bytes can raise anything
        raise InputError(
            f"No Dask scheduler answers at {dask!r} within {SECONDS_TO_CONNECT} s. Start one with 'dask scheduler', "
            "and give its address, such as tcp://127.0.0.1:8786."
        ) from error
    with client:
        yield client


def _of_client(client: Any) -> OwnExecutor:
    """The executor of a client, after a check that its workers have this version of attnflow."""
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_CONNECT)
    except TimeoutError as error:
        raise InputError("The Dask cluster has no workers. Start some with 'dask worker ADDRESS'.") from error
    for worker, answer in client.run(worker_version, on_error="return").items():
        if isinstance(answer, OSError):
            continue  # the worker has ended meanwhile
        if not isinstance(answer, str):
            raise InputError(f"The Dask worker {worker} cannot import attnflow ({answer!r}). Install it there.")
        require_same_version(answer, f"The Dask worker {worker}")
    threads = sum(client.nthreads().values())
    return OwnExecutor(client.get_executor(pure=False), slots=2 * threads)


def worker_version() -> str:
    """The version of attnflow in the process that calls it."""
    return version("attnflow")


def require_same_version(found: str, where: str) -> None:
    """Raise InputError if a worker has another version of attnflow, whose numbers may differ."""
    if found != version("attnflow"):
        raise InputError(f"{where} has attnflow {found}, but this process has {version('attnflow')}. Install the same.")
