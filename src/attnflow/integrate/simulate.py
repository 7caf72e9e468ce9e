"""`simulate`: from a model and its first tokens to a labelled dataset."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.precision import cast
from attnflow._common.progress import Progress, Watch, reporting
from attnflow._common.seeds import Rng, run_seeds, seed_sequence
from attnflow.integrate import ensemble, request
from attnflow.integrate.compiled_loop import Task
from attnflow.integrate.score_resolution import resolution_note
from attnflow.model.attention import Hardmax
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.pair_sums import BLOCK_ENTRIES
from attnflow.results import outcome, run_dataset
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver, Target
from attnflow.solvers.fixed_step import StochasticHeun
from attnflow.solvers.layers import Layers
from attnflow.solvers.stopping import AbstractStop

DEFAULT_MEMORY = 1e9
MOST_FIXED_STEPS = 10**12
LARGEST_CHUNK = 64
SHORTEST_AT_JUMPS = 1e-5


def simulate(
    flow: AbstractDynamics,
    tokens: Any,
    times: Any,
    *,
    solver: AbstractSolver | None = None,
    observables: Mapping[str, Callable] | None = None,
    keep_tokens: bool = True,
    stop: AbstractStop | Sequence[AbstractStop] = (),
    budget: float | None = None,
    rng: Rng = None,
    dtype: str = "float64",
    memory: float = DEFAULT_MEMORY,
    progress: Progress = None,
) -> xr.Dataset:
    """Follow tokens along a flow and keep them at the times asked for.

    The solver chooses its own steps: more times cost memory, not accuracy. On the
    sphere every step ends on it; `drift` in the result is how far the worst step had
    left it before. A run that fails or stops early leaves the part that exists, and
    in an ensemble the others go on.

    Parameters
    ----------
    flow
        The model.
    tokens
        Tokens at ``times[0]``: shape (n, d), or (runs, n, d) for an ensemble. Models
        whose tokens have lengths (`Pre`, `Mix`, `Peri`) take tokens of any length.
    times
        Increasing times to save at; the first is the start.
    solver
        `Adaptive()` unless the flow has noise, then `StochasticHeun()`. For hardmax, whose
        field jumps when a best match changes, steps are at least 1e-5 long. Tolerances are
        1e-8 and 1e-10; in float32 1e-5 and 1e-6.
    observables
        Functions of (time, tokens), by name, whose values are kept at every time.
    keep_tokens
        False keeps only observables and the first and last tokens.
    stop
        One or more of `Clustered`, `Settled`, `Diverged`.
    budget
        Seconds of wall-clock time after which to return what exists.
    rng
        Seed of the noise: None, an integer, a Generator or a SeedSequence. Run i of an
        ensemble has the i-th seed spawned from it, whatever the number of runs.
    dtype
        "float64" or "float32".
    memory
        Bytes that the computation may use besides the result; ensembles go in chunks.
    progress
        None: a bar if standard error is a terminal. True or False: a bar or none.
        A function: called with the fraction done and a sentence.

    Returns
    -------
    A dataset with `tokens` over ([run,] time, token, coordinate), the observables,
    `radius` where tokens have lengths, first and last tokens, and how each run went.
    ``attrs["outcome"]`` says it in a sentence.

    Raises
    ------
    ValueError
        If an argument is not what it should be; nothing is computed then.

    Examples
    --------
    Two orthogonal tokens on the circle meet halfway.

    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=1.0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 20.0])
    >>> bool(np.allclose(run.tokens[-1], 0.5**0.5, atol=1e-6))
    True
    """
    solver = solver if solver is not None else default_solver(flow, dtype)
    stops: tuple[Any, ...] = tuple(stop) if isinstance(stop, list | tuple) else (stop,)
    observables = {} if observables is None else observables
    tokens, times = request.require_run(flow, tokens, times, solver, observables, stops)
    request.require_options(dtype, memory, budget, times, solver)
    is_ensemble = tokens.ndim == 3
    runs = tokens if is_ensemble else tokens[None]
    seed = seed_sequence(rng)
    observables = dict(observables)
    task = Task(flow, solver, stops, observables, keep_tokens)
    seeds = run_seeds(seed, len(runs)) if is_ensemble else [seed]
    plan = _plan(task, runs, times, seeds, dtype, memory)
    with reporting(progress) as report:
        results = ensemble.integrate(plan, Watch(report, budget))
    lines = outcome.sentences(results, stops)
    made = run_dataset.Making(flow, solver, stops, observables, keep_tokens, seed, dtype, memory)
    run = run_dataset.assemble(results, lines, times, tokens, made)
    note = resolution_note(flow, run)
    run.attrs["outcome"] = f"{outcome.summary(lines, results.status)} {note}".strip()
    return run


def default_solver(flow: Any, dtype: str = "float64") -> AbstractSolver:
    """What `simulate` uses when no solver is given."""
    if getattr(flow, "noise", None) is not None:
        return StochasticHeun()
    is_discontinuous = isinstance(getattr(flow, "attention", None), Hardmax)
    least = SHORTEST_AT_JUMPS if is_discontinuous else 0.0
    return Adaptive(rtol=1e-5, atol=1e-6, min_step=least) if dtype == "float32" else Adaptive(min_step=least)


def _plan(task: Task, tokens: np.ndarray, times: np.ndarray, seeds: list, dtype: str, memory: float) -> ensemble.Plan:
    targets, saves = _targets(task, times, dtype)
    plan = ensemble.Plan(
        task=task,
        start=float(times[0]),
        targets=targets,
        saves=saves,
        states=jax.tree.map(lambda leaf: leaf.astype(dtype), State.of(task.flow, tokens)),
        rng_keys=None,
        dtype=dtype,
        most_steps=getattr(task.solver, "max_steps", MOST_FIXED_STEPS),
        chunk=1,
    )
    with plan.precision():
        bits = jnp.asarray(np.stack([child.generate_state(2) for child in seeds]))
        plan = replace(plan, task=cast(task, dtype), rng_keys=jax.random.wrap_key_data(bits))
    return replace(plan, chunk=_chunk(plan, memory))


def _targets(task: Task, times: np.ndarray, dtype: str) -> tuple[Target, np.ndarray]:
    """Times to reach after the first, with jumps of the field between them, and where to save each.

    No step crosses a jump, the last time, or a time its solver does not interpolate at; a target
    that is only a jump is saved nowhere (-1).
    """
    is_discrete = isinstance(task.solver, Layers)
    jumps = np.empty(0) if is_discrete else task.flow.jumps(times[0], times[-1])
    every = np.union1d(times, jumps)[1:]
    saves = np.where(np.isin(every, times), np.searchsorted(times, every), -1)
    lands = getattr(task.solver, "lands_on_times", True)
    barriers = np.union1d(jumps, times if lands else times[-1:])
    ahead = barriers[np.searchsorted(barriers, every)]
    return Target(every.astype(dtype), ahead.astype(dtype), np.isin(ahead, jumps)), saves


def _chunk(plan: ensemble.Plan, memory: float) -> int:
    """Runs in one compiled call: few enough for the memory limit and to look up now and then."""
    n, d = plan.states.tokens.shape[1:]
    size = np.dtype(plan.dtype).itemsize
    working = 4 * size * min(n * n, max(BLOCK_ENTRIES, n))
    # a solver holds about twenty copies of the tokens, a window one more a target
    a_run = size * n * d * (20 + (plan.window if plan.task.keeps_tokens else 0))
    workers = os.cpu_count() or 1
    room = int((memory / workers - working) // a_run)
    fair = -(-plan.runs // (8 * workers))
    return int(np.clip(min(room, fair), 1, LARGEST_CHUNK))
