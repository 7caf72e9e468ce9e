"""Verdicts on ensembles: shares with intervals, and the worst run."""

import json

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.ensemble_verdict import EnsembleVerdict
from attnflow.theorems.verdict import Measurement, Verdict, is_true


def a_verdict(answer, value=0.0, compare="at most"):
    return Verdict(
        "name", "paper", "It is so.", answer, (is_true("a", True),), Measurement("c", value, 1.0, "", compare)
    )


def test_shares_are_among_the_runs_to_which_a_statement_applies():
    verdicts = [a_verdict(answer) for answer in ("holds", "holds", "holds", "fails", "undecided", "not_applicable")]
    found = EnsembleVerdict(tuple(range(6)), tuple(verdicts))
    assert found.applies == 5
    assert (found.share("holds"), found.share("fails"), found.share("undecided")) == (0.6, 0.2, 0.2)
    assert found.verdict == "fails"
    assert found.worst == 3
    # Wilson's interval for 3 of 5 by its formula
    z, p, n = 1.959964, 0.6, 5
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    expected = [(middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)]
    np.testing.assert_allclose(found.interval("holds"), expected, rtol=1e-6)
    assert "60%" in found.explanation()
    assert "run 4 (index 3)" in found.explanation()


@pytest.mark.parametrize("answer", ["holds", "not_applicable"])
def test_one_run_is_explained_as_one_verdict(answer):
    found = EnsembleVerdict((4,), (a_verdict(answer),))
    assert found.explanation() == a_verdict(answer).explanation()
    assert repr(found) == repr(a_verdict(answer))
    assert found.as_dict()["worst"] == 4


@pytest.mark.parametrize("compare", ["at most", "at least"])
def test_among_equal_answers_the_worst_run_misses_most(compare):
    values = (0.2, 0.9, 0.5) if compare == "at most" else (1.8, 1.1, 1.5)
    verdicts = tuple(a_verdict("holds", value, compare) for value in values)
    assert EnsembleVerdict((4, 5, 6), verdicts).worst == 5


def test_every_run_of_an_ensemble_is_checked():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), af.masks.causal)
    ensemble = af.simulate(flow, af.initial.sphere(4, 3, rng=0, runs=3), np.linspace(0, 40, 21))
    tokens = ensemble.tokens.values.copy()
    tokens[1, 3:] = tokens[1, 2:3]  # one run does not follow the flow
    broken = ensemble.assign(tokens=ensemble.tokens.copy(data=tokens)).isel(run=[0, 1])
    (whole,), (part,) = (af.verify(one, only=["identity-value"]) for one in (ensemble, broken))
    assert whole.counts["holds"] == 3
    assert [one.verdict for one in part.verdicts] == ["holds", "not_applicable"]
    assert [one.verdict for one in whole.verdicts] == [
        af.verify(ensemble.isel(run=index), only=["identity-value"])[0].verdict for index in range(3)
    ]
    again = json.loads(json.dumps(whole.as_dict(), allow_nan=False))
    assert again["shares"]["holds"]["share"] == 1.0
    assert again["shares"]["holds"]["interval"][0] == pytest.approx(0.4385, abs=1e-3)
    nowhere = af.verify(ensemble, only=["polytope"])[0]
    assert nowhere.verdict == "not_applicable"
    assert "none of 3 runs" in nowhere.explanation()
    assert json.dumps(nowhere.as_dict(), allow_nan=False)
