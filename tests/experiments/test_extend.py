"""Runs that are continued equal those that go through at once."""

import numpy as np
import pytest
from tests.helpers import tiny_models
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError

FLOW = af.SphereAttention(af.Head.identity(3), af.Softmax(4.0), af.masks.causal)
TIMES = np.linspace(0, 4, 9)
TOKENS = af.initial.sphere(6, 3, rng=0, runs=3)


@pytest.mark.parametrize("solver", [af.RK4(0.1), af.Euler(0.07), af.Layers(0.1)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("tokens", [TOKENS, TOKENS[0]], ids=["ensemble", "single"])
def test_fixed_steps_are_the_same_bits(solver, tokens):
    how = {"solver": solver, "rng": 0, "observables": {"cosine": af.observables.mean_cosine}}
    whole = af.simulate(FLOW, tokens, TIMES, **how)

    longer = af.extend(af.simulate(FLOW, tokens, TIMES[:4], **how), TIMES[4:])

    assert longer.equals(whole)
    assert longer.attrs == whole.attrs


def test_adaptive_steps_agree_to_the_tolerance():
    solver = af.Adaptive(rtol=1e-9, atol=1e-11)
    whole = af.simulate(FLOW, TOKENS, TIMES, solver=solver)

    longer = af.extend(af.simulate(FLOW, TOKENS, TIMES[:4], solver=solver), TIMES[4:])

    np.testing.assert_allclose(longer.tokens, whole.tokens, atol=1e-7)
    assert (longer.steps.values > whole.steps.values - 3).all()


def test_times_of_the_field_go_on():
    """Weights that change at t = 2.3: the continuation knows its time. The control is a run that restarts at zero."""
    rng = np.random.default_rng(0)
    pieces = [af.Head(value=rng.normal(size=(3, 3))) for _ in range(2)]
    flow = af.SphereAttention(af.PiecewiseHead([2.3], pieces))
    whole = af.simulate(flow, TOKENS[0], TIMES, solver=af.RK4(0.05))

    longer = af.extend(af.simulate(flow, TOKENS[0], TIMES[:4], solver=af.RK4(0.05)), TIMES[4:])
    restarted = af.simulate(flow, longer.tokens[3], TIMES[3:] - TIMES[3], solver=af.RK4(0.05))

    np.testing.assert_array_equal(longer.tokens, whole.tokens)
    assert not np.allclose(restarted.tokens[-1], whole.tokens[-1])


def test_tokens_with_lengths_agree_to_rounding():
    flow = af.SphereAttention(af.Head.identity(3), normalisation=af.Pre())
    whole = af.simulate(flow, 2 * TOKENS, TIMES, solver=af.RK4(0.1))

    longer = af.extend(af.simulate(flow, 2 * TOKENS, TIMES[:4], solver=af.RK4(0.1)), TIMES[4:])

    np.testing.assert_allclose(longer.radius, whole.radius, rtol=1e-12)


def test_an_extended_run_is_saved_and_repeated(tmp_path):
    af.save(af.simulate(FLOW, TOKENS[0], TIMES[:4], solver=af.RK4(0.1)), tmp_path / "a.zarr")

    longer = af.extend(tmp_path / "a.zarr", TIMES[4:])
    af.save(longer, tmp_path / "b.zarr")

    assert af.rerun(tmp_path / "b.zarr").equals(longer)


def test_the_command_line_extends_a_file(tmp_path):
    attnflow("run", "sphere", "--n", 6, "--end", 2, "--saves", 5, "--no-picture", "--out", "a.zarr", cwd=tmp_path)

    printed, _ = attnflow("extend", "a.zarr", "--end", 4, cwd=tmp_path)

    assert "a-extended.zarr" in printed
    np.testing.assert_allclose(af.load(tmp_path / "a-extended.zarr").time, np.linspace(0, 4, 9))
    attnflow("run", "staircase", "--no-picture", "--out", "c.zarr", cwd=tmp_path)
    assert "Only runs of `simulate`" in attnflow("extend", "c.zarr", "--end", 9, cwd=tmp_path, code=2)[1]
    assert "must begin after the end" in attnflow("extend", "a.zarr", "--end", 1, cwd=tmp_path, code=2)[1]


@pytest.mark.parametrize(
    ("make", "times", "message"),
    [
        (lambda: af.simulate(FLOW, TOKENS, TIMES), [3.0], "must begin after the end of the run, t = 4"),
        (lambda: af.simulate(FLOW, TOKENS, TIMES), [], "must begin after the end of the run"),
        (lambda: af.simulate(FLOW, TOKENS, TIMES), [5.0, 4.5], "must increase"),
        (lambda: af.simulate(FLOW, TOKENS, TIMES, stop=af.Clustered(3.0)), [5.0], "3 of 3 ended before"),
        (
            lambda: af.simulate(af.SphereAttention(af.Head.identity(3), noise=af.Noise(4.0)), TOKENS, [0, 0.1], rng=0),
            [1.0],
            "A run with noise cannot be extended",
        ),
        (lambda: af.coalesce(af.SphereAttention(af.Head.identity(2), af.Softmax(9.0)), np.eye(2)), [5.0], "Only runs of"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended_is_refused(make, times, message):
    with pytest.raises(InputError) as refusal:
        af.extend(make(), times)
    assert message in str(refusal.value)


def test_a_prompt_is_refused_with_the_code_that_computes_its_layers(tmp_path):
    run = af.models.load(tiny_models.write("bert", tmp_path / "bert")).trajectory([5, 17, 3], progress=False)
    with pytest.raises(
        InputError, match=r"ends with the last layer.*trajectory\(run\.id\.values\)` computes the layers"
    ):
        af.extend(run, [9.0])
