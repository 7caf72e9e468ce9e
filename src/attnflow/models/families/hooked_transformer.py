"""Models of TransformerLens, as its `state_dict` and `cfg` hold them: heads apart, matrices that act on rows.

Norms are LayerNorm ("LN"), RMSNorm ("RMS"), or those without gain ("LNPre", "RMSPre"), which are what is left of a norm
that TransformerLens has folded into the matrices after it.
"""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm
from attnflow.models.rotary import rotation
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("hooked_transformer",)
ANCHOR = "embed.W_E"
NORMS = ("LN", "LNPre", "RMS", "RMSPre")
ABSENT = (
    "use_qk_norm", "use_normalization_before_and_after", "post_embedding_ln", "attn_only", "use_hook_tokens",
    "scale_attn_by_inverse_layer_idx", "use_local_attn", "use_logn_attn", "use_attention_sinks", "use_yarn_rope",
    "use_dynamic_ntk_rope", "rmsnorm_uses_offset", "num_experts", "clip_qkv", "rotary_base_local",
)  # fmt: skip


def read_config(entries: Entries) -> Config:
    """The config of a HookedTransformer."""
    for name in ABSENT:
        entries.refuse_unless(name, False)
    entries.refuse_unless("attention_dir", "causal")
    entries.refuse_unless("positional_embedding_type", "standard", "rotary")
    entries.refuse_unless("normalization_type", *NORMS)
    if entries.raw.get("normalization_type") is None:
        raise InputError("`normalization_type` of the config must be LN or RMS, but the model has no norms.")
    for name in ("attn_scores_soft_cap", "attn_types"):
        entries.refuse_unless(name, -1, -1.0)
    heads, width = entries.count("n_heads"), entries.count("d_model")
    is_rotary = entries.raw.get("positional_embedding_type") == "rotary"
    return Config(
        family="hooked_transformer",
        layers=entries.count("n_layers"),
        heads=heads,
        key_heads=entries.count("n_key_value_heads", heads),
        head_width=entries.count("d_head"),
        width=width,
        embedding_width=width,
        mlp_width=entries.count("d_mlp"),
        vocabulary=entries.count("d_vocab"),
        positions=entries.count("n_ctx"),
        is_causal=True,
        norm="layer" if str(entries.raw["normalization_type"]).startswith("LN") else "rms",
        norm_place="pre",
        norm_epsilon=entries.number("eps", 1e-5),
        activation=entries.word("act_fn", "gelu_new"),
        initializer_range=entries.number("initializer_range", 0.02) if _is_positive(entries) else 0.02,
        raw=entries.raw,
        norm_has_shift=entries.raw["normalization_type"] == "LN",
        is_parallel=bool(entries.raw.get("parallel_attn_mlp", False)),
        rotary=_rotation(entries) if is_rotary else None,
        score_scale=_scale(entries),
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors, and position vectors where positions are not rotations."""
    words = tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))
    if not with_positions or config.rotary is not None:
        return words
    return words + tensors.rows("pos_embed.W_pos", np.arange(len(ids)), (config.positions, config.width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"blocks.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=_mlp(tensors, config, f"{stem(config, layer)}mlp."),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=_norm(tensors, config, _mlp_norm(tensors, config, stem(config, layer))),
        norm_place=config.norm_place,
        is_parallel=config.is_parallel,
    )


def _mlp(tensors: Tensors, config: Config, own: str) -> FeedForward:
    """The MLP; one with a gate adds `b_in` to the product of gate and input, which moves `b_out` by b_in W_out."""
    d, m = config.width, config.mlp_width
    inward, outward = tensors.read(f"{own}W_in", (d, m)).T, tensors.read(f"{own}W_out", (m, d)).T
    inward_bias, outward_bias = tensors.read(f"{own}b_in", (m,)), tensors.read(f"{own}b_out", (d,))
    if not config.raw.get("gated_mlp", False):
        return FeedForward(inward, outward, config.activation, inward_bias, outward_bias)
    gate = tensors.read(f"{own}W_gate", (d, m)).T
    return FeedForward(inward, outward, config.activation, None, outward_bias + outward @ inward_bias, gate)


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer.

    Keys and values are stored under names with an underscore if the config counts them (Gemma 7B has one for each
    query); a bridge of TransformerLens 4 has an underscore only where there are fewer.
    """
    own, d, k = f"{stem(config, layer)}attn.", config.width, config.head_width
    is_grouped = config.key_heads < config.heads or not tensors.holds(f"{own}W_K")
    mark = "_" if is_grouped and tensors.holds(f"{own}_W_K") else ""
    groups = config.key_heads

    def inward(name: str, count: int) -> np.ndarray:
        return np.swapaxes(tensors.read(f"{own}{name}", (count, d, k)), 1, 2)

    rotated = 2 * len(config.rotary.frequencies) if config.rotary else 0
    is_adjacent = bool(config.raw.get("rotary_adjacent_pairs", False))
    order = np.r_[0:rotated:2, 1:rotated:2, rotated:k] if is_adjacent else np.arange(k)
    return AttentionPart(
        W_Q=inward("W_Q", config.heads)[:, order],
        W_K=inward(f"{mark}W_K", groups)[:, order],
        W_V=inward(f"{mark}W_V", groups),
        W_O=np.swapaxes(tensors.read(f"{own}W_O", (config.heads, k, d)), 1, 2),
        b_q=tensors.read(f"{own}b_Q", (config.heads, k))[:, order],
        b_k=tensors.read(f"{own}{mark}b_K", (groups, k))[:, order],
        b_v=tensors.read(f"{own}{mark}b_V", (groups, k)),
        b_o=tensors.read(f"{own}b_O", (d,)),
        mask=config.mask(layer),
        scale=config.score_scale or 1.0,
        rotary=config.rotary,
    )


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return _norm(tensors, config, f"{stem(config, layer)}ln1")


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return _norm(tensors, config, "ln_final")


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range


def _norm(tensors: Tensors, config: Config, name: str) -> Norm:
    """The norm of this name; one that was folded into matrices has gain one and no shift."""
    centres, shape = config.norm == "layer", (config.width,)
    if str(config.raw["normalization_type"]).endswith("Pre"):
        return Norm(np.ones(shape, tensors.dtype), None, config.norm_epsilon, centres)
    shift = tensors.read(f"{name}.b", shape) if centres else None
    return Norm(tensors.read(f"{name}.w", shape), shift, config.norm_epsilon, centres)


def _mlp_norm(tensors: Tensors, config: Config, own: str) -> str:
    """The name of the norm before the MLP.

    In GPT-J and Phi both parts read the same normalised tokens: a HookedTransformer has a second norm, equal to the
    first or left of one that was folded, and a bridge of TransformerLens 4 has the first only.
    """
    is_shared = config.raw.get("original_architecture") in ("GPTJForCausalLM", "PhiForCausalLM")
    return f"{own}ln1" if config.is_parallel and is_shared and not tensors.holds(f"{own}ln2.w") else f"{own}ln2"


def _rotation(entries: Entries):
    """Rotary positions: `rotary_dim` coordinates of each head, with base `rotary_base`."""
    width = entries.count("d_head")
    plain = Entries({"rope_theta": entries.number("rotary_base", 10000.0)}, "`config`")
    entries.refuse_unless("use_NTK_by_parts_rope", False)
    entries.refuse_unless("rotary_scaling_factor", 1, 1.0)
    if entries.raw.get("rotary_dim") is None:  # a TransformerBridge leaves it to the model that it wraps
        raise InputError(
            "`config` does not say how many coordinates are rotated (`rotary_dim`), as that of a bridge of "
            "TransformerLens 4 does not. "
            "Hand over the transformers model that it was made from: from_arrays(model.config, model.state_dict())."
        )
    return rotation(plain, width, part=entries.count("rotary_dim") / width)


def _scale(entries: Entries) -> float:
    """The factor of scores: 1 over `attn_scale`, which is -1 where it is sqrt(k)."""
    if not entries.raw.get("use_attn_scale", True):
        return 1.0
    given = entries.raw.get("attn_scale")
    return 1 / float(given if isinstance(given, float) and given > 0 else math.sqrt(entries.count("d_head")))


def _is_positive(entries: Entries) -> bool:
    """Whether the deviation of initial weights is given; -1 stands for that of the architecture."""
    given = entries.raw.get("initializer_range")
    return isinstance(given, int | float) and given > 0
