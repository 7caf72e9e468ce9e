"""The requests that the native library integrates as whole runs, and a request in the structs of that library."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.fast_sums.summation import AbstractFastSum
from attnflow.model.flows import EuclideanAttention, RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.native.library import reason_unused
from attnflow.model.native.runs import (
    Arrays,
    NativeMethod,
    NativeSlowness,
    NativeSpace,
    NativeStop,
    RunsHead,
    RunsProblem,
    RunsStop,
)
from attnflow.model.normalisation import NGPT, Post, Sqrt
from attnflow.results.run_dataset import Request
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.fixed_step import RK4, Euler, Heun
from attnflow.solvers.stopping import Clustered, Diverged, Settled

MOST_PAIRS = 2**20  # of tokens, over all heads; beyond, one step takes so long that its pairs are shared among cores
MOST_COORDINATES = 32  # beyond, the matrix products of XLA are faster

SPACES = {
    EuclideanAttention: NativeSpace.EUCLIDEAN,
    SphereAttention: NativeSpace.SPHERE,
    RescaledAttention: NativeSpace.RESCALED,
}
SLOWNESSES = {
    Post: NativeSlowness.NONE,
    Sqrt: NativeSlowness.SQUARE_ROOT_OF_TIME,
    NGPT: NativeSlowness.OUTPUT_LENGTH,
}
NATIVE_METHODS = {
    Adaptive: NativeMethod.TSIT5,
    Euler: NativeMethod.EULER,
    Heun: NativeMethod.HEUN,
    RK4: NativeMethod.RUNGE_KUTTA_4,
}
STOPS = {Clustered: NativeStop.CLUSTERED, Settled: NativeStop.SETTLED, Diverged: NativeStop.DIVERGED}


def reason_not_native(request: Request) -> str | None:
    """The part of a request that the native library does not integrate, or None if it serves the request."""
    flow, solver = request.flow, request.solver
    n = request.tokens.shape[-2]
    # Types, not `isinstance`: a subclass may change any rule.
    parts = {
        f"sums are those of {flow.summation!r}": isinstance(flow.summation, AbstractFastSum),
        f"the flow is {type(flow).__name__}": type(flow) not in SPACES,
        f"the attention is {type(flow.attention).__name__}": type(flow.attention) not in (Softmax, Unnormalised),
        "the flow has a perceptron": flow.perceptron is not None,
        "the weights change in time": any(type(head) is not Head for head in flow.heads),
        f"the mask is {flow.mask!r}": flow.mask.reach() is None,
        "the flow has an MLP": flow.mlp is not None,
        "the flow has noise": flow.noise is not None,
        **_normalisation_reason(flow),
        f"the solver is {solver!r}": not _serves_solver(solver),
        "a stopping condition is not one of the native library": any(type(stop) not in STOPS for stop in request.stops),
        f"tokens have more than {MOST_COORDINATES} coordinates": flow.dimension > MOST_COORDINATES,
        f"{n} tokens are many: pairs are shared among cores": n * n * len(flow.heads) > MOST_PAIRS,
    }
    return next((reason for reason, holds in parts.items() if holds), None) or reason_unused()


def _normalisation_reason(flow: Any) -> dict[str, bool]:
    if not isinstance(flow, SphereAttention):
        return {}
    return {f"the normalisation is {type(flow.normalisation).__name__}": type(flow.normalisation) not in SLOWNESSES}


def computed_by(reason: str | None) -> str:
    """The path that a result records, from the reason not to use the native library."""
    return "native runs" if reason is None else f"programs compiled by XLA, since {reason}"


def _serves_solver(solver: Any) -> bool:
    is_tsit5 = type(solver) is Adaptive and solver.order == 5 and not solver.stiff
    return is_tsit5 or type(solver) in (Euler, Heun, RK4)


@dataclass(frozen=True)
class NativeProblem:
    """The structs of a request, and the arrays they point to."""

    struct: RunsProblem
    arrays: Arrays

    @classmethod
    def of(cls, request: Request) -> "NativeProblem":
        """The problem of a request that the native library serves."""
        flow, solver, arrays = request.flow, request.solver, Arrays(request.dtype)
        n, d = request.tokens.shape[-2:]
        rule, reach = flow.attention.exponential(), flow.mask.reach()
        assert rule is not None  # checked by `reason_not_native`
        assert reach is not None
        masses = None if flow.masses is None else np.asarray(flow.masses)
        heads = [
            _head_struct(head, float(rule.factor), arrays, type(flow)) for head in flow.heads if isinstance(head, Head)
        ]
        stops = [_stop_struct(stop) for stop in request.stops]
        targets = request.times[1:]
        struct = RunsProblem(
            bytes_per_number=arrays.dtype.itemsize,
            tokens=n,
            dimension=d,
            space=SPACES[type(flow)],
            is_normalised=rule.relative,
            before=reach[0],
            after=reach[1],
            heads=len(heads),
            stops=len(stops),
            targets=len(targets),
            method=NATIVE_METHODS[type(solver)],
            step_limit=solver.step_limit,
            log_factor=-float(rule.factor) * float(rule.offset),
            total_mass=n if masses is None else masses.sum(),
            head=arrays.structs(RunsHead, heads),
            stop=arrays.structs(RunsStop, stops),
            log_masses=arrays.address(None if masses is None else np.log(masses)),
            is_frozen=arrays.address(flow.frozen, np.uint8),
            target_times=arrays.address(targets),
            **_numbers_of(solver),
            **_slowness_of(flow),
            **_frame_of(flow, arrays),
        )
        return cls(struct, arrays)


def _numbers_of(solver: Any) -> dict[str, float]:
    names = ("rtol", "atol", "min_step") if isinstance(solver, Adaptive) else ("step",)
    return {name: float(getattr(solver, name)) for name in names}


def _slowness_of(flow: Any) -> dict[str, Any]:
    if not isinstance(flow, SphereAttention):
        return {}
    scheme = flow.normalisation
    scale = float(scheme.alpha) if isinstance(scheme, NGPT) else 1.0
    return {"slowness": SLOWNESSES[type(scheme)], "slowness_scale": scale}


def _frame_of(flow: Any, arrays: Arrays) -> dict[str, Any]:
    """The matrix V of z = e^{-tV} x, and whether it is that of the only head, which then commutes with e^{tV}."""
    if not isinstance(flow, RescaledAttention):
        return {}
    is_of_head = len(flow.heads) == 1 and flow.rescaling is None
    return {"rescaling": arrays.address(flow.rescaling_matrix), "is_frame_of_head": is_of_head}


def _stop_struct(stop: Any) -> RunsStop:
    if isinstance(stop, Clustered):
        return RunsStop(NativeStop.CLUSTERED, stop.count, float(stop.tolerance))
    if isinstance(stop, Settled):
        return RunsStop(NativeStop.SETTLED, 0, float(stop.speed))
    return RunsStop(NativeStop.DIVERGED, 0, float(stop.distance))


def _head_struct(head: Head, beta: float, arrays: Arrays, kind: type) -> RunsHead:
    """The head with the fewest numbers a pair: products Q^T K and O V are formed unless their factors are narrower."""
    query, key, value = (np.asarray(matrix, float) for matrix in (head.query, head.key, head.value))
    output = None if head.output is None else np.asarray(head.output, float)
    d, struct = head.dimension, RunsHead(query_scale=1.0, output_scale=1.0)
    if len(query) >= d:
        query, key = beta * (key.T @ query), None
    else:
        query = beta * query
    is_rescaled = kind is RescaledAttention  # the whole value matrix changes with the frame
    if output is None or len(value) >= d or is_rescaled:
        output, value = value if output is None else output @ value, None
    struct.coordinates, struct.channels = len(query), d if value is None else len(value)
    struct.is_symmetric = key is None and np.array_equal(query, query.T)
    struct.key, struct.value = arrays.address(key), arrays.address(value)
    struct.query, struct.query_scale = _as_multiple(query, arrays)
    struct.output, struct.output_scale = (arrays.address(output), 1.0) if is_rescaled else _as_multiple(output, arrays)
    return struct


def _as_multiple(matrix: np.ndarray, arrays: Arrays) -> tuple[int | None, float]:
    """The matrix, or no matrix and the factor of a multiple of the identity."""
    factor = matrix[0, 0]
    is_multiple = matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, factor * np.eye(len(matrix)))
    return (None, float(factor)) if is_multiple else (arrays.address(matrix), 1.0)
