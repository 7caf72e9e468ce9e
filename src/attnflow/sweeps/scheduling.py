"""The loop that hands out batches, repeats those that fail, and gives up a batch after three failures."""

import traceback
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait

from attnflow._common.checks import InputError
from attnflow.sweeps.batches import Batch, Computed
from attnflow.sweeps.planning import Planner
from attnflow.sweeps.pools import Pool, require_same_version

MOST_ATTEMPTS = 3
WORKERS_DIE = (
    "Processes end before they have computed anything. In a script, call `sweep` under `if __name__ == '__main__':`, "
    "since each process imports the script."
)


def computed_batches(planner: Planner, pool: Pool) -> Iterator[tuple[Batch, Computed | str]]:
    """Every batch with what it has computed or, after three failures, with the reason as a sentence.

    When a process dies, all batches that were handed out are lost and any of them may be the cause. They are then
    computed one at a time, so that a failure is counted only against the batch that fails alone.
    """
    waiting: dict[Future, Batch] = {}
    again: deque[Batch] = deque()
    suspects: deque[Batch] = deque()
    failures: Counter[Batch] = Counter()
    breaks, has_computed = 0, False
    while True:
        _hand_out(planner, pool, waiting, again, suspects)
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
                    yield batch, "Failed three times: the process that computed it was killed."
                else:
                    suspects.append(batch)
            except CancelledError as error:
                raise InputError("Workers have dropped their batches. The same command continues the sweep.") from error
            except Exception as error:
                failures[batch] += 1
                if failures[batch] >= MOST_ATTEMPTS:
                    yield batch, f"Failed three times: {_reason(error)}"
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
    planner: Planner, pool: Pool, waiting: dict[Future, Batch], again: deque[Batch], suspects: deque[Batch]
) -> None:
    """Submit batches up to the number of slots, or one suspect where there are any."""
    if suspects:
        if not waiting:
            _submit(pool, suspects.popleft(), waiting)
        return
    while len(waiting) < pool.slots:
        batch = again.popleft() if again else planner.next()
        if batch is None:
            return
        _submit(pool, batch, waiting)


def _submit(pool: Pool, batch: Batch, waiting: dict[Future, Batch]) -> None:
    """Submit a batch; a pool that is broken already gives a future that says so, as it does for a batch in work."""
    try:
        future = pool.submit(batch)
    except BrokenExecutor as error:
        future = Future()
        future.set_exception(error)
    waiting[future] = batch


def _reason(error: BaseException) -> str:
    """The type and message of an error, with the place where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f", at {place.name} in {place.filename.rpartition('/')[2]}" if place else ""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}."
