"""Trained models that are installed as packages agree with transformers (references/record_packages.py)."""

from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.models.registry import PACKAGED

RECORDED = Path(__file__).parent / "references" / "packages.npz"
NAMES = ("rxnmapper", "rxnfp", "rxnfp-ft", "rxnfp-ft-10k", "antiberty", "smollm2")


def loaded(name):
    """The model; the test is skipped where its package is absent."""
    try:
        PACKAGED[name].path(name)
    except InputError as error:
        pytest.skip(str(error))
    return af.models.load(name)


@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_and_attention(name):
    """Float32: numbers of hidden states reach 8000 in SmolLM2, 12 in the others."""
    model = loaded(name)
    with np.load(RECORDED, allow_pickle=False) as recorded:
        ids, hidden, attention = (recorded[key] for key in ("ids", f"{name}_hidden", f"{name}_attention"))

    run = model.trajectory(ids, attention=True)

    found = np.concatenate([run.tokens.values[:-1], run.normed_tokens.values[None]])[..., ::16]
    np.testing.assert_allclose(found, hidden, rtol=0, atol=1e-5 * np.abs(hidden).max())
    np.testing.assert_allclose(run.attention.values[[0, -1]][..., 0], attention, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rxnmapper", "CCO.Cl>>CCCl", ["[CLS]", "C", "C", "O", ".", "Cl", ">>", "C", "C", "Cl", "[SEP]"]),
        ("antiberty", "EVQL", ["[CLS]", "E", "V", "Q", "L", "[SEP]"]),
        ("smollm2", "In 2024, tokens", ["In", "", "2", "0", "2", "4", ",", "tokens"]),
    ],
)
def test_text(name, text, words):
    found = loaded(name).encode(text).words
    assert [word.replace("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}", "") for word in found] == words


def test_smollm2_continues_a_sentence():
    """Its word vectors are tied to the output: the last token predicts the next word."""
    model = loaded("smollm2")
    ids = model.encode("The capital of France is").ids
    last = model.trajectory(ids).normed_tokens.values[-1]
    candidates = [" Paris", " London", " green", " of", " seven"]
    firsts = [model.encode(one).ids[0] for one in candidates]
    scores = model.embed(firsts) @ last
    assert candidates[int(np.argmax(scores))] == " Paris"


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install --no-deps rxnfp==0.1.0"):
        af.models.load("rxnfp")
