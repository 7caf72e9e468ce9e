"""Words of the parts of a model: the way back from objects to what a file of settings says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.experiments.configs.model_parts import STOPS
from attnflow.model.attention import Hardmax, Sinkhorn, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention, SphereAttention
from attnflow.model.heads import Head, PiecewiseHead, RedrawnHead
from attnflow.model.masks import AbstractMask, Alibi, Boolean, Both, Causal, Full, Others, Window
from attnflow.model.normalisation import NGPT, Mix, Peri, Post, Pre, Sqrt
from attnflow.model.perceptron import Perceptron, PiecewisePerceptron
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import RK4, Euler, Heun, StochasticHeun
from attnflow.solvers.layers import Layers
from attnflow.solvers.observables import (
    ClosePairs,
    Energy,
    diameter,
    largest_norm,
    mean_cosine,
    order_parameter,
)
from attnflow.solvers.stopping import AbstractStop, Clustered

# The word of every class, and the fields that are the numbers after its colon.
WORDS: dict[Any, tuple[str, tuple[str, ...]]] = {
    EuclideanAttention: ("euclidean", ()),
    RescaledAttention: ("rescaled", ()),
    SphereAttention: ("sphere", ()),
    Softmax: ("softmax", ()),
    Unnormalised: ("unnormalised", ("offset",)),
    Hardmax: ("hardmax", ("tolerance",)),
    Sinkhorn: ("sinkhorn", ("iterations",)),
    Full: ("full", ()),
    Others: ("others", ()),
    Window: ("window", ("width",)),
    Alibi: ("alibi", ("slope",)),
    Post: ("post", ()),
    Pre: ("pre", ()),
    Mix: ("mix", ("switch",)),
    Peri: ("peri", ()),
    NGPT: ("ngpt", ("alpha",)),
    Sqrt: ("sqrt", ()),
    Euler: ("euler", ("step",)),
    Heun: ("heun", ("step",)),
    RK4: ("rk4", ("step",)),
    Layers: ("layers", ("step", "residual")),
    StochasticHeun: ("stochastic-heun", ("step",)),
    Energy: ("energy", ("beta",)),
    ClosePairs: ("close-pairs", ("cosine",)),
}
FUNCTIONS = {
    mean_cosine: "mean-cosine",
    order_parameter: "order-parameter",
    diameter: "diameter",
    largest_norm: "largest-norm",
}


def word_of(part: Any, what: str) -> str:
    """The word of a part of a model, such as "window:8"; InputError where it has none."""
    if type(part) not in WORDS:
        raise InputError(f"The {what} {part!r} has no words, so that a file of settings cannot hold it.")
    name, numbers = WORDS[type(part)]
    return name + (":" if numbers else "") + ",".join(_number(getattr(part, field)) for field in numbers)


def _number(value: Any) -> str:
    # A plus would join two masks.
    return repr(value if isinstance(value, int) else float(value)).replace("e+", "e")


def model_values(flow: AbstractDynamics) -> dict[str, Any]:
    """The values of a file of settings that describe a model."""
    values: dict[str, Any] = {"space": word_of(flow, "flow"), "attention": word_of(flow.attention, "attention rule")}
    if flow.beta is not None:
        values["beta"] = flow.beta
    values["mask"] = _mask_value(flow.mask)
    values |= {"head": [_head_table(head) for head in flow.heads]} if flow.heads else {"no_attention": True}
    if isinstance(flow, SphereAttention):
        values["normalisation"] = word_of(flow.normalisation, "normalisation")
    if isinstance(flow, RescaledAttention) and flow.rescaling is not None:
        values["rescaling"] = np.asarray(flow.rescaling)
    if flow.masses is not None:
        values["masses"] = np.asarray(flow.masses)
    if flow.frozen is not None:
        values["frozen"] = np.asarray(flow.frozen)
    if flow.perceptron is not None:
        values["perceptron"] = [_perceptron_table(flow.perceptron)]
    return values | _mlp_values(flow) | _noise_values(flow)


def _mlp_values(flow: AbstractDynamics) -> dict[str, Any]:
    if flow.mlp is None:
        return {}
    bias = {} if flow.mlp.bias is None else {"mlp_bias": np.asarray(flow.mlp.bias)}
    return {"mlp": flow.mlp.activation, "mlp_weight": _matrix(flow.mlp.weight)} | bias


def _noise_values(flow: AbstractDynamics) -> dict[str, Any]:
    if flow.noise is None:
        return {}
    return {"kappa": float(flow.noise.kappa)} | ({"common_noise": True} if flow.noise.common else {})


def _mask_value(mask: AbstractMask) -> Any:
    """A word, an array of zeros and ones, or a list of masks that are joined from the left."""
    if isinstance(mask, Both):
        first, second = _mask_value(mask.first), _mask_value(mask.second)
        if isinstance(first, str) and isinstance(second, str) and not isinstance(mask.second, Both):
            return f"{first}+{second}"
        return [first, second]
    if isinstance(mask, Boolean):
        return np.asarray(mask.matrix)
    if isinstance(mask, Causal):
        return "strictly-causal" if mask.strict else "causal"
    return word_of(mask, "mask")


def _head_table(head: Any) -> dict[str, Any]:
    if isinstance(head, RedrawnHead):
        laws = {"query_key": head.query_key, "value": head.value}
        return {"redraw": float(head.period), "seed": head.seed} | laws
    if isinstance(head, PiecewiseHead):
        return {"switches": np.asarray(head.switches), "piece": [_head_table(piece) for piece in head.heads]}
    if not isinstance(head, Head):
        raise InputError(f"The weights of {head!r} are a Python function, which a file of settings cannot hold.")
    output = {} if head.output is None else {"output": _matrix(head.output)}
    return {"query": _matrix(head.query), "key": _matrix(head.key), "value": _matrix(head.value)} | output


def _perceptron_table(perceptron: Any) -> dict[str, Any]:
    if isinstance(perceptron, PiecewisePerceptron):
        pieces = [_perceptron_table(piece) for piece in perceptron.pieces]
        return {"switches": np.asarray(perceptron.switches), "piece": pieces}
    if not isinstance(perceptron, Perceptron):
        raise InputError(f"The weights of {perceptron!r} are a Python function, which a file of settings cannot hold.")
    numbers = {name: np.asarray(getattr(perceptron, name), float) for name in ("outer", "inner", "bias")}
    return numbers | {"activation": perceptron.activation}


def _matrix(matrix: Any) -> Any:
    """The word "identity", or the matrix as it is."""
    array = np.asarray(matrix, dtype=np.float64)
    is_identity = array.shape[0] == array.shape[1] and np.array_equal(array, np.eye(len(array)))
    return "identity" if is_identity and not np.signbit(array).any() else array


def solver_values(solver: AbstractSolver) -> dict[str, Any]:
    """The values that describe a solver."""
    if not isinstance(solver, Adaptive):
        return {"solver": word_of(solver, "solver")}
    word = "kvaerno5" if solver.stiff else "tsit5" if solver.order == 5 else "dopri8"
    values: dict[str, Any] = {"solver": word, "rtol": float(solver.rtol), "atol": float(solver.atol)}
    limits = {"max_steps": solver.max_steps, "min_step": float(solver.min_step)}
    defaults = {"max_steps": Adaptive().max_steps, "min_step": 0.0}
    return values | {name: limit for name, limit in limits.items() if limit != defaults[name]}


def stop_values(stops: Sequence[AbstractStop]) -> dict[str, Any]:
    """The tables of the stopping conditions, in their order."""
    names = {kind: name for name, kind in STOPS.items()}
    fields = {"clustered": "tolerance", "settled": "speed", "diverged": "distance"}
    tables = []
    for stop in stops:
        name = names[type(stop)]
        table: dict[str, Any] = {name: float(getattr(stop, fields[name]))}
        tables.append(table | ({"count": stop.count} if isinstance(stop, Clustered) and stop.count != 1 else {}))
    return {"stop": tables} if tables else {}


def observable_words(observables: Mapping[str, Callable]) -> dict[str, str]:
    """The word of each observable."""
    return {name: _observable_word(one, name) for name, one in observables.items()}


def _observable_word(observable: Callable, name: str) -> str:
    is_object = type(observable) in WORDS  # whose hash, of arrays, is not defined
    return word_of(observable, f"observable {name!r}") if is_object else FUNCTIONS[observable]
