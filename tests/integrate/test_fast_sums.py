"""Fast sums in `simulate` and `velocity`: the same numbers as over all pairs, and what a result records."""

import dataclasses

import jax
import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.model.dynamics import State

FLOW = af.SphereAttention(af.Head(value=np.array([[1.0, 0.3], [0.0, 0.5]])), af.Softmax(20.0))
TOKENS = af.initial.sphere(1100, 2, rng=0)
SOLVER = af.Adaptive(rtol=1e-7, atol=1e-9)


def summed(flow, method):
    return dataclasses.replace(flow, summation=method)


def run_of(flow, **options):
    return af.simulate(flow, TOKENS, [0.0, 0.5, 1.0], solver=SOLVER, progress=False, **options)


@pytest.fixture(scope="module")
def fast_run():
    return run_of(summed(FLOW, af.summation.Fourier(1e-10)))


def test_runs_agree_with_those_over_all_pairs(fast_run):
    dense = run_of(summed(FLOW, af.summation.Dense()))

    np.testing.assert_allclose(fast_run.tokens, dense.tokens, rtol=0, atol=1e-6)  # ten times rtol
    assert "Fourier(tolerance=1e-10)" in fast_run.attrs["computed_by"]
    assert "Fourier" not in dense.attrs["computed_by"]


def test_the_result_records_the_method(fast_run):
    assert af.flow_of(fast_run).summation == af.summation.Fourier(1e-10)


def test_stages_and_masses_and_lengths():
    """Flows with masses, frozen tokens, several heads, lengths and a rescaled frame take the same path."""
    masses = np.linspace(0.5, 2, len(TOKENS))
    frozen = np.arange(len(TOKENS)) < 3
    cases = [
        (dataclasses.replace(FLOW, masses=masses, frozen=frozen, heads=[af.Head.identity(2)] * 4), "Fourier"),
        (af.SphereAttention(af.Head.identity(2), normalisation=af.Pre()), "Fourier"),
        (af.RescaledAttention(af.Head.identity(2)), "Gauss"),
        (af.EuclideanAttention(af.Head.identity(2), af.Sinkhorn(1.0)), "Gauss"),
    ]
    for flow, name in cases:
        fast = af.velocity(summed(flow, getattr(af.summation, name)()), TOKENS, 0.1)
        np.testing.assert_allclose(fast, af.velocity(summed(flow, af.summation.Dense()), TOKENS, 0.1), atol=1e-9)


def test_single_precision():
    flow = summed(FLOW, af.summation.Fourier(1e-6))
    run = af.simulate(flow, TOKENS, [0.0, 0.5], dtype="float32", progress=False)

    assert run.final_tokens.dtype == np.float32
    dense = af.simulate(summed(FLOW, af.summation.Dense()), TOKENS, [0.0, 0.5], dtype="float32", progress=False)
    np.testing.assert_allclose(run.final_tokens, dense.final_tokens, atol=1e-3)


def test_there_are_no_derivatives():
    flow = summed(FLOW, af.summation.Fourier())
    speed = lambda tokens: flow.velocity(0.0, State(tokens)).tokens.sum()

    with pytest.raises(InputError, match="no derivatives"):
        jax.grad(speed)(TOKENS)


def test_a_flow_without_a_method_has_derivatives():
    gradient = jax.grad(lambda tokens: FLOW.velocity(0.0, State(tokens)).tokens.sum())(TOKENS[:50])

    assert np.all(np.isfinite(gradient))


def test_without_the_native_library_a_method_is_refused_and_none_is_chosen(monkeypatch):
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")

    with pytest.raises(InputError, match="native library: turned off"):
        af.velocity(summed(FLOW, af.summation.Fourier()), TOKENS)
    assert "Fourier" not in run_of(FLOW, keep_tokens=False).attrs["computed_by"]


def test_what_memory_cannot_hold_is_refused_with_the_setting_that_fits(monkeypatch):
    monkeypatch.setattr("attnflow._common.memory.present_bytes", lambda: 1e6)

    with pytest.raises(InputError, match=r"1\.76 MB of memory.*keep_tokens=False"):
        af.simulate(FLOW, TOKENS, np.linspace(0, 1, 100))
