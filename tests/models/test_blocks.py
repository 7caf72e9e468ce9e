"""Heads, blocks and trajectories of trained transformers: conventions, parts, and the parts' absence."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.special import erf
from tests.helpers import tiny_models
from tests.helpers.tiny_models import HEADS, IDS, LAYERS, WIDTH

import attnflow as af
from attnflow._common.checks import InputError

K = WIDTH // HEADS


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: af.models.load(tiny_models.write(name, folder / name)) for name in tiny_models.CONFIGS}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def assert_close(found, expected, atol=1e-11):  # a handful of float64 sums of numbers below 100
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_heads_of_gpt2_are_the_stored_columns(models):
    """Conv1D stores (in, out), and query, key and value side by side."""
    stored = {key.removeprefix("transformer.h.1.attn."): value for key, value in tiny_models.tensors("gpt2").items()}
    fused, out = stored["c_attn.weight"], stored["c_proj.weight"]

    found = models["gpt2"].head_weights(1)[2]

    own = slice(2 * K, 3 * K)
    assert_close(found.W_Q, fused[:, :WIDTH][:, own].T)
    assert_close(found.W_K, fused[:, WIDTH : 2 * WIDTH][:, own].T)
    assert_close(found.W_V, fused[:, 2 * WIDTH :][:, own].T)
    assert_close(found.W_O, out[own].T)
    assert_close(found.b_k, stored["c_attn.bias"][WIDTH : 2 * WIDTH][own])
    assert_close(found.b_o, stored["c_proj.bias"])


def test_heads_of_llama_share_keys_and_values(models):
    """Four heads, two groups: heads 2 and 3 use group 1."""
    stored = tiny_models.tensors("llama")
    k = 6

    found = models["llama"].head_weights(0)

    keys, values = (stored[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "kv")
    for head, group in enumerate([0, 0, 1, 1]):
        assert_close(found[head].W_K, keys[group * k : (group + 1) * k])
        assert_close(found[head].W_V, values[group * k : (group + 1) * k])
        assert_close(found[head].W_O, stored["model.layers.0.self_attn.o_proj.weight"][:, head * k : (head + 1) * k])
    assert found[0].b_q is None


def test_bilinear_form_and_value_map_of_a_head(models):
    """B = W_Q^T W_K / sqrt(k), V = W_O W_V, from the stored tensors of BERT by hand."""
    stored = {
        key.removeprefix("encoder.layer.2.attention."): value for key, value in tiny_models.tensors("bert").items()
    }
    own = slice(K, 2 * K)
    query, key, value = (stored[f"self.{name}.weight"][own] for name in ("query", "key", "value"))

    head = models["bert"].heads(2)[1]

    assert_close(head.query_key, query.T @ key / np.sqrt(K))
    assert_close(head.value_matrix, stored["output.dense.weight"][:, own] @ value)
    assert (head.value.shape, head.output.shape) == ((K, WIDTH), (WIDTH, K))


def test_heads_of_float32_weights_are_scaled_in_float64(models):
    """Rounding to float32 once more would show at 6e-8."""
    model = af.models.load(models["bert"].origin, dtype="float32")
    stored = np.asarray(model.head_weights(2)[1].W_Q)

    assert stored.dtype == np.float32
    np.testing.assert_allclose(model.heads(2)[1].query, stored.astype(float) / np.sqrt(K), rtol=1e-15)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_heads_in_a_flow_are_the_block_without_biases(models, name):
    """The engine, given the heads and the model's mask, moves tokens as the bare attention does."""
    model = models[name]
    tokens = model.embed(IDS)
    mask = af.masks.causal if model.config.is_causal else af.masks.full
    bare = model.block(0).without("biases").attention

    flow = af.EuclideanAttention(model.heads(0, folded=False), mask=mask)

    assert_close(af.attention_matrix(flow, tokens), bare.weights(tokens))
    assert_close(af.velocity(flow, tokens), bare(tokens))
    assert np.abs(af.velocity(flow, tokens) - model.block(0).attention(tokens)).max() > 0.1  # biases do matter


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama3"])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_heads_after_a_norm_score_and_send_as_inside_the_model(models, name, layer):
    """On the model's own hidden states, with its biases, the norm's shift and rotary positions left out.

    With gains near 1 (deviation 0.3) the bare matrices miss the scores by more than a tenth of their size.
    """
    model = models[name]
    stream, block = model.trajectory(IDS).tokens.values[layer], model.block(layer)
    plain = eqx.tree_at(lambda one: one.attention_norm.shift, block, None, is_leaf=lambda one: one is None)
    with jax.enable_x64(True):
        read = np.asarray(plain.attention_input(stream))
        inside = plain.without("biases", "rotary").attention
        scores, sent = np.asarray(inside.scores(read)), np.asarray(inside.outputs_of_heads(read, af.masks.full))
        weights = np.asarray(inside.weights(read, af.masks.full))
    centred = stream - stream.mean(axis=1, keepdims=True) if name == "gpt2" else stream
    units = stream / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-5)

    def missed(heads):
        found = np.stack([units @ head.query_key @ units.T for head in heads])
        values = np.stack([one @ units @ head.value_matrix.T for one, head in zip(weights, heads, strict=True)])
        return np.abs(found - scores).max() / np.abs(scores).max(), np.abs(values - sent).max() / np.abs(sent).max()

    assert max(missed(model.heads(layer))) < 1e-12
    assert min(missed(model.heads(layer, folded=False))) > 0.1


def test_nothing_is_folded_where_the_norm_comes_after(models):
    for folded, bare in zip(models["bert"].heads(1), models["bert"].heads(1, folded=False), strict=True):
        np.testing.assert_array_equal(folded.query, bare.query)
        np.testing.assert_array_equal(folded.value, bare.value)


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama3", "bert"])
def test_a_block_with_its_norm_folded_is_the_same_function(models, name):
    """Gain, centring and shift are in the heads; what is left of the norm has gain one."""
    block, tokens = models[name].block(1), models[name].embed(IDS)
    folded = block.with_folded_norm()
    with jax.enable_x64(True):
        assert_close(folded(tokens), block(tokens))
    if name != "bert":
        assert np.all(np.asarray(folded.attention_norm.gain) == 1)
        assert folded.attention_norm.shift is None


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama3"])
def test_the_outputs_of_the_heads_add_up(models, name):
    block = models[name].block(1)
    tokens = models[name].embed(IDS)

    outputs = block.attention.outputs_of_heads(tokens)

    assert_close(outputs.sum(axis=0) + block.attention.b_o, block.attention(tokens))
    assert_close(block.with_heads([3]).attention(tokens), outputs[3] + block.attention.b_o)


def test_each_part_can_be_left_out(models):
    """BERT's first block written out by hand, with its parts added one at a time."""
    model = models["bert"]
    block, tokens = model.block(0), model.embed(IDS)

    def normed(norm, x):
        centred = x - x.mean(axis=1, keepdims=True)
        return norm.gain * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) + norm.shift

    bare = sum(softmax(tokens @ head.query_key @ tokens.T) @ tokens @ head.value_matrix.T for head in model.heads(0))
    assert_close(block.without("biases", "norms", "mlp")(tokens), tokens + bare)
    moved = tokens + np.asarray(block.attention(tokens))
    assert_close(block.without("norms", "mlp")(tokens), moved)
    assert_close(block.without("mlp")(tokens), normed(block.attention_norm, moved))
    assert_close(block.without("norms")(tokens), moved + np.asarray(block.mlp(moved)))
    after = normed(block.attention_norm, moved)
    assert_close(block(tokens), normed(block.mlp_norm, after + np.asarray(block.mlp(after))))


ACTIVATIONS = {
    "gelu_python": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_fast": lambda x: x * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x))) / 2,
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_by_their_published_formulas(models, name):
    mlp, tokens = models["bert"].block(0).mlp, models["bert"].embed(IDS)
    found = dataclasses.replace(mlp, activation=name)(tokens)
    hidden = ACTIVATIONS[name](tokens @ mlp.inward.T + mlp.inward_bias)
    assert_close(found, hidden @ mlp.outward.T + mlp.outward_bias, atol=1e-8)  # 0.79788... is printed with ten digits
    others = (other for other in ACTIVATIONS if other != name)
    assert all(np.abs(found - dataclasses.replace(mlp, activation=other)(tokens)).max() > 1e-5 for other in others)


def test_only_positions_and_mask_distinguish_equal_tokens_of_llama(models):
    """Without both, permuted tokens move alike; with rotary positions they do not."""
    tokens, order = models["llama"].embed(IDS), np.array([3, 0, 6, 1, 5, 2, 4])
    seen = models["llama"].block(0).with_mask(af.masks.full)

    blind = seen.without("rotary")

    assert_close(blind(tokens[order]), blind(tokens)[order])
    assert np.abs(seen(tokens[order]) - seen(tokens)[order]).max() > 0.1


def test_another_mask(models):
    block, tokens = models["gpt2"].block(0), models["gpt2"].embed(IDS)

    causal, full = block.attention_weights(tokens), block.with_mask(af.masks.full).attention_weights(tokens)

    assert np.all(np.triu(causal, 1) == 0)
    assert np.triu(full, 1).max() > 0.5
    assert_close(full.sum(axis=-1), 1)
    assert_close(
        block.attention.weights(tokens, af.masks.full), block.with_mask(af.masks.full).attention.weights(tokens)
    )


def test_jacobian_of_a_block(models):
    """Against central differences with step h: their error is h^2 = 1e-10 times third derivatives, some 1e4."""
    block, tokens = models["llama"].block(1), jnp.asarray(models["llama"].embed(IDS))
    direction = np.random.default_rng(0).standard_normal(tokens.shape)
    h = 1e-5

    _, found = jax.jit(lambda x: jax.jvp(block, (x,), (jnp.asarray(direction),)))(tokens)

    expected = (block(tokens + h * direction) - block(tokens - h * direction)) / (2 * h)
    assert_close(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["albert", "llama"])
def test_a_trajectory_is_the_blocks_one_after_another(models, name):
    model = models[name]

    run = model.trajectory(IDS, attention=True, sublayers=True)

    tokens = model.embed(IDS)
    for layer in range(LAYERS):
        block = model.block(layer)
        assert_close(run.attention[layer], block.attention_weights(tokens))
        assert_close(run.after_attention[layer], block.after_attention(tokens))
        tokens = block(tokens)
        assert_close(run.tokens[layer + 1], tokens)
    assert run.tokens.dims == ("time", "token", "coordinate")
    assert run.time.values.tolist() == [0, 1, 2, 3]
    assert run.outcome == f"7 tokens through 3 layers of {name}."


def test_the_shared_layer_of_albert_is_iterated(models):
    model = models["albert"]

    run = model.trajectory(IDS, layers=5, attention=True, sublayers=True)

    tokens = model.embed(IDS)
    for _ in range(5):
        tokens = model.block(0)(tokens)
    assert_close(run.final_tokens, tokens)


def test_an_interrupted_trajectory_keeps_what_is_done(models):
    def interrupt(fraction, _):
        if fraction > 0.5:  # after the second of three layers
            raise KeyboardInterrupt

    run = models["albert"].trajectory(IDS, attention=True, sublayers=True, progress=interrupt)

    assert run.sizes["time"] == 3
    assert run.outcome == "7 tokens through 2 layers of albert: interrupted before the other 1."


def test_an_overflow_is_reported(tmp_path):
    folder = tiny_models.write("albert", tmp_path)
    tensors = tiny_models.tensors("albert")
    stem = "encoder.albert_layer_groups.0.albert_layers.0."
    tensors[f"{stem}ffn_output.weight"] *= 5e307  # products are beyond float64
    save_file(tensors, folder / "model.safetensors")

    run = af.models.load(folder).trajectory(IDS, attention=True, sublayers=True)

    assert "Failed at layer 1" in run.outcome


def test_positions_can_be_left_out_of_the_embedding(models):
    stored = tiny_models.tensors("gpt2")
    words = stored["transformer.wte.weight"][IDS]

    assert_close(models["gpt2"].embed(IDS, positions=False), words)
    assert_close(models["gpt2"].embed(IDS), words + stored["transformer.wpe.weight"][: len(IDS)])


def test_a_trajectory_is_a_run_of_attnflow(models, tmp_path):
    run = models["albert"].trajectory(IDS, attention=True, sublayers=True)

    assert af.clusters.count(run, 0.5).dims == ("time",)
    assert len(af.show.trajectories(run).axes) >= 2
    for file in ("prompt.zarr", "prompt.nc"):
        again = af.load(af.save(run, tmp_path / file))
        assert again.word.values.tolist() == [str(one) for one in IDS]
        np.testing.assert_array_equal(again.tokens, run.tokens)
    repeated = said_by(af.load(tmp_path / "prompt.nc"))
    np.testing.assert_array_equal(repeated.tokens, run.tokens)
    fresh = models["albert"].reinitialised(5).trajectory(IDS)
    np.testing.assert_array_equal(said_by(af.load(af.save(fresh, tmp_path / "fresh.nc"))).tokens, fresh.tokens)


def said_by(run):
    """What the code in the sentence of `rerun` gives."""
    with pytest.raises(InputError, match=r"computes the layers of a prompt again") as refused:
        af.rerun(run)
    found = {"models": af.models, "numpy": np, "run": run}
    exec(f"again = {str(refused.value).split('`')[1]}", found)
    return found["again"]


def test_a_prompt_in_a_model_in_memory_says_how_it_was_made(models):
    config, arrays = tiny_models.CONFIGS["bert"], tiny_models.tensors("bert")
    with pytest.raises(InputError, match=r"`models.from_arrays\(config, arrays\).trajectory\(run.id.values\)`"):
        af.rerun(af.models.from_arrays(config, arrays).trajectory(IDS))


def test_random_initial_weights_have_the_deviation_of_the_config(models):
    """GPT-2 starts what it adds to the stream narrower; biases are zero, gains one."""
    twin = models["gpt2"].reinitialised(rng=0)
    block = twin.block(0)

    assert np.std(block.mlp.inward) == pytest.approx(0.02, rel=0.1)  # 576 draws: 3 % is one deviation
    assert np.std(block.mlp.outward) == pytest.approx(0.02 / np.sqrt(2 * LAYERS), rel=0.1)
    assert not np.any(block.attention.b_q)
    assert np.all(np.asarray(block.attention_norm.gain) == 1)


def test_random_initial_weights_depend_on_the_seed_only(models):
    twin, same, other = (models["bert"].reinitialised(rng=seed) for seed in (1, 1, 2))

    same.block(2)  # what else was asked for does not matter
    np.testing.assert_array_equal(twin.heads(1)[0].query, same.heads(1)[0].query)
    assert np.abs(twin.heads(1)[0].query - other.heads(1)[0].query).max() > 0
    assert np.abs(twin.heads(1)[0].query - twin.heads(0)[0].query).max() > 0
