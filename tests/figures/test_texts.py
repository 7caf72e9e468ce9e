"""Texts of figures: no number that a setting could change, and no outcome that a run could contradict."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnflow.figures import entries
from attnflow.figures.catalogue import catalogue

NUMBER = r"(\d+|three|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|fifty|sixty|hundred)"
COUNTED = re.compile(
    rf"\b{NUMBER} (random |Gaussian )?(tokens|starts|runs|layers|dimensions|times|heads|sizes)\b", re.IGNORECASE
)
OUTCOME = re.compile(
    r"\b(becom\w+|converges?|diverges?|grows?|gathers?|stays?|captures?|collapses?|shrinks?|settles?|loses?|falls?|"
    r"decides?|follows?|approach(es)?|rotates?|spirals?|vanish(es)?|emerges?|lines? up|meets?|agrees?|keeps?|goes? to|"
    r"hardly|nearly (all|every)|never|always|faster|sharper|the same line)\b",
    re.IGNORECASE,
)
DEFINITIONS = {
    "a token that becomes a leader later": "why this seed was chosen; the numbers count such leaders",
    "tokens that have met become one token": "the rule of coalescing dynamics",
    "steps in time follow the fastest": "the rule of coalescing dynamics",
    "both halves of them agree within": "the condition on a rate that is read",
    "mode that grows fastest": "the name of a law of theory",
    "adaptive method keeps the error": "the tolerance of the solver",
    "An arrow goes to every token": "what an arrow means",
    "sums over mirror images vanish": "exact in floating point, the reason for the coordinates of the leaders",
    "the published ones alone hardly move": "of the published figure, not of this one",
    "tokens approach their limit only like": "a law of theory, the reason for the end time",
    "rate of approach": "the name of a measured rate",
    "and diverge along": "a statement of theory, introduced as such",
    "the others diverge": "a statement of theory, introduced as such",
    "at which tokens shrink": "the name of a measured power",
    "leaders that emerge": "the name of a count",
    "two clusters would meet if they were alone": "the time that the formula for a pair gives",
    "rates at which tokens meet": "the name of a measured rate",
    "where it is complex, tokens rotate": "linear algebra of a complex pair, the reason for the seed",
    "at which rescaled tokens converge": "the name of a measured rate",
    "layer after layer they gather": "the sentence that is put into a trained model",
    "ime of collapse": "the name of a measured time",
    "causal-collapse": "the name of the figure of this time",
    "eural collapse": "the name of a phenomenon that is measured",
    "0 is collapse": "what a value means",
    "trained-collapse": "the name of the figure of this phenomenon",
    "never within the run": "printed where the time is infinite",
}  # phrase: reason why it is no outcome of the run


@pytest.mark.parametrize("name", list(catalogue()))
def test_titles_and_sentences_state_no_number_of_a_setting(name):
    figure = catalogue()[name]

    assert not COUNTED.findall(figure.title)
    assert not COUNTED.findall(figure.shows)


def test_a_fixed_number_would_be_noticed():
    """The control."""
    assert COUNTED.search("Forty tokens of the line")
    assert COUNTED.search("128 tokens in dimension 128")
    assert COUNTED.search("Tokens at three times")


def constant_texts() -> Iterator[tuple[str, str]]:
    """Names of modules of figures and the constant texts in them, docstrings left out."""
    for path in sorted(Path(str(entries.__file__)).parent.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        described = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)]
        docstrings = {id(node.body[0].value) for node in described if node.body and isinstance(node.body[0], ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield path.name, node.value


def outcomes(text: str) -> list[str]:
    """Words of outcomes in a text, outside the phrases that are definitions."""
    for phrase in DEFINITIONS:
        text = text.replace(phrase, "")
    return [found.group(0) for found in OUTCOME.finditer(text)]


def test_constant_texts_claim_no_outcome():
    claims = [f"{name}: {outcomes(text)} in {text!r}" for name, text in constant_texts() if outcomes(text)]

    assert not claims, "\n".join(claims)


def test_every_definition_is_used():
    every = " ".join(text for _, text in constant_texts())

    assert [phrase for phrase in DEFINITIONS if phrase not in every] == []


@pytest.mark.parametrize(
    "claim",
    [
        "Attention on the line becomes Boolean",
        "Coordinates with positive eigenvalues converge, the others diverge.",
        "The number of clusters grows like the root of β",
        "Strong Rényi centres stay long",
        "Centres capture tokens in a short time",
        "3 heads: more tokens, the same line",
        "The leading eigenvalue of V decides where the tokens go",
        "the attention matrix loses its rank",
    ],
)
def test_a_fixed_claim_would_be_noticed(claim):
    """The control."""
    assert outcomes(claim)


NAMED = {
    "noise-phases": ("steps of 0.02, 0.01 and {step:g} give", "β = {largest_beta:g}"),
    "kernel-modes": ("n = {n:,} and {runs} runs, as here",),
    "renyi-centres": ("to t = {end:g}",),
    "hardmax-leaders": ("There are {layers} layers",),
    "causal-limits": ("At β = {beta:g}", "at t = {end:g}"),
    "minus-identity": ("up to {end:g}",),
}


@pytest.mark.parametrize("name", NAMED)
def test_parameters_that_a_difference_names_are_those_of_the_catalogue(name):
    figure = catalogue()[name]

    for words in NAMED[name]:
        assert words.format(**figure.settings) in figure.deviates
