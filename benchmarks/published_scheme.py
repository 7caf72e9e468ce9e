"""The speed of the polytope scenario against the published scheme.

The baseline is our own implementation of the published algorithm: forward Euler, nested Python loops over tokens i, j
and k, and a matrix exponential for every score inside the loops, as in the scripts of arXiv:2305.05465 (whose four
stages reduce to one Euler step). A second, faster baseline evaluates one exponential for each pair.

    python -m benchmarks.published_scheme
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.linalg import expm

import attnflow as af


def published_scheme(tokens, end, step, *, per_score):
    """Forward Euler for z = e^{-tV} x with A = V = I; `per_score` evaluates e^{tV} for every score."""
    value = np.eye(tokens.shape[1])
    z = tokens.copy()
    n = len(z)
    for index in range(round(end / step)):
        t = index * step
        moved = z.copy()
        for i in range(n):
            for j in range(n):
                growth = expm(t * value)
                total = 0.0
                for k in range(n):
                    if per_score:
                        growth = expm(t * value)
                    total += np.exp(np.dot(growth @ z[i], growth @ (z[k] - z[j])))
                moved[i] += step / total * (value @ (z[j] - z[i]))
        z = moved
    return z


def seconds(function, repeats=1):
    """The shortest wall-clock time of several calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def cold_command(end):
    """Seconds of `attnflow run polytope` in a new process without compiled programs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from attnflow.cli.app import main; main()"]
        options = ["run", "polytope", "--end", str(end), "--out", str(Path(folder, "polytope.zarr"))]
        environment = {"JAX_COMPILATION_CACHE_DIR": str(Path(folder, "cache")), "HOME": folder, "PATH": ""}
        run = lambda: subprocess.run([*command, *options], check=True, capture_output=True, env=environment)
        return seconds(run)


def measure(n=20, end=5.0, step=0.1):
    """Seconds of the two baselines, of a call with compiled programs and of the command in a new process."""
    tokens = af.initial.box(n, 2, rng=0)
    flow = af.RescaledAttention(af.Head.identity(2))
    times = np.linspace(0, end, round(end / step) + 1)
    warm = lambda: af.simulate(flow, tokens, times)
    warm()
    with np.errstate(over="ignore"):
        return {
            "published scheme": seconds(lambda: published_scheme(tokens, end, step, per_score=True)),
            "one exponential per pair": seconds(lambda: published_scheme(tokens, end, step, per_score=False)),
            "attnflow, warm": seconds(warm, repeats=5),
            "attnflow, cold command": cold_command(end),
        }


def test_the_baseline_is_forward_euler_of_the_same_flow():
    tokens = af.initial.box(4, 2, -1, 1, rng=0)
    flow = af.RescaledAttention(af.Head.identity(2))
    euler = af.simulate(flow, tokens, np.linspace(0, 0.5, 6), solver=af.Euler(0.1)).final_tokens
    for per_score in (True, False):
        np.testing.assert_allclose(published_scheme(tokens, 0.5, 0.1, per_score=per_score), euler, atol=1e-12)


if __name__ == "__main__":
    found = measure()
    for name, value in found.items():
        print(f"{name:26s} {value:9.4f} s")
    ratio = found["published scheme"] / found["attnflow, warm"]
    print(f"warm, the scenario is {ratio:.0f} times faster than the published scheme (at least 200 required)")
    faster = found["one exponential per pair"] / found["attnflow, warm"]
    print(f"and {faster:.0f} times faster than the faster baseline")
    assert ratio > 200
    assert found["attnflow, cold command"] < found["published scheme"]
