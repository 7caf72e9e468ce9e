"""The speed of the polytope scenario against the published scheme.

The baseline, `baselines.nested_loops`, has a matrix exponential for every score inside its loops; a second, faster one
has one for each pair. `attnflow bench --rows polytope` has the same row without the command in a new process.

    python -m benchmarks.published_scheme
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import attnflow as af
from attnflow.experiments.bench.baselines import nested_loops


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
            "published scheme": seconds(lambda: nested_loops(tokens, end, step, per_score=True)),
            "one exponential per pair": seconds(lambda: nested_loops(tokens, end, step, per_score=False)),
            "attnflow, warm": seconds(warm, repeats=5),
            "attnflow, cold command": cold_command(end),
        }


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
