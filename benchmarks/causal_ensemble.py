"""How much faster is an ensemble of causal runs than the same in vectorised NumPy?

256 runs of n = 200 tokens on the circle at beta = 64 to t = 150. The NumPy side is as good as
we could make it: whole arrays, one matrix product a call, the hidden half not skipped (NumPy has
no triangular exponential), and SciPy's adaptive solvers run by run, so that no run waits for
another. Both sides get the loosest tolerance, by factors of ten, whose typical error is below `ERROR`.

    python -m benchmarks.causal_ensemble
"""

import time

import numpy as np
from scipy.integrate import solve_ivp

import attnflow as af

ERROR = 1e-7  # in a coordinate at the end


def numpy_velocity(beta, n):
    """Causal softmax attention on the circle, in whole arrays."""
    hidden = np.triu(np.full((n, n), -np.inf), k=1)

    def velocity(_, flat):
        x = flat.reshape(n, 2)
        scores = beta * (x @ x.T) + hidden
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        pull = (scores @ x) / scores.sum(axis=1, keepdims=True)
        return (pull - np.sum(pull * x, axis=1, keepdims=True) * x).ravel()

    return velocity


def numpy_runs(tokens, beta, end, method, rtol):
    """Final tokens of every run."""
    n = tokens.shape[1]
    velocity = numpy_velocity(beta, n)
    ends = [
        solve_ivp(velocity, (0, end), x.ravel(), method=method, rtol=rtol, atol=rtol / 100).y[:, -1] for x in tokens
    ]
    x = np.reshape(ends, tokens.shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def attnflow_runs(tokens, beta, end, rtol=1e-8):
    """Final tokens of every run."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta), af.masks.causal)
    solver = af.Adaptive(rtol=rtol, atol=rtol / 100)
    return af.simulate(flow, tokens, [0.0, end], solver=solver, progress=False).final_tokens.values


def typical_error(found, exact):
    """Median over runs of the largest error: single runs pass close to saddles and magnify theirs."""
    return float(np.median(np.abs(found - exact).max(axis=(1, 2))))


def measure(runs=256, n=200, beta=64.0, end=150.0, baseline_runs=16):
    """Seconds a run, error and tolerance of each side; the baselines are timed on some of the runs."""
    tokens = af.initial.circle(n, rng=0, runs=runs)
    some = tokens[:baseline_runs]
    exact = attnflow_runs(some, beta, end, rtol=1e-12)
    sides = {"attnflow": lambda runs_of, rtol: attnflow_runs(runs_of, beta, end, rtol)}
    for method in ("RK45", "DOP853"):
        sides[f"NumPy, {method}"] = lambda runs_of, rtol, method=method: numpy_runs(runs_of, beta, end, method, rtol)
    found = {}
    for name, solve in sides.items():
        rtol, error = _loosest(solve, some, exact)
        timed = tokens if name == "attnflow" else some
        began = time.perf_counter()
        solve(timed, rtol)
        found[name] = ((time.perf_counter() - began) / len(timed), error, rtol)
    return found


def _loosest(solve, tokens, exact):
    """The loosest tolerance that is good enough, and its error; what is timed afterwards is compiled by then."""
    for rtol in 10.0 ** -np.arange(3, 11):
        error = typical_error(solve(tokens, rtol), exact)
        if error <= ERROR:
            return rtol, error
    raise ArithmeticError(f"no tolerance reaches an error of {ERROR}")


def test_both_sides_solve_the_same_problem():
    tokens = af.initial.circle(10, rng=0, runs=3)
    exact = numpy_runs(tokens, 4.0, 5.0, "DOP853", 1e-11)
    np.testing.assert_allclose(attnflow_runs(tokens, 4.0, 5.0, rtol=1e-11), exact, atol=1e-8)


if __name__ == "__main__":
    found = measure()
    for name, (each, error, rtol) in found.items():
        print(f"{name:14s} {each:8.3f} s a run, error {error:.1e} at rtol {rtol:.0e}")
    fastest = min(each for name, (each, _, _) in found.items() if name != "attnflow")
    ratio = fastest / found["attnflow"][0]
    print(f"the ensemble is {ratio:.1f} times faster than the faster NumPy baseline (at least 5 wanted)")
    assert ratio > 5
