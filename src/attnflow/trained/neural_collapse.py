"""Neural collapse on a prompt: its classes of tokens, which must not be taken from the states they are measured on."""

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow.analyse import collapse

MEASURES = ("variability", "unequal_norms", "unequal_angles", "simplex_distance")
SHUFFLES = 9  # permutations of the labels; their median, since a permutation may bring class means together
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

    The labels of the tokens are kept as `collapse_class`. `shuffled_variability` is the control of the variability: the
    same with labels permuted among these tokens, the median over permutations of a fixed seed.
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
    return measured.assign(collapse_class=kept, shuffled_variability=("time", np.median(shuffled, axis=0)))


def class_counts(report: xr.Dataset) -> dict[str, int | str]:
    """The origin of the classes of a `prompt_report`, their number, and the number of tokens that are in none."""
    labels = report.collapse_class.values
    return {
        "classes_from": str(report.attrs["classes"]),
        "classes": int(labels.max()) + 1,
        "single_tokens": int(np.sum(labels < 0)),
    }


def classes_sentence(counts: dict[str, int | str]) -> str:
    """The classes in words, and why the measures are undefined where they are.

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
    return f"{number} classes of two or more: {named}"
