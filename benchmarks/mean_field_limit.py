"""Does the distance between n tokens on the circle and their law fall like n^-1/2 up to a million tokens, at what cost?

    python -m benchmarks.mean_field_limit [LARGEST]

LARGEST is the largest number of tokens, 10^6 by default, which needs the extra [fast].
"""

import sys
import time

import numpy as np

import attnflow as af

FLOW = af.SphereAttention(af.Head.identity(2), af.Softmax(2.0))
END = 1.0
RUNS = 3  # random starts for each number of tokens; the distance of one start varies by about half


def measure(n):
    """The mean distance of some random starts from the law at the end, and from that of the start; seconds of one."""
    law = af.mean_field.evolve(FLOW, af.mean_field.von_mises(1.0), [0.0, END], progress=False)
    found, control, began = [], [], time.process_time()
    for seed in range(RUNS):
        tokens = af.initial.on_circle(np.random.default_rng([seed, n]).vonmises(0.0, 1.0, n))
        solver = af.Adaptive(rtol=1e-7, atol=1e-9)
        run = af.simulate(FLOW, tokens, [0.0, END], solver=solver, keep_tokens=False, progress=False)
        found.append(af.mean_field.distance(run, law.isel(time=-1)))
        control.append(af.mean_field.distance(run, law.isel(time=0)))
    return np.mean(found), np.mean(control), (time.process_time() - began) / RUNS


def exponent(sizes, distances):
    """The exponent of n by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(distances), 1)[0])


def test_the_distance_falls_like_the_root():
    sizes = [100, 10_000]
    distances = [measure(n)[0] for n in sizes]

    assert abs(exponent(sizes, distances) + 0.5) < 0.2


if __name__ == "__main__":
    largest = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6
    sizes = [n for n in (10**3, 10**4, 10**5, 10**6) if n <= largest]
    rows = []
    for n in sizes:
        rows.append(measure(n))
        print(f"n = {n}: distance {rows[-1][0]:.2e}, control {rows[-1][1]:.2e}, {rows[-1][2]:.1f} s", flush=True)
    measured, control = (exponent(sizes, [row[index] for row in rows]) for index in (0, 1))
    print(f"exponent of n: {measured:.3f}; control {control:.3f}")
