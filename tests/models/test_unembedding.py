"""The unembedding of every family equals that of transformers; the logit lens against plain NumPy and its last layer."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers import family_models

import attnflow as af
from attnflow._common.checks import InputError

REFERENCES = Path(__file__).parent / "references"
DESCRIBED = json.loads((REFERENCES / "unembeddings.json").read_text())
LOGITS = np.load(REFERENCES / "unembeddings.npz")


def written(name, folder):
    return family_models.write(name, folder, **(DESCRIBED.get(name) or {}))


def last_logits(model):
    run = model.trajectory(family_models.IDS, progress=False)
    with jax.enable_x64(True):
        return np.asarray(model.unembedding()(run.normed_tokens.values))


MASKED = ("bert", "bert_untied", "roberta", "albert", "distilbert", "mpnet", "electra", "modernbert")
CAUSAL = ("gemma2_bounded", "gpt2", "gemma", "gpt_neox", "mistral", "phi", "olmo", "opt", "gpt_neo", "gptj")


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_logits_are_those_of_transformers(name, tmp_path):
    model = af.models.load(written(name, tmp_path), "float64")
    np.testing.assert_allclose(last_logits(model)[-3:], LOGITS[name], rtol=1e-9, atol=1e-9)


def test_a_lens_is_the_softmax_of_norm_and_matrix(tmp_path):
    folder = written("gpt2", tmp_path)
    model, arrays = af.models.load(folder, "float64"), load_file(folder / "model.safetensors")
    report = af.trained.prompt_report(model, family_models.IDS, angle=1.2, progress=False)
    lens = af.trained.logit_lens(model, report, top=4, progress=False)
    gain, shift = arrays["transformer.ln_f.weight"], arrays["transformer.ln_f.bias"]
    for time, tokens in enumerate(report.tokens.values):
        moved = tokens - tokens.mean(axis=1, keepdims=True)
        normed = gain * moved / np.sqrt((moved**2).mean(axis=1, keepdims=True) + 1e-5) + shift
        chances = np.exp(normed @ arrays["transformer.wte.weight"].T)
        chances /= chances.sum(axis=1, keepdims=True)
        order = np.argsort(-chances, axis=1)[:, :4]
        np.testing.assert_array_equal(lens.predicted_id[time], order)
        np.testing.assert_allclose(lens.probability[time], np.take_along_axis(chances, order, 1), rtol=1e-10)
        np.testing.assert_allclose(lens.entropy[time], -np.sum(chances * np.log(chances), axis=1), rtol=1e-10)
        label = report.cluster.values[time, 0]
        mean = chances[report.cluster.values[time] == label].mean(axis=0)
        np.testing.assert_allclose(lens.cluster_probability[time, 0], mean.max(), rtol=1e-10)
        assert lens.cluster_word.values[time, 0] == str(mean.argmax())
    np.testing.assert_allclose(lens.divergence[-1], 0.0, atol=1e-14)
    assert float(lens.divergence[0].min()) > 0.01
    np.testing.assert_array_equal(lens.predicted_id[-1, -3:, 0], LOGITS["gpt2"].argmax(axis=1))
    rows = af.trained.lens_rows(lens)
    assert rows[-1]["agreement"] == 1.0
    assert rows[-1]["last_word"] == str(LOGITS["gpt2"][-1].argmax())


def test_a_checkpoint_without_output_layer_says_so(tmp_path):
    folder = written("bert", tmp_path)
    arrays = load_file(folder / "model.safetensors")
    save_file({key: value for key, value in arrays.items() if not key.startswith("cls.")}, folder / "model.safetensors")
    model = af.models.load(folder)
    assert not model.has_unembedding
    with pytest.raises(InputError, match="no unembedding"):
        af.trained.logit_lens(model, family_models.IDS)


def test_tied_and_untied_matrices_are_told_apart(tmp_path):
    """A causal model whose config ties nothing, without lm_head, has no unembedding; with `tie_word_embeddings` it has."""
    folder = written("mistral", tmp_path)
    arrays = load_file(folder / "model.safetensors")
    del arrays["lm_head.weight"]
    save_file(arrays, folder / "model.safetensors")
    assert not af.models.load(folder).has_unembedding
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    tied = af.models.load(folder)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(tied.unembedding().matrix, arrays["model.embed_tokens.weight"])


def test_an_untrained_model_has_a_random_unembedding(tmp_path):
    fresh = af.models.load(written("bert", tmp_path)).reinitialised(0)
    lens = af.trained.logit_lens(fresh, family_models.IDS, progress=False)
    assert lens.sizes["rank"] == 3


def test_bad_arguments_are_refused(tmp_path):
    model = af.models.load(written("gpt2", tmp_path))
    with pytest.raises(InputError, match="`top` must be at most 40"):
        af.trained.logit_lens(model, family_models.IDS, top=41)
    other = model.trajectory(family_models.IDS, progress=False).assign_attrs(model="another")
    with pytest.raises(InputError, match="a dataset of another"):
        af.trained.logit_lens(model, other)
