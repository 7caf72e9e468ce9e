"""Weights of every format give the same model; files that lie, are truncated or hostile get a sentence."""

import json
import re
import shutil
import struct
import zipfile

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers import family_models, tiny_models
from tests.helpers.torch_files import HOSTILE, PLAIN, index_of, older_format, saved, zip_format

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.models import torch_pickle
from attnflow.models.gguf_file import GgufFile

HIDDEN = np.load(family_models.REFERENCES / "tiny.npz", allow_pickle=False)


def hidden_states(model):
    run = model.trajectory(tiny_models.IDS, attention=True, sublayers=True)
    return np.concatenate([run.tokens.values[:-1], run.normed_tokens.values[None]])


def assert_is(model, name, atol=1e-9):
    np.testing.assert_allclose(hidden_states(model), HIDDEN[f"{name}_hidden"], rtol=0, atol=atol)


def test_several_safetensors_files(tmp_path):
    tensors = tiny_models.tensors("gpt2")
    names = sorted(tensors)
    tiny_models.write("gpt2", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    parts = {"model-1.safetensors": names[:20], "model-2.safetensors": names[20:]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, tmp_path / file)
    index = {"weight_map": {name: file for file, held in parts.items() for name in held}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))

    assert_is(af.models.load(tmp_path), "gpt2")


@pytest.fixture
def npz_folder(tmp_path):
    tiny_models.write("gpt2", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    np.savez(tmp_path / "model.npz", **tiny_models.tensors("gpt2"))
    return tmp_path


def test_npz(npz_folder):
    assert_is(af.models.load(npz_folder), "gpt2")


@pytest.mark.parametrize("form", ["plain", "compressed", "by columns", "half"])
def test_rows_of_an_npz_file(npz_folder, form):
    """Words are read row by row, in place where the file has the rows one after the other."""
    narrow = np.float16 if form == "half" else np.float32
    arrays = {name: np.asarray(array, narrow) for name, array in tiny_models.tensors("gpt2").items()}
    arrays = {name: np.asfortranarray(one) if form == "by columns" else one for name, one in arrays.items()}
    (np.savez_compressed if form == "compressed" else np.savez)(npz_folder / "model.npz", **arrays)
    model, whole = af.models.load(npz_folder), af.models.from_arrays(tiny_models.CONFIGS["gpt2"], arrays)
    np.testing.assert_array_equal(model.embed(tiny_models.IDS), whole.embed(tiny_models.IDS))


def test_the_table_of_words_is_not_read_whole(npz_folder, monkeypatch):
    """A prompt of 128 words read the table 128 times."""
    model, read = af.models.load(npz_folder), np.lib.format.read_array
    shapes = []
    monkeypatch.setattr(np.lib.format, "read_array", lambda *given, **named: _noted(read(*given, **named), shapes))
    model.embed(tiny_models.IDS)
    assert (model.config.vocabulary, model.config.width) not in shapes


def _noted(array, shapes):
    shapes.append(array.shape)
    return array


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.999])
def test_a_truncated_npz_file(npz_folder, kept):
    path = npz_folder / "model.npz"
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(InputError, match="is not a whole npz file"):
        af.models.load(npz_folder)


def npy(header, content=b""):
    """A file of one array, with any header."""
    text = repr(header).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize(
    "header",
    [
        {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)},
        {"descr": "|O", "fortran_order": False, "shape": (1,)},
        {"descr": "<f8", "fortran_order": False, "shape": (-1,)},
    ],
)
def test_an_npz_file_that_lies(npz_folder, header):
    with zipfile.ZipFile(npz_folder / "model.npz", "w") as archive:
        archive.writestr("transformer.wte.weight.npy", npy(header, b"\0" * 64))
    with pytest.raises(InputError, match="is not a whole npz file"):
        af.models.load(npz_folder)


@pytest.mark.parametrize("form", [zip_format, older_format])
def test_a_torch_pickle_is_refused_and_its_conversion_is_the_same_model(tmp_path, form):
    folder = tiny_models.write("bert", tmp_path / "model")
    (folder / "model.safetensors").unlink()
    arrays = tiny_models.tensors("bert")
    first = next(iter(arrays))
    arrays[first] = np.asfortranarray(arrays[first])  # a transposed tensor has other strides
    (folder / "pytorch_model.bin").write_bytes(saved(arrays, form))

    with pytest.raises(InputError, match=r"attnflow convert \S+pytorch_model.bin \S+model.safetensors"):
        af.models.load(folder)
    converted = af.models.convert(folder / "pytorch_model.bin", folder / "model.safetensors")

    assert converted == len(arrays)
    assert_is(af.models.load(folder), "bert")
    with pytest.raises(InputError, match="exists"):
        af.models.convert(folder / "pytorch_model.bin", folder / "model.safetensors")


def test_a_torch_pickle_in_several_files(tmp_path):
    arrays = {"a": np.arange(6.0), "b": np.ones((2, 3), np.float16)}
    for name in arrays:
        (tmp_path / f"{name}.bin").write_bytes(saved({name: arrays[name]}, zip_format))
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {name: f"{name}.bin" for name in arrays}}))

    assert af.models.convert(index, tmp_path / "model.safetensors") == 2
    found = load_file(tmp_path / "model.safetensors")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    index.write_text(json.dumps({"weight_map": {"a": "../a.bin"}}))
    with pytest.raises(InputError, match="weight_map"):
        af.models.convert(index, tmp_path / "other.safetensors")


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_of_a_hostile_pickle_is_run(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    operations, sentence = HOSTILE[case]
    (tmp_path / "hostile.bin").write_bytes(zip_format(index_of({"w": operations}), {"0": PLAIN}))

    with pytest.raises(InputError, match=sentence):
        af.models.convert("hostile.bin", "out.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.bin"]


@pytest.mark.parametrize("form", [zip_format, older_format])
@pytest.mark.parametrize("kept", [0, 0.1, 0.5, 0.97])
def test_a_truncated_pickle(tmp_path, form, kept):
    content = saved({"a": np.arange(40.0), "b": np.ones(30)}, form)
    (tmp_path / "model.bin").write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=r"no whole file of torch\.save"):
        af.models.convert(tmp_path / "model.bin", tmp_path / "out.safetensors")


def test_random_bytes_end_with_a_sentence(tmp_path):
    """Every byte of a small file is changed in turn, to three other values."""
    content = saved({"a": np.arange(3.0)}, older_format)
    path, rng = tmp_path / "model.bin", np.random.default_rng(0)
    for place in range(len(content)):
        for byte in rng.integers(256, size=3).tolist():
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            try:
                found = torch_pickle.tensors(path)
            except InputError:
                continue
            assert all(isinstance(array, np.ndarray) for array in found.values())


def test_a_model_in_memory():
    assert_is(af.models.from_arrays(tiny_models.CONFIGS["gpt2"], tiny_models.tensors("gpt2")), "gpt2")


class Torchlike:
    """An array as torch's tensors show it."""

    def __init__(self, values):
        self.values, self.dtype = values, "torch.bfloat16"

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return self.values.astype("float32")


def test_a_torch_model_in_memory():
    """Parameters that NumPy cannot read as they are: with gradients, on another device, of a narrow type."""
    rounded = {name: array.astype("float32") for name, array in tiny_models.tensors("gpt2").items()}

    class Config:
        def to_dict(self):
            return tiny_models.CONFIGS["gpt2"]

    model = af.models.from_arrays(Config(), {name: Torchlike(array) for name, array in rounded.items()})

    assert model.dtype == "float32"
    assert_is(model, "gpt2", atol=1e-4)


def test_a_flax_model_in_memory():
    """Kernels have the output last, GPT-2's the other way round; scales and embeddings are weights."""
    nested = {}
    for name, array in tiny_models.tensors("bert").items():
        *path, leaf = name.split(".")
        is_table = path[-1].endswith("embeddings")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        kind = "embedding" if is_table else "scale" if array.ndim == 1 and leaf == "weight" else "kernel"
        place[kind if leaf == "weight" else leaf] = array.T if kind == "kernel" and leaf == "weight" else array

    assert_is(af.models.from_arrays(tiny_models.CONFIGS["bert"], nested), "bert")


def lens_of(name):
    """The config and the state dictionary that TransformerLens has of a tiny GPT-2, by its documentation."""
    given = {key.removeprefix("transformer."): array for key, array in tiny_models.tensors(name).items()}
    d, h, k = tiny_models.WIDTH, tiny_models.HEADS, tiny_models.WIDTH // tiny_models.HEADS
    found = {"embed.W_E": given["wte.weight"], "pos_embed.W_pos": given["wpe.weight"]}
    found |= {
        "ln_final.w": given["ln_f.weight"],
        "ln_final.b": given["ln_f.bias"],
        "unembed.W_U": given["wte.weight"].T,
    }
    for layer in range(tiny_models.LAYERS):
        own, new = f"h.{layer}.", f"blocks.{layer}."
        for mine, other in (("ln1", "ln_1"), ("ln2", "ln_2")):
            found |= {f"{new}{mine}.w": given[f"{own}{other}.weight"], f"{new}{mine}.b": given[f"{own}{other}.bias"]}
        matrices = np.split(given[f"{own}attn.c_attn.weight"], 3, axis=1)
        biases = np.split(given[f"{own}attn.c_attn.bias"], 3)
        for letter, matrix, bias in zip("QKV", matrices, biases, strict=True):
            found[f"{new}attn.W_{letter}"] = matrix.reshape(d, h, k).swapaxes(0, 1)
            found[f"{new}attn.b_{letter}"] = bias.reshape(h, k)
        found[f"{new}attn.W_O"] = given[f"{own}attn.c_proj.weight"].reshape(h, k, d)
        found[f"{new}attn.b_O"] = given[f"{own}attn.c_proj.bias"]
        found |= {f"{new}mlp.{mine}": given[f"{own}mlp.{other}"] for mine, other in (
            ("W_in", "c_fc.weight"), ("b_in", "c_fc.bias"), ("W_out", "c_proj.weight"), ("b_out", "c_proj.bias"),
        )}  # fmt: skip
        found |= {f"{new}attn.mask": np.tril(np.ones((4, 4), bool)), f"{new}attn.IGNORE": np.array(-np.inf)}
    config = {
        "n_layers": 3, "d_model": d, "n_ctx": 16, "d_head": k, "n_heads": h, "d_mlp": 4 * d, "d_vocab": 40,
        "act_fn": "gelu_new", "normalization_type": "LN", "eps": 1e-5, "attention_dir": "causal", "attn_only": False,
        "positional_embedding_type": "standard", "use_attn_scale": True, "attn_scale": -1.0, "initializer_range": -1.0,
    }  # fmt: skip
    return config, found


def test_a_model_of_transformer_lens_in_memory():
    config, arrays = lens_of("gpt2")
    model = af.models.from_arrays(config, arrays)

    assert model.family == "hooked_transformer"
    assert_is(model, "gpt2")
    for entry, given in {"attn_only": True, "scale_attn_by_inverse_layer_idx": True, "use_local_attn": True, "clip_qkv": 3.0}.items():  # fmt: skip
        with pytest.raises(InputError, match=entry):
            af.models.from_arrays(config | {entry: given}, arrays)
    with pytest.raises(InputError, match="how many coordinates are rotated"):
        af.models.from_arrays(config | {"positional_embedding_type": "rotary"}, arrays)


def test_a_gated_mlp_of_transformer_lens_adds_its_bias_to_the_product():
    """(silu(x W_gate) * (x W_in) + b_in) W_out + b_out, as GatedMLP of TransformerLens 3.9 has it."""
    config, arrays = lens_of("gpt2")
    rng, d, m = np.random.default_rng(0), config["d_model"], config["d_mlp"]
    arrays |= {f"blocks.{layer}.mlp.W_gate": rng.standard_normal((d, m)) for layer in range(3)}
    model = af.models.from_arrays(config | {"gated_mlp": True, "act_fn": "silu"}, arrays, dtype="float64")
    tokens, own = rng.standard_normal((4, d)), "blocks.1.mlp."
    gate = tokens @ arrays[f"{own}W_gate"]
    product = gate / (1 + np.exp(-gate)) * (tokens @ arrays[f"{own}W_in"])
    expected = (product + arrays[f"{own}b_in"]) @ arrays[f"{own}W_out"] + arrays[f"{own}b_out"]

    with jax.enable_x64(True):
        found = model.block(1).mlp(jax.numpy.asarray(tokens))

    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert np.abs(arrays[f"{own}b_in"]).max() > 0.01


def test_as_many_keys_as_queries_that_transformer_lens_stores_as_groups():
    """The config of Gemma 7B counts its keys, one for each query; their names have an underscore then."""
    config, arrays = lens_of("gpt2")
    marked = {}
    for name, array in arrays.items():
        marked[re.sub(r"attn\.([Wb]_[KV])$", r"attn._\1", name)] = array
    model = af.models.from_arrays(config | {"n_key_value_heads": config["n_heads"]}, marked)

    assert "blocks.0.attn._W_K" in marked
    assert_is(model, "gpt2")


@pytest.mark.parametrize("architecture", ["GPTJForCausalLM", "PhiForCausalLM", "GPTNeoXForCausalLM"])
def test_norms_of_a_parallel_block_of_transformer_lens(architecture):
    """x + attention(ln1 x) + mlp(ln2 x); GPT-J and Phi may come without ln2, which is then ln1."""
    config, arrays = lens_of("gpt2")
    config |= {"parallel_attn_mlp": True, "original_architecture": architecture}
    block = af.models.from_arrays(config, arrays).block(1)
    tokens = np.random.default_rng(0).standard_normal((4, config["d_model"]))
    alone = {name: array for name, array in arrays.items() if ".ln2." not in name}

    with jax.enable_x64(True):
        x = jax.numpy.asarray(tokens)
        np.testing.assert_allclose(block.mlp_norm.gain, arrays["blocks.1.ln2.w"])
        expected = x + block.attention(block.attention_norm(x)) + block.mlp(block.mlp_norm(x))
        np.testing.assert_allclose(block(x), expected, rtol=0, atol=1e-11)
    if architecture == "GPTNeoXForCausalLM":
        with pytest.raises(InputError, match="ln2"):
            af.models.from_arrays(config, alone).block(1)
    else:
        shared = af.models.from_arrays(config, alone).block(1).mlp_norm
        np.testing.assert_array_equal(shared.gain, arrays["blocks.1.ln1.w"])


@pytest.mark.parametrize(
    ("config", "arrays", "sentence"),
    [
        (3, {"a": PLAIN}, "`config` must be"),
        ({}, {}, "empty"),
        ({}, [1], "of type list"),
        ({}, {"a": "text"}, "must be an array of numbers"),
        ({"model_type": "mamba"}, {"a": PLAIN}, "the model is of type 'mamba'"),
    ],
)
def test_what_is_no_model_in_memory(config, arrays, sentence):
    with pytest.raises(InputError, match=sentence):
        af.models.from_arrays(config, arrays)


gguf = pytest.importorskip("gguf", reason="the [gguf] extra is not installed")
QUANTITIES = {
    "block_count": "num_hidden_layers", "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
}  # fmt: skip


def written_gguf(path, name, config, tensors):
    """The file that llama.cpp's converter writes: its names, and planes of Llama's heads as neighbours."""
    arch = config["model_type"]
    writer, table = gguf.GGUFWriter(path, arch), gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), 3)
    for own, entry in QUANTITIES.items():
        writer.add_uint32(f"{arch}.{own}", config[entry])
    writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    writer.add_float32(f"{arch}.rope.freq_base", theta)
    for key, array in tensors.items():
        stem, suffix = key.rsplit(".", 1)
        if arch == "llama" and ("q_proj" in key or "k_proj" in key):
            heads = config["num_attention_heads" if "q_proj" in key else "num_key_value_heads"]
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if stem != "lm_head":
            writer.add_tensor(f"{table.get_name(stem)}.{suffix}", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_gguf_of_a_llama(tmp_path):
    """Numbers in float64; the epsilon of norms is float32 in such files."""
    path = written_gguf(tmp_path / "m.gguf", "llama", tiny_models.CONFIGS["llama"], tiny_models.tensors("llama"))

    assert_is(af.models.load(path), "llama", atol=1e-6)
    assert af.models.load(tmp_path).origin == str(path.resolve())


def test_gguf_files_are_read_as_plain_arrays(tmp_path):
    """The package looks at every word of the vocabulary, which takes four times as long in a `memmap`."""
    path = written_gguf(tmp_path / "m.gguf", "llama", tiny_models.CONFIGS["llama"], tiny_models.tensors("llama"))
    opened = GgufFile(path)
    assert {type(opened.stored(name).tensor.data) for name in opened.names()} == {np.ndarray}


def test_a_gguf_file_with_more_layers_than_it_says(tmp_path):
    path = written_gguf(tmp_path / "m.gguf", "llama", tiny_models.CONFIGS["llama"], tiny_models.tensors("llama"))
    stored, entry = bytearray(path.read_bytes()), b"llama.block_count"
    place = stored.find(entry) + len(entry) + 4  # after the type
    assert stored[place] == 3
    stored[place] = 2
    path.write_bytes(stored)

    with pytest.raises(InputError, match="says that it has 2 layers, but it holds more"):
        af.models.load(path)


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_gguf_of_a_qwen(tmp_path, name):
    path = written_gguf(tmp_path / "m.gguf", name, family_models.recorded_config(name), family_models.tensors(name))
    run = af.models.load(path).trajectory(family_models.IDS, attention=True, sublayers=True)
    expected = np.load(family_models.REFERENCES / "families.npz", allow_pickle=False)[f"{name}_hidden"]

    np.testing.assert_allclose(run.normed_tokens, expected[-1], rtol=0, atol=1e-6)


def test_damaged_gguf_files(tmp_path):
    """Truncated at many places, and with numbers of the header replaced by absurd ones."""
    path = written_gguf(tmp_path / "m.gguf", "llama", tiny_models.CONFIGS["llama"], tiny_models.tensors("llama"))
    content, hurt = path.read_bytes(), tmp_path / "hurt.gguf"
    damaged = [content[:kept] for kept in (0, 3, 10, 20, 100, 1000, len(content) - 40)]
    absurd = [struct.pack("<Q", size) for size in (2**62, 2**40)]
    damaged += [content[:place] + one + content[place + 8 :] for one in absurd for place in (8, 16, 24)]
    for one in damaged:
        hurt.write_bytes(one)
        with pytest.raises(InputError, match=r"is not a whole GGUF file|damaged") as caught:
            af.models.load(hurt)
        assert not re.search("index|dtype|array|buffer|reshape", str(caught.value)), "internals of NumPy"


def test_other_gguf_files(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "mamba")
    writer.add_tensor("a", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match="architecture 'mamba'"):
        af.models.load(tmp_path / "m.gguf")
    shutil.copy(tmp_path / "m.gguf", tmp_path / "n.gguf")
    with pytest.raises(InputError, match="2 GGUF files"):
        af.models.load(tmp_path)
