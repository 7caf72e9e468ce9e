"""The unembedding of a language model: tokens of the last layer to logits of all words.

    logits = c tanh((E h(x) + b) / c),     h(x) = N(f(W x + a)) in masked models, h(x) = x in others

for a token x after the model's last norm. E is the matrix of output words, which may be that of the embedding (tied).
The bound c is that of Gemma 2; b, W, a and the norm N exist where the checkpoint has them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow.models.config import Config
from attnflow.models.feed_forward import FeedForward, affine
from attnflow.models.norm import Norm
from attnflow.models.tensors import ROOT, Tensors

# Families whose config.json ties the unembedding to the embedding unless it says otherwise.
TIED = frozenset({"gpt2", "gpt_neo", "opt", "gemma", "gemma2", "gemma3_text"})
SOFTCAPS = {"gemma2": 30.0}  # bounds of logits that config.json may leave out


@dataclass(frozen=True)
class OutputNames:
    """Names of the tensors of an output layer, in the files of a language model; "" where there is none."""

    matrix: str = "lm_head.weight"
    biases: tuple[str, ...] = ("lm_head.bias",)
    """Names that the bias may have: it is that of the first one stored."""
    dense: str = ""
    norm: str = ""
    activation: str = ""
    """Entry of config.json with the activation of masked models; a missing entry is "gelu"."""
    is_turned: bool = False
    """Whether the matrix is stored as (d, words)."""


def _masked(stem: str, dense: str, norm: str, activation: str = "") -> OutputNames:
    biases = (f"{stem}decoder.bias", f"{stem}bias")
    return OutputNames(f"{stem}decoder.weight", biases, f"{stem}{dense}", f"{stem}{norm}", activation)


BERT = _masked("cls.predictions.", "transform.dense", "transform.LayerNorm", "hidden_act")
ROBERTA = _masked("lm_head.", "dense", "layer_norm")
MASKED = {
    "bert": BERT,
    "roberta": ROBERTA,
    "mpnet": ROBERTA,
    "albert": _masked("predictions.", "dense", "LayerNorm", "hidden_act"),
    "electra": OutputNames(
        "generator_lm_head.weight",
        ("generator_lm_head.bias",),
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
    ),
    "distilbert": OutputNames(
        "vocab_projector.weight", ("vocab_projector.bias",), "vocab_transform", "vocab_layer_norm", "activation"
    ),
    "modernbert": OutputNames("decoder.weight", ("decoder.bias",), "head.dense", "head.norm", "classifier_activation"),
}
OTHERS = {
    "gpt_neox": (OutputNames(), OutputNames("embed_out.weight")),
    "hooked_transformer": (OutputNames("unembed.W_U", ("unembed.b_U",), is_turned=True),),
}


@dataclass(frozen=True)
class UnembeddingPlan:
    """Which tensors the unembedding of a checkpoint consists of."""

    names: OutputNames
    is_tied: bool
    """Whether the matrix is that of the embedding."""
    bias: str
    """"" where there is none."""
    has_dense_bias: bool
    has_norm_shift: bool


class Unembedding(eqx.Module):
    """The map of tokens after the last norm to logits."""

    matrix: AnyArray
    """One row a word, (words, width)."""
    bias: AnyArray | None = None
    dense: tuple[AnyArray, AnyArray | None] | None = None
    norm: Norm | None = None
    activation: str = eqx.field(default="gelu", static=True)
    softcap: float | None = eqx.field(default=None, static=True)

    def __call__(self, tokens: AnyArray) -> AnyArray:
        """The logits (n, words) of tokens (n, d)."""
        found = jnp.asarray(tokens, self.matrix.dtype)
        if self.dense is not None:
            found = FeedForward.activations[self.activation](affine(found, *self.dense))
        found = found if self.norm is None else self.norm(found)
        logits = affine(found, self.matrix, self.bias)
        return logits if self.softcap is None else self.softcap * jnp.tanh(logits / self.softcap)


def plan(names: Collection[str], config: Config) -> UnembeddingPlan | None:
    """The unembedding of a checkpoint with tensors of these names; None if it stores none."""
    if config.family in MASKED:
        own = MASKED[config.family]
        if f"{own.dense}.weight" not in names:
            return None
        is_tied = own.matrix not in names
        return _plan(names, own, is_tied)
    for own in OTHERS.get(config.family, (OutputNames(),)):
        if own.matrix in names:
            return _plan(names, own, is_tied=False)
    if config.embedding_width != config.width:  # the smallest OPT maps tokens to the width of words first
        return None
    is_tied = config.is_causal and bool(config.raw.get("tie_word_embeddings", config.family in TIED))
    return _plan(names, OutputNames(), is_tied=True) if is_tied else None


def read_unembedding(tensors: Tensors, config: Config, anchor: str, chosen: UnembeddingPlan) -> Unembedding:
    """The unembedding, read as planned; `anchor` is the name of the embedding."""
    own, words, d = chosen.names, config.vocabulary, config.width
    width = config.embedding_width if own.dense else d
    shape = (width, words) if own.is_turned else (words, width)
    matrix = tensors.read(anchor if chosen.is_tied else ROOT + own.matrix, shape)
    return Unembedding(
        matrix=matrix.T if own.is_turned else matrix,
        bias=tensors.read(ROOT + chosen.bias, (words,)) if chosen.bias else None,
        dense=_dense(tensors, chosen, width, d) if own.dense else None,
        norm=_norm(tensors, config, chosen, width) if own.norm else None,
        activation=str(config.raw.get(own.activation, "gelu")) if own.activation else "gelu",
        softcap=_softcap(config.family, config.raw),
    )


def _plan(names: Collection[str], own: OutputNames, is_tied: bool) -> UnembeddingPlan:
    bias = next((name for name in own.biases if name in names), "")
    shifts = (f"{own.norm}.bias", f"{own.norm}.beta")
    return UnembeddingPlan(own, is_tied, bias, f"{own.dense}.bias" in names, any(name in names for name in shifts))


def _dense(tensors: Tensors, chosen: UnembeddingPlan, width: int, d: int) -> tuple[np.ndarray, np.ndarray | None]:
    stem = ROOT + chosen.names.dense
    bias = tensors.read(f"{stem}.bias", (width,)) if chosen.has_dense_bias else None
    return tensors.read(f"{stem}.weight", (width, d)), bias


def _norm(tensors: Tensors, config: Config, chosen: UnembeddingPlan, width: int) -> Norm:
    stem = ROOT + chosen.names.norm
    shift = tensors.read(f"{stem}.bias", (width,)) if chosen.has_norm_shift else None
    return Norm(tensors.read(f"{stem}.weight", (width,)), shift, config.norm_epsilon, config.norm == "layer")


def _softcap(family: str, raw: Mapping[str, Any]) -> float | None:
    """The bound of logits, or None; null in config.json says that there is none."""
    named = {"hooked_transformer": "output_logits_soft_cap"}.get(family, "final_logit_softcapping")
    given = raw.get(named, SOFTCAPS.get(family))
    return float(given) if isinstance(given, int | float) and given > 0 else None
