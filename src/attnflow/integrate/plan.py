"""The plan of a simulation: targets, first states, random keys, and how many runs share a compiled call."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import jax
import numpy as np

from attnflow._common.precision import cast, double
from attnflow._common.seeds import run_seeds
from attnflow.integrate.compiled_loop import Task
from attnflow.integrate.targets import targets_of
from attnflow.model.dynamics import State
from attnflow.model.pair_sums import BLOCK_ENTRIES
from attnflow.results.run_dataset import Request
from attnflow.solvers.base import Target

MAX_TARGETS_PER_CALL = 64  # what is saved at them waits in memory until the call returns
MAX_RUNS_PER_CALL = 64  # a call returns only when its last run does, and progress and Ctrl-C wait for that
MAX_PAIRS_PER_CALL = 2**25  # pairs of tokens times d over all runs, in which one step takes less than about a second


@dataclass(frozen=True)
class Plan:
    """Everything that a worker needs."""

    task: Task
    start: float
    """The first time."""
    targets: Target
    saves: np.ndarray
    """For every target the index of the saving time, or -1."""
    states: State
    """First states of all runs."""
    rng_keys: np.ndarray
    """The data of JAX's random keys, shape (runs, 2)."""
    dtype: str
    runs_per_call: int

    @classmethod
    def of(cls, request: Request) -> "Plan":
        """The plan of a request."""
        runs = request.tokens if request.is_ensemble else request.tokens[None]
        numbers = range(request.first_run, request.first_run + len(runs))
        seeds = run_seeds(request.seed, numbers) if request.is_ensemble else [request.seed]
        targets, saves = targets_of(request.flow, request.solver, request.times, request.dtype)
        with precision(request.dtype):
            return cls(
                task=cast(Task.of(request), request.dtype),
                start=float(request.times[0]),
                targets=targets,
                saves=saves,
                states=jax.tree.map(lambda leaf: leaf.astype(request.dtype), State.of(request.flow, runs)),
                rng_keys=np.stack([seed.generate_state(2) for seed in seeds]),
                dtype=request.dtype,
                runs_per_call=_runs_per_call(runs.shape, targets_per_call(len(saves)), request),
            )

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.states.tokens)

    @property
    def targets_per_call(self) -> int:
        """The number of targets that one compiled call visits."""
        return targets_per_call(len(self.saves))

    @property
    def max_steps(self) -> int:
        """The number of attempted steps after which a run fails."""
        return self.task.solver.step_limit

    def precision(self) -> AbstractContextManager:
        """The context to compute in."""
        return precision(self.dtype)


def precision(dtype: str) -> AbstractContextManager:
    """The context in which JAX computes in `dtype`."""
    return double() if dtype == "float64" else nullcontext()


def targets_per_call(targets: int) -> int:
    """A power of two, so that few lengths ever compile."""
    return min(MAX_TARGETS_PER_CALL, 2 ** int(np.ceil(np.log2(targets))))


def _runs_per_call(shape: tuple[int, ...], targets: int, request: Request) -> int:
    """Runs in one compiled call: few enough for the memory limit, for steps of less than about a second, and for eight
    calls or more a worker.
    """
    runs, n, d = shape
    size = np.dtype(request.dtype).itemsize
    pair_block = 4 * size * min(n * n, max(BLOCK_ENTRIES, n))
    # A solver holds about twenty copies of the tokens; one more is saved at every target.
    one_run = size * n * d * (20 + (targets if request.keep_tokens else 0))
    workers = os.cpu_count() or 1
    room = int((request.memory / workers - pair_block) // one_run)
    fair_share = request.runs_per_call or -(-runs // (8 * workers))
    quick = MAX_PAIRS_PER_CALL // (n * n * d * max(len(request.flow.heads), 1))
    return power_of_two(int(np.clip(min(room, fair_share, quick), 1, MAX_RUNS_PER_CALL)))


def power_of_two(count: int) -> int:
    """The largest power of two that is at most `count`: ensembles of many sizes share few compiled programs."""
    return 2 ** (count.bit_length() - 1)
