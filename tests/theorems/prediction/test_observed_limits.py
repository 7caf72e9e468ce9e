"""The limits that finished runs show, and the words for the numbers behind them."""

import numpy as np
import pytest
import xarray as xr
from scipy.linalg import expm

import attnflow as af
from attnflow.theorems.prediction.evidence import in_words
from attnflow.theorems.prediction.limits import WORDS, ObservedLimit, Quantity, fulfils
from attnflow.theorems.prediction.observed_limits import observed_limit, observed_limits
from attnflow.theorems.prediction.predict import predict

I2 = np.eye(2)


def rescaled(value):
    return af.RescaledAttention(af.Head(np.eye(len(value)), np.eye(len(value)), value))


def causal(value):
    head = af.Head(np.eye(len(value)), np.eye(len(value)), value)
    return af.SphereAttention(head, af.Softmax(1.0), af.masks.causal)


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
    shown = observed_limit(rescaled(I2), as_run(approaching(np.repeat(SQUARE, 2, axis=0), STARTS)))
    assert (shown.limit, shown.numbers["vertices"]) == ("polytope", 4)
    off = np.repeat(SQUARE, 2, axis=0)
    off[0] = [1.0, 0.5]  # on an edge, but not its point nearest to zero: not in S
    assert observed_limit(rescaled(I2), as_run(approaching(off, STARTS))).limit != "polytope"


def test_three_hyperplanes_are_shown_and_four_are_not():
    ends = np.c_[np.repeat([-1.0, 0.0, 1.0, 1.0], 2), np.linspace(-1, 1, 8)]
    flow = rescaled(np.diag([1.0, 0.5]))
    assert observed_limit(flow, as_run(approaching(ends, STARTS))).limit == "hyperplanes"
    ends[:2, 0] = -3.0, -2.0
    assert observed_limit(flow, as_run(approaching(ends, STARTS))).limit == "undecided"


def test_what_still_moves_is_undecided():
    ends = np.c_[np.repeat([-1.0, 1.0], 4), np.zeros(8)]
    assert observed_limit(rescaled(np.diag([1.0, 0.5])), as_run(approaching(ends, STARTS, 0.1))).limit == "undecided"


def test_shrinking_diverging_turning_and_resting():
    minus = rescaled(-I2)
    falling = STARTS / np.sqrt(1 + TIMES)[:, None, None]
    assert observed_limit(minus, as_run(np.exp(TIMES)[:, None, None] * falling)).limit == "zero"
    kept = np.broadcast_to(STARTS, (41, 8, 2))
    assert observed_limit(minus, as_run(np.exp(TIMES)[:, None, None] * kept)).limit == "diverging"
    assert observed_limit(
        rescaled(af.values.complex_pair(0.5, 1.0)), as_run(approaching(STARTS[:1], STARTS))
    ).limit == ("rotation")
    assert observed_limit(rescaled(I2), as_run(kept)).limit == "at-rest"


def test_tokens_of_the_flow_in_space_are_rescaled_first():
    ends = np.repeat(SQUARE, 2, axis=0)
    path = np.stack([z @ expm(t * I2).T for t, z in zip(TIMES, approaching(ends, STARTS), strict=True)])
    assert observed_limit(af.EuclideanAttention(af.Head.identity(2)), as_run(path)).limit == "polytope"


def as_layers(flow, solver, tokens):
    """A run with a record of its solver, whose tokens are written down."""
    times = float(solver.step) * np.arange(len(tokens))
    run = af.simulate(flow, tokens[0], times, solver=solver, progress=False)
    return run.assign(tokens=(run.tokens.dims, tokens))


@pytest.mark.parametrize(("step", "residual"), [(0.5, 1.0), (0.5, 0.5), (0.5, 0.0)])
def test_tokens_of_layers_are_rescaled_by_the_layers(step, residual):
    """After k layers x = (residual I + step V)^k z, which e^{tV} does not undo."""
    growth = (residual + 2 * step) ** np.arange(41)[:, None, None]
    flow = af.EuclideanAttention(af.Head(value=2 * I2))
    run = as_layers(flow, af.Layers(step, residual), growth * approaching(np.repeat(SQUARE, 2, axis=0), STARTS))
    assert observed_limit(flow, run).limit == "polytope"
    assert observed_limit(flow, run[["tokens"]].drop_attrs()).limit != "polytope"


def test_layers_that_do_not_keep_their_tokens_have_no_rescaled_ones():
    flow = af.EuclideanAttention(af.Head.identity(2))
    run = as_layers(flow, af.Layers(1.0, -1.0), approaching(np.repeat(SQUARE, 2, axis=0), STARTS))
    assert observed_limit(flow, run).limit == "undecided"


def test_places_on_a_face_are_no_vertices():
    """The middle of an edge, where the tokens at its ends have not quite arrived."""
    ends = np.concatenate([SQUARE, SQUARE, [[1.0, 0.0]]])
    starts = np.concatenate([SQUARE, 0.3 * SQUARE, [[1.0, 0.0]]])
    found = observed_limit(rescaled(I2), as_run(approaching(ends, starts)))
    assert found.limit == "polytope"
    assert found.numbers[Quantity.VERTICES] == 4


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


ANGLES = np.linspace(-1, 1, 8)
DECAY = np.exp(-TIMES)[:, None]


def test_limits_on_the_circle():
    diagonal = causal(np.diag([2.0, 1.0]))
    assert observed_limit(diagonal, as_run(on_circle(DECAY * ANGLES + np.pi * (ANGLES > 0)))).limit == "poles"
    to_first = on_circle(ANGLES[0] + DECAY * (ANGLES - ANGLES[0]))
    assert observed_limit(causal(I2), as_run(to_first)).limit == "first-token"
    assert observed_limit(causal(I2), as_run(on_circle(2 + DECAY * ANGLES))).limit == "point"
    assert observed_limit(diagonal, as_run(on_circle(1 + DECAY * ANGLES + (ANGLES > 0)))).limit == "several-points"
    turning = on_circle(TIMES[:, None] + DECAY * ANGLES)
    assert observed_limit(causal(af.values.complex_pair(1.0, 1.0)), as_run(turning)).limit == "rotation"
    assert observed_limit(diagonal, as_run(turning)).limit == "undecided"


def test_tokens_that_gather_turn_in_both_senses_and_do_not_rotate():
    """A complex pair with a tiny imaginary part: at the end tokens still move, because they have not gathered yet."""
    slow = np.exp(-0.2 * TIMES)[:, None]
    gathering = on_circle(0.01 * TIMES[:, None] + slow * ANGLES)
    found = observed_limit(causal(af.values.complex_pair(1.0, 0.01)), as_run(gathering))

    assert np.ptp(gathering[-9:], axis=0).max() > 0.02
    assert found.limit == "undecided"
    space = af.EuclideanAttention(af.Head(value=af.values.complex_pair(0.5, 0.01)))
    assert observed_limit(space, as_run(gathering)).limit == "undecided"
    assert observed_limit(space, as_run(on_circle(TIMES[:, None] + DECAY * ANGLES))).limit == "rotation"


def test_clouds_lean_towards_the_leading_direction():
    generator = np.random.default_rng(0)
    lean = generator.normal(0, 0.5, (41, 8)) + np.pi * (np.arange(8) % 2)
    negative = causal(np.diag([-1.0, -2.0]))
    assert observed_limit(negative, as_run(on_circle(lean))).limit == "clouds-around-poles"
    even = generator.uniform(0, 2 * np.pi, (41, 8))
    assert observed_limit(negative, as_run(on_circle(even))).limit == "undecided"


def test_a_run_that_is_lost_is_undecided_and_the_others_are_not():
    good = approaching(np.repeat(SQUARE, 2, axis=0), STARTS)
    lost = good.copy()
    lost[20:] = np.nan
    assert [one.limit for one in observed_limits(rescaled(I2), as_run(np.stack([lost, good])))] == [
        "undecided",
        "polytope",
    ]
    lost[30:] = good[30:]
    of_lost = observed_limit(rescaled(I2), as_run(lost)).numbers
    assert of_lost == {Quantity.SHARE_OF_LOST_TIMES: pytest.approx(10 / 41)}


def test_words_fulfil_promises():
    assert fulfils("clouds-around-poles", "poles")
    assert not fulfils("poles", "clouds-around-poles")
    assert not fulfils("hyperplanes", "polytope")


def test_runs_without_tokens_are_refused():
    with pytest.raises(ValueError, match="keep_tokens"):
        observed_limit(rescaled(I2), as_run(np.zeros((41, 8, 2))).isel(time=slice(0, 3)))


@pytest.mark.parametrize("value", [I2, np.diag([1.0, 0.5]), -I2])
def test_simulations_show_what_is_proved(value):
    flow = rescaled(value)
    run = af.simulate(flow, af.initial.gaussian(12, 2, rng=0, runs=2), np.linspace(0, 15, 41), progress=False)
    assert {one.limit for one in observed_limits(flow, run)} == {predict(flow).limit}


def test_every_measured_number_has_a_clause():
    counts = {Quantity.PLACES, Quantity.HYPERPLANES, Quantity.VERTICES}
    for quantity in Quantity:
        for is_sphere in (True, False):
            clause = in_words(ObservedLimit("undecided", {quantity: 0.25}), is_sphere)
            assert clause[0].islower() or clause[0].isdigit()
            assert "0.25" in clause or "25%" in clause or quantity in counts


def test_the_share_in_the_whole_space_is_not_reported():
    share, uniform = Quantity.SHARE_IN_LEADING_SPACE, Quantity.SHARE_OF_UNIFORM_TOKENS
    numbers = {share: 1.0, uniform: 1.0, Quantity.LATE_MOVE: 0.1}
    assert "L" not in in_words(ObservedLimit("undecided", numbers), is_sphere=True)
    assert "L" in in_words(ObservedLimit("undecided", {**numbers, uniform: 0.5}), is_sphere=True)


def test_an_observed_limit_is_a_sentence():
    found = ObservedLimit("point", {Quantity.SPREAD: 0.25})
    assert found.says == f"{WORDS['point']} (spread 0.25)"
