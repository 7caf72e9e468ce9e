"""The controls of simulated heads: which matrices each of them has."""

import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af
from attnflow import trained
from attnflow.trained import head_controls


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return af.models.load(tiny_models.write("bert", tmp_path_factory.mktemp("bert")))


def same(found, expected):
    return found.shape == expected.shape and np.array_equal(found, expected)


def test_each_control_has_its_matrices(model, monkeypatch):
    """Layer 2 alone is in the table, so that its place, 0, is not its number."""
    simulated, true = [], head_controls.limits

    def recorded(head, runs, seed):
        simulated.append(head)
        return true(head, runs, seed)

    monkeypatch.setattr(head_controls, "limits", recorded)
    trained.head_table(model, [2], controls=4, seed=5)
    assert len(simulated) == 16
    own, fresh = model.heads(2), model.reinitialised(5).heads(2)
    for number, head in enumerate(own):
        zero, random, other, untrained = simulated[4 * number : 4 * number + 4]
        following = own[(number + 1) % 4]
        for control in (zero, random, other):
            assert same(control.value, head.value)
            assert same(control.output, head.output)
        assert not np.any(zero.query)
        assert not np.any(zero.key)
        for name in ("query", "key"):
            drawn, stored = getattr(random, name), getattr(head, name)
            assert np.linalg.norm(drawn) == pytest.approx(np.linalg.norm(stored))
            assert abs(np.sum(drawn * stored)) < 0.9 * np.sum(stored**2)
            assert same(getattr(other, name), getattr(following, name))
        for name in ("query", "key", "value", "output"):
            assert same(getattr(untrained, name), getattr(fresh[number], name))


def test_random_queries_and_keys_are_drawn_for_each_head(model):
    heads = model.heads(0)
    draws = [dict(head_controls._controls(heads, None, 0, np.random.default_rng(seed))) for seed in (0, 0, 1)]
    first, again, other = (one["random Q and K"] for one in draws)
    assert same(first.query, again.query)
    assert not same(first.query, other.query)
    assert not same(first.query / np.linalg.norm(first.query), first.key / np.linalg.norm(first.key))
