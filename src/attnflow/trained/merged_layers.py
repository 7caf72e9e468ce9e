"""Hidden states of a prompt with the attention of every head over merged keys: error against cost, with a control."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow._common.threads import one_blas_thread
from attnflow.model.masks import Causal, Full
from attnflow.models.attention_part import AttentionPart
from attnflow.models.prompt import require_room_for_layers
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained.merged_keys import (
    MergedOutputs,
    all_pairs_outputs,
    group_labels,
    merged_outputs,
    shuffled_labels,
)

SCORE_CHANGES = (0.25, 0.5, 1.0, 2.0, 4.0)
MERGED, CONTROL = "close keys", "random groups"

# The sums of one head from its number, queries, keys and values.
HeadSums = Callable[[int, np.ndarray, np.ndarray, np.ndarray, bool], MergedOutputs]


class Layer(NamedTuple):
    """The tokens after a layer, and for each of its heads the sums that gave them, with their processor seconds."""

    tokens: np.ndarray
    pairs: list[int]
    groups: list[int]
    seconds: float


def merged_attention(
    model: Model,
    prompt: Prompt,
    score_changes: Sequence[float] = SCORE_CHANGES,
    *,
    layers: int | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> xr.Dataset:
    """Errors of hidden states and costs, where the keys of every head of every layer are merged.

    Keys whose scores differ by at most `score_change`, as a root mean square over the queries, are replaced by their
    mean, with the mean of their values, and the logarithm of their number is added to its score (see
    `attnflow.trained.merged_keys`, which states the bound). Under a causal mask a query sees groups of the tokens
    before its block of 128, and those of its block one by one. The control has random groups of the same sizes.

    Parameters
    ----------
    model
        A model whose heads see all tokens or, causally, all earlier ones, without relative positions and bounds on
        scores.
    prompt
        A text, ids, or an image where the model takes one; long, since merging only saves where there are many tokens.
    score_changes
        Root mean squares of changes of scores, above zero.
    layers
        As in `model.trajectory`.
    seed
        Of the control.
    progress
        As in `simulate`.

    Returns
    -------
    A dataset over (groups, score_change, layer): `error`, the mean over tokens of |x' - x| / |x| after the layer, where
    all layers so far are merged; `pair_share` (also over heads), pairs of a query and a key or group over those without
    merging; `group_share`, groups over tokens; `seconds` of the processor for groups and sums, beside `dense_seconds`
    over layers for sums over all keys by the same code.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.merged_attention(model, list(range(12)), [1e-9, 1.0])
    >>> bool((found.error.sel(score_change=1e-9) < 1e-3).all())
    True
    """
    for change in score_changes:
        require_positive_number(change, "score_changes", "Use 1.")
    depth, encoded = model.require_depth(layers), model.encode(prompt)
    require_room_for_layers(model.config, depth, len(encoded), False, np.dtype(model.dtype).itemsize)
    _require_served(model, depth)
    settings = [(groups, change) for groups in (MERGED, CONTROL) for change in score_changes]
    with reporting(progress) as report, double(), one_blas_thread():
        start = jnp.asarray(model.embed(encoded), model.dtype)
        dense = _layers(model, start, depth, _all_pairs)
        runs = []
        for number, (groups, change) in enumerate(settings):
            runs.append(_layers(model, start, depth, _merged(change, groups == CONTROL, seed)))
            report((number + 1) / len(settings), f"{groups}, {change:g}")
    found = _dataset(dense, runs, len(score_changes))
    coordinates = {
        "groups": [MERGED, CONTROL],
        "score_change": np.array(score_changes, float),
        "layer": np.arange(1, depth + 1),
    }
    return found.assign_coords(coordinates).assign_attrs(model=model.name, tokens=len(encoded), seed=seed)


def _require_served(model: Model, depth: int) -> None:
    """Raise InputError unless merged keys stand for those of every layer of a model."""
    for layer in range(depth):
        part = model.block(layer % model.config.layers).attention
        if part.relative is not None or part.softcap is not None or type(part.mask) not in (Full, Causal):
            raise InputError(
                "`model` must have scores that are inner products of queries and keys, and heads that see all tokens "
                f"or all earlier ones, but layer {layer} of {model.name} has relative positions, a bound on scores or "
                "another mask. Use a model such as BERT, GPT-2 or Llama."
            )


def _layers(model: Model, start: AnyArray, depth: int, sums: HeadSums) -> list[Layer]:
    found: list[Layer] = []
    for number in range(depth):
        tokens: AnyArray = found[-1].tokens if found else start
        block = model.block(number % model.config.layers)
        mixed, used = _head_sums(block.attention, block.attention_input(jnp.asarray(tokens)), sums)
        output = block.attention.output_of_mean_values(jnp.asarray(np.stack([one.outputs for one in mixed])))
        after = np.asarray(block.after_mlp(block.after_output(jnp.asarray(tokens), output), jnp.asarray(tokens)))
        found.append(Layer(after, [one.pairs for one in mixed], [one.groups for one in mixed], used))
    return found


def _head_sums(part: AttentionPart, entered: AnyArray, sums: HeadSums) -> tuple[list[MergedOutputs], float]:
    """The sums of every head on what enters them, and the processor seconds that they took."""
    queries, keys = map(np.asarray, part.queries_and_keys(entered))
    values, is_causal = np.asarray(part.values(entered)), type(part.mask) is Causal
    scale = np.asarray(part.scale, queries.dtype)
    began = time.process_time()
    found = [
        sums(head, scale * of_head[0], of_head[1], of_head[2], is_causal)
        for head, of_head in enumerate(zip(queries, keys, values, strict=True))
    ]
    return found, time.process_time() - began


def _all_pairs(head: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool) -> MergedOutputs:
    del head
    return all_pairs_outputs(queries, keys, values, is_causal)


def _merged(change: float, is_shuffled: bool, seed: int) -> HeadSums:
    def sums(head: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool) -> MergedOutputs:
        labels = group_labels(queries, keys, change)
        if is_shuffled:
            labels = shuffled_labels(labels, is_causal, np.random.default_rng([seed, head]))
        return merged_outputs(queries, keys, values, labels, is_causal)

    return sums


def _dataset(dense: list[Layer], runs: list[list[Layer]], changes: int) -> xr.Dataset:
    shaped = lambda values: np.reshape(np.array(values), (2, changes, *np.shape(values)[1:]))
    error = [[_mean_error(one.tokens, true.tokens) for one, true in zip(run, dense, strict=True)] for run in runs]
    pairs = [[np.divide(one.pairs, true.pairs) for one, true in zip(run, dense, strict=True)] for run in runs]
    groups = [[np.divide(one.groups, len(one.tokens)) for one in run] for run in runs]
    seconds = [[one.seconds for one in run] for run in runs]
    over = ("groups", "score_change", "layer")
    variables = {
        "error": (over, shaped(error)),
        "pair_share": ((*over, "head"), shaped(pairs)),
        "group_share": ((*over, "head"), shaped(groups)),
        "seconds": (over, shaped(seconds)),
        "dense_seconds": ("layer", [one.seconds for one in dense]),
    }
    return xr.Dataset(variables)


def _mean_error(found: np.ndarray, true: np.ndarray) -> float:
    lengths = np.linalg.norm(true, axis=1)
    errors = np.linalg.norm(found - true, axis=1)
    return float(np.mean(errors / np.maximum(lengths, np.finfo(lengths.dtype).tiny)))
