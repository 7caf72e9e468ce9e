"""The output of attention on a prompt, split by parts of V; and the trajectory in frames that move with V."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow._common.checks import require_known
from attnflow._common.precision import double
from attnflow._common.threads import one_blas_thread
from attnflow.analyse import low_rank, order
from attnflow.model.heads import Head
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained import layer_similarity
from attnflow.trained.measures import directions

SPLITS = {"symmetry": low_rank.Parts._fields, "spectrum": ("positive", "negative", "complex")}
FRAMES = ("x", "V", "S", "A")
Pairs = list[tuple[np.ndarray, np.ndarray]]


def displacements(model: Model, prompt: Prompt, layers: int | None = None, *, split: str = "symmetry") -> xr.Dataset:
    """The output of the heads of each layer, sum_h sum_j A_ij V_h x_j without biases, split by parts of V.

    In a model with a norm before attention x_j is divided by its root mean square, and V_h includes the norm's gain and
    centring, as in `model.heads`; the constant that the norm's shift adds is one of the biases.

    Parameters
    ----------
    model, prompt, layers
        As in `model.trajectory`.
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
    run = model.trajectory(prompt, layers, attention=True, progress=False)
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


def frames(model: Model, prompt: Prompt, layers: int | None = None) -> xr.Dataset:
    """The prompt's tokens in the fixed frame and in frames moving with V, its symmetric part S or antisymmetric part A.

    With V_l the sum over the heads of layer l and a layer as unit of time, tokens after layer l are multiplied by
    e^{-V_1} ... e^{-V_l}, which for a shared layer is e^{-tV}. The frame does not include biases, norms and MLP.

    In GPT-2 and Llama heads read x / rms(x), with gain and centring of the norm as part of V. Then V_l / r_l takes the
    place of V_l, with r_l the median root mean square of the tokens that enter layer l: the frame is that of a token of
    median length, and `divisor_least` and `divisor_greatest` say how far other tokens are from it. On SmolLM2-135M r_l
    grows from 0.11 to 29, and one token, the first, is up to 160 times as long as the median one.

    Returns
    -------
    A dataset with `tokens` over (frame, time, token, coordinate), frame being "x", "V", "S" or "A", and `mean_cosine`
    and `effective_rank` of each frame over time; and over layer `divisor`, `divisor_least` and `divisor_greatest`, the
    median r_l and the least and greatest root mean square of a token, all 1 in a model without a norm before attention.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.frames(model, [5, 17, 3, 5])
    >>> found.frame.values.tolist()
    ['x', 'V', 'S', 'A']
    """
    run = model.trajectory(prompt, layers, progress=False)
    stream = run.tokens.values.astype(float)
    framed = np.stack([stream] * len(FRAMES))
    back = {name: np.eye(model.config.width) for name in FRAMES[1:]}
    divisors, steps = [], {}
    for layer in range(len(stream) - 1):
        number = layer % model.config.layers
        divisors.append(_divisors(model, number, stream[layer]))
        if layer == 0 or not model.config.shares_layers:
            steps = _steps_back(model.heads(number), float(np.median(divisors[-1])))
        for place, name in enumerate(FRAMES[1:], start=1):
            back[name] = back[name] @ steps[name]
            framed[place, layer + 1] = stream[layer + 1] @ back[name].T
    framed_run = xr.Dataset(
        {"tokens": (("frame", "time", "token", "coordinate"), framed)},
        {"frame": list(FRAMES), "time": run.time, "word": run.word},
        {"model": model.name},
    )
    units = directions(framed_run)
    by_frame = [units.sel(frame=name) for name in FRAMES]
    with one_blas_thread():
        measured = {
            "mean_cosine": [order.mean_cosine(one).values for one in by_frame],
            "effective_rank": [layer_similarity.effective_rank(one).values for one in by_frame],
        }
    of_layers = {"divisor": np.median, "divisor_least": np.min, "divisor_greatest": np.max}
    return framed_run.assign(
        {name: (("frame", "time"), np.stack(values)) for name, values in measured.items()}
        | {name: ("layer", summary(divisors, axis=1)) for name, summary in of_layers.items()}
    )


def _divisors(model: Model, layer: int, tokens: np.ndarray) -> np.ndarray:
    """The root mean square by which the norm before attention divides each token; 1 where there is no such norm."""
    norm = model.block(layer).attention_norm
    if model.config.norm_place != "pre" or norm is None:
        return np.ones(len(tokens))
    with double():
        return np.asarray(norm.divisors(tokens), dtype=float)[:, 0]


def _steps_back(heads: list[Head], divisor: float) -> dict[str, np.ndarray]:
    """e^{-V}, e^{-S} and e^{-A} of a layer.

    V is the sum over heads, divided by the divisor of the tokens; S and A are its symmetric and antisymmetric parts.
    """
    value = np.sum([np.asarray(head.value_matrix) for head in heads], axis=0) / divisor
    halves = {"V": value, "S": (value + value.T) / 2, "A": (value - value.T) / 2}
    sizes, directions_of_s = np.linalg.eigh(halves["S"])
    by_eigenvalues = (directions_of_s * np.exp(-sizes)) @ directions_of_s.T  # three times as fast as by squaring
    return {"V": expm(-halves["V"]), "S": by_eigenvalues, "A": expm(-halves["A"])}


def _outputs_by_layer(model: Model, stream: np.ndarray, attention: np.ndarray, split: str) -> Iterator[np.ndarray]:
    """The output of all heads of each layer, (part, token, coordinate); heads of shared layers are split once."""
    of_heads: list[Pairs] = []
    for layer, weights in enumerate(attention.astype(float)):
        number = layer % model.config.layers
        if layer == 0 or not model.config.shares_layers:
            of_heads = [_parts(head, split) for head in model.heads(number)]
        with double():
            read = model.block(number).with_folded_norm().attention_input(stream[layer].astype(model.dtype))
        yield _output(of_heads, np.asarray(read, dtype=float), weights)


def _output(of_heads: list[Pairs], read: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = np.zeros((len(of_heads[0]), *read.shape))
    for pairs, attention in zip(of_heads, weights, strict=True):
        for place, (left, right) in enumerate(pairs):
            total[place] += attention @ (read @ right.T) @ left.T
    return total


def _parts(head: Head, split: str) -> Pairs:
    """The parts of V of a head, each as two factors."""
    outward, inward = np.asarray(head.output), np.asarray(head.value)
    if split == "symmetry":
        return list(low_rank.parts(outward, inward))
    parts = low_rank.spectral_parts(outward, inward)
    return [parts[name] for name in SPLITS[split]]
