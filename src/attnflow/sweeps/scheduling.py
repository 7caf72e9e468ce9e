"""The loop that hands out batches, repeats those that fail, and gives up a batch after three failures."""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from attnflow._common.checks import InputError
from attnflow.sweeps.batches import Computed
from attnflow.sweeps.pools import Compute, Pool, require_same_version

Work = TypeVar("Work")
MOST_ATTEMPTS = 3
WORKERS_DIE = (
    "Processes end before they have computed anything. In a script, call `sweep` under `if __name__ == '__main__':`, "
    "since each process imports the script."
)


@dataclass(frozen=True)
class FailedBatch:
    """What is known of a batch that has failed three times."""

    reason: str
    """The last error as a sentence."""


class BatchSource(Protocol[Work]):
    """A source of batches, which learns from the duration of each how large the next should be."""

    def next(self) -> Work | None:
        """The next batch, or None if all are given out."""
        ...

    def measured(self, batch: Work, seconds: float) -> None:
        """Note how long a batch took."""
        ...


def computed_batches(
    planner: BatchSource[Work], pool: Pool, compute: Compute
) -> Iterator[tuple[Work, Computed | FailedBatch]]:
    """Every batch with what it has computed or, after three failures, with the reason.

    When a process dies, all batches that were handed out are lost and any of them may be the cause. They are then
    computed one at a time, so that a failure is counted only against the batch that fails alone.
    """
    waiting: dict[Future, Any] = {}
    again: deque[Any] = deque()
    suspects: deque[Any] = deque()
    failures: Counter[Any] = Counter()
    breaks, has_computed = 0, False
    while True:
        _hand_out(planner, lambda batch: _submitted(pool, compute, batch), waiting, again, suspects, pool.slots)
        if not waiting:
            return
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        is_broken, was_alone = False, len(waiting) == 1
        for future in done:
            batch = waiting.pop(future)
            try:
                found = future.result()
            except BrokenExecutor:
                is_broken = True
                failures[batch] += was_alone
                if failures[batch] >= MOST_ATTEMPTS:
                    yield batch, FailedBatch("Failed three times: the process that computed it was killed.")
                else:
                    suspects.append(batch)
            except CancelledError as error:
                raise InputError("Workers have dropped their batches. The same command continues the sweep.") from error
            except Exception as error:
                failures[batch] += 1
                if failures[batch] >= MOST_ATTEMPTS:
                    yield batch, FailedBatch(f"Failed three times: {_reason(error)}")
                else:
                    again.append(batch)
            else:
                require_same_version(found.version, "A worker")
                planner.measured(batch, found.seconds)
                has_computed = True
                yield batch, found
        if is_broken:
            breaks += 1
            if breaks > MOST_ATTEMPTS and not has_computed:
                raise InputError(WORKERS_DIE)
            suspects.extend(waiting.values())
            waiting.clear()
            pool.replace_workers()


def _hand_out(
    planner: BatchSource,
    submit: Callable[[Any], Future],
    waiting: dict[Future, Any],
    again: deque[Any],
    suspects: deque[Any],
    slots: int,
) -> None:
    """Submit batches up to the number of slots, or one suspect where there are any."""
    if suspects:
        if not waiting:
            batch = suspects.popleft()
            waiting[submit(batch)] = batch
        return
    while len(waiting) < slots:
        batch = again.popleft() if again else planner.next()
        if batch is None:
            return
        waiting[submit(batch)] = batch


def _submitted(pool: Pool, compute: Compute, batch: Any) -> Future:
    """The computation of a batch; a pool that is broken already gives a future that says so, as for a batch in work."""
    try:
        return pool.submit(compute, batch)
    except BrokenExecutor as error:
        future: Future = Future()
        future.set_exception(error)
        return future


def _reason(error: BaseException) -> str:
    """The type and message of an error, with the place where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f", at {place.name} in {place.filename.rpartition('/')[2]}" if place else ""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}."
