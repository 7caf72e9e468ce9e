"""Linearity of layers over many prompts: pooled tokens, a null, and intervals over prompts.

One prompt has fewer tokens than a model has coordinates, where any two layers are related by a linear map. Tokens of
all prompts are therefore pooled. Independent tokens still have the score rank / (n - 1), so that the null is stated
beside it: the tokens after the layer in another order. Most of a layer is the residual connection, which is linear:
"update" is the score of what the layer adds, x_{l+1} - x_l.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress, reporting
from attnflow._common.threads import one_blas_thread
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained.studies.layer_states import layer_states
from attnflow.trained.studies.prompt_sets import encoded, own_ids, prompt_set
from attnflow.trained.studies.variants import Variant, variants_of

CONTROLS = ("untrained", "shuffled tokens")
QUANTITIES = ("layer", "update")
LEAST_RATIO = 1.5  # tokens over coordinates: with fewer the null is above two thirds
PROMPTS = 64  # of this package
GROUPS = 10  # of prompts, each left out once for the interval
STUDENT = 2.262  # 97.5 % quantile of Student's law with 9 degrees of freedom


def linearity(
    model: Model,
    prompts: str | os.PathLike | Sequence[Prompt] | None = None,
    *,
    layers: int | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> xr.Dataset:
    """Linearity scores between the layers of a model on the pooled tokens of many prompts, with controls and null.

    Parameters
    ----------
    model, prompts
        As in `study`, but at least ten prompts with 1.5 tokens for each coordinate of the model: fewer tokens are
        related by a linear map whatever the layer does.
    layers
        As in `model.trajectory`.
    seed
        Seed of untrained weights, of shuffled tokens and of permutations.
    progress
        As in `simulate`.

    Returns
    -------
    `score` and `null` over (quantity, variant, layer, bound). The quantity "layer" is the map from the tokens before a
    layer to those after it, "update" that to what the layer adds. `bound` has the value, and the `low` and `high` end
    of the 95 % interval by the jackknife over ten groups of prompts. `null` has the tokens after the layer permuted.
    Layer l is the map from state l - 1 to l. The first token of every prompt, a mark in most models and often far
    longer than the others, is left out. `trained.layer_geometry.linearity_score` is the score of one pair.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> prompts = [rng.integers(model.config.vocabulary, size=8).tolist() for _ in range(12)]
    >>> found = af.trained.linearity(model, prompts, progress=False)
    >>> bool((found.score > found.null).sel(variant="trained", quantity="layer", bound="value").all())
    True
    """
    ids = own_ids(model, PROMPTS, seed) if prompts is None else encoded(model, prompt_set(prompts).prompts)
    kept = sum(len(one) - 1 for one in ids)
    least = int(np.ceil(LEAST_RATIO * model.config.width))
    if kept < least or len(ids) < GROUPS:
        raise InputError(
            f"`prompts` must be at least {GROUPS} with {least} tokens together, {LEAST_RATIO:g} times the width of "
            f"{model.name}, since fewer tokens are related by a linear map whatever the layer does; but they are "
            f"{len(ids)} with {kept} (first tokens are left out). Pass more or longer prompts."
        )
    variants = variants_of(model, CONTROLS, has_ladder=False)
    depth = model.require_depth(layers)
    found = np.full((2, len(QUANTITIES), len(variants), depth, 3), np.nan)
    with reporting(progress) as report, one_blas_thread():
        for row, variant in enumerate(variants):
            for layer, (before, after, of_prompt) in enumerate(_pairs(model, variant, ids, depth, seed)):
                found[:, :, row, layer] = _of_layer(before, after, of_prompt, seed)
                report((row + (layer + 1) / depth) / len(variants), f"{variant.name}, layer {layer + 1}")
    dims, names = ("quantity", "variant", "layer", "bound"), [one.name for one in variants]
    return xr.Dataset(
        {"score": (dims, found[0]), "null": (dims, found[1])},
        {
            "quantity": list(QUANTITIES),
            "variant": names,
            "layer": np.arange(1, depth + 1),
            "bound": ["value", "low", "high"],
        },
        {"tokens": kept, "width": model.config.width, "prompts": len(ids)},
    )


def _pairs(
    model: Model, variant: Variant, ids: Sequence[np.ndarray], depth: int, seed: int
) -> Iterator[tuple[np.ndarray, ...]]:
    """Pooled tokens before and after every layer, and the prompt of each."""
    own = model.reinitialised(seed) if variant.is_untrained else model
    given = [variant.ids(one, np.random.default_rng([seed, place])) for place, one in enumerate(ids)]
    prompts = np.repeat(np.arange(len(given)), [len(one) - 1 for one in given])
    before: np.ndarray | None = None
    states: dict[int, np.ndarray] = {}
    for state in layer_states(own, variant, given, depth):
        states[state.prompt] = state.tokens[1:]
        if len(states) == len(given):  # the layer is complete
            after = np.concatenate([states[place] for place in range(len(given))])
            if before is not None:
                yield before, after, prompts
            before, states = after, {}


def _of_layer(before: np.ndarray, after: np.ndarray, prompts: np.ndarray, seed: int) -> np.ndarray:
    """Score and null of the layer and of its update with intervals, (2, quantities, 3)."""
    order, step = np.random.default_rng(seed).permutation(len(after)), after - before
    targets = (after, step, after[order], step[order])
    moved = before - before.mean(axis=0)
    basis, sizes, _ = np.linalg.svd(moved, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes.max(initial=0.0)]
    scores = _scores(basis, [one - one.mean(axis=0) for one in targets], prompts % GROUPS)
    return np.array([_jackknife(one) for one in scores]).reshape(2, len(QUANTITIES), 3)


def _scores(basis: np.ndarray, targets: Sequence[np.ndarray], groups: np.ndarray) -> np.ndarray:
    """`linearity_score` of every target (rows) on all tokens and on those without one group each.

    With the basis U of the span of X: tr(C^T G^+ C) / |Y|^2, where G = U^T U and C = U^T Y are sums over tokens, from
    which the sums of a group and the products of means are subtracted. G is well conditioned, unlike X^T X.
    """
    own = [groups == group for group in range(GROUPS)]
    grams = np.array([basis[one].T @ basis[one] for one in own])
    crosses = np.array([[basis[one].T @ target[one] for one in own] for target in targets])
    found = np.full((len(targets), GROUPS + 1), np.nan)
    for column, left_out in enumerate((None, *range(GROUPS))):
        kept = [group for group in range(GROUPS) if group != left_out]
        place = groups != (-1 if left_out is None else left_out)
        count, mean_x = place.sum(), basis[place].mean(axis=0)
        sizes, axes = np.linalg.eigh(grams[kept].sum(axis=0) - count * np.outer(mean_x, mean_x))
        is_spanned = sizes > 1e-9
        if is_spanned.sum() >= count - 1:  # any target is a linear map of so few tokens
            continue
        for row, target in enumerate(targets):
            mean_y = target[place].mean(axis=0)
            cross = crosses[row, kept].sum(axis=0) - count * np.outer(mean_x, mean_y)
            explained = np.sum((axes[:, is_spanned].T @ cross) ** 2 / sizes[is_spanned, None])
            found[row, column] = explained / (np.sum(target[place] ** 2) - count * mean_y @ mean_y)
    return found


def _jackknife(values: np.ndarray) -> list[float]:
    """Value and ends of its interval within [0, 1], from the value of all and those without one group each."""
    others, count = values[1:], len(values) - 1
    error = np.sqrt((count - 1) / count * np.sum((others - others.mean()) ** 2))
    low, high = np.clip([values[0] - STUDENT * error, values[0] + STUDENT * error], 0.0, 1.0)
    return [float(values[0]), float(low), float(high)]
