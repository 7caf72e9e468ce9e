"""Checkpoints that cannot be read: each refusal is one sentence, and what it says to do helps."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers import tiny_models

import attnflow as af
from attnflow._common import memory
from attnflow._common.checks import InputError


@pytest.fixture
def folder(tmp_path):
    return tiny_models.write("bert", tmp_path / "model")


def refusal(folder, **options):
    with pytest.raises(InputError) as caught:
        af.models.load(folder, **options)
    return str(caught.value)


@pytest.mark.parametrize("has_config", [False, True])
def test_an_adapter_is_no_model(tmp_path, has_config):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 8}))
    save_file({"base_model.lora_A.weight": np.zeros((2, 3))}, tmp_path / "adapter_model.safetensors")
    if has_config:
        (tmp_path / "config.json").write_text(json.dumps(tiny_models.CONFIGS["bert"]))
    found = refusal(tmp_path)
    assert "holds an adapter such as LoRA (adapter_config.json)" in found
    assert "another model, org/base, and no model. Merge the two with peft" in found


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_damaged_adapter_is_refused_without_the_name_of_its_model(tmp_path, content):
    (tmp_path / "adapter_config.json").write_text(content)
    assert "changes the weights of another model, and no model" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("file", "name"), [("model.onnx", "ONNX"), ("onnx/model.onnx", "ONNX"), ("tf_model.h5", "TensorFlow")]
)
def test_weights_of_another_library(folder, file, name):
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    (folder / file).write_bytes(b"\x08")
    assert f"only in the format of {name} ({file}), which is not read" in refusal(folder)


def test_weights_in_half_precision_are_read_under_the_usual_name(folder):
    half, usual = folder / "model.fp16.safetensors", folder / "model.safetensors"
    save_file({name: values.astype(np.float16) for name, values in load_file(usual).items()}, half)
    usual.unlink()
    assert "Copy model.fp16.safetensors to model.safetensors" in refusal(folder)

    shutil.copy(half, usual)
    assert len(af.models.load(folder).heads(0)) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "(`quantization_config` in config.json: gptq)"),
        ({"quantization_config": {"quant_method": "awq"}}, "(`quantization_config` in config.json: awq)"),
        ({"quantization_config": [4]}, "(`quantization_config` in config.json: method not named)"),
    ],
)
def test_quantised_weights_by_their_config(folder, changes, said):
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS["bert"] | changes))
    found = refusal(folder)
    assert f"are quantised {said}" in found
    assert "Use a checkpoint that is not quantised" in found


def test_quantised_weights_by_the_file_beside_them(folder):
    """Early versions of AutoGPTQ and AutoAWQ wrote no entry into config.json."""
    (folder / "quantize_config.json").write_text("{}")
    assert "are quantised (it holds quantize_config.json)" in refusal(folder)


def test_quantised_weights_by_their_names(folder):
    tensors = load_file(folder / "model.safetensors")
    stem = "encoder.layer.0.attention.self.key."
    tensors[f"{stem}qweight"] = tensors.pop(f"{stem}weight").astype(np.int32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"quantised weights \(tensors named qweight"):
        af.models.load(folder).heads(0)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_tied_embedding_is_read_after_what_the_refusal_says(tmp_path, name):
    folder = tiny_models.write(name, tmp_path)
    embedding = {"llama": "model.embed_tokens.weight", "gpt2": "transformer.wte.weight"}[name]
    expected = af.models.load(folder).embed([1, 2])
    tensors = tiny_models.tensors(name)
    tensors["lm_head.weight"] = tensors.pop(embedding)
    save_file(tensors, folder / "model.safetensors")

    found = refusal(folder)
    assert f"holds lm_head.weight and not the embedding {embedding}" in found
    into, out_of = re.search(r"t\['(.*?)'\] = t\['(.*?)'\]", found).groups()
    save_file(tensors | {into: tensors[out_of]}, folder / "model.safetensors")
    np.testing.assert_array_equal(af.models.load(folder).embed([1, 2]), expected)


def test_the_model_in_a_folder_of_sentence_transformers_is_named(tmp_path):
    inner = tiny_models.write("bert", tmp_path / "0_Transformer")
    assert f"Pass {inner}." in refusal(tmp_path)
    assert len(af.models.load(inner).heads(0)) == 4


def test_a_config_without_a_type(folder):
    config = {name: value for name, value in tiny_models.CONFIGS["bert"].items() if name != "model_type"}
    (folder / "config.json").write_text(json.dumps(config))
    found = refusal(folder)
    assert "has no `model_type`, as in early files. If you know the architecture, add it" in found
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    assert "None" not in found
    assert len(af.models.load(folder).heads(0)) == 4


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_layers_beyond_those_of_the_config(tmp_path, name):
    """A config.json of a smaller model must not leave layers out without a word."""
    config = dict(tiny_models.CONFIGS[name])
    entry = "n_layer" if name == "gpt2" else "num_hidden_layers"
    assert config[entry] == 3
    with pytest.raises(InputError, match="of a layer after the last one by `config`"):
        af.models.from_arrays(config | {entry: 2}, tiny_models.tensors(name))
    assert af.models.from_arrays(config, tiny_models.tensors(name)).config.layers == 3


def test_the_advice_for_arrays_in_memory_is_not_that_for_files():
    config, arrays = tiny_models.CONFIGS["gpt2"], tiny_models.tensors("gpt2")
    name = next(one for one in arrays if one.endswith("wte.weight"))
    others = {one: array for one, array in arrays.items() if one != name}
    without_last = {one: array for one, array in arrays.items() if ".h.2." not in one and not one.startswith("h.2.")}
    wrong = [
        (config, others, "Pass all arrays of that model"),
        (config, others | {"lm_head.weight": arrays[name]}, r"arrays\['.*wte.weight'\] = arrays\['lm_head.weight'\]"),
        (config, without_last, "the last layer by `config`.*arrays are missing"),
        (
            config,
            arrays | {name: arrays[name][:, :-1]},
            "by `config`, but .* Pass the config and the arrays of one model",
        ),
        (config, arrays | {name: np.ones(arrays[name].shape, dtype="int8")}, "Pass arrays of floating-point numbers"),
        (config | {"n_head": 5}, arrays, "`n_embd` in `config` must be divisible by `n_head`"),
        (config | {"n_embd": "12"}, arrays, "^`config` must have a whole number `n_embd`"),
        (config | {"activation_function": "none"}, arrays, "^The config says the activation of the MLP is 'none'"),
        (config | {"model_type": "unknown"}, arrays, "^`config` says the model is of type 'unknown'"),
    ]
    for own, given, sentence in wrong:
        with pytest.raises(InputError, match=sentence) as caught:
            af.models.from_arrays(own, given)
        for words in ("fetch", "config.json", "FILE", "checkpoint"):
            assert words not in str(caught.value)


HUGE = 10**9


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_hidden_layers": HUGE}, r"no tensor encoder\.layer\.999999999\.\*, the last layer by its config\.json"),
        ({"hidden_size": HUGE}, r"must have shape \(40, 1000000000\) by its config\.json, but it has \(40, 12\)"),
        ({"vocab_size": HUGE}, r"must have shape \(1000000000, 12\)"),
        ({"hidden_size": 10**400}, r"must have shape \(40, 1000"),
    ],
)
def test_sizes_are_checked_against_the_headers_when_a_model_is_loaded(folder, changes, sentence):
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS["bert"] | changes))
    assert re.search(sentence, refusal(folder))


@pytest.mark.parametrize(
    ("name", "entry", "tensor"),
    [
        ("bert", "intermediate_size", "intermediate.dense.weight"),
        ("bert", "max_position_embeddings", "position_embeddings.weight"),
        ("bert", "type_vocab_size", "token_type_embeddings.weight"),
        ("gpt2", "n_inner", "c_fc.weight"),
        ("gpt2", "n_positions", "wpe.weight"),
        ("llama", "intermediate_size", "up_proj.weight"),
        ("llama", "num_attention_heads", "q_proj.weight"),
    ],
)
@pytest.mark.parametrize("size", [10**12, 10**400])
def test_an_untrained_model_that_does_not_fit_into_memory(tmp_path, name, entry, tensor, size):
    """Its tensors are drawn, so that no header limits them."""
    folder = tiny_models.write(name, tmp_path)
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS[name] | {entry: size}))
    twin = af.models.load(folder).reinitialised(0)
    with pytest.raises(
        InputError, match=rf"{tensor} of .* numbers needs .* of memory, but the machine has .*B\. Correct"
    ):
        twin.trajectory(tiny_models.IDS)


def test_a_stored_tensor_larger_than_memory(folder, monkeypatch):
    model = af.models.load(folder)
    monkeypatch.setattr(memory, "present_bytes", lambda: 1000.0)
    with pytest.raises(
        InputError, match=r"query\.weight of 12 x 12 numbers needs 2\.3 kB of memory, but the machine has 1 kB"
    ):
        model.heads(0)


def test_a_layer_larger_than_memory_is_refused_before_it_is_read(folder, monkeypatch):
    """Each of its tensors fits, all together do not; heads, which are a part of it, are read."""
    model = af.models.load(folder)
    monkeypatch.setattr(memory, "present_bytes", lambda: 4000.0)
    monkeypatch.setattr(model._family, "read_block", lambda *_: pytest.fail("read"))
    with pytest.raises(InputError, match=r"One layer of .* numbers in float64\) needs .*kB of memory, but .* 4 kB"):
        model.block(0)
    assert len(model.heads(0)) == tiny_models.HEADS


def test_more_layers_than_memory(tmp_path):
    """The one layer of ALBERT can be iterated at will; by its config.json as well."""
    folder = tiny_models.write("albert", tmp_path)
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS["albert"] | {"num_hidden_layers": 10**12}))
    model = af.models.load(folder)
    sentence = "7 tokens through 1000000000000 layers needs .* of memory, but .* Use fewer layers"
    with pytest.raises(InputError, match=sentence):
        model.trajectory(tiny_models.IDS)
    assert model.trajectory(tiny_models.IDS, 4).sizes["time"] == 5
