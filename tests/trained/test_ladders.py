"""The ladder: its last rung is the model, its first one plain attention, and every rung changes something."""

import numpy as np
import pytest
from scipy.special import softmax
from tests.helpers import tiny_models
from tests.helpers.tiny_models import IDS

import attnflow as af
from attnflow import trained
from attnflow._common.checks import InputError
from attnflow.trained import ladders


@pytest.fixture(scope="module")
def climbed(tmp_path_factory):
    """A BERT, the shared layer of an ALBERT beyond its depth, and a causal Llama with rotary positions."""
    found, folder = {}, tmp_path_factory.mktemp("models")
    for name, layers in (("bert", None), ("albert", 5), ("llama", None)):
        model = af.models.load(tiny_models.write(name, folder / name))
        found[name] = model, trained.ladder(model, IDS, layers, progress=False), model.trajectory(IDS, layers)
    return found


@pytest.mark.parametrize("name", ["bert", "albert", "llama"])
def test_the_last_rung_is_the_model(climbed, name):
    _, ladder, truth = climbed[name]
    scale = np.abs(truth.tokens.values).max()
    assert np.abs(ladder.tokens.values[-1] - truth.tokens.values).max() <= 1e-12 * scale
    assert ladder.attrs["distance_to_model"] <= 1e-12
    # Negative control: no other rung is.
    for rung in ladder.tokens.values[:-1]:
        assert np.abs(rung - truth.tokens.values).max() > 1e-3 * scale


def test_rungs_are_the_parts_that_a_model_has(climbed):
    bert = ["attention only", "+ biases", "+ all heads", "+ LayerNorm", "+ MLP", "+ positions"]
    assert list(climbed["bert"][1].rung.values) == bert
    llama = ["attention only", "+ all heads", "+ RMSNorm", "+ MLP", "+ rotary positions", "+ causal mask"]
    assert list(climbed["llama"][1].rung.values) == llama


def test_the_first_rung_is_plain_attention(climbed):
    """One head, residual, no bias, no norm: written out in NumPy."""
    model, ladder, _ = climbed["bert"]
    tokens = model.embed(IDS, positions=False)
    for layer in range(model.config.layers):
        np.testing.assert_allclose(ladder.tokens.values[0, layer], tokens, rtol=1e-9)
        head = model.head_weights(layer)[0]
        scores = tokens @ head.W_Q.T @ head.W_K @ tokens.T / np.sqrt(model.config.head_width)
        tokens = tokens + softmax(scores, axis=1) @ tokens @ head.W_V.T @ head.W_O.T
    np.testing.assert_allclose(ladder.tokens.values[0, -1], tokens, rtol=1e-9)


def test_the_first_rung_of_a_llama_has_the_gain_of_its_norm(climbed):
    """One head with W diag(gain), residual, no division by the root mean square: written out in NumPy."""
    model, ladder, _ = climbed["llama"]
    tokens = model.embed(IDS, positions=False)
    for layer in range(model.config.layers):
        head, gain = model.head_weights(layer)[0], np.asarray(model.block(layer).attention_norm.gain)
        read = gain * tokens
        scores = read @ head.W_Q.T @ head.W_K @ read.T / np.sqrt(model.config.head_width)
        tokens = tokens + softmax(scores, axis=1) @ read @ head.W_V.T @ head.W_O.T
    np.testing.assert_allclose(ladder.tokens.values[0, -1], tokens, rtol=1e-9)


def test_measures_are_those_of_the_directions(climbed):
    _, ladder, _ = climbed["bert"]
    units = ladder.tokens.values / np.linalg.norm(ladder.tokens.values, axis=-1, keepdims=True)
    cosines = units @ np.swapaxes(units, -1, -2)
    apart = ~np.eye(len(IDS), dtype=bool)
    np.testing.assert_allclose(ladder.mean_cosine, cosines[..., apart].mean(axis=-1), atol=1e-9)
    # Without positions the two tokens with one id are one; with them they are not.
    twice = [place for place, one in enumerate(IDS) if one == 17]
    np.testing.assert_allclose(cosines[:-1, 0, twice[0], twice[1]], 1)
    assert cosines[-1, 0, twice[0], twice[1]] < 0.99
    rows = trained.ladder_rows(ladder)
    assert [row["last_cosine"] for row in rows] == list(ladder.mean_cosine.values[:, -1])
    assert all(1 <= row["attention_rank"] <= len(IDS) for row in rows)


def test_a_causal_ladder_ends_with_the_models_own_mask(climbed):
    model = climbed["bert"][0]
    ladder = trained.ladder(model, IDS, 1, mask="causal", head=2, progress=False)
    assert ladder.rung.values[-1] == "+ full mask"
    assert ladder.attrs["distance_to_model"] <= 1e-12
    first = ladder.tokens.values[0]
    head = model.head_weights(0)[2]
    moved = first[0, 0] + head.W_O @ head.W_V @ first[0, 0]  # the first token sees only itself
    np.testing.assert_allclose(first[1, 0], moved, rtol=1e-9)


def test_a_picture_is_drawn(climbed, tmp_path):
    af.show.ladder(climbed["albert"][1], tmp_path / "ladder.png")
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


def test_one_token_has_no_cosine_and_no_overflow(climbed, tmp_path):
    ladder = trained.ladder(climbed["bert"][0], IDS[:1], 1, progress=False)
    for row in trained.ladder_rows(ladder):
        assert row["first_cosine"] is row["last_cosine"] is row["layers_before_overflow"] is None
        assert row["clusters"] == row["attention_rank"] == 1
    af.show.ladder(ladder, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_an_overflow_is_found_from_the_tokens(climbed, monkeypatch):
    """Tokens that grow by 1e100 a layer: their squares are too large after the second one."""
    monkeypatch.setattr(ladders, "_step", lambda block, tokens: (1e100 * tokens, block.attention_weights(0 * tokens)))
    ladder = trained.ladder(climbed["bert"][0], IDS, progress=False)
    np.testing.assert_array_equal(ladder.is_whole.values[0], [True, True, False, False])
    rows = trained.ladder_rows(ladder)
    assert {row["layers_before_overflow"] for row in rows} == {1}
    # Numbers of different layers do not stand in one column.
    assert {row["last_cosine"] for row in rows} == {row["clusters"] for row in rows} == {None}
    assert [row["common_cosine"] for row in rows] == list(ladder.mean_cosine.values[:, 1])


def test_the_distance_to_the_model_is_measured(climbed, monkeypatch):
    """A last rung that is wrong by 0.5 in one number of one layer is as far from the model."""
    true = ladders._step

    def wrong(block, tokens):
        moved, attention = true(block, tokens)
        return moved + 0.5 * (np.arange(moved.size).reshape(moved.shape) == 3), attention

    model, _, truth = climbed["bert"]
    monkeypatch.setattr(ladders, "_step", wrong)
    found = trained.ladder(model, IDS, 1, progress=False)
    expected = 0.5 / np.abs(truth.tokens.values[:2]).max()
    assert found.attrs["distance_to_model"] == pytest.approx(expected, rel=1e-6)


def test_the_rank_of_a_rung_is_that_of_its_last_layer(climbed):
    ladder = climbed["bert"][1]
    for row, rung in zip(trained.ladder_rows(ladder), ladder.rung.values, strict=True):
        assert row["attention_rank"] == float(ladder.attention_rank.sel(rung=rung)[-1])
    assert ladders._last_finite(np.array([1.0, 2.0, np.nan])) == 2.0


def test_the_common_layer_is_the_last_that_every_rung_reaches(climbed):
    ladder = climbed["bert"][1].copy(deep=True)
    ladder.is_whole.values[0, 2:] = False
    rows = trained.ladder_rows(ladder)
    assert {row["common_layer"] for row in rows} == {1}
    assert [row["common_cosine"] for row in rows] == list(ladder.mean_cosine.values[:, 1])
    assert [row["layers_before_overflow"] for row in rows] == [1, None, None, None, None, None]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"head": 4}, "`head` must be from 0 to 3"),
        ({"mask": "window"}, "`mask` 'window' is not known"),
        ({"angle": 0.0}, "`angle` must be above zero"),
        ({"layers": 9}, "`layers` must be at most 3"),
    ],
)
def test_bad_settings_of_ladders_are_refused(climbed, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        trained.ladder(climbed["bert"][0], IDS, **settings)
