"""Attention over merged keys: against the plain softmax over all keys, within the stated bound, and controls."""

import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.trained import merged_keys

IDS = tiny_models.IDS


def plain_outputs(queries, keys, values, is_causal):
    scores = queries @ keys.T
    if is_causal:
        scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ values


def gathered(n=300, k=6, spread=0.05):
    """Keys around ten places, with queries and values at random."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(10, k))
    keys = places[rng.integers(10, size=n)] + spread * rng.normal(size=(n, k))
    return rng.normal(size=(n, k)), keys, rng.normal(size=(n, 4))


@pytest.mark.parametrize("is_causal", [False, True])
def test_one_key_a_group_is_plain_attention(is_causal):
    queries, keys, values = gathered()
    expected = plain_outputs(queries, keys, values, is_causal)

    merged = merged_keys.merged_outputs(queries, keys, values, np.arange(len(keys)), is_causal)
    direct = merged_keys.all_pairs_outputs(queries, keys, values, is_causal)

    np.testing.assert_allclose(merged.outputs, expected, atol=1e-12)
    np.testing.assert_allclose(direct.outputs, expected, atol=1e-12)
    assert merged.pairs == direct.pairs == (300 * 301 // 2 if is_causal else 300**2)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("tolerance", [0.1, 0.3, 1.0])
def test_error_of_every_row_is_within_the_stated_bound(is_causal, tolerance):
    queries, keys, values = gathered()
    labels = merged_keys.group_labels(queries, keys, tolerance)

    found = merged_keys.merged_outputs(queries, keys, values, labels, is_causal)

    errors = np.linalg.norm(found.outputs - plain_outputs(queries, keys, values, is_causal), axis=1)
    bounds = merged_keys.output_bounds(queries, values, tolerance)
    assert np.all(errors <= bounds + 1e-12)
    assert errors.max() > 0.002 * bounds.max()  # it says something
    assert found.groups == len(np.unique(labels)) < 300


def test_control_random_groups_leave_the_bound():
    """Negative control: groups of the same sizes that are not close; those of close keys keep it."""
    queries, keys, values = gathered(spread=1e-4)
    labels = merged_keys.group_labels(queries, keys, 1e-3)
    shuffled = merged_keys.shuffled_labels(labels, False, np.random.default_rng(0))

    found = merged_keys.merged_outputs(queries, keys, values, shuffled, False)

    errors = np.linalg.norm(found.outputs - plain_outputs(queries, keys, values, False), axis=1)
    assert np.array_equal(np.bincount(shuffled), np.bincount(labels))
    assert np.any(errors > merged_keys.output_bounds(queries, values, 1e-3))


def test_worst_case_of_the_bound_on_weights():
    """Two weights whose scores change by a and -a: the sum of changes is 2 tanh(a / 2) where their logit is -a."""
    a = 0.7
    before, after = (1 / (1 + np.exp(-logit)) for logit in (-a, a))
    assert abs(2 * (after - before) - 2 * np.tanh(a / 2)) < 1e-15


def test_keys_that_no_query_tells_apart_are_one_group():
    queries, keys, values = gathered()
    queries[:, 3:] = 0
    keys[:, :3] = keys[0, :3]
    labels = merged_keys.group_labels(queries, keys, 0.05)

    found = merged_keys.merged_outputs(queries, keys, values, labels, False)

    assert found.groups == 1
    np.testing.assert_allclose(found.outputs, plain_outputs(queries, keys, values, False), atol=1e-12)


@pytest.mark.parametrize("name", ["llama", "albert"])
def test_a_small_change_leaves_the_hidden_states_of_a_model(name, tmp_path, monkeypatch):
    monkeypatch.setattr(merged_keys, "BLOCK", 2)  # under a causal mask the tokens of a block are not merged
    model = af.models.load(tiny_models.write(name, tmp_path / name))
    found = af.trained.merged_attention(model, IDS, [1e-7, 3.0])

    fine, coarse = (found.error.sel(groups="close keys", score_change=change) for change in (1e-7, 3.0))
    assert float(fine.max()) < 1e-5
    assert float(coarse[-1]) > 1e-3
    assert float(found.group_share.min()) >= 1 / len(IDS)


def test_all_pairs_are_the_layers_of_the_model(tmp_path):
    from attnflow._common.precision import double
    from attnflow.trained import merged_layers

    model = af.models.load(tiny_models.write("llama", tmp_path / "llama"))
    run = model.trajectory(IDS)
    with double():
        layers = merged_layers._layers(model, run.tokens[0].values, model.config.layers, merged_layers._all_pairs)
    np.testing.assert_allclose(layers[-1].tokens, run.tokens[-1], rtol=1e-4, atol=1e-5)


def test_bad_input_is_refused(tmp_path):
    model = af.models.load(tiny_models.write("llama", tmp_path / "llama"))
    with pytest.raises(InputError, match="score_changes"):
        af.trained.merged_attention(model, IDS, [0.0])
