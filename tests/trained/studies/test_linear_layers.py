"""Linearity between layers: against least squares, its null, and undefined where tokens are too few."""

import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.trained.layer_geometry import linearity_score
from attnflow.trained.studies.layer_states import layer_states
from attnflow.trained.studies.variants import Variant


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return af.models.load(tiny_models.write("bert", tmp_path_factory.mktemp("models") / "bert"), "float64")


@pytest.fixture(scope="module")
def ids():
    rng = np.random.default_rng(0)
    return [rng.integers(tiny_models.VOCABULARY, size=size) for size in (5, 8, 8, 5, 8, 8, 5, 8, 8, 8)]


def by_least_squares(before, after):
    x, y = (one - one.mean(axis=0) for one in (before, after))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    map_, *_ = np.linalg.lstsq(x, y)
    return 1 - np.sum((x @ map_ - y) ** 2)


def test_the_score_is_that_of_least_squares_and_one_for_linear_maps():
    rng = np.random.default_rng(1)
    tokens, map_ = rng.normal(size=(60, 7)), rng.normal(size=(7, 7))
    curved = np.tanh(2 * tokens @ map_) + 5
    assert linearity_score(tokens, curved) == pytest.approx(by_least_squares(tokens, curved), abs=1e-12)
    assert linearity_score(tokens, curved) < 0.95
    assert linearity_score(tokens, tokens @ map_ + 3) == pytest.approx(1.0, abs=1e-12)


def test_independent_tokens_have_the_share_of_their_dimensions():
    rng = np.random.default_rng(2)
    scores = [linearity_score(rng.normal(size=(40, 8)), rng.normal(size=(40, 8))) for _ in range(200)]
    assert np.mean(scores) == pytest.approx(8 / 39, abs=0.01)


def test_the_score_is_undefined_where_any_map_fits():
    rng = np.random.default_rng(3)
    for n in (2, 8, 9):  # about their mean n tokens span n - 1 dimensions
        assert np.isnan(linearity_score(rng.normal(size=(n, 8)), rng.normal(size=(n, 8))))
    assert linearity_score(rng.normal(size=(12, 8)), rng.normal(size=(12, 8))) < 1
    assert np.isnan(linearity_score(rng.normal(size=(12, 8)), np.ones((12, 8))))


def test_pooled_scores_are_those_of_all_tokens_with_the_first_left_out(model, ids):
    found = af.trained.linearity(model, [one.tolist() for one in ids], progress=False).sel(variant="trained")
    states = list(layer_states(model, Variant("trained"), ids, 2))
    pooled = [
        np.concatenate([one.tokens[1:] for one in sorted(states, key=lambda s: s.prompt) if one.layer == layer])
        for layer in range(3)
    ]
    whole = found.score.sel(bound="value")
    np.testing.assert_allclose(whole.sel(quantity="layer")[1], linearity_score(pooled[1], pooled[2]), rtol=1e-9)
    step = pooled[2] - pooled[1]
    np.testing.assert_allclose(whole.sel(quantity="update")[1], linearity_score(pooled[1], step), rtol=1e-9)
    assert bool((found.score.sel(bound="low") <= found.score.sel(bound="high")).all())
    assert float(found.null.sel(bound="value").mean()) == pytest.approx(
        model.config.width / found.attrs["tokens"], abs=0.15
    )
    assert bool((found.score > found.null).sel(bound="value", quantity="layer").all())


def test_too_few_tokens_are_refused(model, ids):
    with pytest.raises(InputError, match="related by a linear map whatever the layer does"):
        af.trained.linearity(model, [one.tolist() for one in ids[:9]])
    with pytest.raises(InputError, match="with 10"):
        af.trained.linearity(model, [[1, 2]] * 10)
