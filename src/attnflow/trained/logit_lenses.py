"""The logit lens: the words that tokens of every layer predict through the model's own last norm and unembedding."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_count
from attnflow._common.precision import cast, double
from attnflow._common.progress import Progress, reporting
from attnflow._common.threads import one_blas_thread
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.models.unembedding import Unembedding
from attnflow.trained.prompt_runs import run_of

TOP = 3  # words that are kept of every token
BLOCK_BYTES = 2**22  # of probabilities at a time, 4 MB: larger arrays take longer to allocate than to compute


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
    with double():
        output = cast(model.unembedding(), model.dtype)
    run = run_of(model, prompt, layers, progress=progress)
    clusters = run.cluster.values if "cluster" in run else None
    steps = len(run.tokens)
    last = _logits(model, output, run.tokens.values[-1])
    with double():
        log_last = np.asarray(_log_probabilities(last))
    kept: list[dict[str, np.ndarray]] = []
    with reporting(progress) as report, one_blas_thread():
        for time, tokens in enumerate(run.tokens.values):
            own = last if time == steps - 1 else _logits(model, output, tokens)
            kept.append(_of_layer(own, log_last, top, None if clusters is None else clusters[time]))
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
    text, predicted, shares = one.word.values, one.cluster_word.values, one.cluster_probability.values
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        if len(places) > 1:
            words = [str(text[place]) for place in places]
            word, share = str(predicted[places[0]]), float(shares[places[0]])
            found.append({"words": words, "word": word, "probability": share})
    return sorted(found, key=lambda cluster: -len(cluster["words"]))


def _logits(model: Model, output: Unembedding, tokens: np.ndarray) -> np.ndarray:
    """The logits of all words, (n, words), in the model's precision."""
    with double():
        return np.asarray(_applied(output, model.last_norm(tokens)))


@eqx.filter_jit
def _applied(output: Unembedding, tokens: np.ndarray) -> AnyArray:
    return output(tokens)


def _of_layer(own: np.ndarray, log_last: np.ndarray, top: int, clusters: np.ndarray | None) -> dict[str, np.ndarray]:
    """The numbers of one layer from its logits and the log-probabilities of the last layer, in blocks of tokens."""
    size = max(1, BLOCK_BYTES // (8 * own.shape[1]))
    found: list[dict[str, np.ndarray]] = []
    sums = None if clusters is None else _ClusterSums(clusters, own.shape[1])
    for first in range(0, len(own), size):
        rows = slice(first, first + size)
        with double():
            chances, entropy, divergence = (np.asarray(one) for one in _compared(own[rows], log_last[rows]))
        best = _best(own[rows], top)
        likely = np.take_along_axis(chances, best, 1)
        found.append({"predicted_id": best, "probability": likely, "entropy": entropy, "divergence": divergence})
        if sums is not None:
            sums.add(rows, chances)
    joined = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    return joined if sums is None else joined | sums.words(joined["predicted_id"], joined["probability"])


@jax.jit
def _log_probabilities(logits: jax.Array) -> jax.Array:
    """Log-probabilities in float64."""
    return jax.nn.log_softmax(logits.astype("float64"))


@jax.jit
def _compared(own: jax.Array, log_last: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Probabilities in float64, their entropy, and their divergence from those of the last layer."""
    own = _log_probabilities(own)
    chances = jnp.exp(own)
    entropy = -jnp.sum(chances * jnp.where(chances > 0, own, 0.0), axis=1)
    return chances, entropy, jnp.sum(jnp.exp(log_last) * (log_last - own), axis=1)


def _best(logits: np.ndarray, top: int) -> np.ndarray:
    """The words with the largest logits, (n, top), the largest first."""
    if top == 1:
        return np.argmax(logits, axis=1)[:, None]
    best = np.argpartition(-logits, top - 1, axis=1)[:, :top]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(logits, best, 1), axis=1, kind="stable"), 1)


class _ClusterSums:
    """Sums of the probabilities of all words over each cluster of two or more tokens, added up block by block."""

    def __init__(self, clusters: np.ndarray, words: int):
        _, self._own, self._sizes = np.unique(clusters, return_inverse=True, return_counts=True)
        self._shared = np.flatnonzero(self._sizes > 1)
        self._sums = np.zeros((len(self._shared), words))

    def add(self, tokens: slice, chances: np.ndarray) -> None:
        """Add the probabilities (m, words) of these m tokens."""
        is_member = self._own[None, tokens] == self._shared[:, None]
        found = np.flatnonzero(is_member.any(axis=1))
        self._sums[found] += is_member[found].astype(float) @ chances

    def words(self, best: np.ndarray, likely: np.ndarray) -> dict[str, np.ndarray]:
        """The most probable word in the mean over each token's cluster; of a token by itself, its own."""
        words, shares = best[:, 0].copy(), likely[:, 0].copy()
        for label, total in zip(self._shared, self._sums, strict=True):
            is_member = self._own == label
            words[is_member], shares[is_member] = total.argmax(), total.max() / self._sizes[label]
        return {"cluster_id": words, "cluster_probability": shares}


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
