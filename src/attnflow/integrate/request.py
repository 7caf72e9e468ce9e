"""The checks of everything that a user passes to `simulate`, once, before anything is computed."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import InputError, require_known, require_positive_number, require_times
from attnflow._common.memory import require_array_memory
from attnflow._common.precision import DTYPES, double
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.model.attention import Hardmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.validation import require_flow, require_tokens_of
from attnflow.results.run_dataset import Request
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import StochasticHeun
from attnflow.solvers.stopping import AbstractStop

DEFAULT_MEMORY = 1e9  # bytes besides the result: a small share of what any present machine has
# Unit of time. Where the field jumps, as under hardmax, no step meets a tolerance; tokens move on times of order one.
MIN_STEP_AT_JUMPS = 1e-5
FLOAT32_TOLERANCES = {"rtol": 1e-5, "atol": 1e-6}  # of a step: rounding in single precision is 6e-8
RESULT_NAMES = {  # variables and dimensions that every result has
    "tokens", "radius", "time", "token", "coordinate", "run", "initial_tokens", "final_tokens",
    "final_radius", "final_time", "steps", "rejected_steps", "drift", "status", "failed",
}  # fmt: skip


def checked_request(
    flow: Any,
    tokens: Any,
    times: Any,
    *,
    solver: Any = None,
    observables: Any = None,
    keep_tokens: bool = True,
    stop: Any = (),
    rng: Rng = None,
    dtype: Any = "float64",
    memory: Any = DEFAULT_MEMORY,
) -> Request:
    """The arguments of `simulate` as a checked request; ValueError names the first argument that is not valid."""
    require_flow(flow)
    require_known(dtype, DTYPES, "dtype")
    solver = default_solver(flow, dtype) if solver is None else solver
    if not isinstance(solver, AbstractSolver):
        raise InputError(f"`solver` must be one of attnflow's, such as `Adaptive()`, but it is {solver!r}.")
    tokens, times = require_tokens_of(flow, tokens), require_times(times)
    request = Request(
        flow=flow,
        tokens=tokens,
        times=times,
        solver=solver,
        stops=_checked_stops(stop),
        observables=_checked_observables(observables, tokens),
        keep_tokens=keep_tokens,
        seed=seed_sequence(rng),
        dtype=dtype,
        memory=memory,
    )
    solver.require_serves(flow, times)
    solver.require_dtype(dtype)
    _require_distinct_times(times, dtype)
    saved = len(times) if keep_tokens else 1
    what_to_do = "Save fewer times, or observables only with `keep_tokens=False`." if saved > 1 else "Use fewer tokens."
    require_array_memory(
        *tokens.shape, saved, what=f"Tokens of shape {tokens.shape} at {saved} times", what_to_do=what_to_do
    )
    require_positive_number(memory, "memory", "It is a number of bytes; 1e9 is a gigabyte.")
    return request


def default_solver(flow: AbstractDynamics, dtype: str = "float64") -> AbstractSolver:
    """The solver of `simulate` when none is given."""
    if flow.noise is not None:
        return StochasticHeun()
    min_step = MIN_STEP_AT_JUMPS if isinstance(flow.attention, Hardmax) else 0.0
    tolerances: dict[str, Any] = FLOAT32_TOLERANCES if dtype == "float32" else {}
    return Adaptive(**tolerances, min_step=min_step)


def _checked_stops(stop: Any) -> tuple[AbstractStop, ...]:
    stops = tuple(stop) if isinstance(stop, list | tuple) else (stop,)
    for condition in stops:
        if not isinstance(condition, AbstractStop):
            raise InputError(f"`stop` must be `Clustered`, `Settled` or `Diverged`, but it is {condition!r}.")
    return stops


def _require_distinct_times(times: np.ndarray, dtype: str) -> None:
    rounded = times.astype(np.dtype(dtype)).astype(np.float64)
    if np.any(np.diff(rounded) <= 0):
        raise InputError(f"`times` are too close together for {dtype}: some become equal. Use float64, or fewer times.")


def _checked_observables(observables: Any, tokens: np.ndarray) -> dict[str, Callable]:
    observables = {} if observables is None else observables
    if not isinstance(observables, Mapping):
        raise InputError(
            f"`observables` must be functions by name, such as {{'energy': f}}, but it is {observables!r}."
        )
    for name, function in observables.items():
        if not isinstance(name, str) or name in RESULT_NAMES:
            raise InputError(f"`observables` cannot use the name {name!r}: the result has one of its own.")
        if not callable(function):
            raise InputError(f"Observable {name!r} must be a function of (time, tokens), but it is {function!r}.")
        _require_traceable(name, function, tokens)
    return dict(observables)


def _require_traceable(name: str, function: Any, tokens: np.ndarray) -> None:
    """Raise ValueError if a function cannot be compiled, which excludes NumPy and `if` of numbers."""
    snapshot = jax.ShapeDtypeStruct(tokens.shape[-2:], jnp.float64)
    try:
        with double():
            jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.float64), snapshot)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        raise InputError(
            f"Observable {name!r} must be written with jax.numpy, without `float(...)` and `if` of numbers, since it "
            "is compiled. Replace `np.` by `jnp.`, or apply it to `run.tokens` afterwards."
        ) from None
