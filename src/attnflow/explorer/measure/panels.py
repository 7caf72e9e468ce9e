"""What the panels beside the stage show, measured with the library on one moment or on the run so far."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.analyse import clusters, energy, hyperplanes, renyi
from attnflow.analyse.spectra import spectrum
from attnflow.experiments.run_summary import value_name
from attnflow.explorer.measure.cluster_colours import cluster_distance
from attnflow.explorer.recording import Moment
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.solvers.base import AbstractSolver
from attnflow.theorems.prediction.evidence import in_words
from attnflow.theorems.prediction.limits import FEWEST_TIMES, WORDS, fulfils, limit_shown
from attnflow.theorems.prediction.predict import Prediction, predict

SIDE = 256  # of the attention image at most
COSINE_BINS = 48
MOST_COSINE_TOKENS = 600
MOST_ENERGY_TOKENS = 1_000  # of more, so many stand for all
MOST_ATTENDED = 24  # lines drawn from a token that is pointed at
MOST_TIMES = 80  # of a run that is held against its prediction
MOST_EIGENVALUES = 512
LARGEST_SPECTRA = 200  # dimensions times heads
ONE_PLACE = frozenset({"point", "first-token", "point-of-subspace", "poles"})
MOST_PLANES = 3  # that the theorem allows
MOST_ROWS = 2  # of equations of a subspace: in space that is a line
PLANE_WIDTH = 0.03  # over the size of the first tokens


def closeness(flow: AbstractDynamics, first: np.ndarray) -> float:
    """The distance within which tokens are one cluster on the page, wide enough that groups are seen early."""
    return cluster_distance(first, _size(flow, first))


def _size(flow: AbstractDynamics, first: np.ndarray) -> float:
    return 1.0 if flow.is_on_sphere else float(np.linalg.norm(first, axis=-1).max()) or 1.0


def numbers_of(flow: AbstractDynamics, moment: Moment, first: np.ndarray) -> dict[str, Any]:
    """Cluster count, energy (on the sphere) or size (elsewhere), and the histogram of cosines."""
    tokens = moment.tokens
    counted = int(clusters.labels(tokens, closeness(flow, first)).max()) + 1
    height = _height(flow, tokens, first)
    planes = planes_of(flow, tokens, PLANE_WIDTH * _size(flow, first))
    return {"clusters": counted, "height": height, "cosines": cosine_histogram(tokens), "planes": planes}


def planes_of(flow: AbstractDynamics, tokens: np.ndarray, tolerance: float) -> dict[str, Any] | None:
    """The at most three parallel subspaces that rescaled tokens lie on: of the highest codimension that has so few.

    Their points x have <row, x> = level for every row. None where tokens lie on more, or where no simple real
    eigenvalue above zero leads.
    """
    head = flow.heads[0]
    if not isinstance(flow, RescaledAttention) or len(flow.heads) > 1 or not isinstance(head, Head):
        return None
    value = np.asarray(head.value_matrix)
    found = spectrum(value)
    if not (found.is_leading_simple and found.leading.value.real > 0) or tokens.shape[1] < 2:
        return None
    eigenvalues, rows = hyperplanes.left_eigenvectors(value)
    growing = int(np.count_nonzero(np.real(eigenvalues) > 0))
    for codimension in range(min(growing, tokens.shape[1] - 1, MOST_ROWS), 0, -1):
        try:
            groups = hyperplanes.parallel_subspaces(tokens, value, codimension, tolerance)
        except InputError:  # this codimension would cut a complex pair in two
            continue
        if groups.count <= MOST_PLANES:
            return {"rows": rows[:codimension].tolist(), "levels": groups.levels.tolist()}
    return None


def is_small(flow: AbstractDynamics) -> bool:
    """Whether spectra of all heads take no more than a moment; theorems are not looked at for others."""
    return flow.heads[0].dimension * len(flow.heads) <= LARGEST_SPECTRA


def height_name(flow: AbstractDynamics) -> str:
    """What `height` is in this space."""
    if not _has_energy(flow):
        return "size"
    return "order" if _beta(flow) == 0 else "energy"


def _has_energy(flow: AbstractDynamics) -> bool:
    return flow.is_on_sphere


def _beta(flow: AbstractDynamics) -> float:
    """The beta of the energy that is shown; 1 for hardmax, which has none."""
    return 1.0 if flow.beta is None else flow.beta


def _height(flow: AbstractDynamics, tokens: np.ndarray, first: np.ndarray) -> float | None:
    """The energy in (0, 1] on the sphere, estimated of many tokens; elsewhere the mean length over that of the first.

    At beta = 0 the energy is the same for all tokens: there it is the order, the length of their mean.
    """
    if not np.all(np.isfinite(tokens)):
        return None
    if height_name(flow) == "order":
        return float(np.linalg.norm(tokens.mean(axis=0)))
    if _has_energy(flow):
        return estimated_energy(tokens, _beta(flow))
    before = float(np.mean(np.linalg.norm(first, axis=-1))) or 1.0
    return float(np.mean(np.linalg.norm(tokens, axis=-1))) / before


def estimated_energy(tokens: np.ndarray, beta: float) -> float:
    """The energy in (0, 1]; of many tokens from the pairs of evenly chosen ones, without bias.

    Examples
    --------
    >>> round(estimated_energy(np.repeat([[1.0, 0.0], [-1.0, 0.0]], 1500, axis=0), beta=40.0), 3)  # two clusters
    0.5
    """
    n = len(tokens)
    some = tokens[:: -(-n // MOST_ENERGY_TOKENS)]
    m, found = len(some), float(energy.normalised(some, beta))
    if m == n:
        return found
    of_pairs = (m * found - 1) / (m - 1)  # a token with itself counts one, and there are fewer of those among more
    return 1 / n + (1 - 1 / n) * of_pairs


def cosine_histogram(tokens: np.ndarray) -> list[float]:
    """Shares of pairs of distinct tokens in `COSINE_BINS` equal parts of [-1, 1]; empty for one token.

    Of many tokens evenly chosen ones stand for all.

    Examples
    --------
    >>> shares = cosine_histogram(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    >>> round(shares[-1], 3), round(shares[0], 3)
    (0.333, 0.667)
    """
    some = tokens[:: -(-len(tokens) // MOST_COSINE_TOKENS)]
    norms = np.linalg.norm(some, axis=-1, keepdims=True)
    units = some / np.where(norms > 0, norms, 1)
    if len(units) < 2 or not np.all(np.isfinite(units)):
        return []
    bins = np.minimum(((units @ units.T + 1) * (COSINE_BINS / 2)).astype(int), COSINE_BINS - 1).clip(0)
    counts = np.bincount(bins.ravel(), minlength=COSINE_BINS) - np.bincount(bins.diagonal(), minlength=COSINE_BINS)
    return (counts / counts.sum()).round(5).tolist()


def attention_image(flow: AbstractDynamics, moment: Moment, most: int = SIDE) -> np.ndarray | None:
    """P(t), averaged over heads; more than `most` tokens are taken in blocks. None of tokens that are no numbers.

    Of each block the row of its middle token is shown, so that n x n weights are never formed, and the sum of its
    columns, which is what its tokens have together.
    """
    n = len(moment.tokens)
    weights = _rows(flow, moment, middles(n, min(n, most)))
    return None if weights is None else columns_summed(weights, most)


def middles(n: int, side: int) -> np.ndarray:
    """The middle tokens of so many blocks."""
    return (2 * np.arange(side) + 1) * n // (2 * side)


def columns_summed(rows: np.ndarray, most: int) -> np.ndarray:
    """Rows of weights with their columns in at most so many blocks: token j is in block floor(j side / n)."""
    n = rows.shape[1]
    side = min(n, most)
    return np.add.reduceat(rows, -(-np.arange(side) * n // side), axis=1)


def attended(flow: AbstractDynamics, moment: Moment, token: int, image: np.ndarray | None = None) -> list[list[float]]:
    """The tokens that one attends to most, with their weights; from the moment's image where that has all rows."""
    if image is not None and len(image) == len(moment.tokens):
        row = image[token]
    elif (weights := _rows(flow, moment, np.array([token]))) is not None:
        row = weights[0]
    else:
        return []
    return largest(row)


def largest(weights: np.ndarray) -> list[list[float]]:
    """The tokens with the largest weights, and these."""
    first = np.argsort(-weights)[:MOST_ATTENDED]
    return [[int(one), round(float(weights[one]), 6)] for one in first if weights[one] > 1e-4]


def _rows(flow: AbstractDynamics, moment: Moment, rows: np.ndarray) -> np.ndarray | None:
    tokens = moment.tokens if moment.radii is None else moment.tokens * moment.radii[:, None]
    if not np.all(np.isfinite(tokens)):
        return None
    weights = attention_matrix(flow, tokens, moment.time, rows=rows)
    return weights if weights.ndim == 2 else weights.mean(axis=0)


def model_facts(flow: AbstractDynamics, solver: AbstractSolver, tokens: np.ndarray) -> dict[str, Any]:
    """What is known of a model before it runs: the spectrum of V, the prediction."""
    return {
        "value": value_name(flow) if is_small(flow) else f"{len(flow.heads)} x {tokens.shape[1]} dimensions",
        "eigenvalues": [eigenvalues_of(head) for head in flow.heads],
        "leading": leading_direction(flow) if is_small(flow) else None,
        "height": height_name(flow),
        "isEstimated": height_name(flow) == "energy" and len(tokens) > MOST_ENERGY_TOKENS,
        "isSphere": flow.is_on_sphere,
        "prediction": prediction_words(_predicted(flow, solver, tokens)),
    }


def eigenvalues_of(head: Any) -> list[list[float]]:
    """Real and imaginary parts of V's eigenvalues; none where V changes in time.

    Of V = output @ value with few columns they are those of value @ output; all others are zero.
    """
    if not isinstance(head, Head):
        return []
    has_factors = head.output is not None and len(np.asarray(head.value)) < head.dimension
    small = np.asarray(head.value) @ np.asarray(head.output) if has_factors else np.asarray(head.value_matrix)
    found = np.linalg.eigvals(small)[:MOST_EIGENVALUES]
    return [[float(one.real), float(one.imag)] for one in found]


def leading_direction(flow: AbstractDynamics) -> list[float] | None:
    """The unit eigenvector of V's leading eigenvalue, where that is real and simple and there is one head."""
    head = flow.heads[0]
    if len(flow.heads) > 1 or not isinstance(head, Head):
        return None
    value = np.asarray(head.value_matrix)
    if len(value) < 2 or not spectrum(value).is_leading_simple:
        return None
    found, vectors = np.linalg.eig(value)
    first = int(np.argmax(np.real(found)))
    return None if found[first].imag else np.real(vectors[:, first]).tolist()


def prediction_words(prediction: Prediction | None) -> dict[str, Any]:
    """The prediction for the page: what, how fast, who says so, what is missing."""
    if prediction is None:
        return {
            "limit": "unknown",
            "limits": ["unknown"],
            "words": WORDS["unknown"],
            "says": "Nothing is known of these tokens.",
            "proved": False,
        }
    first = prediction.results[0] if prediction.results else None
    return {
        "limit": prediction.limit,
        "limits": [result.limit for result in prediction.results] or [prediction.limit],
        "words": WORDS[prediction.limit],
        "says": prediction.says,
        "rate": prediction.rate,
        "proved": prediction.proved,
        "paper": "" if first is None else first.paper,
        "suggestion": prediction.suggestion,
    }


def _predicted(flow: AbstractDynamics, solver: AbstractSolver, tokens: np.ndarray) -> Prediction | None:
    if not is_small(flow):
        return None
    try:
        return predict(flow, tokens, solver)
    except InputError:
        return None


def verdict(flow: AbstractDynamics, promised: list[str], times: np.ndarray, tokens: np.ndarray) -> dict[str, str]:
    """Whether the run so far shows a limit that was promised: agrees, not yet, differs, or nothing to compare.

    Several results may apply to one flow; on the line, for instance, a polytope is a pair of hyperplanes.
    """
    if len(times) < FEWEST_TIMES:
        return {"answer": "not-yet", "says": "The run has only begun."}
    if not is_small(flow):
        return {"answer": "none", "says": "Of a model of this size theory has nothing to say here."}
    run = xr.Dataset({"tokens": (("time", "token", "coordinate"), tokens)}, {"time": times})
    try:
        shown = limit_shown(flow, run)
    except (InputError, np.linalg.LinAlgError):
        return {"answer": "none", "says": "Of such a model the run alone does not show a limit."}
    if promised == ["unknown"]:
        answer = "none"
    elif any(fulfils(one, shown.limit) for one in promised):
        answer = "agrees"
    else:
        waits = shown.limit == "several-points" and bool(ONE_PLACE & set(promised))  # metastable, not against it
        answer = "not-yet" if waits or shown.limit == "undecided" else "differs"
    found = "is undecided" if shown.limit == "undecided" else f"shows: {WORDS[shown.limit]}"
    evidence = in_words(shown, flow.is_on_sphere)
    return {"answer": answer, "says": f"The run so far {found} ({evidence})."}


def verdict_of_count(count: int, log_time: float) -> dict[str, str]:
    """The same of a run that coalesces: tokens that have met never part, so one cluster is the end."""
    answer = "agrees" if count == 1 else "not-yet"
    places = "one place" if count == 1 else f"{count} places"
    return {"answer": answer, "says": f"The tokens are in {places} at log t = {log_time:.4g}."}


def principal_axes(tokens: np.ndarray) -> list[list[float]]:
    """Up to three orthonormal directions in which tokens differ most, longest first, the largest entry positive."""
    centred = tokens - tokens.mean(axis=0)
    axes = np.linalg.svd(np.concatenate([centred, np.zeros((3, tokens.shape[1]))]), full_matrices=False)[2][:3]
    leading = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.where(leading < 0, -1, 1)).tolist()


def centres_of(flow: AbstractDynamics, tokens: np.ndarray) -> list[int]:
    """Renyi centres of the first tokens; only a causal flow on the sphere at beta > 0 has them."""
    beta = flow.beta
    if beta is None or beta <= 0 or not (flow.is_causal and flow.is_on_sphere) or tokens.shape[1] < 2:
        return []
    found = renyi.centres(tokens, min(renyi.separation(beta), np.pi)).values
    return [int(token) for token in np.flatnonzero(found)]
