"""Models in GGUF files, as llama.cpp writes them: config, tensors (dequantised on reading) and tokenizer."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.source import extra
from attnflow.models.tensor_files import StoredTensor

ARCHITECTURES = ("llama", "qwen2", "qwen3")  # each is also a `model_type`
# Entries of config.json, and the keys of the same numbers in the file, after the name of the architecture: the number
# of layers of a Llama is in the field llama.block_count.
KEYS = {
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
}
PARTS_OF_LAYER = (
    *(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")),
    *("input_layernorm", "post_attention_layernorm"),
)
# Pieces of text within which byte pairs are merged, by the field tokenizer.ggml.pre of the file: those of GPT-2 (None),
# the same with every digit by itself ("digits"), or those of a regular expression.
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": None,
    "smollm": "digits",
    "qwen2": rf"{WORDS}|\p{{N}}|{SPACES}",
    "llama-bpe": rf"{WORDS}|\p{{N}}{{1,3}}|{SPACES}",
}
CONTROL = 3  # the entry of tokenizer.ggml.token_type for tokens such as the end of a text


@dataclass(frozen=True, eq=False)
class _GgufTensor:
    """A tensor of the file; its numbers are dequantised when they are asked for."""

    tensor: Any
    shape: tuple[int, ...]
    interleaved_heads: int  # the number of heads if their rows are interleaved, see `_halves_of_heads`; otherwise 0

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def get_dtype(self) -> str:
        return "F64" if self.tensor.tensor_type.name == "F64" else "F32"

    def __getitem__(self, rows: slice) -> np.ndarray:
        quants = extra("gguf").quants
        if self.interleaved_heads:
            return _halves_of_heads(self._numbers(quants, slice(None)), self.interleaved_heads)[rows]
        return self._numbers(quants, rows)

    def _numbers(self, quants: Any, rows: slice) -> np.ndarray:
        name = self.tensor.tensor_type.name
        stored = self.tensor.data[rows]
        try:
            values = stored if name in ("F32", "F64") else quants.dequantize(stored, self.tensor.tensor_type)
        except NotImplementedError as error:
            raise InputError(
                f"{self.tensor.name} is quantised as {name}, which the gguf package does not read. "
                "Use a file of another type, such as Q8_0 or F16."
            ) from error
        return np.asarray(values).reshape(-1, *self.shape[1:])


class GgufFile:
    """A GGUF file; on opening, its metadata is read and the place of each tensor."""

    def __init__(self, path: Path):
        self.path = path
        library = extra("gguf")
        try:
            self._reader = _reader_of_plain_arrays(library)(path)
            self._fields = self._reader.fields
            self.architecture = str(self._field("general.architecture"))
            self._tensors = {one.name: one for one in self._reader.tensors}
        except Exception as error:  # the package raises whatever NumPy does where a file ends early
            raise InputError(
                f"{path} ({path.stat().st_size:,} bytes) is not a whole GGUF file. "
                "It is truncated or damaged: fetch it again."
            ) from error
        if self.architecture not in ARCHITECTURES:
            raise InputError(
                f"{path} holds a model of architecture {self.architecture!r}, which is not read from GGUF files; "
                f"known: {', '.join(ARCHITECTURES)}. Pass the checkpoint that it was made from, with model.safetensors."
            )

    def entries(self) -> dict[str, Any]:
        """The metadata under the names of config.json."""
        fields = {name: f"{self.architecture}.{key}" for name, key in KEYS.items()}
        found = {name: self._field(field) for name, field in fields.items() if field in self._fields}
        embedding = self._tensors.get("token_embd.weight")
        return found | {
            "model_type": self.architecture,
            "architectures": [f"GGUF {self.architecture}"],
            "vocab_size": None if embedding is None else int(embedding.shape[-1]),
            "attention_bias": "blk.0.attn_output.bias" in self._tensors,  # of all four maps; Qwen 2 has three
            "rope_scaling": self._rope_scaling(),
            "tie_word_embeddings": "output.weight" not in self._tensors,
        }

    def names(self) -> Collection[str]:
        """The names of all tensors, as in Hugging Face files."""
        return self._own_names

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name of Hugging Face files."""
        tensor = self._tensors.get(self._own_names.get(name, ""))
        if tensor is None:
            return None
        shape = tuple(int(size) for size in reversed(tensor.shape))  # sizes are stored with the fastest axis first
        return _GgufTensor(tensor, shape, self._interleaved_heads(tensor.name, shape[0]))

    def _interleaved_heads(self, own_name: str, rows: int) -> int:
        """The number of heads of a tensor whose rows are interleaved: queries and keys of Llamas; 0 for all others."""
        is_query, is_key = "attn_q." in own_name, "attn_k." in own_name
        if self.architecture != "llama" or not (is_query or is_key):
            return 0
        heads = int(self._field("llama.attention.head_count" if is_query else "llama.attention.head_count_kv"))
        if heads < 1 or rows % (2 * heads):
            raise InputError(f"{own_name} in {self.path} has {rows} rows, which {heads} heads do not share.")
        return heads

    def tokenizer(self) -> Any:
        """The tokenizer of the file, or None if it is not of byte pairs with a known pattern."""
        is_complete = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.pre"} <= set(self._fields)
        if not is_complete or str(self._field("tokenizer.ggml.pre")) not in PATTERNS:
            return None
        library = extra("tokenizers")
        words = self._field("tokenizer.ggml.tokens")
        merges = [tuple(pair.split(" ", 1)) for pair in self._field("tokenizer.ggml.merges")]
        made = library.Tokenizer(library.models.BPE({word: place for place, word in enumerate(words)}, merges))
        made.pre_tokenizer = _pre_tokenizer(library, PATTERNS[str(self._field("tokenizer.ggml.pre"))])
        made.decoder = library.decoders.ByteLevel()
        kinds = self._field("tokenizer.ggml.token_type") if "tokenizer.ggml.token_type" in self._fields else []
        made.add_special_tokens([word for word, kind in zip(words, kinds, strict=False) if kind == CONTROL])
        if "tokenizer.ggml.add_bos_token" in self._fields and self._field("tokenizer.ggml.add_bos_token"):
            first = int(self._field("tokenizer.ggml.bos_token_id"))
            made.post_processor = library.processors.TemplateProcessing(
                single=f"{words[first]} $A", special_tokens=[(words[first], first)]
            )
        return made

    @cached_property
    def _own_names(self) -> dict[str, str]:
        """The name in this file of each tensor, by its name in Hugging Face files."""
        library, layers = extra("gguf"), self._layers()
        table = library.get_tensor_name_map(getattr(library.MODEL_ARCH, self.architecture.upper()), layers)
        parts = [f"layers.{layer}.{part}" for layer in range(layers) for part in PARTS_OF_LAYER]
        found = {"lm_head.weight": "output.weight"} if "output.weight" in self._tensors else {}
        for part in ["embed_tokens", "norm", *parts]:
            own_name = table.get_name(f"model.{part}")
            for suffix in (".weight", ".bias"):
                if own_name is not None and own_name + suffix in self._tensors:
                    found[part + suffix] = own_name + suffix
        return found

    def _layers(self) -> int:
        """The number of layers; InputError if it contradicts the tensors."""
        layers = int(self._field(f"{self.architecture}.block_count"))
        if not 0 < layers <= len(self._tensors):
            raise InputError(f"{self.path} says that it has {layers} layers, but it has {len(self._tensors)} tensors.")
        if any(name.startswith(f"blk.{layers}.") for name in self._tensors):
            raise InputError(
                f"{self.path} says that it has {layers} layers, but it holds more. It is damaged: fetch it again."
            )
        return layers

    def _rope_scaling(self) -> dict[str, Any] | None:
        """The entry `rope_scaling` of config.json, by which rotary frequencies are divided; None without one."""
        stored = self._tensors.get("rope_freqs.weight")
        if stored is not None:
            # A divisor for each plane. Only the type "longrope" of config.json has such tables: one for short prompts,
            # one for long prompts, here the same.
            divisors = np.asarray(stored.data, dtype=float).ravel().tolist()
            return {
                "short_factor": divisors,
                "long_factor": divisors,
                "original_max_position_embeddings": self._field(f"{self.architecture}.context_length"),
                "rope_type": "longrope",
                "attention_factor": 1.0,
            }
        kind = f"{self.architecture}.rope.scaling.type"
        if kind not in self._fields or self._field(kind) == "none":
            return None
        scaling = {"rope_type": str(self._field(kind))}
        for name, key in (("factor", "factor"), ("original_max_position_embeddings", "original_context_length")):
            if f"{self.architecture}.rope.scaling.{key}" in self._fields:
                scaling[name] = self._field(f"{self.architecture}.rope.scaling.{key}")
        return scaling

    def _field(self, name: str) -> Any:
        if name not in self._fields:
            raise InputError(f"{self.path} lacks the entry {name}. It is damaged, or of another kind: fetch it again.")
        return self._fields[name].contents()


def _reader_of_plain_arrays(library: Any) -> type:
    """The package's reader of files, with views of the mapped file that are plain arrays.

    The package makes a view for every word of the vocabulary, and for every few rows of a quantised tensor; making one
    of type `memmap` takes longer than all the rest.
    """

    class Reader(library.GGUFReader):
        @property
        def data(self) -> np.ndarray:
            return self._mapped

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self._mapped = mapped.view(np.ndarray)

    return Reader


def _pre_tokenizer(library: Any, pattern: str | None) -> Any:
    """The step of a tokenizer that cuts a text into pieces, for an entry of `PATTERNS`."""
    steps = library.pre_tokenizers
    if pattern is None:
        return steps.ByteLevel(add_prefix_space=False)
    if pattern == "digits":
        return steps.Sequence([steps.Digits(individual_digits=True), steps.ByteLevel(add_prefix_space=False)])
    split = steps.Split(library.Regex(pattern), behavior="isolated")
    return steps.Sequence([split, steps.ByteLevel(add_prefix_space=False, use_regex=False)])


def _halves_of_heads(stored: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys in the order of Hugging Face files, from that of llama.cpp for Llamas.

    Rotary frequency i turns a plane of two coordinates of a head, which are two of its k rows. In llama.cpp these are
    the rows 2i and 2i + 1, in Hugging Face files i and i + k/2.
    """
    planes = stored.reshape(heads, -1, 2, math.prod(stored.shape[1:]))
    return np.ascontiguousarray(planes.swapaxes(1, 2)).reshape(stored.shape)
