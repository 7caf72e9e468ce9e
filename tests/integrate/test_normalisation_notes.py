"""Notes on attention outputs that vanish under Peri and NGPT and on lengths that vanish, and runs without them."""

import numpy as np
import pytest

import attnflow as af
from attnflow.integrate.normalisation_notes import normalisation_notes
from attnflow.model import initial

RANK_ONE = np.outer([1.0, 0.5], [-1.0, 0.3])  # <u, w> < 0: A points back to A = 0 from both sides
TIMES = np.linspace(0, 1, 41)
SHORT = af.Adaptive(max_steps=1500)


def flow_of(value, scheme):
    return af.SphereAttention(af.Head.bilinear(np.eye(2), value), af.Softmax(1.0), normalisation=scheme)


def start_of(scheme, seed=0):
    tokens = initial.gaussian(8, 2, rng=seed)
    return tokens if scheme.has_radii else tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def test_peri_with_a_value_matrix_of_rank_one_says_that_its_field_jumps():
    flow = flow_of(RANK_ONE, af.Peri())
    run = af.simulate(flow, start_of(af.Peri()), TIMES, solver=SHORT, progress=False)

    assert "The direction A/|A| of Peri jumps where A passes zero, as for a V of rank one." in run.outcome
    assert "1500 were attempted" in run.outcome
    since = float(run.outcome.split("By t = ")[1].split(" the attention")[0])
    assert 0 < since <= float(run.final_time) + 1e-3

    # The token named has an output near zero, on both sides of which the direction differs: <w, mean token> = 0.
    token = int(run.outcome.split("A of token ")[1].split(" ")[0]) - 1
    weights = af.attention_matrix(flow, run.final_tokens.values)
    outputs = np.linalg.norm(weights @ run.final_tokens.values @ RANK_ONE.T, axis=1)
    assert outputs[token] < 1e-6 < 1e-3 < np.sort(outputs)[1]


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-11), ("float64", 1e-5), ("float32", 1e-5)])
def test_the_note_does_not_depend_on_tolerance_and_precision(dtype, rtol):
    solver = af.Adaptive(rtol=rtol, atol=rtol / 10, max_steps=1500)
    flow = flow_of(RANK_ONE, af.Peri())
    run = af.simulate(flow, start_of(af.Peri()), TIMES, solver=solver, dtype=dtype, progress=False)

    assert "of Peri jumps" in run.outcome


def test_the_step_that_the_note_recommends_gets_to_the_end():
    flow, tokens = flow_of(RANK_ONE, af.Peri()), start_of(af.Peri())
    runs = [
        af.simulate(flow, tokens, [0.0, 1.0], solver=af.Adaptive(min_step=step), progress=False)
        for step in (1e-3, 1e-4)
    ]

    assert all(run.outcome.startswith("Reached t = 1") and "jumps" not in run.outcome for run in runs)
    assert np.abs(runs[0].final_tokens - runs[1].final_tokens).max() < 5e-3


def test_the_run_of_an_ensemble_is_named():
    tokens = np.stack([start_of(af.Peri(), seed) for seed in (0, 1)])
    run = af.simulate(flow_of(RANK_ONE, af.Peri()), tokens, TIMES, solver=SHORT, keep_tokens=False, progress=False)

    attempts = (run.steps + run.rejected_steps).values
    index = np.argmax(attempts)
    assert f"Run {index + 1} (index {index}): By t = " in run.outcome


@pytest.mark.parametrize("seed", [0, 1])
def test_ngpt_with_a_value_matrix_of_rank_one_says_it(seed):
    value = np.outer([1.0, 0.5], [-1.0, -0.3])
    run = af.simulate(flow_of(value, af.NGPT(1.0)), start_of(af.NGPT(), seed), TIMES, solver=SHORT, progress=False)

    assert "of NGPT jumps" in run.outcome


@pytest.mark.parametrize("scheme", [af.Peri(), af.NGPT(), af.Pre(), af.Post()])
def test_the_identity_gets_no_note(scheme):
    run = af.simulate(flow_of(np.eye(2), scheme), start_of(scheme), TIMES, progress=False)

    assert run.outcome.startswith("Reached t = 1")
    assert "jumps" not in run.outcome


@pytest.mark.parametrize("scheme", [af.Pre(), af.Post()])
def test_schemes_without_the_direction_of_the_output_get_no_note(scheme):
    """The same V of rank one: |A| vanishes in the field itself, which is continuous."""
    run = af.simulate(flow_of(RANK_ONE, scheme), start_of(scheme), TIMES, solver=SHORT, progress=False)

    assert "jumps" not in run.outcome


def test_many_smooth_steps_get_no_note():
    """1000 steps and more of Peri with V = I: the number of steps alone is no reason."""
    solver = af.Adaptive(rtol=1e-13, atol=1e-15)
    run = af.simulate(flow_of(np.eye(2), af.Peri()), start_of(af.Peri()), [0.0, 50.0], solver=solver, progress=False)

    assert int(run.steps) > 200
    assert "jumps" not in run.outcome


SOLVERS = {"adaptive": (None, 1e-6), "order 8": (af.Adaptive(order=8), 0.5), "rk4": (af.RK4(0.01), 0.011)}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("scheme", [af.Peri(), af.Pre()])
def test_a_run_stops_where_a_length_reaches_zero(scheme, name):
    """One token under V = -I: r' = -1, so that r = 1 - t; at t = 1 its direction ceases to be defined."""
    solver, error = SOLVERS[name]
    flow, times = flow_of(-np.eye(2), scheme), np.linspace(0, 3, 31)
    run = af.simulate(flow, [[1.0, 0.0]], times, solver=solver, progress=False)

    assert "the length of a token has reached zero, where its direction is not defined (token 1)" in run.outcome
    assert run.outcome.startswith("Stopped at t = ")
    assert not run.failed
    assert 1 - error <= float(run.final_time) <= 1 + 1e-6
    assert float(run.final_radius[0]) >= 0
    np.testing.assert_allclose(run.radius.values[:, 0], 1 - run.time.values, atol=1e-7)
    assert run.time.values[-1] <= float(run.final_time)


def test_a_run_that_ends_before_is_not_stopped():
    before = af.simulate(flow_of(-np.eye(2), af.Pre()), [[1.0, 0.0]], [0.0, 0.9], progress=False)

    assert before.outcome.startswith("Reached t = 0.9")
    np.testing.assert_allclose(before.final_radius, 0.1, atol=1e-8)


def test_a_length_that_falls_while_its_direction_turns_is_named():
    """Two tokens under V = -I and a large beta attend mostly to themselves: r' is near -1, and 1/r makes steps short."""
    flow = af.SphereAttention(af.Head.bilinear(np.eye(2), -np.eye(2)), af.Softmax(3.0), normalisation=af.Pre())
    run = af.simulate(flow, [[1.0, 0.0], [0.3, 2.0]], np.linspace(0, 3, 31), progress=False)

    assert "the length of a token has reached zero, where its direction is not defined (token 1)" in run.outcome
    assert 0.9 < float(run.final_time) < 1.3


def test_the_shortest_of_several_lengths_stops_a_run():
    """Two tokens of one direction under V = -I: both lengths fall at the speed one, and one is five times the other."""
    run = af.simulate(flow_of(-np.eye(2), af.Pre()), [[5.0, 0.0], [1.0, 0.0]], [0.0, 3.0], progress=False)

    assert float(run.final_time) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(run.final_radius, [4.0, 0.0], atol=1e-6)


def test_a_length_of_exactly_zero_stops_a_run():
    """Four Euler steps of 0.25 take r' = -1 from one to zero; without an interpolant the run stops before the last."""
    run = af.simulate(flow_of(-np.eye(2), af.Pre()), [[1.0, 0.0]], [0.0, 3.0], solver=af.Euler(0.25), progress=False)

    assert (float(run.final_time), float(run.final_radius[0])) == (0.75, 0.25)
    assert "has reached zero" in run.outcome


STAGES_AT_ZERO = {
    "rk4": af.RK4(0.5),
    "heun": af.Heun(0.5),
    "layers": af.Layers(0.5),
    "layers that forget": af.Layers(0.25, residual=0.5),
}


@pytest.mark.parametrize("name", STAGES_AT_ZERO)
@pytest.mark.parametrize("scheme", [af.Peri(), af.Pre(), af.Mix(0.25)])
def test_a_stage_of_length_zero_stops_a_run(scheme, name):
    """r' = -1 from r = 1/2: a stage of a step from there to r = 0 has the length zero, by which the field divides."""
    run = af.simulate(
        flow_of(-np.eye(2), scheme), [[0.5, 0.0]], [0.0, 0.5, 2.0], solver=STAGES_AT_ZERO[name], progress=False
    )

    assert "the length of a token has reached zero, where its direction is not defined (token 1)" in run.outcome
    assert not run.failed
    assert np.isfinite(run.tokens).all()
    assert np.isfinite(run.final_radius).all()


def test_numbers_that_overflow_are_not_a_length_of_zero():
    """Unnormalised weights e^1000 are infinite, while the lengths grow; the run fails, and no length is named."""
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(1000.0), normalisation=af.Pre())
    run = af.simulate(flow, [[1.0, 0.0]], [0.0, 1.0], solver=af.RK4(0.5), progress=False)

    assert "the next step gave NaN or infinity" in run.outcome
    assert run.failed


@pytest.mark.parametrize("first_time", [0.0, 100.0])
@pytest.mark.parametrize("scheme", [af.Peri(), af.Pre()])
def test_lengths_that_fall_to_zero_together_stop_a_run(scheme, first_time):
    """Two orthogonal tokens under V = -I have equal lengths at all times: neither is short beside the other."""
    times = first_time + np.array([0.0, 2.0])
    run = af.simulate(flow_of(-np.eye(2), scheme), np.eye(2), times, progress=False)

    assert "the length of a token has reached zero, where its direction is not defined" in run.outcome
    assert not run.failed
    assert float(run.final_radius.max()) < 1e-12


def test_flows_in_space_get_no_note():
    """They have no normalisation."""
    flow, solver = af.EuclideanAttention(af.Head.identity(2)), af.Adaptive()
    run = af.simulate(flow, start_of(af.Peri()), [0.0, 0.1], progress=False)

    assert normalisation_notes(flow, solver, run) == []


def test_the_run_whose_length_reaches_zero_is_named():
    tokens = np.array([[[5.0, 0.0]], [[1.0, 0.0]]])
    run = af.simulate(flow_of(-np.eye(2), af.Pre()), tokens, [0.0, 3.0], keep_tokens=False, progress=False)

    assert "1 reached the end, 1 stopped" in run.outcome
    assert "Run 2 (index 1): Stopped at t = 1: the length of a token has reached zero" in run.outcome


def test_lengths_that_grow_get_no_note():
    run = af.simulate(flow_of(np.eye(2), af.Pre()), start_of(af.Pre()), TIMES, progress=False)

    assert "length" not in run.outcome


def test_equal_steps_get_no_note_on_tiny_steps():
    """Equal steps do not become tiny: 1000 of them under Peri, V of rank one, are no reason for a note."""
    flow = flow_of(RANK_ONE, af.Peri())
    run = af.simulate(flow, start_of(af.Peri()), [0.0, 1.0], solver=af.Heun(1e-3), progress=False)

    assert int(run.steps) == 1000
    assert "jumps" not in run.outcome
