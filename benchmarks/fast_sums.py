"""Time of one velocity by each method of summation, growth with n, the automatic choice, a whole run to one cluster.

    python -m benchmarks.fast_sums                   # velocities and their errors, growth exponents: a minute
    python -m benchmarks.fast_sums choice [WORD]     # the chosen method beside the fastest, in some 400 cases
    python -m benchmarks.fast_sums run 1000000 25    # that many tokens on the circle to t = 25, and on to one cluster

Processor seconds are printed beside wall seconds: on a machine with other work only the first can be compared.
"""

import resource
import sys
import time
from typing import NamedTuple

import numpy as np

import attnflow as af
from benchmarks import choice

BETA = 100.0
CASES = {
    "circle": (2, af.masks.full, af.summation.Fourier(1e-10)),
    "S^2": (3, af.masks.full, af.summation.Harmonics(1e-10)),
    "circle, causal": (2, af.masks.causal, af.summation.Fourier(1e-10)),
}
SIZES = {"circle": (10**4, 10**5, 10**6), "S^2": (10**4, 10**5, 10**6), "circle, causal": (10**4, 10**5)}


class Spent(NamedTuple):
    """Wall seconds and processor seconds."""

    wall: float
    processor: float


def spent(function, repeats=3):
    """The least time of some calls, after one that compiles."""
    function()
    found = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        function()
        found.append(Spent(time.perf_counter() - wall, time.process_time() - processor))
    return Spent(*map(min, zip(*found, strict=True)))


def flow_of(d, mask, method):
    return af.SphereAttention(af.Head.identity(d), af.Softmax(BETA), mask, summation=method)


def velocity_time(name, n, method=None):
    """The time of one velocity of n random tokens, by the method of the case or another."""
    d, mask, usual = CASES[name]
    flow, tokens = flow_of(d, mask, method or usual), af.initial.sphere(n, d, rng=0)
    return spent(lambda: af.velocity(flow, tokens))


def growth_exponent(sizes, seconds):
    """The slope of log seconds over log n between the first and the last size."""
    return float(np.log(seconds[-1] / seconds[0]) / np.log(sizes[-1] / sizes[0]))


def error_of_rows(name, n, rows=64):
    """The largest error of some rows of a velocity, against NumPy, over the largest velocity."""
    d, mask, usual = CASES[name]
    tokens = af.initial.sphere(n, d, rng=0)
    found = af.velocity(flow_of(d, mask, usual), tokens)
    chosen = np.linspace(0, n - 1, rows).astype(int)
    exact = []
    for row in chosen:
        seen = tokens[: row + 1] if mask is af.masks.causal else tokens
        weights = np.exp(BETA * (seen @ tokens[row] - 1))
        mean = weights @ seen / weights.sum()
        exact.append(mean - (mean @ tokens[row]) * tokens[row])
    return float(np.abs(found[chosen] - exact).max() / np.abs(found).max())


def run_to_one_cluster(n, end):
    """The dataset of a run of n tokens on the circle, that of its clusters to the last, and the times of both."""
    flow, tokens = flow_of(2, af.masks.full, None), af.initial.sphere(n, 2, rng=0)
    began, used = time.perf_counter(), time.process_time()
    run = af.simulate(
        flow,
        tokens,
        np.linspace(0, end, 6),
        solver=af.Adaptive(rtol=1e-6, atol=1e-8),
        keep_tokens=False,
        observables={"energy": af.observables.Energy(BETA)},
    )
    first = Spent(time.perf_counter() - began, time.process_time() - used)
    began, used = time.perf_counter(), time.process_time()
    long = af.coalesce(run)
    return run, long, first, Spent(time.perf_counter() - began, time.process_time() - used)


def test_a_small_run_ends_in_one_cluster_without_dense_sums():
    """The same program as for a million tokens, small; times are printed, not tested."""
    run, long, *_ = run_to_one_cluster(6000, 25.0)

    assert "Fourier" in run.attrs["computed_by"]
    assert long.clusters.values[-1] == 1
    assert long.sizes["first_token"] == 6000
    assert long.sizes["token"] == long.clusters.values[0] < 30


def test_a_choice_is_timed():
    assert time_with_choice("circle", 2000).processor > 0


def test_errors_are_those_of_rounding():
    assert error_of_rows("circle", 3000) < 1e-12
    assert error_of_rows("circle, causal", 3000) < 1e-12


def test_growth_is_measured():
    assert abs(growth_exponent((10, 1000), (1.0, 1e4)) - 2) < 1e-12


def time_with_choice(name, n):
    """The time of one velocity whose method is chosen automatically, the choice included."""
    d, mask, _ = CASES[name]
    flow, tokens = flow_of(d, mask, None), af.initial.sphere(n, d, rng=0)
    return spent(lambda: af.velocity(flow, tokens))


def main():
    for name in ("circle", "S^2"):
        found = time_with_choice(name, 10**6)
        print(
            f"{name:15s} n =  1000000: {found.wall:8.3f} s wall, {found.processor:8.3f} s of processors, method chosen"
        )
    for name, sizes in SIZES.items():
        times = [velocity_time(name, n) for n in sizes]
        for n, found in zip(sizes, times, strict=True):
            print(
                f"{name:15s} n = {n:8d}: {found.wall:8.3f} s wall, {found.processor:8.3f} s of processors, "
                f"error {error_of_rows(name, n):.0e}",
                flush=True,
            )
        exponent = growth_exponent(sizes, [found.processor for found in times])
        print(f"{name:15s} grows like n^{exponent:.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["choice"]:
        choice.report(sys.argv[2:])
    elif sys.argv[1:2] == ["run"]:
        simulated, merged, first, second = run_to_one_cluster(int(sys.argv[2]), float(sys.argv[3]))
        print(simulated.attrs["outcome"], simulated.attrs["computed_by"])
        print(f"simulate: {first.wall:.0f} s wall, {first.processor:.0f} s of processors")
        print(merged.attrs["outcome"])
        print(f"coalesce: {second.wall:.0f} s wall, {second.processor:.0f} s of processors")
        print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    else:
        main()
