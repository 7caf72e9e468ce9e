"""Worker threads for chunks of runs, and what the workers of both paths report."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from attnflow._common.progress import Watch
from attnflow.solvers.status import Status

SECONDS_BETWEEN_LOOKS = 0.3  # for Ctrl-C, which arrives in the main thread


def worker_count(starts: Sequence[int]) -> int:
    """The number of threads for chunks that begin at `starts`: one a core."""
    return min(os.cpu_count() or 1, len(starts))


def on_workers(integrate_chunk: Callable[[int], None], starts: Sequence[int], watch: Watch) -> None:
    """Integrate the chunks of runs that begin at `starts`, one thread per core; Ctrl-C ends them through the watch."""
    with ThreadPoolExecutor(max_workers=worker_count(starts)) as pool:
        jobs = []
        try:
            jobs += [pool.submit(integrate_chunk, first) for first in starts]
            while wait(jobs, timeout=SECONDS_BETWEEN_LOOKS).not_done:
                pass
        except KeyboardInterrupt:
            watch.is_interrupted = True
            wait(jobs)
    for job in jobs:
        job.result()  # raises the error of a job that failed


def reason_to_stop(watch: Watch) -> Status:
    """The status of runs that the watch has ended."""
    return Status.INTERRUPTED if watch.is_interrupted else Status.OUT_OF_TIME


def completed_fractions(targets: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The completed part of runs at `times`: of all targets, the first time included, and of the time to the next."""
    return np.interp(times, targets, np.linspace(0, 1, len(targets)))
