"""Words of the parts of a model: the way back from objects to what a file of settings says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.experiments.configs.model_parts import STOPS
from attnflow.experiments.vocabulary import (
    ATTENTIONS,
    MASKS,
    NORMALISATIONS,
    OBSERVABLES,
    SOLVERS,
    SPACES,
    Vocabulary,
)
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head, PiecewiseHead, RedrawnHead
from attnflow.model.masks import AbstractMask, Boolean, Both
from attnflow.model.perceptron import Perceptron, PiecewisePerceptron
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.stopping import AbstractStop, Clustered


def word_of(vocabulary: Vocabulary, part: Any, what: str, **given: Any) -> str:
    """The word of a part of a model, such as "window:8"; InputError where it has none."""
    name = vocabulary.name_of(part, **given)
    if name is None:
        raise InputError(f"The {what} {part!r} has no name in files of settings, so that it cannot be written to one.")
    numbers = vocabulary.numbers_of(part, **given)
    return name + (":" if numbers else "") + ",".join(map(_number, numbers))


def _number(value: int | float) -> str:
    return repr(value).replace("e+", "e")  # a plus would join two masks


def model_values(flow: AbstractDynamics) -> dict[str, Any]:
    """The values of a file of settings that describe a model."""
    if flow.summation is not None:
        raise InputError(
            f"The summation {flow.summation!r} has no name in files of settings, so that it cannot be written to one. "
            "Leave it out: a method is chosen for every run."
        )
    values: dict[str, Any] = {
        "space": word_of(SPACES, flow, "flow", heads=Head.identity(1)),
        "attention": word_of(ATTENTIONS, flow.attention, "attention rule"),
    }
    if flow.beta is not None:
        values["beta"] = flow.beta
    values["mask"] = _mask_value(flow.mask)
    values |= {"head": [_head_table(head) for head in flow.heads]} if flow.heads else {"no_attention": True}
    if isinstance(flow, SphereAttention):
        values["normalisation"] = word_of(NORMALISATIONS, flow.normalisation, "normalisation")
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
    return word_of(MASKS, mask, "mask")


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
    values: dict[str, Any] = {"solver": word_of(SOLVERS, solver, "solver")}
    if not isinstance(solver, Adaptive):
        return values
    values |= {"rtol": float(solver.rtol), "atol": float(solver.atol)}
    limits = {"max_steps": solver.max_steps, "min_step": float(solver.min_step)}
    defaults = {"max_steps": Adaptive().max_steps, "min_step": 0.0}
    return values | {name: limit for name, limit in limits.items() if limit != defaults[name]}


def stop_values(stops: Sequence[AbstractStop]) -> dict[str, Any]:
    """The tables of the stopping conditions, in their order."""
    named = {kind: (name, number) for name, (kind, number) in STOPS.items()}
    tables = []
    for stop in stops:
        name, number = named[type(stop)]
        table: dict[str, Any] = {name: float(getattr(stop, number))}
        tables.append(table | ({"count": stop.count} if isinstance(stop, Clustered) and stop.count != 1 else {}))
    return {"stop": tables} if tables else {}


def observable_words(observables: Mapping[str, Callable]) -> dict[str, str]:
    """The word of each observable."""
    return {name: word_of(OBSERVABLES, one, f"observable {name!r}") for name, one in observables.items()}
