"""Neural collapse on a prompt: its classes of tokens, which must not be taken from the states they are measured on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow.analyse import collapse

MEASURES = ("variability", "unequal_norms", "unequal_angles", "simplex_distance")
REGULARITY = MEASURES[1:]  # of the centred class means: two are opposite and of one length, whatever the tokens
SHUFFLES = 9  # permutations of the labels; their median, since a permutation may bring class means together
UNDEFINED = {"equal_means": "variability", "equal_shuffled_means": "shuffled_variability"}
UNDEFINED_WORDS = {"equal_means": "class means", "equal_shuffled_means": "means of most shuffled classes"}
CLASSES = {
    "token": "tokens with the same id",
    "first": "clusters of the embedding",
    "last": "clusters of the last layer",
}


def class_labels(classes: str, ids: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The class of every token, from 0; -1 for a token that is alone in its class, which has no spread.

    `classes` is one of `CLASSES`: "token", from the ids; "first" or "last", from the clusters (time, token) at the
    first or last time. Classes from the last clusters make the variability fall by construction.

    Examples
    --------
    >>> class_labels("token", np.array([7, 5, 7, 9, 9]), np.zeros((1, 5), int)).tolist()
    [0, -1, 0, 1, 1]
    """
    require_known(classes, CLASSES, "classes")
    given = ids if classes == "token" else clusters[0 if classes == "first" else -1]
    _, members, sizes = np.unique(given, return_inverse=True, return_counts=True)
    is_class = sizes > 1
    numbers = np.where(is_class, np.cumsum(is_class) - 1, -1)
    return numbers[members]


def collapse_measures(units: xr.DataArray, labels: np.ndarray) -> xr.Dataset:
    """`MEASURES` of the tokens in classes of two or more, over time; NaN with fewer than two such classes.

    With two, the norms and angles of the class means are NaN: they are equal whatever the tokens. All are NaN where
    class means differ by rounding only. The labels of the tokens are kept as `collapse_class`. `shuffled_variability`
    is the control of the variability: the same with labels permuted among these tokens, by `median_of_shuffles`.
    """
    in_class = labels >= 0
    kept = xr.DataArray(labels, dims="token")
    if labels.max() < 1:
        missing = np.full(units.sizes["time"], np.nan)
        names = (*MEASURES, "shuffled_variability")
        return xr.Dataset(dict.fromkeys(names, ("time", missing)) | {"collapse_class": kept})
    tokens, own, rng = units.isel(token=np.flatnonzero(in_class)), labels[in_class], np.random.default_rng(0)
    shuffled = [collapse.measures(tokens, rng.permutation(own)).variability.values for _ in range(SHUFFLES)]
    measured = collapse.measures(tokens, own)[list(MEASURES)]
    if labels.max() == 1:
        measured = measured.assign({name: measured[name] * np.nan for name in REGULARITY})
    return measured.assign(collapse_class=kept, shuffled_variability=("time", median_of_shuffles(np.array(shuffled))))


def median_of_shuffles(variability: np.ndarray) -> np.ndarray:
    """The median over the first axis, permutations of the classes.

    A permutation after which class means agree has no variability (NaN) and counts as the largest: the spread between
    its classes is 0. Where that is so for half of them, there is no median: NaN.

    Examples
    --------
    >>> median_of_shuffles(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 2.0]]))
    array([ 3., nan])
    """
    middle = np.median(np.where(np.isnan(variability), np.inf, variability), axis=0)
    return np.where(np.isfinite(middle), middle, np.nan)


def class_counts(report: xr.Dataset) -> dict[str, Any]:
    """The origin of the classes of a `prompt_report`, their number, and the number of tokens that are in none.

    With two classes or more also the layers in which the means of classes, or of shuffled classes, are equal up to
    rounding, so that measures are undefined.
    """
    labels = report.collapse_class.values
    counts: dict[str, Any] = {
        "classes_from": str(report.attrs["classes"]),
        "classes": int(labels.max()) + 1,
        "single_tokens": int(np.sum(labels < 0)),
    }
    if counts["classes"] < 2:
        return counts
    return counts | {
        f"{key}_layers": _undefined_layers(report, name) for key, name in UNDEFINED.items() if name in report
    }


def _undefined_layers(report: xr.Dataset, name: str) -> list[int]:
    is_finite = np.isfinite(report.mean_cosine.values)  # not where tokens overflow
    return [int(layer) for layer in report.time.values[np.isnan(report[name].values) & is_finite]]


def classes_sentence(counts: dict[str, Any]) -> str:
    """The classes in words, and why measures are undefined where they are.

    Examples
    --------
    >>> classes_sentence({"classes_from": "token", "classes": 0, "single_tokens": 5})
    'undefined: no class has two members (classes: tokens with the same id; 5 tokens alone in theirs)'
    """
    number, alone = counts["classes"], counts["single_tokens"]
    named = f"{CLASSES[str(counts['classes_from'])]}; {alone} token{'' if alone == 1 else 's'} alone in theirs"
    if number == 0:
        return f"undefined: no class has two members (classes: {named})"
    if number == 1:
        return f"undefined: only one class has two members (classes: {named})"
    pieces = [f"{number} classes of two or more: {named}"]
    if number == 2:
        pieces.append(
            "the means of two classes have equal norms and opposite directions in any case, which is left out"
        )
    for key, words in UNDEFINED_WORDS.items():
        if layers := counts.get(f"{key}_layers"):
            pieces.append(f"{words} are equal up to rounding, and their variability undefined, in {_in_words(layers)}")
    return "; ".join(pieces)


def _in_words(layers: Sequence[int]) -> str:
    """Layers by their numbers, or how many they are.

    Examples
    --------
    >>> _in_words([0]), _in_words([0, 1, 2, 3])
    ('layer 0', '4 layers')
    """
    if len(layers) > 3:
        return f"{len(layers)} layers"
    return f"layer{'' if len(layers) == 1 else 's'} {', '.join(map(str, layers))}"
