"""What is known of a model before it runs: spectrum of V, Renyi centres, prediction."""

from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.analyse.spectra import spectrum
from attnflow.experiments.model_words import value_words
from attnflow.explorer.measure import second_curve
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.heads import Head
from attnflow.solvers.base import AbstractSolver
from attnflow.theorems.prediction.limits import WORDS
from attnflow.theorems.prediction.predict import predict
from attnflow.theorems.prediction.prediction import Prediction


def model_facts(
    flow: AbstractDynamics, solver: AbstractSolver | None, tokens: np.ndarray, statement: str = ""
) -> dict[str, Any]:
    """Value matrix, its spectrum, name of the second curve and prediction; fields of `started` in PROTOCOL.md."""
    is_small = has_small_spectra(flow)
    return {
        "value": value_words(flow) if is_small else f"{len(flow.heads)} x {tokens.shape[1]} dimensions",
        "eigenvalues": [eigenvalues_of(head) for head in flow.heads],
        "leading": leading_direction(flow) if is_small else None,
        "height": second_curve.name(flow),
        "isEstimated": second_curve.is_estimated(flow, len(tokens)),
        "isSphere": flow.is_on_sphere,
        "prediction": prediction_fields(_prediction(flow, solver, tokens), statement),
    }


def has_small_spectra(flow: AbstractDynamics) -> bool:
    """Whether the spectra of all heads are computed without a noticeable delay; theorems need them."""
    return flow.dimension * len(flow.heads) <= 200


def eigenvalues_of(head: Any) -> list[list[float]]:
    """Real and imaginary parts of at most 512 eigenvalues of V; empty if V depends on time.

    For V = output @ value of low rank the nonzero eigenvalues are those of the smaller matrix value @ output.
    """
    if not isinstance(head, Head):
        return []
    has_factors = head.output is not None and len(np.asarray(head.value)) < head.dimension
    small = np.asarray(head.value) @ np.asarray(head.output) if has_factors else np.asarray(head.value_matrix)
    eigenvalues = np.linalg.eigvals(small)[:512]
    return [[float(value.real), float(value.imag)] for value in eigenvalues]


def leading_direction(flow: AbstractDynamics) -> list[float] | None:
    """The unit eigenvector of V's leading eigenvalue, if that is real and simple and there is one head."""
    head = next(iter(flow.heads), None)
    if len(flow.heads) > 1 or not isinstance(head, Head):
        return None
    value = np.asarray(head.value_matrix)
    if len(value) < 2 or not spectrum(value).is_leading_simple:
        return None
    eigenvalues, vectors = np.linalg.eig(value)
    leading = int(np.argmax(np.real(eigenvalues)))
    return None if eigenvalues[leading].imag else np.real(vectors[:, leading]).tolist()


def prediction_fields(prediction: Prediction | None, statement: str = "") -> dict[str, Any]:
    """A prediction as the page shows it: limit, rate, paper, and what a proof lacks.

    Of several results that apply, the one with the id `statement` is shown, if it is among them.
    """
    if prediction is None:
        return {
            "limit": "unknown",
            "limits": ["unknown"],
            "words": WORDS["unknown"],
            "says": "No theorem was looked up for these tokens.",
            "proved": False,
            "isUnchecked": True,
        }
    own = [result for result in prediction.results if result.id == statement]
    first = next(iter([*own, *prediction.results]), None)
    others = [result.limit for result in prediction.results if result is not first]
    limit = prediction.limit if first is None else first.limit
    return {
        "limit": limit,
        "limits": [limit, *others],
        "words": WORDS[limit],
        "says": first.says if own and first is not None else prediction.says,
        "rate": first.rate if own and first is not None else prediction.rate,
        "proved": first.proved if own and first is not None else prediction.proved,
        "paper": "" if first is None else first.paper,
        "suggestion": prediction.suggestion,
    }


def _prediction(flow: AbstractDynamics, solver: AbstractSolver | None, tokens: np.ndarray) -> Prediction | None:
    if not has_small_spectra(flow):
        return None
    try:
        return predict(flow, tokens, solver)
    except InputError:
        return None
