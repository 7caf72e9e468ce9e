"""Hardmax in whole runs of the native library, which the live page of the documentation uses."""

import numpy as np
import pytest

import attnflow as af
from attnflow.integrate.native_problem import NativeProblem
from attnflow.integrate.request import checked_request
from attnflow.model.native.library import reason_unused
from attnflow.model.native.runs import RunsInProgress, advance

pytestmark = pytest.mark.skipif(reason_unused() is not None, reason="the native library is not in use")
TIMES = np.linspace(0.0, 2.0, 5)


def native_run(flow, tokens, solver, tolerance):
    """The tokens of a run of `flow` with its attention replaced by hardmax."""
    problem = NativeProblem.of(checked_request(flow, tokens, TIMES, solver=solver))
    problem.struct.tie_tolerance = tolerance
    run = RunsInProgress.begun(problem.struct, TIMES[0], tokens[None].copy())
    saved = np.zeros((1, len(TIMES) - 1, *tokens.shape))
    advance(problem.struct, run, saved, 0, len(TIMES) - 1, 60.0)
    return saved[0]


@pytest.mark.parametrize("kind", [af.EuclideanAttention, af.RescaledAttention, af.SphereAttention])
@pytest.mark.parametrize("mask", [af.masks.full, af.masks.causal, af.masks.window(3)])
@pytest.mark.parametrize("tolerance", [1e-9, 0.3])  # the latter with several tokens in most sums
def test_hardmax_takes_the_steps_of_compiled_runs(kind, mask, tolerance):
    tokens = af.initial.sphere(17, 3, rng=4)
    head = af.Head.bilinear(af.values.gaussian(3, rng=1), af.values.gaussian(3, rng=2))
    # Fixed steps: where the field jumps, rounding decides the length of adaptive ones.
    solver = af.RK4(0.02)
    expected = af.simulate(kind(head, af.Hardmax(tolerance), mask), tokens, TIMES, solver=solver, progress=False)

    found = native_run(kind(head, af.Softmax(1.0), mask), tokens, solver, tolerance)

    np.testing.assert_allclose(found, expected.tokens.values[1:], atol=1e-11)
