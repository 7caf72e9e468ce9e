"""The frozen-attention prediction on prompts: how many layers the attention of one layer stands for that of the next.

From layer s on, every block keeps its values, norms and MLP, and its weights are those of layer s: the tokens of a
layer are then predicted without any later scores. In place of the frozen weights the controls have those of another
prompt, equal weights, or the heads in another order; or nothing moves. "Z' = (P - I) Z" is the slides' master
equation itself: P is the mean over the heads of layer s, V = I, and a layer is one unit of time.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow.analyse import frozen_attention
from attnflow.models.block import Block
from attnflow.models.transformer import Model

FROZEN = "frozen attention"
MASTER = "Z' = (P - I) Z"
CONTROLS = ("heads in another order", "attention of another prompt", "equal weights", "tokens at rest")
TOLERANCE = 0.1  # relative error up to which a prediction is said to last


def frozen_errors(model: Model, ids: np.ndarray, layers: int | None = None, progress: Progress = None) -> xr.Dataset:
    """Relative errors |predicted - true| / |true| over (variant, start, ahead, prompt), of prompts (prompts, n).

    `start` is the layer whose attention is kept, from 0; `ahead` is the number of layers predicted, from 1.
    NaN beyond the last layer.
    """
    if len(ids) < 2:
        raise InputError("`ids` must be at least 2 prompts, since each has the attention of another as a control.")
    depth = model.require_depth(layers)
    states, weights = _true_states(model, ids, depth)
    predictions = _predictions(model)
    errors = np.full((len(predictions), depth, depth, len(ids)), np.nan)
    with reporting(progress) as report:
        for start in range(depth):
            for row, predict in enumerate(predictions.values()):
                predicted = predict(states[start], weights[start], start, depth)
                errors[row, start, : depth - start] = [
                    _relative(one, true) for one, true in zip(predicted, states[start + 1 :], strict=True)
                ]
            report((start + 1) / depth, f"attention of layer {start + 1}")
    coordinates = {"variant": list(predictions), "start": np.arange(depth), "ahead": np.arange(1, depth + 1)}
    return xr.Dataset({"error": (("variant", "start", "ahead", "prompt"), errors)}, coordinates)


def lasting_layers(errors: xr.DataArray, tolerance: float = TOLERANCE) -> xr.DataArray:
    """Number of layers in a row, from the first predicted, whose error is within the tolerance.

    Where the prediction holds to the last layer, that is the number of layers there are from the start.
    """
    return (errors <= tolerance).astype(int).cumprod("ahead").sum("ahead")


def _predictions(model: Model) -> dict[str, Callable]:
    """The function of each variant: states and weights of a layer, its number and the depth -> predicted states."""
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        FROZEN: lambda weights: weights,
        CONTROLS[0]: lambda weights: np.roll(weights, 1, axis=1),
        CONTROLS[1]: lambda weights: np.roll(weights, 1, axis=0),
        CONTROLS[2]: _equalised,
    }
    with_blocks = {name: partial(_with_weights, model, change) for name, change in changes.items()}
    if model.config.heads == 1:
        del with_blocks[CONTROLS[0]]
    return {FROZEN: with_blocks.pop(FROZEN), MASTER: _by_master_equation, **with_blocks, CONTROLS[3]: _at_rest}


def _with_weights(
    model: Model, change: Callable, tokens: np.ndarray, weights: np.ndarray, start: int, depth: int
) -> list[np.ndarray]:
    kept, found = change(weights), []
    with double():
        for layer in range(start, depth):
            block = model.block(layer % model.config.layers)
            tokens = np.asarray(_step(block, jnp.asarray(tokens), jnp.asarray(kept, tokens.dtype)))
            found.append(tokens)
    return found


def _by_master_equation(tokens: np.ndarray, weights: np.ndarray, start: int, depth: int) -> list[np.ndarray]:
    times = np.arange(depth - start + 1.0)
    mean = weights.mean(axis=1, dtype=float)
    mean /= mean.sum(axis=-1, keepdims=True)  # rows add up to one within float32 only
    paths = [frozen_attention.predict(one, own, times)[1:] for one, own in zip(mean, tokens.astype(float), strict=True)]
    return list(np.stack(paths, axis=1))


def _at_rest(tokens: np.ndarray, weights: np.ndarray, start: int, depth: int) -> list[np.ndarray]:
    del weights
    return [tokens] * (depth - start)


def _equalised(weights: np.ndarray) -> np.ndarray:
    """Equal weights of all tokens that are seen."""
    is_seen = (weights > 0).any(axis=(0, 1))
    return np.broadcast_to(is_seen / is_seen.sum(axis=-1, keepdims=True), weights.shape)


def _true_states(model: Model, ids: np.ndarray, depth: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The tokens of all prompts before the first and after every layer, and the weights of every layer."""
    states = [np.stack([np.asarray(model.embed(one), model.dtype) for one in ids])]
    weights = []
    with double():
        for layer in range(depth):
            block = model.block(layer % model.config.layers)
            after, own = _true_step(block, jnp.asarray(states[-1]))
            states.append(np.asarray(after))
            weights.append(np.asarray(own))
    return states, weights


def _relative(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    return np.linalg.norm(predicted - true, axis=(1, 2)) / np.linalg.norm(true, axis=(1, 2))


@eqx.filter_jit
def _step(block: Block, batch: AnyArray, weights: AnyArray) -> AnyArray:
    return jax.vmap(lambda tokens, own: block.after_mlp(block.after_attention(tokens, own), tokens))(batch, weights)


@eqx.filter_jit
def _true_step(block: Block, batch: AnyArray) -> tuple[AnyArray, AnyArray]:
    return jax.vmap(block)(batch), jax.vmap(block.attention_weights)(batch)
