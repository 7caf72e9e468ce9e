"""A model in words: tokens and space, attention, mask and weights, with every number read from the flow."""

from typing import Any

import numpy as np

from attnflow.analyse.eigenvalue_errors import eigenvalue_errors
from attnflow.experiments.vocabulary import ATTENTIONS, MASKS, NORMALISATIONS
from attnflow.model import masks
from attnflow.model.attention import AbstractAttention, Sinkhorn
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head, RedrawnHead
from attnflow.model.normalisation import NGPT, AbstractNormalisation, Mix, Post
from attnflow.model.perceptron import AnyPerceptron, PiecewisePerceptron, TimeDependentPerceptron


def model_words(flow: AbstractDynamics, n: int) -> str:
    """A flow of n tokens in words.

    Examples
    --------
    >>> import attnflow as af
    >>> model_words(af.SphereAttention(af.Head.identity(2), af.Softmax(64.0), af.masks.causal), 200)
    '200 tokens on the circle, softmax attention, beta = 64, causal mask, V = I'
    """
    rescaled = "rescaled " if isinstance(flow, RescaledAttention) else ""
    parts = [f"{n} {rescaled}token{'' if n == 1 else 's'} {space_words(flow)}"]
    if not flow.heads:
        return ", ".join([*parts, "no attention", *_extra_words(flow)])
    parts.append(_attention_words(flow.attention))
    if flow.beta is not None:
        parts.append(f"beta = {flow.beta:g}")
    if not isinstance(flow.mask, masks.Full):
        parts.append(f"{mask_words(flow.mask)} mask")
    return ", ".join([*parts, *_weight_words(flow), *_extra_words(flow)])


def space_words(flow: AbstractDynamics) -> str:
    """The space of the tokens and its dimension."""
    d = flow.dimension
    if flow.is_on_sphere:
        return {2: "on the circle", 3: "on the sphere"}.get(d, f"on the sphere of R^{d}")
    return "on the line" if d == 1 else f"in R^{d}"


def mask_words(mask: masks.AbstractMask) -> str:
    """A mask with its numbers."""
    if isinstance(mask, masks.Both):
        return f"{mask_words(mask.first)} and {mask_words(mask.second)}"
    name = MASKS.name_of(mask) or type(mask).__name__.lower()
    return " ".join([name.replace("-", " "), *(f"{number:g}" for number in MASKS.numbers_of(mask))])


def value_words(flow: AbstractDynamics) -> str:
    """The value matrix of each head: I, -I, or its eigenvalues."""
    return "; ".join(_of_head(head) for head in flow.heads)


def _attention_words(attention: AbstractAttention) -> str:
    words = ATTENTIONS.phrase_of(attention)
    if not isinstance(attention, Sinkhorn):
        return words
    return f"{words} of {attention.iterations} iterations" if attention.iterations > 1 else f"{words} of one iteration"


def _weight_words(flow: AbstractDynamics) -> list[str]:
    """The number of heads if above one, V, and Q^T K unless it is I in every head."""
    words = [] if len(flow.heads) == 1 else [f"{len(flow.heads)} heads"]
    redrawn = [head for head in flow.heads if isinstance(head, RedrawnHead)]
    if redrawn:
        return [*words, f"weights redrawn every {float(redrawn[0].period):g}"]
    fixed = [head for head in flow.heads if isinstance(head, Head)]
    if len(fixed) < len(flow.heads):
        return [*words, "weights that change in time"]
    words.append(_clause("V", [np.asarray(head.value_matrix) for head in fixed]))
    scores = [np.asarray(head.query_key) for head in fixed]
    is_plain = all(np.array_equal(matrix, np.eye(len(matrix))) for matrix in scores)
    return words if is_plain else [*words, _clause("Q^T K", scores)]


def _clause(name: str, matrices: list[np.ndarray]) -> str:
    """A matrix that all heads share, by its sign or its eigenvalues."""
    first = matrices[0]
    if not all(np.array_equal(first, other) for other in matrices[1:]):
        return f"another {name} in each head"
    sign = _sign_of_identity(first)
    return f"{name} of {_eigenvalues(first)}" if sign is None else f"{name} = {sign}"


def _of_head(head: Any) -> str:
    if not isinstance(head, Head):
        return f"changes in time ({type(head).__name__})"
    value = np.asarray(head.value_matrix)
    return _sign_of_identity(value) or _eigenvalues(value)


def _sign_of_identity(matrix: np.ndarray) -> str | None:
    """The word I or -I, or None for any other matrix."""
    signs = (word for sign, word in ((1, "I"), (-1, "-I")) if np.array_equal(matrix, sign * np.eye(len(matrix))))
    return next(signs, None)


def _eigenvalues(matrix: np.ndarray) -> str:
    """The four eigenvalues of largest real part, and how many more there are; parts below their error are 0."""
    eigenvalues, errors = eigenvalue_errors(matrix)
    # The errors are of first order: close to a defective matrix they are those of the eigenvalues up to a factor.
    real, imaginary = (
        np.where(np.abs(part) > 10 * errors, part, 0.0) for part in (np.real(eigenvalues), np.imag(eigenvalues))
    )
    eigenvalues = real + 1j * imaginary
    order = np.argsort(-eigenvalues.real)
    shown = [_number(eigenvalue) for eigenvalue in eigenvalues[order][:4]]
    more = f" and {len(matrix) - len(shown)} more" if len(matrix) > len(shown) else ""
    return f"eigenvalues {', '.join(shown)}{more}"


def _number(value: complex) -> str:
    return f"{value.real:.4g}" if value.imag == 0 else f"{value.real:.4g}{value.imag:+.4g}i"


def _extra_words(flow: AbstractDynamics) -> list[str]:
    """Normalisation other than Post-LN, MLP, perceptron, noise, frozen tokens and masses, where there are any."""
    words = []
    if isinstance(flow, SphereAttention) and not isinstance(flow.normalisation, Post):
        words.append(_normalisation_words(flow.normalisation))
    if flow.mlp is not None:
        words.append(f"{flow.mlp.activation} layer")
    if flow.perceptron is not None:
        words.append(_perceptron_words(flow.perceptron))
    if flow.noise is not None:
        words.append(f"{'common noise' if flow.noise.common else 'noise'} of kappa = {float(flow.noise.kappa):g}")
    if flow.frozen is not None:
        words.append(f"{int(np.sum(flow.frozen))} frozen")
    return [*words, *([] if flow.masses is None else ["masses given"])]


def _perceptron_words(perceptron: AnyPerceptron) -> str:
    """The activation and the number p of hidden units, with the number of pieces."""
    if isinstance(perceptron, TimeDependentPerceptron):
        return "perceptron that changes in time"
    first = perceptron.pieces[0] if isinstance(perceptron, PiecewisePerceptron) else perceptron
    words = f"{first.activation} perceptron with p = {len(first.inner)}"
    return f"{words} in {len(perceptron.pieces)} pieces" if isinstance(perceptron, PiecewisePerceptron) else words


def _normalisation_words(normalisation: AbstractNormalisation) -> str:
    words = NORMALISATIONS.phrase_of(normalisation)
    if isinstance(normalisation, Mix):
        return f"{words} switching at t = {float(normalisation.switch):g}"
    return f"{words} of alpha = {float(normalisation.alpha):g}" if isinstance(normalisation, NGPT) else words
