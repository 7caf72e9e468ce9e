"""The slides' questions on trained weights: settings, controls and numbers against independent computations."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af
from attnflow.trained.studies import flow_questions, frozen_layers, pooled_classes, residual_steps
from attnflow.trained.studies.equal_lengths import prompts_of_length


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    return af.models.load(tiny_models.write(request.param, folder), "float64")


@pytest.fixture(scope="module")
def ids(model):
    return np.random.default_rng(0).integers(tiny_models.VOCABULARY, size=(5, 6))


def test_frozen_attention_is_exact_one_layer_ahead_and_controls_are_not(model, ids):
    errors = frozen_layers.frozen_errors(model, ids, progress=False).error
    one_ahead = errors.sel(ahead=1)
    assert float(one_ahead.sel(variant=frozen_layers.FROZEN).max()) < 1e-12
    for control in frozen_layers.CONTROLS:
        assert float(one_ahead.sel(variant=control).min()) > 1e-6
    lasting = frozen_layers.lasting_layers(errors.sel(variant=frozen_layers.FROZEN))
    assert int(lasting.min()) >= 1


def test_frozen_attention_of_a_shared_uniform_layer_lasts_to_the_end(tmp_path):
    """With Q = 0 attention does not depend on the tokens: what is frozen is what every layer has."""
    shared = af.models.load(tiny_models.write("albert", tmp_path / "albert"), "float64")
    block = shared.block(0)
    from attnflow.trained.studies.variants import without_scores

    plain = type(block)(**{**block.__dict__, "attention": without_scores(block.attention)})
    shared._last_block = (0, plain)
    ids = np.random.default_rng(0).integers(tiny_models.VOCABULARY, size=(2, 5))
    errors = frozen_layers.frozen_errors(shared, ids, progress=False).error
    assert float(errors.sel(variant=frozen_layers.FROZEN).max()) < 1e-12


def test_two_half_steps_are_two_means_of_tokens_and_block(model, ids):
    found = residual_steps.residual_steps(model, ids, [2], progress=False)
    tokens = model.trajectory(ids[0], progress=False).tokens.values
    np.testing.assert_array_equal(found.distance.sel(steps=1), 0.0)
    half = np.asarray(model.embed(ids[0]))
    with af._common.precision.double():
        for layer in range(model.config.layers):
            for _ in range(2):
                half = 0.5 * (half + np.asarray(model.block(layer)(jnp.asarray(half))))
    expected = np.linalg.norm(half - tokens[-1]) / np.linalg.norm(tokens[-1])
    np.testing.assert_allclose(found.distance.sel(variant="trained", steps=2)[0], expected, rtol=1e-9)


def test_classes_of_tokens_and_of_next_tokens():
    prompts = [np.array([0, 5, 7, 5, 9, 0])] * 3
    same = pooled_classes.class_members(prompts, "same token")
    assert [one.tolist() for one in same] == [[-1, 0, -1, 0, -1, -1]] * 3  # 7 and 9 have three members only
    following = pooled_classes.class_members([np.array([0, 5, 7, 4, 7, 0])] * 3, "same next token")
    assert [one.tolist() for one in following] == [[-1, 0, -1, 0, -1, -1]] * 3  # before a 7


def test_variability_is_that_of_the_formula_and_permuted_classes_have_more():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    tokens = rng.normal(size=(3, 4))[labels] + 0.1 * rng.normal(size=(60, 4))
    means = np.stack([tokens[labels == one].mean(axis=0) for one in range(3)])
    within = sum(np.mean(np.sum((tokens[labels == one] - means[one]) ** 2, axis=1)) for one in range(3))
    between = np.sum((means - means.mean(axis=0)) ** 2)
    found = pooled_classes.variability(tokens, labels)
    np.testing.assert_allclose(found, within / between)
    assert pooled_classes.variability(tokens, rng.permutation(labels)) > 10 * found


def test_pooled_intervals_hold_their_value_and_tell_classes_from_chance(model):
    prompts = [np.array([1, 3, 4, 3, 4, 2]), *(np.array([1, 4, 3, 5, 3, 2]),) * 5]
    found = pooled_classes.pooled_collapse(model, prompts, progress=False)
    value, low, high = found.variability.sel(classes="same token", variant="trained").transpose("bound", "layer").values
    assert np.all((low <= value) & (value <= high))
    assert float(found.relative.sel(classes="same token", variant="trained", layer=0, bound="value")) < 0.5


def test_a_flow_of_one_head_is_that_of_head_flow(model):
    settings = flow_questions.head_settings(model, [1], 4, 2, seed=0)
    found = flow_questions.flow_ends(model, 0, settings, 1.0, progress=False)
    head = settings[0].heads[0][0]
    flow = af.SphereAttention(model.heads(0)[head], af.Softmax(float(model.config.width)), model.config.mask(0))
    start = settings[0].tokens[0] / np.linalg.norm(settings[0].tokens[0], axis=1, keepdims=True)
    run = af.simulate(flow, start, [0.0, 1.0], progress=False)
    cosines = (run.tokens.values[-1] @ run.tokens.values[-1].T)[~np.eye(4, dtype=bool)]
    np.testing.assert_allclose(found.mean_cosine.sel(variant="trained")[0, 0], cosines.mean(), atol=1e-4)
    equal = found.sel(variant="Q = K = 0")
    if not model.config.is_causal:
        np.testing.assert_array_equal(equal.attention_rank, 1.0)


def test_starts_are_those_that_they_say(model):
    names = list(flow_questions.STARTS)
    found = flow_questions.start_settings(model, 0, names, 5, 3, 0, ["unused"] * 3)
    assert [one.name for one in found] == names
    assert all(one.tokens.shape == (3, 5, model.config.width) for one in found)
    circle = found[names.index("circle")].tokens
    assert np.linalg.matrix_rank(circle.reshape(-1, model.config.width), tol=1e-8) == 2


def test_more_tokens_contain_the_fewer(model):
    few, many = flow_questions.token_settings(model, [2, 5], 3, 0)
    np.testing.assert_array_equal(few.tokens, many.tokens[:, :2])


def test_prompts_are_random_ids_without_a_tokenizer(model):
    assert prompts_of_length(model, ["a"] * 7, 4).shape == (7, 4)
