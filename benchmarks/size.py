"""Time of one velocity and peak memory for 100 to 20,000 tokens in R^3.

Each size runs in its own process, whose peak memory is read from Linux at the end.

    python -m benchmarks.size
"""

import json
import subprocess
import sys

SIZES = (100, 300, 1000, 3000, 10_000, 20_000)
MAX_MEMORY = 1e9  # bytes; the n x n weights of 20,000 tokens alone would take 3.2 GB

# One velocity is timed in a second run of two fixed steps, so that all sizes do the same work with compiled programs.
PROGRAM = """
import json, re, sys, time
from pathlib import Path
import attnflow as af
n = int(sys.argv[1])
flow = af.RescaledAttention(af.Head.identity(3))
tokens = af.initial.box(n, 3, rng=0)
run = lambda: af.simulate(flow, tokens, [0.0, 0.2], solver=af.Heun(0.1), progress=False)
run()
began = time.perf_counter()
run()
seconds = (time.perf_counter() - began) / 4
# The peak of getrusage would include the parent process.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"n": n, "seconds": seconds, "peak": peak}))
"""


def measure(n):
    """Seconds of one velocity, and the peak memory of the process in bytes."""
    finished = subprocess.run([sys.executable, "-c", PROGRAM, str(n)], check=True, capture_output=True, text=True)
    return json.loads(finished.stdout)


def test_twenty_thousand_tokens_fit_in_a_gigabyte():
    """The matrix of weights alone would take 3.2 GB."""
    assert measure(20_000)["peak"] < MAX_MEMORY


if __name__ == "__main__":
    print(f"{'n':>7s} {'s per velocity':>14s} {'ns per pair':>11s} {'peak MB':>8s}")
    for size in SIZES:
        found = measure(size)
        each = found["seconds"] / size**2 * 1e9
        print(f"{size:7d} {found['seconds']:14.5f} {each:11.2f} {found['peak'] / 1e6:8.0f}")
        assert found["peak"] < MAX_MEMORY
