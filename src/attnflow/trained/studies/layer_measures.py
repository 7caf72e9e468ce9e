"""All measures of one prompt at one layer, as numbers."""

from dataclasses import dataclass

import numpy as np

from attnflow.analyse import attention_rank, clusters, collapse
from attnflow.trained import layer_energy, layer_geometry, layer_similarity, sinks
from attnflow.trained.attention_graph import second_eigenvalue
from attnflow.trained.neural_collapse import SHUFFLES, class_labels, median_of_shuffles
from attnflow.trained.studies.layer_states import LayerState

Numbers = dict[str, float | np.ndarray]


@dataclass(frozen=True)
class MeasureSettings:
    """What the measures depend on besides the states."""

    angle: float
    """Directions closer than this, in radians, are one cluster."""
    betas: tuple[float, ...]
    """Inverse temperatures of the interaction energy."""


# Names, and the words for tables and axes.
OF_TOKENS = {
    "mean_cosine": "mean cosine between tokens",
    "centred_cosine": "mean cosine about the mean direction",
    "clusters": "clusters",
    "effective_rank": "effective rank of the tokens",
    "matrix_entropy": "matrix entropy",
    "intrinsic_dimension": "intrinsic dimension (TwoNN)",
    "variability": "neural collapse: variability within classes of equal tokens",
    "shuffled_variability": "the same with shuffled classes",
    "length_ratio": "longest token over the median length",
    "massive_activations": "massive activations",
    "energy": "interaction energy",
}
OF_LAYERS = {
    "cka": "linear CKA with the layer before",
    "energy_by_attention": "change of energy by attention",
    "energy_by_mlp": "change of energy by the MLP",
    "attention_rank": "rank of attention, mean over heads",
    "second_eigenvalue": "second eigenvalue of attention, mean over heads",
    "first_token_attention": "attention received by the first token",
    "sink_share": "share of heads with a sink at the first token",
    "most_received": "largest attention that one token receives",
}
OF_PATHS = {"line_shape_score": "line-shape score of the path through the layers"}
WORDS = OF_TOKENS | OF_LAYERS | OF_PATHS
COSINE, SHARE, COUNT, POSITIVE = (-1.0, 1.0), (0.0, 1.0), (1.0, np.inf), (0.0, np.inf)
RANGES = {
    "mean_cosine": COSINE,
    "centred_cosine": COSINE,
    "clusters": COUNT,
    "effective_rank": COUNT,
    "intrinsic_dimension": POSITIVE,
    "variability": POSITIVE,
    "shuffled_variability": POSITIVE,
    "length_ratio": COUNT,
    "massive_activations": POSITIVE,
    "cka": SHARE,
    "second_eigenvalue": SHARE,
    "first_token_attention": SHARE,
    "sink_share": SHARE,
}
"""Bounds of the measures that have any, at which intervals of their means end."""
COUNTS = ("clusters", "massive_activations", "sink_share", "attention_rank")
"""Measures that count, or are shares of a count: they have no rounding error."""
OVER_BETA = ("energy", "energy_by_attention", "energy_by_mlp")
OVER_HEADS = ("first_token_attention",)


def measured(state: LayerState, ids: np.ndarray, settings: MeasureSettings) -> Numbers:
    """The measures of tokens and, after a layer, of attention, by name; none where numbers are not finite."""
    if not np.isfinite(state.tokens).all():
        return {}
    found = _of_tokens(state.tokens, ids, settings)
    if state.attention is None or state.before is None or state.halfway is None:
        return found
    return found | _of_layer(state.before, state.halfway, state.attention, state.tokens, settings)


def _of_tokens(tokens: np.ndarray, ids: np.ndarray, settings: MeasureSettings) -> Numbers:
    units = _directions(tokens)
    variability, shuffled = _variability(units, ids)
    return {
        "mean_cosine": layer_geometry.mean_cosine_of(units),
        "centred_cosine": layer_geometry.centred_cosine(units),
        "clusters": float(len(np.unique(clusters.labels(units, settings.angle, geodesic=True)))),
        "effective_rank": layer_similarity.effective_rank_of(units),
        "matrix_entropy": layer_geometry.matrix_entropy(tokens),
        "intrinsic_dimension": layer_geometry.intrinsic_dimension(tokens),
        "variability": variability,
        "shuffled_variability": shuffled,
        "length_ratio": sinks.length_ratio(tokens),
        "massive_activations": float(sinks.massive_activations(tokens)),
        "energy": layer_energy.energies_of(units, settings.betas),
    }


def _of_layer(
    before: np.ndarray, halfway: np.ndarray, attention: np.ndarray, after: np.ndarray, settings: MeasureSettings
) -> Numbers:
    entered, moved, left = (_directions(tokens) for tokens in (before, halfway, after))
    first, at_half, last = (layer_energy.energies_of(units, settings.betas) for units in (entered, moved, left))
    return {
        "cka": layer_similarity.linear_cka(entered, left),
        "energy_by_attention": at_half - first,
        "energy_by_mlp": last - at_half,
        "attention_rank": float(attention_rank.rank(attention, 1e-2).mean()),
        "second_eigenvalue": float(second_eigenvalue(attention).mean()),
        "first_token_attention": sinks.first_token_attention(attention),
        "sink_share": sinks.sink_share(attention),
        "most_received": sinks.most_received(attention),
    }


def _variability(units: np.ndarray, ids: np.ndarray) -> tuple[float, float]:
    """Variability within classes of equal ids, and the median of it over permutations of the classes.

    NaN with fewer than two classes of two or more tokens, and where class means are equal up to rounding.
    """
    labels = class_labels("token", ids, np.zeros((1, len(ids)), dtype=int))
    if labels.max() < 1:
        return np.nan, np.nan
    # In coordinates of the span of the tokens, which has at most n dimensions: angles and lengths are the same.
    kept = np.asarray(np.linalg.qr(units[labels >= 0].T, mode="r")).T
    own, rng = labels[labels >= 0], np.random.default_rng(0)
    labellings = np.stack([own, *(rng.permutation(own) for _ in range(SHUFFLES))])
    found = collapse.permuted_variability(kept, labellings)
    return float(found[0]), float(median_of_shuffles(found[1:]))


def _directions(tokens: np.ndarray) -> np.ndarray:
    return layer_energy.directions(tokens)
