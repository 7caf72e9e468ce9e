"""Predictions from weights alone, and the limits that finished runs show."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy.linalg import expm

import attnflow as af
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.prediction.limit_rules import RULES
from attnflow.theorems.prediction.limits import WORDS, fulfils, limit_shown, limits_shown
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
    (full(I2, beta=-1.0), "turns single tokens"),
    (causal(np.diag([2.0, 1.0]), np.diag([0.05, 4.0])), "not true of every Q, K and V"),
    (causal([[2.0, 3.0], [0.0, 1.0]]), "not true of every Q, K and V"),
    (full([[1.0]]), "turns single tokens"),  # two points are no sphere to meet on
    (rescaled(np.diag([0.0, -1.0])), "nothing grows"),
]


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
        assert str(prediction).startswith(f"limit: {prediction.limit}")


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


# Runs written down instead of simulated, so that what they show is known.
TIMES = np.linspace(0, 12, 41)


def as_run(tokens):
    dims = ("run", "time", "token", "coordinate")[4 - np.ndim(tokens) :]
    return xr.Dataset({"tokens": (dims, tokens)}, {"time": TIMES})


def approaching(ends, starts, rate=1.0):
    return ends + np.exp(-rate * TIMES)[:, None, None] * (starts - ends)


STARTS = np.random.default_rng(0).uniform(-1, 1, (8, 2))
SQUARE = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])


def test_vertices_of_a_square_are_a_polytope_and_other_points_are_not():
    shown = limit_shown(rescaled(I2), as_run(approaching(np.repeat(SQUARE, 2, axis=0), STARTS)))
    assert (shown.limit, shown.numbers["vertices"]) == ("polytope", 4)
    off = np.repeat(SQUARE, 2, axis=0)
    off[0] = [1.0, 0.5]  # on an edge, but not its point nearest to zero: not in S
    assert limit_shown(rescaled(I2), as_run(approaching(off, STARTS))).limit != "polytope"


def test_three_hyperplanes_are_shown_and_four_are_not():
    ends = np.c_[np.repeat([-1.0, 0.0, 1.0, 1.0], 2), np.linspace(-1, 1, 8)]
    flow = rescaled(np.diag([1.0, 0.5]))
    assert limit_shown(flow, as_run(approaching(ends, STARTS))).limit == "hyperplanes"
    ends[:2, 0] = -3.0, -2.0
    assert limit_shown(flow, as_run(approaching(ends, STARTS))).limit == "undecided"


def test_what_still_moves_is_undecided():
    ends = np.c_[np.repeat([-1.0, 1.0], 4), np.zeros(8)]
    assert limit_shown(rescaled(np.diag([1.0, 0.5])), as_run(approaching(ends, STARTS, 0.1))).limit == "undecided"


def test_shrinking_diverging_turning_and_resting():
    minus = rescaled(-I2)
    falling = STARTS / np.sqrt(1 + TIMES)[:, None, None]
    assert limit_shown(minus, as_run(np.exp(TIMES)[:, None, None] * falling)).limit == "zero"
    kept = np.broadcast_to(STARTS, (41, 8, 2))
    assert limit_shown(minus, as_run(np.exp(TIMES)[:, None, None] * kept)).limit == "diverging"
    assert limit_shown(rescaled(af.values.complex_pair(0.5, 1.0)), as_run(approaching(STARTS[:1], STARTS))).limit == (
        "rotation"
    )
    assert limit_shown(rescaled(I2), as_run(kept)).limit == "at-rest"


def test_tokens_of_the_flow_in_space_are_rescaled_first():
    ends = np.repeat(SQUARE, 2, axis=0)
    path = np.stack([z @ expm(t * I2).T for t, z in zip(TIMES, approaching(ends, STARTS), strict=True)])
    assert limit_shown(af.EuclideanAttention(af.Head.identity(2)), as_run(path)).limit == "polytope"


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


ANGLES = np.linspace(-1, 1, 8)
DECAY = np.exp(-TIMES)[:, None]


def test_limits_on_the_circle():
    diagonal = causal(np.diag([2.0, 1.0]))
    assert limit_shown(diagonal, as_run(on_circle(DECAY * ANGLES + np.pi * (ANGLES > 0)))).limit == "poles"
    to_first = on_circle(ANGLES[0] + DECAY * (ANGLES - ANGLES[0]))
    assert limit_shown(causal(I2), as_run(to_first)).limit == "first-token"
    assert limit_shown(causal(I2), as_run(on_circle(2 + DECAY * ANGLES))).limit == "point"
    assert limit_shown(diagonal, as_run(on_circle(1 + DECAY * ANGLES + (ANGLES > 0)))).limit == "several-points"
    turning = on_circle(TIMES[:, None] + DECAY * ANGLES)
    assert limit_shown(causal(af.values.complex_pair(1.0, 1.0)), as_run(turning)).limit == "rotation"
    assert limit_shown(diagonal, as_run(turning)).limit == "undecided"


def test_clouds_lean_towards_the_leading_direction():
    generator = np.random.default_rng(0)
    lean = generator.normal(0, 0.5, (41, 8)) + np.pi * (np.arange(8) % 2)
    negative = causal(np.diag([-1.0, -2.0]))
    assert limit_shown(negative, as_run(on_circle(lean))).limit == "clouds-around-poles"
    even = generator.uniform(0, 2 * np.pi, (41, 8))
    assert limit_shown(negative, as_run(on_circle(even))).limit == "undecided"


def test_a_run_that_is_lost_is_undecided_and_the_others_are_not():
    good = approaching(np.repeat(SQUARE, 2, axis=0), STARTS)
    lost = good.copy()
    lost[20:] = np.nan
    assert [one.limit for one in limits_shown(rescaled(I2), as_run(np.stack([lost, good])))] == [
        "undecided",
        "polytope",
    ]


def test_words_fulfil_promises():
    assert fulfils("clouds-around-poles", "poles")
    assert not fulfils("poles", "clouds-around-poles")
    assert not fulfils("hyperplanes", "polytope")


def test_runs_without_tokens_are_refused():
    with pytest.raises(ValueError, match="keep_tokens"):
        limit_shown(rescaled(I2), as_run(np.zeros((41, 8, 2))).isel(time=slice(0, 3)))


@pytest.mark.parametrize("value", [I2, np.diag([1.0, 0.5]), -I2])
def test_simulations_show_what_is_proved(value):
    flow = rescaled(value)
    run = af.simulate(flow, af.initial.gaussian(12, 2, rng=0, runs=2), np.linspace(0, 15, 41), progress=False)
    assert {one.limit for one in limits_shown(flow, run)} == {predict(flow).limit}
