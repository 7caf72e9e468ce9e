"""How long does it take to follow tokens through every metastable state to one cluster, and how right is it?

Random tokens at beta = 100 on the circle, S^2 and S^9; five tokens at beta = 500; two clusters against their exact
time and the formula for large beta; and the plain solver where it can run. Seconds are of the whole process, which
other work on the machine makes longer, and of its processors, which it does not.

    python -m benchmarks.coalescence
"""

import time

import numpy as np
from tests.helpers.coalescing import exact_log_time

import attnflow as af

BETA = 100.0
# tokens, dimension, seconds wanted
RUNS = ((200, 2, 5.0), (200, 3, 5.0), (200, 10, 5.0), (2000, 2, 60.0), (2000, 3, 60.0), (2000, 10, 60.0))
LATEST = 600.0  # seconds after which a run is given up


def flow(beta, d):
    return af.SphereAttention(af.Head.identity(d), af.Softmax(beta))


def measure(n, d, beta=BETA, budget=LATEST):
    """Seconds of the clock and of processors, and the run."""
    tokens = af.initial.sphere(n, d, rng=0)
    began, worked = time.perf_counter(), time.process_time()
    found = af.coalesce(flow(beta, d), tokens, budget=budget, progress=False)
    return time.perf_counter() - began, time.process_time() - worked, found


def five_tokens(beta=500.0):
    """Seconds, and the run, of five tokens with plateaus up to e^900."""
    tokens = af.initial.on_circle(np.array([0.0, 0.4, 1.5, 2.6, 4.1]))
    began = time.perf_counter()
    found = af.coalesce(flow(beta, 2), tokens, progress=False)
    return time.perf_counter() - began, found


def pair_errors(beta, angle=1.2):
    """Of two clusters' time to meet: relative to its integral, and that of the formula for large beta."""
    found = af.coalesce(flow(beta, 2), af.initial.on_circle(np.array([0.0, angle])), progress=False)
    measured, formula = float(found.merge_log_time[0]), float(found.predicted_log_duration[0])
    return np.expm1(measured - exact_log_time(angle, beta)), np.expm1(formula - measured)


def plain_error(n=20, d=3, beta=4.0, end=20.0):
    """Largest difference of a coordinate to the plain solver at 1e-10, where both can run."""
    tokens = af.initial.sphere(n, d, rng=0)
    found = af.coalesce(flow(beta, d), tokens, log_end=np.log(end), progress=False)
    plain = af.simulate(flow(beta, d), tokens, [0.0, end], solver=af.Adaptive(rtol=1e-10, atol=1e-12), progress=False)
    return float(np.abs(found.tokens[-1].values - plain.final_tokens.values).max())


def test_everything_is_right_at_its_smallest_size():
    assert int(measure(8, 10)[-1].clusters[-1]) == 1
    assert int(five_tokens(50.0)[-1].clusters[-1]) == 1
    exact, formula = pair_errors(80.0)
    assert abs(exact) < 3e-4  # rtol = 1e-6 of a gap, magnified by beta
    assert abs(formula) < 0.02
    assert plain_error(6, 3, 4.0, 3.0) < 2e-5


if __name__ == "__main__":
    af.coalesce(flow(9.0, 2), af.initial.circle(3, rng=0), progress=False)  # what is loaded once is not timed
    seconds, found = five_tokens()
    print(f"five tokens at beta = 500: {seconds:.2f} s to log t = {float(found.log_time[-1]):.0f} (10 s wanted)")
    for beta in (20.0, 40.0, 80.0, 160.0):
        exact, formula = pair_errors(beta)
        print(f"a pair at beta = {beta:3.0f}: {exact:+.1e} from its integral, formula off by {100 * formula:+.2f} %")
    print(f"plain solver at beta = 4 to t = 20: largest difference {plain_error():.1e}")
    for n, d, wanted in RUNS:
        seconds, work, found = measure(n, d)
        print(f"{n:5d} tokens on S^{d - 1}: {seconds:6.1f} s, {work:6.1f} s of processors ({wanted:.0f} s wanted)")
        print(f"      {found.outcome} {int(found.quadrature_merges)} meetings at once.")
