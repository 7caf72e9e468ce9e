"""Variants of a trained model in a study: the model itself, controls, and the rungs of the ladder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.images import Patches
from attnflow.models.transformer import Model
from attnflow.trained.ladders import MASKS, rungs_of
from attnflow.trained.studies.prompt_sets import StudyPrompt

TRAINED = "trained"
CONTROLS = ("untrained", "equal attention", "swapped heads", "shuffled tokens")
DRAWS = 4  # of untrained weights; each serves a quarter of the prompts, so that intervals include their spread


def _same_block(block: Block) -> Block:
    return block


def _same_ids(ids: StudyPrompt, rng: np.random.Generator) -> StudyPrompt:
    del rng
    return ids


@dataclass(frozen=True)
class Variant:
    """A change of the model, of its blocks or of the prompt; the defaults change nothing."""

    name: str
    block: Callable[[Block], Block] = _same_block
    ids: Callable[[StudyPrompt, np.random.Generator], StudyPrompt] = _same_ids
    has_positions: bool = True
    """Whether learned positions are added to the embedding."""
    is_untrained: bool = False
    """Whether random initial weights take the place of the trained ones."""


def variants_of(model: Model, controls: Sequence[str], *, has_ladder: bool) -> list[Variant]:
    """The model itself, its controls, and the rungs of its ladder below the model itself.

    A model with one head has no heads to swap: that control is left out.
    """
    for name in controls:
        require_known(name, CONTROLS, "controls")
    if len(set(controls)) < len(controls):
        raise InputError(f"`controls` must be different, but they are {', '.join(controls)}.")
    made = {
        "untrained": Variant("untrained", is_untrained=True),
        "equal attention": Variant("equal attention", partial(_with_attention, change=without_scores)),
        "swapped heads": Variant("swapped heads", partial(_with_attention, change=with_swapped_heads)),
        "shuffled tokens": Variant("shuffled tokens", ids=shuffled),
    }
    kept = [made[name] for name in controls if not (name == "swapped heads" and model.config.heads == 1)]
    # The last rung is the model itself.
    own_mask = MASKS["causal" if model.config.is_causal else "full"]
    rungs = rungs_of(model, mask=own_mask)[:-1] if has_ladder else []
    return [
        Variant(TRAINED),
        *kept,
        *(Variant(rung.name, rung.block, has_positions=rung.has_positions) for rung in rungs),
    ]


def without_scores(attention: AttentionPart) -> AttentionPart:
    """Heads with Q = K = 0: every token attends equally to all tokens that it sees, up to weights of positions."""
    zero = lambda part: (part.W_Q, part.b_q)
    return eqx.tree_at(zero, attention, jax.tree.map(np.zeros_like, zero(attention)), is_leaf=lambda leaf: leaf is None)


def with_swapped_heads(attention: AttentionPart) -> AttentionPart:
    """Heads with the queries and keys of the next head (the last one with those of the first), and their own values.

    Heads that share keys are moved with their whole group; within a single group only queries are moved.
    """
    groups = len(attention.W_K)
    by = attention.heads // groups if groups > 1 else 1

    def moved(array, places):
        return None if array is None else np.roll(np.asarray(array), -places, axis=0)

    new = (moved(attention.W_Q, by), moved(attention.b_q, by), moved(attention.W_K, 1), moved(attention.b_k, 1))
    swapped = eqx.tree_at(
        lambda part: (part.W_Q, part.b_q, part.W_K, part.b_k), attention, new, is_leaf=lambda leaf: leaf is None
    )
    if attention.query_norm is None or attention.key_norm is None:
        return swapped
    gains = moved(attention.query_norm.gain, by), moved(attention.key_norm.gain, 1)
    return eqx.tree_at(lambda part: (part.query_norm.gain, part.key_norm.gain), swapped, gains)


def shuffled(ids: StudyPrompt, rng: np.random.Generator) -> StudyPrompt:
    """The ids in another order; the first and the last, which are marks of begin and end in most models, stay.

    Of an image, the patches in another order.

    Examples
    --------
    >>> shuffled(np.array([101, 5, 6, 7, 102]), np.random.default_rng(0)).tolist()
    [101, 7, 5, 6, 102]
    """
    if isinstance(ids, Patches):
        return ids.shuffled(rng)
    return np.concatenate([ids[:1], rng.permutation(ids[1:-1]), ids[1:][-1:]])


def _with_attention(block: Block, change: Callable[[AttentionPart], AttentionPart]) -> Block:
    return eqx.tree_at(lambda one: one.attention, block, change(block.attention))
