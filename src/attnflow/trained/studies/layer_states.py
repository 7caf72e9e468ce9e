"""The states of many prompts after every layer of a variant, computed in batches of equal length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.precision import double
from attnflow.models.block import Block
from attnflow.models.transformer import Model
from attnflow.trained.studies.prompt_sets import StudyPrompt
from attnflow.trained.studies.variants import Variant

BATCH_BYTES = 2**27  # 128 MB: states of a batch inside a block, of which MLP and attention are the largest


@dataclass(frozen=True)
class LayerState:
    """One prompt at one layer."""

    prompt: int
    layer: int
    """0 is the embedding."""
    before: np.ndarray | None
    """Tokens before the layer, (n, d); None at layer 0, as the next two."""
    halfway: np.ndarray | None
    """Tokens after the attention half."""
    attention: np.ndarray | None
    """Weights (heads, n, n)."""
    tokens: np.ndarray
    """Tokens after the layer, (n, d)."""


def layer_states(model: Model, variant: Variant, prompts: Sequence[StudyPrompt], layers: int) -> Iterator[LayerState]:
    """Every prompt at every layer; all prompts at one layer before any prompt at the next."""
    with double():
        current = [np.asarray(model.embed(ids, positions=variant.has_positions)) for ids in prompts]
    for place, tokens in enumerate(current):
        yield LayerState(place, 0, None, None, None, _wide(tokens))
    batches = list(_batches(model, prompts))
    for layer in range(layers):
        block = variant.block(model.block(layer % model.config.layers))
        for batch in batches:
            states = _advanced(block, np.stack([current[place] for place in batch]), model.dtype)
            for row, place in enumerate(dict.fromkeys(batch)):
                after, halfway, weights = (array[row] for array in states)
                yield LayerState(place, layer + 1, _wide(current[place]), _wide(halfway), _wide(weights), _wide(after))
                current[place] = after


def _batches(model: Model, prompts: Sequence[StudyPrompt]) -> Iterator[list[int]]:
    """Places of prompts of one length, a power of two of them; the last batch repeats its last prompt."""
    lengths = np.array([len(ids) for ids in prompts])
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length).tolist()
        size = _batch_size(model, int(length), len(places))
        for first in range(0, len(places), size):
            batch = places[first : first + size]
            yield batch + [batch[-1]] * (size - len(batch))


def _batch_size(model: Model, length: int, count: int) -> int:
    """The largest power of two that is not larger than needed and keeps the states of a batch within its bytes."""
    config = model.config
    numbers = length * (8 * config.width + 2 * config.heads * length)
    fitting = max(BATCH_BYTES // (8 * numbers), 1)
    return min(1 << (count - 1).bit_length(), 1 << (int(fitting).bit_length() - 1))


def _advanced(block: Block, batch: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens after the block, after its attention half, and the weights of attention, for every prompt of a batch."""
    with double():
        after, halfway, weights = _step(block, jnp.asarray(batch, dtype))
        return np.asarray(after), np.asarray(halfway), np.asarray(weights)


@eqx.filter_jit
def _step(block: Block, batch: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    halfway = jax.vmap(block.after_attention)(batch)
    return jax.vmap(block.after_mlp)(halfway, batch), halfway, jax.vmap(block.attention_weights)(batch)


def _wide(array: np.ndarray) -> np.ndarray:
    """The numbers in float64, in which all measures are computed."""
    return np.asarray(array, dtype=float)
