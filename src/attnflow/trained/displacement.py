"""The output of attention on a prompt, split by parts of V."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow._common.precision import double
from attnflow._common.threads import on_cores, one_blas_thread
from attnflow.analyse import low_rank
from attnflow.model.heads import Head
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained.prompt_runs import run_of

SPLITS = {"symmetry": low_rank.Parts._fields, "spectrum": ("positive", "negative", "complex")}
Pairs = list[tuple[np.ndarray, np.ndarray]]


def displacements(
    model: Model, prompt: Prompt | xr.Dataset, layers: int | None = None, *, split: str = "symmetry"
) -> xr.Dataset:
    """The output of the heads of each layer, sum_h sum_j A_ij V_h x_j without biases, split by parts of V.

    In a model with a norm before attention x_j is divided by its root mean square, and V_h includes the norm's gain and
    centring, as in `model.heads`; the constant that the norm's shift adds is one of the biases.

    Parameters
    ----------
    model, layers
        As in `model.trajectory`.
    prompt
        As in `model.trajectory`, or the result of `model.trajectory` with attention or of `prompt_report`.
    split
        "symmetry": V = attractive + repulsive + rotational, the symmetric part by sign and the antisymmetric part.
        "spectrum": V = positive + negative + complex, by its eigenvalues.

    Returns
    -------
    A dataset with `displacement` over (layer, part, token, coordinate), whose sum over parts is the output of
    attention; and over (layer, part) `length`, its root mean square over tokens, and `cosine_change`, the rate of
    change of the mean cosine between tokens that move along it: positive where the part contracts. Changes add up
    over parts.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.displacements(model, [5, 17, 3, 5])
    >>> found.part.values.tolist()
    ['attractive', 'repulsive', 'rotational']
    """
    require_known(split, SPLITS, "split")
    run = run_of(model, prompt, layers, attention=True)
    depth = run.sizes["time"] - 1
    stream = run.tokens.values.astype(float)
    with one_blas_thread():
        moved = np.stack(list(_outputs_by_layer(model, stream, run.attention.values, split)))
    lengths = np.sqrt(np.mean(np.sum(moved**2, axis=-1), axis=-1))
    changes = np.array([[mean_cosine_rate(stream[layer], one) for one in moved[layer]] for layer in range(depth)])
    per_part = ("layer", "part")
    return xr.Dataset(
        {
            "displacement": ((*per_part, "token", "coordinate"), moved),
            "length": (per_part, lengths),
            "cosine_change": (per_part, changes),
        },
        {"part": list(SPLITS[split]), "word": run.word},
        {"model": model.name, "split": split},
    )


def mean_cosine_rate(tokens: np.ndarray, velocities: np.ndarray) -> float:
    """d/dt of the mean cosine between distinct tokens that move with these velocities; NaN for a single token.

    Examples
    --------
    Two orthogonal tokens, one turning towards the other at unit speed.

    >>> mean_cosine_rate(np.eye(2), np.array([[0.0, 1.0], [0.0, 0.0]]))
    1.0
    """
    n, lengths = len(tokens), np.linalg.norm(tokens, axis=1, keepdims=True)
    if n == 1:
        return np.nan
    units = tokens / lengths
    turning = (velocities - np.sum(units * velocities, axis=1, keepdims=True) * units) / lengths
    return float(2 * np.sum(turning * units.sum(axis=0)) / (n * (n - 1)))


def _outputs_by_layer(model: Model, stream: np.ndarray, attention: np.ndarray, split: str) -> Iterator[np.ndarray]:
    """The output of all heads of each layer, (part, token, coordinate); heads of shared layers are split once."""
    of_heads: list[Pairs] = []
    for layer, weights in enumerate(attention.astype(float)):
        number = layer % model.config.layers
        if layer == 0 or not model.config.shares_layers:
            of_heads = on_cores(partial(_parts, split=split), model.heads(number))
        yield _output(of_heads, _read_by_heads(model, number, stream[layer]), weights)


def _read_by_heads(model: Model, layer: int, tokens: np.ndarray) -> np.ndarray:
    """The tokens that the heads of `model.heads` act on: centred and divided where a norm precedes attention."""
    norm = model.attention_norm(layer)
    if norm is None:
        return tokens
    with double():
        return np.asarray(norm.without_gain()(tokens.astype(model.dtype)), dtype=float)


def _output(of_heads: list[Pairs], read: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The output of all heads, (part, token, coordinate), from the parts of V of each."""

    def of_part(part: int) -> np.ndarray:
        total = np.zeros(read.shape)
        for pairs, attention in zip(of_heads, weights, strict=True):
            left, right = pairs[part]
            total += attention @ (read @ right.T) @ left.T
        return total

    return np.stack(on_cores(of_part, range(len(of_heads[0]))))


def _parts(head: Head, split: str) -> Pairs:
    """The parts of V of a head, each as two factors."""
    outward, inward = np.asarray(head.output), np.asarray(head.value)
    if split == "symmetry":
        return list(low_rank.parts(outward, inward))
    parts = low_rank.spectral_parts(outward, inward)
    return [parts[name] for name in SPLITS[split]]
