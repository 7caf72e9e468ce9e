"""The speed of an ensemble of causal runs against the same ensemble in vectorised NumPy.

256 runs of n = 200 tokens on the circle at beta = 64 to t = 150. The NumPy side is as fast as we could make it: whole
arrays, two matrix products for each velocity, all pairs (NumPy has no triangular exponential), and SciPy's adaptive
solvers for one run after the other, so that each run has its own steps. Both sides have the largest tolerance, a power
of ten, whose typical error is below `MAX_ERROR`.

    python -m benchmarks.causal_ensemble
"""

import time

import numpy as np
from scipy.integrate import solve_ivp

import attnflow as af
from attnflow.experiments.bench.baselines import sphere_velocity

MAX_ERROR = 1e-7  # of a coordinate at the last time


def numpy_runs(tokens, beta, end, method, rtol):
    """The last tokens of every run."""
    shape = tokens.shape[1:]
    velocity = lambda _, flat: sphere_velocity(flat.reshape(shape), beta, is_causal=True, xp=np).ravel()
    ends = [
        solve_ivp(velocity, (0, end), x.ravel(), method=method, rtol=rtol, atol=rtol / 100).y[:, -1] for x in tokens
    ]
    x = np.reshape(ends, tokens.shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def attnflow_runs(tokens, beta, end, rtol=1e-8):
    """The last tokens of every run."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta), af.masks.causal)
    solver = af.Adaptive(rtol=rtol, atol=rtol / 100)
    return af.simulate(flow, tokens, [0.0, end], solver=solver, progress=False).final_tokens.values


def typical_error(found, exact):
    """The median over runs of the largest error; single runs that pass close to a saddle amplify theirs."""
    return float(np.median(np.abs(found - exact).max(axis=(1, 2))))


def measure(runs=256, n=200, beta=64.0, end=150.0, baseline_runs=16):
    """Seconds for each run, error and tolerance of both sides; NumPy is timed on the first `baseline_runs` runs."""
    tokens = af.initial.circle(n, rng=0, runs=runs)
    some = tokens[:baseline_runs]
    exact = attnflow_runs(some, beta, end, rtol=1e-12)
    sides = {"attnflow": lambda runs_of, rtol: attnflow_runs(runs_of, beta, end, rtol)}
    for method in ("RK45", "DOP853"):
        sides[f"NumPy, {method}"] = lambda runs_of, rtol, method=method: numpy_runs(runs_of, beta, end, method, rtol)
    found = {}
    for name, solve in sides.items():
        rtol, error = _largest_tolerance(solve, some, exact)
        timed = tokens if name == "attnflow" else some
        began = time.perf_counter()
        solve(timed, rtol)
        found[name] = ((time.perf_counter() - began) / len(timed), error, rtol)
    return found


def _largest_tolerance(solve, tokens, exact):
    """The largest sufficient tolerance and its error; the programs timed afterwards are then compiled."""
    for rtol in 10.0 ** -np.arange(3, 11):
        error = typical_error(solve(tokens, rtol), exact)
        if error <= MAX_ERROR:
            return rtol, error
    raise ArithmeticError(f"no tolerance reaches an error of {MAX_ERROR}")


def test_both_sides_solve_the_same_problem():
    tokens = af.initial.circle(10, rng=0, runs=3)
    exact = numpy_runs(tokens, 4.0, 5.0, "DOP853", 1e-11)
    np.testing.assert_allclose(attnflow_runs(tokens, 4.0, 5.0, rtol=1e-11), exact, atol=1e-8)


if __name__ == "__main__":
    found = measure()
    for name, (each, error, rtol) in found.items():
        print(f"{name:14s} {each:8.3f} s per run, error {error:.1e} at rtol {rtol:.0e}")
    fastest = min(each for name, (each, _, _) in found.items() if name != "attnflow")
    ratio = fastest / found["attnflow"][0]
    print(f"the ensemble is {ratio:.1f} times faster than the faster NumPy baseline (at least 5 required)")
    assert ratio > 5
