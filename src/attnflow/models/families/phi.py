"""Phi-1 and Phi-2: attention and MLP side by side after one norm, rotary positions in a part of each head."""

from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import llama
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("phi",)
ANCHOR = llama.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a Phi."""
    entries.refuse_unless("qk_layernorm", False)
    found = llama.decoder_entries(entries, part=0.5)
    found |= dict.fromkeys(("has_query_bias", "has_output_bias", "has_mlp_bias", "is_parallel"), True)
    found |= {"norm": "layer", "norm_epsilon": entries.number("layer_norm_eps", 1e-5)}
    found["activation"] = entries.word("hidden_act", "gelu_new")
    return Config(**found)


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer; both parts read the same normalised tokens."""
    own, norm = llama.stem(config, layer), read_attention_norm(tensors, config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}mlp.fc1", f"{own}mlp.fc2"),
        attention_norm=norm,
        mlp_norm=norm,
        norm_place=config.norm_place,
        is_parallel=True,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own = f"{llama.stem(config, layer)}self_attn."
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    output = parts.linear(tensors, f"{own}dense", config.width, config.heads * config.head_width)
    return parts.attention(config, layer, maps, output)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "final_layernorm", config)


embed, stem, read_attention_norm, deviation = llama.embed, llama.stem, llama.read_attention_norm, llama.deviation
