"""A prompt's tokens through the layers of a trained model: all measurements, and their summary as plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_finite_number, require_known, require_positive_number
from attnflow._common.plain import json_value
from attnflow._common.progress import Progress
from attnflow._common.renamed import renamed_function
from attnflow._common.threads import one_blas_thread
from attnflow.analyse import cluster_tracks, order
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained import layer_energy, layer_similarity, measures
from attnflow.trained.neural_collapse import CLASSES, MEASURES, class_counts, class_labels, collapse_measures


def prompt_report(
    model: Model,
    prompt: Prompt,
    layers: int | None = None,
    *,
    angle: float = measures.ANGLE,
    betas: Sequence[float] = layer_energy.BETAS,
    classes: str = "token",
    progress: Progress = None,
) -> xr.Dataset:
    """The trajectory of a prompt through the layers (`model.trajectory`) with all measurements on it.

    Measurements are on the directions of the tokens, x / |x|, as on the sphere of the idealised flow.

    Parameters
    ----------
    model, prompt, layers, progress
        As in `model.trajectory`.
    angle
        Directions closer than this, in radians, directly or by a chain, are one cluster.
    betas
        Inverse temperatures of the interaction energy.
    classes
        Classes of neural collapse: "token", tokens with the same id; "first", the clusters of the embedding; "last",
        the clusters of the last layer, for which collapse is partly true by construction. A class has two or more
        members.

    Returns
    -------
    The trajectory, and over time (0 is the embedding, l after layer l) `mean_cosine`, `cosine_density`, `clusters`,
    `cluster` of every token (labels that persist from layer to layer), `effective_rank`, the neural-collapse measures
    `variability`, `unequal_norms`, `unequal_angles` and `simplex_distance`, the variability of shuffled classes,
    `shuffled_variability`, and `energy` of every beta; over layers `cka` (with the layer before), `attention_rank` and
    `second_eigenvalue` of every head, and `change` of the energy by each half of each block; and `collapse_class` of
    every token, -1 where it is alone in its class. Measures of collapse are NaN with fewer than two classes and where
    class means are equal up to rounding; norms and angles also with two classes, whose means have them equal.

    Examples
    --------
    >>> import attnflow as af
    >>> report = af.trained.prompt_report(model, [5, 17, 3, 5], progress=False)
    >>> report.mean_cosine.sizes["time"] == model.config.layers + 1
    True
    """
    require_report_arguments(angle, betas, classes)
    run = model.trajectory(prompt, layers, attention=True, sublayers=True, progress=progress)
    with one_blas_thread():
        measured = _measured(run, angle, betas, classes)
    return xr.merge([run, *measured], combine_attrs="override").assign_attrs(run.attrs, angle=angle, classes=classes)


def require_report_arguments(angle: float, betas: Sequence[float], classes: str) -> None:
    """Check the arguments of `prompt_report` that do not depend on the model."""
    require_positive_number(angle, "angle")
    require_known(classes, CLASSES, "classes")
    for beta in betas:
        require_finite_number(beta, "beta")


def _measured(run: xr.Dataset, angle: float, betas: Sequence[float], classes: str) -> list[xr.Dataset]:
    units = measures.directions(run)
    labels = cluster_tracks.follow(units, angle, geodesic=True).labels
    return [
        measures.of_tokens(run, angle),
        measures.of_attention(run.attention),
        layer_energy.by_layer(run, betas),
        collapse_measures(in_their_span(units), class_labels(classes, run.id.values, labels)),
        xr.Dataset({"cosine_density": order.cosine_histogram(units), "cka": layer_similarity.consecutive_cka(units)}),
        xr.Dataset({"cluster": (("time", "token"), labels)}),
    ]


def prompt_summary(report: xr.Dataset) -> dict[str, Any]:
    """Clusters by their words, merges, plateaus and falls of the energy of a `prompt_report`, as plain values.

    Parameters
    ----------
    report
        A dataset made by `prompt_report`.

    Examples
    --------
    >>> import attnflow as af
    >>> report = af.trained.prompt_report(model, [5, 17, 3, 5], progress=False)
    >>> af.trained.prompt_summary(report)["tokens"]
    4
    """
    words = [str(word) for word in report.word.values]
    with one_blas_thread():
        tracks = cluster_tracks.follow(measures.directions(report), report.attrs["angle"], geodesic=True)
    counts = report.clusters.values
    return {
        "model": report.attrs["model"],
        "tokens": len(words),
        "layers": report.sizes["time"] - 1,
        "mean_cosine": _json_list(report.mean_cosine),
        "clusters": [int(count) for count in counts],
        "effective_rank": _json_list(report.effective_rank),
        "attention_rank": _json_list(report.attention_rank.mean("head")),
        "second_eigenvalue": _json_list(report.second_eigenvalue.mean("head")),
        "cka": _json_list(report.cka),
        "energy": {f"{float(beta):g}": _json_list(report.energy.sel(beta=beta)) for beta in report.beta.values},
        "neural_collapse": {name: _json_list(report[name]) for name in (*MEASURES, "shuffled_variability")},
        "collapse_classes": class_counts(report),
        "last_clusters": named_clusters(report.cluster.values[-1], words),
        "merges": [_change(merge, words) for merge in tracks.merges],
        "splits": [_change(split, words) for split in tracks.splits],
        **plateau_ratio(report.time.values, counts),
        "energy_falls": [_fall(fall, words) for fall in layer_energy.falls(report, report.beta.values)],
    }


def extra_summary(more: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """Plain values of the costlier measurements: datasets of `displacements`, `frames` and `block_coupling`.

    The keys of `more` are "displacement", "frames" and "coupling"; each may be missing.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.frames(model, [5, 17, 3, 5])
    >>> sorted(af.trained.extra_summary({"frames": found}))
    ['cosine_in_frame', 'frame_divisors']
    """
    summary: dict[str, Any] = {}
    if "displacement" in more:
        parts = more["displacement"]
        summary["displacement"] = {
            str(part): {name: _json_list(parts[name].sel(part=part)) for name in ("length", "cosine_change")}
            for part in parts.part.values
        }
    if "frames" in more:
        cosines = more["frames"].mean_cosine
        summary["cosine_in_frame"] = {str(name): _json_list(cosines.sel(frame=name)) for name in cosines.frame.values}
        divisors = ("divisor", "divisor_least", "divisor_greatest")
        summary["frame_divisors"] = {name: _json_list(more["frames"][name]) for name in divisors}
    if "coupling" in more:
        summary["block_coupling"] = [_json_list(row) for row in more["coupling"].mismatch]
        summary["random_coupling"] = _json_list(more["coupling"].random_mismatch)
    return summary


story = renamed_function("trained.story", "trained.prompt_summary", prompt_summary)
further_story = renamed_function("trained.further_story", "trained.extra_summary", extra_summary)


def in_their_span(units: xr.DataArray) -> xr.DataArray:
    """Every snapshot in coordinates of the span of its tokens, at most n of them: distances and angles are the same."""
    if units.sizes["coordinate"] <= units.sizes["token"]:
        return units
    triangles = np.linalg.qr(np.swapaxes(units.values, -1, -2), mode="r")
    return xr.DataArray(np.swapaxes(triangles, -1, -2), {"time": units.time}, units.dims)


def named_clusters(labels: np.ndarray, words: Sequence[str]) -> list[list[str]]:
    """The words of every cluster of two or more tokens, the largest first.

    Examples
    --------
    >>> named_clusters(np.array([0, 1, 0]), ["a", "b", "c"])
    [['a', 'c']]
    """
    groups = [[words[int(token)] for token in np.flatnonzero(labels == label)] for label in np.unique(labels)]
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)


def plateau_ratio(times: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """The longest plateau of the number of clusters before it reaches its minimum, relative to that time.

    Examples
    --------
    >>> plateau_ratio(np.arange(6.0), np.array([5, 3, 3, 3, 1, 1]))
    {'longest_plateau': 2.0, 'collapse_time': 4.0, 'plateau_to_collapse': 0.5}
    """
    collapse_time = float(times[np.flatnonzero(counts == counts.min())[0]])
    stretches = cluster_tracks.plateaus(times, counts, share=-1.0)
    longest = max((one.end - one.start for one in stretches if one.end < collapse_time), default=0.0)
    ratio = longest / collapse_time if collapse_time > 0 else None
    return {"longest_plateau": longest, "collapse_time": collapse_time, "plateau_to_collapse": ratio}


def _change(change: cluster_tracks.ClusterChange, words: Sequence[str]) -> dict[str, Any]:
    parts = [[words[token] for token in members] for members in change.members]
    return {"after_layer": int(change.time), "parts": parts}


def _fall(fall: layer_energy.Fall, words: Sequence[str]) -> dict[str, Any]:
    pairs = [{"words": [words[one], words[other]], "share": share} for one, other, share in fall.pairs]
    return {"beta": fall.beta, "layer": fall.layer, "half": fall.half, "change": fall.change, "pairs": pairs}


def _json_list(values: xr.DataArray) -> list[float | None]:
    return [json_value(value) for value in values.values]
