"""Predictions from weights alone."""

import json

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.prediction.limit_rules import RULES
from attnflow.theorems.prediction.limits import WORDS
from attnflow.theorems.prediction.predict import predict

I2, I3 = np.eye(2), np.eye(3)
MIX = "polytope-times-hyperplane"
NEGATIVE = np.diag([-1.0, 1.0])
NEGATIVE3 = np.diag([-1.0, 1.0, 2.0])


def rescaled(value, query=None, **options):
    value = np.asarray(value, dtype=float)
    query = np.eye(len(value)) if query is None else query
    return af.RescaledAttention(af.Head(query, np.eye(len(value)), value), **options)


def causal(value, query=None, beta=1.0):
    value = np.asarray(value, dtype=float)
    query = np.eye(len(value)) if query is None else query
    return af.SphereAttention(af.Head(query, np.eye(len(value)), value), af.Softmax(beta), af.masks.causal)


def full(value, beta=1.0):
    value = np.asarray(value, dtype=float)
    return af.SphereAttention(af.Head(np.eye(len(value)), np.eye(len(value)), value), af.Softmax(beta))


PROMISES = [
    (rescaled(I2), "polytope", "polytope", True),
    (rescaled(3 * I2, np.diag([2.0, 0.5])), "polytope", "polytope", True),
    (af.EuclideanAttention(af.Head.identity(2)), "polytope", "polytope", True),
    (rescaled(-I2), "zero", "minus-identity", True),
    (rescaled(np.diag([2.0, 1.0])), "hyperplanes", "hyperplanes", True),
    (rescaled(np.diag([0.5, -1.0])), "hyperplanes", "codimension-k", False),
    (rescaled(np.diag([1.0, 1.0, -0.5])), "polytope-times-hyperplane", "polytope-times-hyperplane", True),
    (rescaled([[2.0]]), "polytope", "polytope", True),
    (rescaled(0 * I2), "at-rest", "zero-value", True),
    (rescaled(I2, attention=af.Hardmax()), "leaders", "hardmax-limits", True),
    (causal(I3, NEGATIVE3), "first-token", "identity-value", True),
    (causal(np.diag([2.0, 1.0])), "poles", "conjecture-1", False),
    (causal(np.diag([2.0, 2.0, 1.0]), NEGATIVE3), "point-of-subspace", "conjecture-2", False),
    (causal(-I2), "cloud-around-subspace", "table-1-cloud", False),
    (causal(np.diag([-1.0, -2.0])), "clouds-around-poles", "table-1-two-clouds", False),
    (full(I3, beta=20.0), "point", "single-cluster", True),
    (full(I2, beta=9.0), "point", "single-cluster-circle", True),
    (rescaled(np.diag([1.0, 1.0, 0.5]), I3 + 0.2), "polytope-times-hyperplane", f"{MIX}-general", False),
]


@pytest.mark.parametrize(("flow", "limit", "first", "proved"), PROMISES)
def test_what_is_promised(flow, limit, first, proved):
    prediction = predict(flow)
    assert (prediction.limit, prediction.results[0].id, prediction.proved) == (limit, first, proved)
    assert prediction.broken == ()


NOTHING = [
    (rescaled(af.values.complex_pair(1.0, 1.0)), "keep rotating"),
    (rescaled(af.values.jordan_block(1.0, 2)), "leading eigenspace"),
    (rescaled(np.diag([-1.0, -2.0])), "diverges"),
    (rescaled(I2, NEGATIVE), "leading eigenspace"),
    (rescaled(I2, mask=af.masks.causal), "leading eigenspace"),
    (causal(np.diag([2.0, 1.0]), NEGATIVE, beta=4.0), "not true of every Q, K and V"),
    (full(np.diag([2.0, 1.0])), "turns single tokens"),
    (full(I2, beta=-1.0), "it turns no single token"),
    (causal(np.diag([2.0, 1.0]), np.diag([0.05, 4.0])), "not true of every Q, K and V"),
    (causal([[2.0, 3.0], [0.0, 1.0]]), "not true of every Q, K and V"),
    (full([[1.0]]), "it turns no single token"),  # two points are no sphere to meet on
    (rescaled(np.diag([0.0, -1.0])), "nothing grows"),
]


def test_a_single_thing_that_is_missed_is_named_in_the_singular():
    missed = [one.shortfall for one in predict(causal(af.values.jordan_block(1.0, 3))).broken]
    assert any("missed by 2 copies" in one for one in missed)
    missed = [one.shortfall for one in predict(causal(af.values.jordan_block(1.0, 2))).broken]
    assert any("missed by 1 copy" in one for one in missed)
    assert not any("1 copies" in one for one in missed)


@pytest.mark.parametrize(("flow", "suggestion"), NOTHING)
def test_nothing_is_promised_outside_the_hypotheses(flow, suggestion):
    prediction = predict(flow)
    assert prediction.limit == "unknown"
    assert prediction.results == ()
    assert prediction.broken
    assert suggestion in prediction.suggestion


def test_the_broken_hypothesis_and_its_distance_are_named():
    prediction = predict(rescaled(np.diag([1.0, 1.0]), np.diag([1.0, -0.25])))
    (broken,) = prediction.broken
    assert "positive definite" in broken.says
    np.testing.assert_allclose(broken.margin, -0.25)
    assert "missed by 0.25" in prediction.says


def test_the_counterexample_misses_only_the_sign_of_the_scores():
    prediction = predict(causal(np.diag([2.0, 1.0]), NEGATIVE, beta=4.0))
    assert "conjecture-1" in prediction.says
    np.testing.assert_allclose([one.margin for one in prediction.broken], [-4.0], atol=1e-6)


def test_starts_matter_where_they_should():
    cap = af.initial.hemisphere(6, 3, rng=0)
    assert predict(full(I3), cap).results[0].id == "hemisphere-rate"
    assert predict(full(np.eye(3), 1.0), af.initial.equiangular(4, 3, -1 / 3)).limit == "unknown"  # regular simplex
    pair = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert predict(causal(I3), pair).limit == "unknown"
    assert predict(causal(I3), np.tile(pair[:1], (3, 1))).limit == "first-token"
    lost = np.array([[0.0, 1.0], [0.6, 0.8]])  # the first token has no part along xi = e_1
    assert predict(causal(np.diag([2.0, 1.0])), lost).limit == "unknown"


def test_rates():
    assert predict(rescaled(2 * I2)).rate == "e^(-2 t)"
    assert "doubly exponential" in predict(rescaled([[1.0]])).results[1].rate
    assert predict(causal(np.diag([2.0, 1.25]))).rate.startswith("e^(-0.75 t)")
    assert "t^(-1/2)" in predict(rescaled(-I2)).rate


def test_extras_and_changing_weights_are_outside_every_result():
    assert predict(af.RescaledAttention([af.Head.identity(2)] * 2)).limit == "unknown"
    switching = af.PiecewiseHead([1.0], [af.Head.identity(2), af.Head.identity(2)])
    assert "change in time" in predict(af.EuclideanAttention(switching)).says


def test_predictions_can_be_read_and_stored():
    for flow in (rescaled(I2), causal(np.diag([2.0, 1.0]), NEGATIVE)):
        prediction = predict(flow)
        stored = json.loads(json.dumps(prediction.as_dict()))
        assert stored["limit"] == prediction.limit
        assert len(stored["hypotheses"]) == len(prediction.hypotheses)
        lines = [line.split(maxsplit=1) for line in str(prediction).splitlines()]
        assert lines[0] == ["limit", WORDS[prediction.limit]]
        assert sum(line[0] == "-" for line in lines) >= len(prediction.broken)
        table = prediction._repr_html_()
        assert f">{WORDS[prediction.limit]}</td>" in table
        assert "Q^T K" in table
        assert "<phi" not in table  # formulas such as <Q phi, K phi> are escaped


def test_every_rule_has_a_known_word_and_a_name_of_its_own():
    assert {rule.limit for rule in RULES} <= set(WORDS)
    assert len({rule.theorem.id for rule in RULES}) == len(RULES)


def test_rules_are_called_like_the_statements_that_check_them():
    of_their_own = {"zero-value", f"{MIX}-general", "table-1-cloud", "table-1-two-clouds"}
    assert {rule.theorem.id for rule in RULES} - of_their_own <= set(catalogue())


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="coordinates"):
        predict(rescaled(I2), np.ones((4, 3)))
    with pytest.raises(ValueError, match="Take one run"):
        predict(rescaled(I2), np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match="flow"):
        predict(np.eye(2))  # pyright: ignore[reportArgumentType]


def test_the_rate_of_several_growing_coordinates_is_that_of_the_slowest():
    """V = diag(1, 0.4, -2): the second coordinate converges like e^{-0.4t}, as a run shows."""
    flow = rescaled(np.diag([1.0, 0.4, -2.0]))
    assert predict(flow).rate == "e^(-0.4 t)"

    run = af.simulate(flow, af.initial.box(12, 3, rng=0), np.linspace(0, 30, 121), progress=False)
    times, second = run.time.values, run.tokens.values[..., 1]
    away = np.abs(second - second[-1]).max(axis=1)
    fit = af.rates.exponential(times[40:80], away[40:80])
    assert abs(fit.rate - 0.4) < 0.02


@pytest.mark.parametrize(("second", "is_close"), [(0.999, True), (0.5, False)])
def test_close_eigenvalues_are_cautioned_about(second, is_close):
    said = predict(rescaled(np.diag([1.0, second]))).suggestion

    assert ("like e^(-0.001 t)" in said) == is_close


def test_a_hypothesis_that_is_just_missed_is_not_missed_by_minus_zero():
    said = str(predict(rescaled(I2, np.zeros((2, 2)))))

    assert "missed by 0 in the least eigenvalue" in " ".join(said.split())
