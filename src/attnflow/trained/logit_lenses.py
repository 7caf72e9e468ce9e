"""The logit lens: the words that tokens of every layer predict through the model's own last norm and unembedding."""

from typing import Any

import jax
import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model

TOP = 3  # words that are kept of every token
BLOCK_BYTES = 2**26  # of logits at a time, 64 MB


def logit_lens(
    model: Model, prompt: Prompt | xr.Dataset, layers: int | None = None, *, top: int = TOP, progress: Progress = None
) -> xr.Dataset:
    """The words that the tokens of every layer predict: softmax of the unembedding of the last norm of the tokens.

    After the last layer it is the model's own prediction: of the next word in a causal model, of the word itself in a
    masked one. In the layers before it is what the model would predict if it ended there (nostalgebraist 2020).

    Parameters
    ----------
    model
        A model with an unembedding (`model.has_unembedding`).
    prompt
        As in `model.trajectory`, or the result of `model.trajectory` or `prompt_report`.
    layers
        As in `model.trajectory`.
    top
        Number of words that are kept, the most probable ones.
    progress
        As in `simulate`.

    Returns
    -------
    Over (time, token): `predicted_id`, `predicted_word` and `probability` of the `top` words (rank 0 is the most
    probable), the `entropy` of the prediction in nats, and its `divergence` from that of the last layer, the sum of
    p_last log(p_last / p). For a `prompt_report` also `cluster_word` and `cluster_probability`: the most probable word
    in the mean prediction of the token's cluster, by which the cluster can be named.

    Examples
    --------
    >>> import attnflow as af
    >>> model.has_unembedding
    False
    >>> af.trained.logit_lens(af.models.load("smollm2"), "The capital of France is")  # doctest: +SKIP
    """
    require_count(top, "top")
    if top > model.config.vocabulary:
        raise InputError(
            f"`top` must be at most {model.config.vocabulary}, the words of {model.name}, but it is {top}."
        )
    output = model.unembedding()
    run = prompt if isinstance(prompt, xr.Dataset) else model.trajectory(prompt, layers, progress=progress)
    _require_run(run, model)
    clusters = run.cluster.values if "cluster" in run else None
    steps = len(run.tokens)
    last = _log_probabilities(model, output, run.tokens.values[-1])
    kept: list[dict[str, np.ndarray]] = []
    with reporting(progress) as report:
        for time, tokens in enumerate(run.tokens.values):
            own = last if time == steps - 1 else _log_probabilities(model, output, tokens)
            kept.append(_of_layer(own, last, top, None if clusters is None else clusters[time]))
            report((time + 1) / steps, f"words of layer {time}")
    return _dataset(model, run, {name: np.stack([one[name] for one in kept]) for name in kept[0]})


def lens_rows(lens: xr.Dataset) -> list[dict[str, Any]]:
    """One row a layer of a `logit_lens`, as plain values.

    Returns
    -------
    Rows with the `layer`, the mean `entropy` and `divergence` over tokens, the share of tokens whose first word is that
    of the last layer (`agreement`), the `last_word` that the last token predicts with its `probability`, and the
    `clusters` of two or more tokens, the largest first, each with its `words`, the `word` that it predicts and the
    `probability` of that word; empty where the lens was not made of a `prompt_report`.

    Examples
    --------
    >>> import attnflow as af
    >>> import json, pathlib, safetensors.numpy
    >>> config = json.loads(pathlib.Path(folder, "config.json").read_text())
    >>> arrays = safetensors.numpy.load_file(pathlib.Path(folder, "model.safetensors"))
    >>> d, head = config["hidden_size"], "cls.predictions.transform"  # an output layer, tied to the embedding
    >>> arrays |= {f"{head}.dense.weight": np.eye(d), f"{head}.LayerNorm.weight": np.ones(d)}
    >>> lens = af.trained.logit_lens(af.models.from_arrays(config, arrays), [5, 17, 3], progress=False)
    >>> lens_rows(lens)[-1]["agreement"]
    1.0
    """
    first = lens.predicted_id.isel(rank=0).values
    rows = []
    for time in range(lens.sizes["time"]):
        one = lens.isel(time=time)
        rows.append({
            "layer": time,
            "entropy": float(one.entropy.mean()),
            "divergence": float(one.divergence.mean()),
            "agreement": float(np.mean(first[time] == first[-1])),
            "last_word": str(one.predicted_word.values[-1, 0]),
            "probability": float(one.probability.values[-1, 0]),
            "clusters": _named(one) if "cluster" in lens else [],
        })  # fmt: skip
    return rows


def _named(one: xr.Dataset) -> list[dict[str, Any]]:
    """The clusters of one layer with the word that each predicts."""
    found, labels = [], one.cluster.values
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        if len(places) > 1:
            word, share = one.cluster_word.values[places[0]], one.cluster_probability.values[places[0]]
            words = [str(one.word.values[place]) for place in places]
            found.append({"words": words, "word": str(word), "probability": float(share)})
    return sorted(found, key=lambda cluster: -len(cluster["words"]))


def _require_run(run: xr.Dataset, model: Model) -> None:
    if run.attrs.get("model") != model.name or "tokens" not in run or run.sizes.get("coordinate") != model.config.width:
        raise InputError(
            f"`prompt` must be a prompt, or a run of {model.name} made by `trajectory` or `prompt_report`, but it is "
            f"a dataset of {run.attrs.get('model', 'another kind')}."
        )


def _log_probabilities(model: Model, output: Any, tokens: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of all words, (n, words) in float64."""
    size = max(1, BLOCK_BYTES // (8 * model.config.vocabulary))
    parts = []
    with double():
        for first in range(0, len(tokens), size):
            logits = np.asarray(output(model.last_norm(tokens[first : first + size])), dtype=float)
            parts.append(np.asarray(jax.nn.log_softmax(logits)))
    return np.concatenate(parts)


def _of_layer(own: np.ndarray, last: np.ndarray, top: int, clusters: np.ndarray | None) -> dict[str, np.ndarray]:
    chances = np.exp(own)
    best = np.argpartition(-own, top - 1, axis=1)[:, :top]
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(own, best, 1), axis=1, kind="stable"), 1)
    found = {
        "predicted_id": best,
        "probability": np.take_along_axis(chances, best, 1),
        "entropy": -np.sum(chances * np.where(chances > 0, own, 0.0), axis=1),
        "divergence": np.sum(np.exp(last) * (last - own), axis=1),
    }
    if clusters is None:
        return found
    words, shares = np.empty(len(own), dtype=int), np.empty(len(own))
    for label in np.unique(clusters):
        mean = chances[clusters == label].mean(axis=0)
        words[clusters == label], shares[clusters == label] = mean.argmax(), mean.max()
    return found | {"cluster_id": words, "cluster_probability": shares}


def _dataset(model: Model, run: xr.Dataset, found: dict[str, np.ndarray]) -> xr.Dataset:
    per_token, per_rank = ("time", "token"), ("time", "token", "rank")
    variables: dict[str, Any] = {name: (per_rank if v.ndim == 3 else per_token, v) for name, v in found.items()}
    variables["predicted_word"] = (per_rank, _words(model, found["predicted_id"]))
    if "cluster_id" in found:
        variables |= {"cluster_word": (per_token, _words(model, found["cluster_id"])), "cluster": run.cluster}
    lens = xr.Dataset(variables, {"time": run.time, "id": run.id, "word": run.word})
    return lens.assign_attrs(model=model.name, kind="attnflow logit lens")


def _words(model: Model, ids: np.ndarray) -> np.ndarray:
    different, places = np.unique(ids, return_inverse=True)
    return np.array(model.words(different), dtype=object)[places].reshape(ids.shape)
