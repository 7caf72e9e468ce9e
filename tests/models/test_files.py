"""Checkpoints on disk and on the hub: only what is needed is read, in whatever layout it is stored."""

import http.server
import json
import struct
import threading

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.helpers import tiny_models
from tests.helpers.tiny_models import IDS, LAYERS, WIDTH

import attnflow as af
from attnflow._common.checks import InputError

K = 3


def rewritten(folder, name, change):
    """A tiny checkpoint whose tensors went through `change`."""
    tiny_models.write(name, folder)
    save_file(change(tiny_models.tensors(name)), folder / "model.safetensors")
    return folder


def write_sharded(folder):
    """A tiny BERT whose embeddings and layers are in a file each."""
    tiny_models.write("bert", folder).joinpath("model.safetensors").unlink()
    tensors = tiny_models.tensors("bert")
    shard_of = {key: key.split(".")[2] if key.startswith("encoder") else "embeddings" for key in tensors}
    files = {key: f"model-{shard}.safetensors" for key, shard in shard_of.items()}
    for file in set(files.values()):
        save_file({key: tensors[key] for key in tensors if files[key] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return folder


def test_the_heads_of_a_layer_need_its_attention_only(tmp_path):
    model = af.models.load(tiny_models.write("bert", tmp_path))

    model.heads(1)

    read = model._tensors.touched
    assert len(read) == 8  # four maps and their biases
    assert all(name.startswith("encoder.layer.1.attention.") for name in read)


def test_a_checkpoint_larger_than_memory(tmp_path):
    """A word table of 100 GB, a hole in the file: heads and prompts read what they need of it."""
    vocabulary = 2**30
    tensors = tiny_models.tensors("bert")
    table = "embeddings.word_embeddings.weight"
    config = tiny_models.CONFIGS["bert"] | {"vocab_size": vocabulary}
    (tmp_path / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for key, value in tensors.items():
        size = vocabulary * WIDTH * 8 if key == table else value.nbytes
        shape = [vocabulary, WIDTH] if key == table else list(value.shape)
        header[key] = {"dtype": "F64", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for key, value in tensors.items():
            file.seek(8 + len(text) + header[key]["data_offsets"][0])
            file.write(value.tobytes())
        file.truncate(8 + len(text) + end)
    model = af.models.load(tmp_path)

    expected = np.concatenate([tensors[table][[7]], np.zeros((1, WIDTH))])

    np.testing.assert_array_equal(model.heads(0)[0].key, tensors["encoder.layer.0.attention.self.key.weight"][:K])
    np.testing.assert_array_equal(model._tensors.rows(table, [7, vocabulary - 1], (vocabulary, WIDTH)), expected)


def test_shards(tmp_path):
    whole = af.models.load(tiny_models.write("bert", tmp_path / "whole"))
    parts = af.models.load(write_sharded(tmp_path / "parts"))

    np.testing.assert_array_equal(parts.heads(1)[0].query, whole.heads(1)[0].query)
    assert set(parts._tensors._files._opened) == {"model-embeddings.safetensors", "model-1.safetensors"}


@pytest.mark.parametrize(("dtype", "eps"), [(np.float32, 6e-8), (np.float16, 5e-4), (ml_dtypes.bfloat16, 4e-3)])
def test_narrow_numbers_are_widened_to_float32(tmp_path, dtype, eps):
    folder = rewritten(tmp_path, "llama", lambda found: {key: value.astype(dtype) for key, value in found.items()})
    stored = tiny_models.tensors("llama")["model.layers.0.self_attn.q_proj.weight"][:6]

    model = af.models.load(folder)

    assert model.dtype == "float32"
    assert model.embed(IDS).dtype == np.float32
    np.testing.assert_allclose(model.head_weights(0)[0].W_Q, stored, rtol=eps, atol=0)
    assert af.models.load(folder, dtype="float64").embed(IDS).dtype == np.float64


def test_names_of_the_first_berts(tmp_path):
    """They called gain and shift gamma and beta, and stood beside a head for a task."""

    def old(found):
        named = {
            key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): found[key] for key in found
        }
        return {f"bert.{key}": value for key, value in named.items()} | {"cls.predictions.bias": np.zeros(40)}

    plain = af.models.load(tiny_models.write("bert", tmp_path / "plain"))
    model = af.models.load(rewritten(tmp_path / "old", "bert", old))

    np.testing.assert_array_equal(model.embed(IDS), plain.embed(IDS))
    np.testing.assert_array_equal(model.block(0).mlp_norm.gain, plain.block(0).mlp_norm.gain)


def write_tokenizer(folder, words):
    """A tokenizer that splits at spaces and puts [CLS] first."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({"[CLS]": 0, "[UNK]": 1} | {w: i + 2 for i, w in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 0)])
    tokenizer.enable_truncation(2)  # as some models are saved; a prompt is never cut silently
    tokenizer.save(str(folder / "tokenizer.json"))


def test_text_ids_and_words(tmp_path):
    write_tokenizer(tiny_models.write("bert", tmp_path), ["tokens", "gather"])
    model = af.models.load(tmp_path)

    found = model.encode("tokens gather slowly")

    assert found.ids.tolist() == [0, 2, 3, 1]
    assert found.words == ["[CLS]", "tokens", "gather", "[UNK]"]
    assert model.encode([2, 3]).words == ["tokens", "gather"]
    assert model.encode(found).ids.tolist() == found.ids.tolist()


def test_words_of_bytes_are_readable(tmp_path):
    """Byte-level tokenizers write a space and an accent as other letters."""
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.WordLevel({"ĠcafÃ©": 0, "Ġ": 1, "Ã": 2}, "Ġ"))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tiny_models.write("gpt2", tmp_path) / "tokenizer.json"))

    assert af.models.load(tmp_path).encode([0, 1, 2]).words == ["café", "Ġ", "Ã"]


class FakeHub(http.server.BaseHTTPRequestHandler):
    """Answers as the Hugging Face hub does, for one repository, org/name."""

    asked: list

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        file = self.path.removeprefix("/org/name/resolve/main/")
        self.asked.append(file)
        known, path = not file.startswith("/"), self.directory / file.lstrip("/")
        self.send_response(200 if known and path.is_file() else 404)
        if known and path.is_file():
            content = path.read_bytes()
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{file}"')
        else:
            content = b""
            self.send_header("X-Error-Code", "EntryNotFound" if known else "RepoNotFound")
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    from huggingface_hub import constants

    write_sharded(tmp_path / "files")
    handler = type("Handler", (FakeHub,), {"asked": [], "directory": tmp_path / "files"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield handler, server
    server.shutdown()
    server.server_close()


def test_a_model_of_the_hub(hub, tmp_path):
    """Only the shards that are needed are fetched, and each once: then there is no network."""
    handler, server = hub
    whole = af.models.load(tiny_models.write("bert", tmp_path / "whole"))

    found = af.models.load("org/name").heads(1)[0].query

    np.testing.assert_array_equal(found, whole.heads(1)[0].query)
    fetched = {file for file in handler.asked if file.startswith("model-")}
    assert fetched == {"model-embeddings.safetensors", "model-1.safetensors"}
    server.shutdown()
    server.server_close()
    assert af.models.load("org/name").name == "name"
    with pytest.raises(InputError, match="is there a network"):
        af.models.load("org/name").heads(LAYERS - 1)


def test_a_name_the_hub_does_not_know(hub):
    with pytest.raises(InputError, match="`org/other` is neither a directory nor a model"):
        af.models.load("org/other")


def variant(name, folder, **changes):
    """A tiny model with other entries in its config."""
    tiny_models.write(name, folder)
    (folder / "config.json").write_text(json.dumps(tiny_models.CONFIGS[name] | changes))
    return af.models.load(folder)


def test_scores_of_gpt2_are_scaled_as_its_config_says(tmp_path):
    """Plain: 1 / sqrt(k). By layer: 1 / (number + 1) in addition. Neither: 1."""
    plain = variant("gpt2", tmp_path / "plain")
    by_layer = variant("gpt2", tmp_path / "layer", scale_attn_by_inverse_layer_idx=True)
    bare = variant("gpt2", tmp_path / "bare", scale_attn_weights=False)
    k = tiny_models.WIDTH // tiny_models.HEADS
    for layer in range(tiny_models.LAYERS):
        expected = np.asarray(plain.heads(layer)[1].query_key)
        np.testing.assert_allclose(by_layer.heads(layer)[1].query_key, expected / (layer + 1))
        np.testing.assert_allclose(bare.heads(layer)[1].query_key, expected * np.sqrt(k))


def test_layers_of_albert_belong_to_groups(tmp_path):
    """transformers gives layer i the group int(i / (layers / groups)): 0, 0, 1 for three layers in two groups."""
    with pytest.raises(InputError, match="the last layer by its config"):  # it has one group of tensors yet
        variant("albert", tmp_path, num_hidden_groups=2)
    own = "encoder.albert_layer_groups.{}."
    tensors = tiny_models.tensors("albert")
    second = {
        key.replace(own.format(0), own.format(1)): 2 * one for key, one in tensors.items() if own.format(0) in key
    }
    save_file(tensors | second, tmp_path / "model.safetensors")
    model = af.models.load(tmp_path)
    first = np.asarray(model.head_weights(0)[2].W_V)
    for layer, factor in enumerate([1, 1, 2]):
        np.testing.assert_array_equal(model.head_weights(layer)[2].W_V, factor * first)
    assert not model.config.shares_layers


def test_rescaled_rotary_positions_of_llama(tmp_path):
    """Linear scaling: position 2 p of the slower model turns as position p of the plain one."""
    plain = variant("llama", tmp_path / "plain")
    slow = variant("llama", tmp_path / "slow", rope_scaling={"type": "linear", "factor": 2.0})
    np.testing.assert_allclose(slow.config.rotary.frequencies, np.array(plain.config.rotary.frequencies) / 2)
