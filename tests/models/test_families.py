"""Families of checkpoints agree with transformers (references/record_families.py), and their heads with the model."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from tests.helpers import family_models
from tests.helpers.family_models import IDS

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.models.config_entries import Entries
from attnflow.models.families import FAMILIES

NAMES = list(family_models.CONFIGS)


@pytest.fixture(scope="module", params=NAMES)
def family(request, tmp_path_factory):
    model = af.models.load(family_models.write(request.param, tmp_path_factory.mktemp(request.param)))
    return request.param, model, model.trajectory(IDS, attention=True, sublayers=True)


@pytest.fixture(scope="module")
def recorded():
    return dict(np.load(family_models.REFERENCES / "families.npz", allow_pickle=False))


def test_hidden_states_and_attention(family, recorded):
    """1e-9 leaves room for another order of summation; numbers are below 1000."""
    name, model, run = family
    hidden = np.concatenate([run.tokens.values[:-1], run.normed_tokens.values[None]])

    assert model.dtype == "float64"
    np.testing.assert_allclose(hidden, recorded[f"{name}_hidden"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.attention.values, recorded[f"{name}_attention"], rtol=0, atol=1e-9)


def test_the_references_are_demanding(family, recorded):
    """Negative control: attention is far from uniform, and every layer moves the tokens."""
    name, _, _ = family

    assert recorded[f"{name}_attention"].max() > 0.9
    assert np.abs(np.diff(recorded[f"{name}_hidden"], axis=0)).max(axis=(1, 2)).min() > 0.1


def read_by_heads(model, layer, stream):
    """The tokens that heads act on, by the definitions in NumPy."""
    config = model.config
    if config.norm_place != "pre" or model.block(layer).attention_norm is None:
        return stream
    centred = stream - stream.mean(axis=1, keepdims=True) if config.norm == "layer" else stream
    return stream / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + config.norm_epsilon)


def own_lengths(vectors, norm, matrices):
    """Root mean square of each query or key, over that of the isotropic mean; 1 without a norm."""
    if norm is None:
        return np.ones((1, 1))
    whole = matrices if norm.whole is None else np.asarray(norm.whole)[None]
    values = vectors if norm.whole is None else np.concatenate(list(vectors), axis=1)[None]
    mean = np.sqrt(np.square(whole).sum(axis=(1, 2)) / whole.shape[1])
    return np.sqrt(np.square(values).mean(axis=-1) + norm.epsilon) / mean[:, None]


@pytest.mark.parametrize("layer", [0, 1])
def test_heads_score_and_send_as_inside_the_model(family, layer):
    """On the model's own hidden states, without biases and positions; bounds on scores and values are undone.

    Norms of queries and keys divide by each token's own length where heads divide by the mean one.
    """
    name, model, run = family
    stream, block = run.tokens.values[layer], model.block(layer)
    with jax.enable_x64(True):
        bare = eqx.tree_at(
            lambda one: one.attention, block, dataclasses.replace(block.attention, clip=None, softcap=None)
        )
        folded = bare.with_folded_norm().without("biases", "rotary")
        read = np.asarray(folded.attention_input(stream))
        scores = np.asarray(folded.attention.scores(read))
        weights = np.asarray(folded.attention.weights(read))
        sent = np.asarray(folded.attention.outputs_of_heads(read))
    units, heads, part = read_by_heads(model, layer, stream), model.heads(layer), folded.attention
    # In OLMo 2 the joint norm has the queries of all heads, on tokens as they are.
    rows = [np.einsum("hkd,nd->hnk", np.asarray(W), units) for W in (part.W_Q, part.W_K)]
    lengths = [
        own_lengths(one, norm, np.asarray(W))
        for one, norm, W in zip(rows, (part.query_norm, part.key_norm), (part.W_Q, part.W_K), strict=True)
    ]
    lengths = [np.repeat(one, len(heads) // len(one), axis=0) for one in lengths]
    found = np.stack([units @ head.query_key @ units.T for head in heads])
    found = found / lengths[0][:, :, None] / lengths[1][:, None, :]
    values = np.stack([one @ units @ head.value_matrix.T for one, head in zip(weights, heads, strict=True)])

    assert np.abs(found - scores).max() < 1e-11 * np.abs(scores).max()
    assert np.abs(values - sent).max() < 1e-11 * np.abs(sent).max()
    assert name in POST or np.abs(model.heads(layer, folded=False)[0].query - heads[0].query).max() > 1e-3


POST = {"opt_post", "distilbert", "mpnet", "electra", "olmo", "modernbert"}  # nothing, or only a centring, is folded


@pytest.mark.parametrize("place", [0, 6])
def test_one_token_through_a_block_is_a_row_of_the_whole_block(family, place):
    """Its vector after the block, and the derivative with respect to it, against those of all tokens."""
    _, model, run = family
    tokens, block = run.tokens.values[1], model.block(1)

    with jax.enable_x64(True):
        stream = jax.numpy.asarray(tokens)
        whole = lambda own: block(stream.at[place].set(own))[place]
        expected = [np.asarray(one) for one in (whole(stream[place]), jax.jacobian(whole)(stream[place]))]
        alone = lambda own: block.at(stream, place, own)
        found = [np.asarray(one) for one in (alone(stream[place]), jax.jacobian(alone)(stream[place]))]

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_every_part_that_heads_leave_out_is_named(family):
    name, model, _ = family
    expected = {
        "gpt_neox": ("biases", "rotary positions"),
        "qwen2": ("biases", "rotary positions"),
        "qwen3": ("rotary positions", "differences in length among queries and among keys"),
        "gemma2": ("rotary positions", "the bound on scores", "the norm of the output"),
        "olmo": ("rotary positions", "the bound on queries, keys and values"),
        "mpnet": ("biases", "relative positions"),
        "t5": ("relative positions",),
        "modernbert": ("rotary positions",),
    }
    if name in expected:
        assert model.left_out_of_heads(1) == expected[name]


LADDERS = ("gpt_neox", "gemma3", "olmo2", "gpt_neo", "mpnet", "modernbert")


def test_the_last_rung_of_the_ladder_is_the_model(family):
    """Windows and the causal mask come with the last rung; without them a windowed model is another one."""
    name, model, run = family
    if name not in LADDERS:
        pytest.skip("another family has the same rungs")
    steps = af.trained.ladder(model, IDS, layers=2, progress=False)

    assert steps.attrs["distance_to_model"] < 1e-12
    np.testing.assert_allclose(steps.tokens.values[-1], run.tokens.values[:3], rtol=0, atol=1e-9)
    if any(width is not None for width in model.config.windows):
        assert steps.rung.values[-1].endswith("windows")


def test_random_initial_weights(family):
    """Gains are one in effect, biases zero; tokens stay finite through untrained layers."""
    _, model, _ = family
    twin = model.reinitialised(rng=0)
    block = twin.block(1)

    assert np.all(np.asarray(block.mlp_norm.gain) == 1)
    assert np.all(np.isfinite(twin.trajectory(IDS).tokens))


OLDER = {
    "gemma3": {
        "sliding_window_pattern": 3, "rope_local_base_freq": 50.0, "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    "modernbert": {"global_rope_theta": 500.0, "local_rope_theta": 50.0},
    "gpt_neox": {"rotary_emb_base": 50.0, "rotary_pct": 0.5},
    "phi": {"rope_theta": 50.0, "partial_rotary_factor": 0.5},
    "qwen2_windows": {"rope_theta": 50.0, "max_window_layers": 1},
    "longrope": {
        "rope_theta": 100.0,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.3], "long_factor": [1.5, 4.0]},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OLDER)
def test_configs_of_earlier_versions_say_the_same(name):
    """Rotary positions and windows as config.json had them before `rope_parameters` and `layer_types`."""
    newer = family_models.recorded_config(name) | WIDER.get(name, {})
    older = {key: one for key, one in newer.items() if key not in ("rope_parameters", "layer_types")} | OLDER[name]
    family = FAMILIES[newer["model_type"]]

    found, expected = (family.read_config(Entries(one, "a test")) for one in (older, newer))
    changed = family.read_config(Entries(older | {"rope_theta": 7.0} | CHANGED.get(name, {}), "a test"))
    assert found == expected
    assert found.rotary != changed.rotary


WIDER = {name: {"hidden_size": 32} for name in ("gpt_neox", "phi")}  # one plane turns alike for every base
CHANGED = {"modernbert": {"global_rope_theta": 7.0}, "gpt_neox": {"rotary_emb_base": 7.0}}


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("qwen2_windows", {"layer_types": ["full_attention"]}, "for each of 3 layers"),
        ("gpt_neo", {"attention_types": [[["global"], 2]]}, "global or local for each of 3 layers"),
        ("gpt_neo", {"attention_types": [[["global", "sliding", "local"], 1]]}, "global or local for each of 3 layers"),
        ("longrope", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}}, "2 positive numbers"),
        ("mpnet", {"relative_attention_num_buckets": 8}, "relative_attention_num_buckets"),
        ("phi", {"qk_layernorm": True}, "qk_layernorm"),
        ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 0.3}}, "even number"),
        ("dynamic", {"rope_parameters": {"rope_type": "su"}}, "known: default"),
        ("t5", {"feed_forward_proj": "gated-gelu-new"}, "feed_forward_proj"),
    ],
)
def test_configs_that_contradict_themselves(name, wrong, sentence):
    config = family_models.recorded_config(name) | wrong
    with pytest.raises(InputError, match=sentence):
        FAMILIES[config["model_type"]].read_config(Entries(config, "a test"))
