"""The automatic choice among methods of summation beside the fastest of them, measured side by side.

    python -m benchmarks.fast_sums choice              # all cases: some twenty minutes
    python -m benchmarks.fast_sums choice circle S^2   # cases whose names contain one of the words

Each row is a flow with n tokens: the time of the method that `summation="auto"` chooses over the least, its name, the
processor time of the choice itself, and those of one velocity by the methods that serve it (estimates in brackets).
"""

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import attnflow as af
from attnflow.model.fast_sums import choice
from attnflow.model.fast_sums.summation import FAST

SIZES = (500, 1200, 2000, 4000, 10_000, 32_000, 10**5, 10**6)
LONGEST = 6.0  # estimated seconds of a velocity; methods beyond are not timed
HOPELESS = 12.0  # a method estimated to take this many times as long as the chosen one is not timed


class Case(NamedTuple):
    """Tokens and a flow for them."""

    name: str
    n: int
    flow: af.SphereAttention | af.EuclideanAttention | af.RescaledAttention
    tokens: np.ndarray
    tolerance: float = 1e-10


class Row(NamedTuple):
    """What was measured of a case; seconds by the name of the method."""

    case: Case
    chosen: str
    seconds: dict[str, float]
    estimates: dict[str, float]
    seconds_of_choice: float

    @property
    def ratio(self) -> float:
        """The time of the chosen method over the least."""
        return self.seconds[self.chosen] / min(self.seconds.values())

    def __str__(self) -> str:
        listed = ", ".join(
            f"{name} {1e3 * s:.3g} ({1e3 * self.estimates[name]:.2g})" for name, s in self.seconds.items()
        )
        return (
            f"{self.ratio:5.2f}  {self.case.name:44s} n = {self.case.n:7d}: {self.chosen:11s} "
            f"(choice {1e3 * self.seconds_of_choice:.2g}; ms: {listed})"
        )


def gathered(n: int, d: int, places: int, radius: float) -> np.ndarray:
    """Tokens on the sphere within about `radius` of some random points."""
    rng = np.random.default_rng(1)
    centres = np.repeat(af.initial.sphere(places, d, rng=rng), -(-n // places), axis=0)[:n]
    tokens = centres + radius / np.sqrt(d) * rng.standard_normal((n, d))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def on_sphere(
    d: int, beta: float, n: int, mask: Any = af.masks.full, rule: Any = af.Softmax, tolerance: float = 1e-10
) -> Case:
    """Random tokens on the sphere of R^d."""
    place = {2: "circle", 3: "S^2"}.get(d, f"S^{d - 1}")
    name = f"{place}, beta {beta:g}, {mask!r}, {rule.__name__}, {tolerance:g}"
    return Case(name, n, af.SphereAttention(af.Head.identity(d), rule(beta), mask), _random(n, d), tolerance)


def _random(n, d):
    return af.initial.sphere(n, d, rng=0)


def cases() -> Iterator[Case]:
    """All cases, small numbers of tokens first."""
    causal, alibi = af.masks.causal, af.masks.causal & af.masks.alibi(0.01)
    for n in SIZES:
        for beta in (1.0, 30.0, 100.0, 1e4, 1e6):
            yield on_sphere(2, beta, n)
        for beta in (1.0, 10.0, 100.0, 1e3):
            yield on_sphere(3, beta, n)
        for d, beta in itertools.product((2, 3), (1.0, 100.0)):
            yield on_sphere(d, beta, n, causal)
        yield on_sphere(2, 100.0, n, tolerance=1e-6)
        yield on_sphere(2, 100.0, n, rule=af.Unnormalised)
        yield on_sphere(2, 30.0, n, rule=af.Sinkhorn)
        yield on_sphere(2, 30.0, n, alibi)
        for d, beta in ((4, 1.0), (4, 100.0), (4, 1e5), (8, 10.0), (8, 1e4), (32, 10.0), (32, 1e4), (128, 10.0)):
            yield on_sphere(d, beta, n)
        for d, places, radius in itertools.product((2, 3, 8), (10, 300), (1e-2, 1e-6)):
            flow = af.SphereAttention(af.Head.identity(d), af.Softmax(10.0))
            name = f"{places} places of S^{d - 1}, radius {radius:g}, beta 10"
            yield Case(name, n, flow, gathered(n, d, places, radius))
        for d, beta in itertools.product((1, 2, 3), (1.0, 10.0)):
            flow = af.EuclideanAttention(af.Head.identity(d), af.Softmax(beta))
            yield Case(f"box of R^{d}, beta {beta:g}", n, flow, af.initial.box(n, d, rng=0))
            normal = np.random.default_rng(0).standard_normal((n, d))
            yield Case(f"normal in R^{d}, beta {beta:g}", n, flow, normal)
        stretched = af.SphereAttention(af.Head(np.diag([1.0, 2.0]), np.eye(2), np.eye(2)), af.Softmax(3.0))
        yield Case("circle, Q = diag(1, 2), beta 3", n, stretched, _random(n, 2))


def measured(case: Case, repeats: int = 5) -> Row | None:
    """The least times of all methods for a case, taken in turns; None if the chosen one takes too long."""
    began = time.process_time()
    chosen = choice.chosen(case.flow, case.tokens, case.tolerance)
    seconds_of_choice = time.process_time() - began
    estimates = _worth_timing(case, chosen)
    if chosen not in estimates:
        return None
    flows = {type(one).__name__: dataclasses.replace(case.flow, summation=one) for one in estimates}
    times = {name: [] for name in flows}
    for _ in range(repeats + 1):
        for name, flow in flows.items():
            if len(times[name]) > 1 and sum(times[name]) > LONGEST / 4:
                continue
            used = time.process_time()
            af.velocity(flow, case.tokens)
            times[name].append(time.process_time() - used)
    # The first call compiles.
    least = {name: min(one[1:]) for name, one in times.items()}
    named = {type(one).__name__: seconds for one, seconds in estimates.items()}
    return Row(case, type(chosen).__name__, least, named, seconds_of_choice)


def _worth_timing(case, chosen):
    """Estimated seconds of the methods that may be among the fastest, and the chosen one unless it takes too long."""
    sample = choice._problem(case.flow, case.tokens, -(-case.n // choice.SAMPLE))
    serving = [kind for kind in FAST if kind.reason_against(case.flow) is None]
    methods = [af.summation.Dense(), *(kind(max(case.tolerance, kind.least_tolerance())) for kind in serving)]
    whole = functools.cache(lambda: choice._problem(case.flow, case.tokens, 1))

    def estimate(method):
        least = choice._least_seconds(method, sample, case.n)
        is_sample_enough = least > LONGEST or not isinstance(method, choice.LOOKING_AT_ALL)
        found = least if least > LONGEST else choice.seconds(method, sample if is_sample_enough else whole(), case.n)
        # Infinite: all rows are summed one by one. This is tried where all pairs take little.
        return found if np.isfinite(found) else 2 * case.n**2 * choice.SECONDS.pair

    seconds = {method: estimate(method) for method in methods}
    most = min(LONGEST, max(HOPELESS * seconds[chosen], 0.02))
    return {method: one for method, one in seconds.items() if one <= most}


def report(words: list[str], most: int = SIZES[-1]) -> None:
    """Print a row for each case whose name contains one of the words, and those that are far from the best."""
    rows = []
    for case in cases():
        is_wanted = case.n <= most and (not words or any(word in case.name for word in words))
        if is_wanted and (row := measured(case)):
            rows.append(row)
            print(row, flush=True)
    far = [row for row in rows if row.ratio > 1.2]
    worst = max((row.ratio for row in rows), default=1.0)
    print(f"{len(rows) - len(far)} of {len(rows)} within 20 % of the fastest; largest ratio {worst:.2f}")
    for row in far:
        print(row)


def test_methods_of_a_case_are_timed():
    """Times are printed by the program, not tested."""
    row = measured(on_sphere(2, 100.0, 1500), repeats=1)

    assert row is not None
    assert {"Dense", "Fourier"} <= row.seconds.keys() == row.estimates.keys()
    assert row.ratio >= 1
