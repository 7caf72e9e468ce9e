"""The door: everything a user passes to `simulate` is checked here, once, before anything runs."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import (
    InputError,
    require_known,
    require_positive_number,
    require_resolvable,
    require_times,
)
from attnflow._common.precision import DTYPES, double
from attnflow.model.validation import require_flow, require_tokens_of
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.stopping import AbstractStop

TAKEN_NAMES = {
    "tokens", "radius", "time", "token", "coordinate", "run", "initial_tokens", "final_tokens",
    "final_radius", "final_time", "steps", "rejected_steps", "drift", "failed",
}  # fmt: skip


def require_run(
    flow: Any, tokens: Any, times: Any, solver: Any, observables: Mapping, stops: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """Check a whole request; returns tokens and times as float64 arrays."""
    require_flow(flow)
    if not isinstance(solver, AbstractSolver):
        raise InputError(f"`solver` must be one of attnflow's, such as `Adaptive()`, but it is {solver!r}.")
    tokens = require_tokens_of(flow, tokens)
    times = require_times(times)
    for stop in stops:
        if not isinstance(stop, AbstractStop):
            raise InputError(f"`stop` must be `Clustered`, `Settled` or `Diverged`, but it is {stop!r}.")
    _require_observables(observables, tokens)
    solver.require_serves(flow, times)
    return tokens, times


def require_options(dtype: Any, memory: Any, budget: Any, times: np.ndarray, solver: AbstractSolver) -> None:
    """The remaining options of `simulate`, and what single precision cannot do."""
    require_known(dtype, DTYPES, "dtype")
    cast = times.astype(np.dtype(dtype)).astype(np.float64)
    if np.any(np.diff(cast) <= 0):
        raise InputError(f"`times` are too close together for {dtype}: some become equal. Use float64, or fewer times.")
    require_resolvable(getattr(solver, "rtol", 1.0), dtype)
    require_positive_number(memory, "memory", "It is a number of bytes; 1e9 is a gigabyte.")
    if budget is not None:
        require_positive_number(budget, "budget", "It is a number of seconds; None is no limit.")


def _require_observables(observables: Mapping, tokens: np.ndarray) -> None:
    if not isinstance(observables, Mapping):
        raise InputError(
            f"`observables` must be functions by name, such as {{'energy': f}}, but it is {observables!r}."
        )
    for name, function in observables.items():
        if not isinstance(name, str) or name in TAKEN_NAMES:
            raise InputError(f"`observables` cannot use the name {name!r}: the result has one of its own.")
        if not callable(function):
            raise InputError(f"Observable {name!r} must be a function of (time, tokens), but it is {function!r}.")
        _require_traceable(name, function, tokens)


def _require_traceable(name: str, function: Any, tokens: np.ndarray) -> None:
    """It runs inside compiled code, where NumPy functions and `if` on numbers cannot go."""
    snapshot = jax.ShapeDtypeStruct(tokens.shape[-2:], jnp.float64)
    try:
        with double():
            jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.float64), snapshot)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        raise InputError(
            f"Observable {name!r} must be written with jax.numpy and without `if` on numbers, since it runs inside "
            "compiled code. Replace `np.` by `jnp.`, or apply it to `run.tokens` afterwards."
        ) from None
