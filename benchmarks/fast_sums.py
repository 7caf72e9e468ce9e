"""Time of one velocity by each method of summation, growth with n, crossovers, and a whole run to one cluster.

    python -m benchmarks.fast_sums                   # velocities, growth exponents, crossovers: some minutes
    python -m benchmarks.fast_sums constants         # the constants of model/fast_sums/choice.py
    python -m benchmarks.fast_sums run 1000000 25    # that many tokens on the circle to t = 25, and on to one cluster

Processor seconds are printed beside wall seconds: on a machine with other work only the first can be compared.
"""

import resource
import sys
import time
from typing import NamedTuple

import numpy as np

import attnflow as af
from attnflow.model.fast_sums import choice
from attnflow.model.fast_sums.problem import Positions, SumProblem

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


def choice_against_best(name, sizes):
    """For each n the chosen method, and its processor time over that of the faster of the dense and the fast sum."""
    d, mask, usual = CASES[name]
    rows = []
    for n in sizes:
        times = {
            type(method).__name__: velocity_time(name, n, method).processor for method in (usual, af.summation.Dense())
        }
        tokens = af.initial.sphere(n, d, rng=0)
        chosen = type(choice.chosen(flow_of(d, mask, None), tokens, 1e-10)).__name__
        rows.append((n, chosen, times[chosen] / min(times.values()) if chosen in times else np.nan, times))
    return rows


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


def constants():
    """Measured values of the constants of `choice.Seconds`, by name."""
    rng = np.random.default_rng(0)

    def problem(n, d, beta=BETA, positions=Positions()):  # noqa: B008
        tokens = af.initial.sphere(n, d, rng=rng)
        return SumProblem(tokens, tokens, tokens, np.ones(n), beta, positions)

    each = lambda method, one: spent(lambda: method.outputs(one)).processor
    fourier, harmonics = af.summation.Fourier(1e-10), af.summation.Harmonics(1e-10)
    many, few = problem(10**5, 2), problem(300, 2)
    grouped = problem(10**5, 6)
    places = np.repeat(af.initial.sphere(4, 6, rng=0), 25_000, axis=0)
    grouped = SumProblem(places, places, places, grouped.masses, 1.0)
    sparse = problem(5000, 6, 1e5)
    dense = velocity_time("circle", 4000, af.summation.Dense()).processor
    on_sphere = [each(harmonics, problem(n, 3)) for n in (3000, 10**5)]
    return {
        "pair": dense / 4000**2 / 1.5,
        "call": each(fourier, few),
        "fourier": (each(fourier, many) - each(fourier, few)) / 10**5,
        "harmonics": (on_sphere[1] - on_sphere[0]) / (10**5 - 3000),
        "degree": on_sphere[0] / 89**3,
        "cell": each(af.summation.HeavyTokens(1e-10), grouped) / 10**5,
        "search": each(af.summation.Neighbours(1e-10), sparse) / 5000,
    }


def test_a_small_run_ends_in_one_cluster_without_dense_sums():
    """The same program as for a million tokens, small; times are printed, not tested."""
    run, long, *_ = run_to_one_cluster(6000, 25.0)

    assert "Fourier" in run.attrs["computed_by"]
    assert long.clusters.values[-1] == 1
    assert long.sizes["first_token"] == 6000
    assert long.sizes["token"] == long.clusters.values[0] < 30


def test_a_choice_is_timed():
    assert time_with_choice("circle", 2000).processor > 0


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
                f"{name:15s} n = {n:8d}: {found.wall:8.3f} s wall, {found.processor:8.3f} s of processors", flush=True
            )
        exponent = growth_exponent(sizes, [found.processor for found in times])
        print(f"{name:15s} grows like n^{exponent:.2f}", flush=True)
    for name in CASES:
        for n, chosen, ratio, times in choice_against_best(name, (1200, 2000, 4000, 8000, 16_000)):
            listed = ", ".join(f"{method} {seconds * 1e3:.1f} ms" for method, seconds in times.items())
            print(f"{name:15s} n = {n:6d}: {listed}; chosen: {chosen}, {ratio:.2f} of the best", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["constants"]:
        for key, value in constants().items():
            print(f"{key:10s} {value:.2e}, in use {getattr(choice.SECONDS, key):.2e}", flush=True)
    elif sys.argv[1:2] == ["run"]:
        simulated, merged, first, second = run_to_one_cluster(int(sys.argv[2]), float(sys.argv[3]))
        print(simulated.attrs["outcome"], simulated.attrs["computed_by"])
        print(f"simulate: {first.wall:.0f} s wall, {first.processor:.0f} s of processors")
        print(merged.attrs["outcome"])
        print(f"coalesce: {second.wall:.0f} s wall, {second.processor:.0f} s of processors")
        print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    else:
        main()
