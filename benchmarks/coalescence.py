"""How long does `coalesce` take to reach one cluster, how accurate is it, and what is each acceleration worth?

Random tokens at beta = 100 on the circle, S^2 and S^9; five tokens at beta = 500; two clusters against their exact
merge time and the formula for large beta; and the plain solver where it can run. Seconds are of the clock, which other
work on the machine makes longer, and of processors, which it does not.

    python -m benchmarks.coalescence             # all targets
    python -m benchmarks.coalescence ablation    # each target of 200 tokens, and 2000 on the circle, without one part
    python -m benchmarks.coalescence ablation 2000 10    # one target
"""

import dataclasses
import sys
import time

import numpy as np
from tests.helpers.coalescing import exact_log_time

import attnflow as af
from attnflow.coalescence.coalesce import integrated
from attnflow.coalescence.request import Accelerations, CoalescingRequest

BETA = 100.0
# tokens, dimension, seconds wanted
TARGETS = ((200, 2, 5.0), (200, 3, 5.0), (200, 10, 5.0), (2000, 2, 60.0), (2000, 3, 60.0), (2000, 10, 60.0))
MAX_SECONDS = 600.0  # after which a run is ended


def flow(beta, d):
    return af.SphereAttention(af.Head.identity(d), af.Softmax(beta))


def measure(n, d, beta=BETA, budget=MAX_SECONDS, accelerations=None):
    """Seconds of the clock and of processors, and the run; with all accelerations by default."""
    request = CoalescingRequest.of(
        flow(beta, d), af.initial.sphere(n, d, rng=0), log_end=np.inf, merge=None, rtol=1e-6, shortcuts=True,
        max_steps=10**7,
    )  # fmt: skip
    request = dataclasses.replace(request, accelerations=accelerations or request.accelerations)
    began, worked = time.perf_counter(), time.process_time()
    run = integrated(request, budget, progress=False)
    return time.perf_counter() - began, time.process_time() - worked, run


def ablations():
    """All accelerations, each one left out, and none."""
    parts = [field.name for field in dataclasses.fields(Accelerations)]
    without = {f"without {part}": Accelerations(**{part: False}) for part in parts}
    return {"all accelerations": Accelerations(), **without, "none": Accelerations.none()}


def print_ablation(n, d, budget=MAX_SECONDS):
    """A row for each ablation: processor seconds, steps, and merges where the budget ended the run."""
    for name, accelerations in ablations().items():
        _, work, run = measure(n, d, budget=budget, accelerations=accelerations)
        steps = f"{int(run.steps)} steps and {int(run.rejected_steps)} rejected"
        ending = "" if int(run.clusters[-1]) == 1 else f", ended after {run.sizes['merge']} of {n - 1} merges"
        print(f"{n:5d} tokens on S^{d - 1}, {name:24s}: {work:7.1f} s of processors, {steps}{ending}", flush=True)


def five_tokens(beta=500.0):
    """Seconds, and the run, of five tokens with plateaus up to e^900."""
    tokens = af.initial.on_circle(np.array([0.0, 0.4, 1.5, 2.6, 4.1]))
    began = time.perf_counter()
    run = af.coalesce(flow(beta, 2), tokens, progress=False)
    return time.perf_counter() - began, run


def pair_errors(beta, angle=1.2):
    """Relative errors of the merge time of two clusters against its integral, and of the formula for large beta."""
    run = af.coalesce(flow(beta, 2), af.initial.on_circle(np.array([0.0, angle])), progress=False)
    measured, formula = float(run.merge_log_time[0]), float(run.predicted_log_duration[0])
    return np.expm1(measured - exact_log_time(angle, beta)), np.expm1(formula - measured)


def plain_error(n=20, d=3, beta=4.0, end=20.0):
    """Largest difference of a coordinate to the plain solver at 1e-10, where both can run."""
    tokens = af.initial.sphere(n, d, rng=0)
    run = af.coalesce(flow(beta, d), tokens, log_end=np.log(end), progress=False)
    plain = af.simulate(flow(beta, d), tokens, [0.0, end], solver=af.Adaptive(rtol=1e-10, atol=1e-12), progress=False)
    return float(np.abs(run.tokens[-1].values - plain.final_tokens.values).max())


def test_all_results_are_right_at_the_smallest_size():
    assert int(measure(8, 10)[-1].clusters[-1]) == 1
    assert int(five_tokens(50.0)[-1].clusters[-1]) == 1
    exact, formula = pair_errors(80.0)
    assert abs(exact) < 3e-4  # rtol = 1e-6 of a gap, magnified by beta
    assert abs(formula) < 0.02
    assert plain_error(6, 3, 4.0, 3.0) < 2e-5


def test_each_acceleration_can_be_left_out():
    runs = {name: measure(12, 3, accelerations=parts)[-1] for name, parts in ablations().items()}
    assert all(int(run.clusters[-1]) == 1 for run in runs.values())
    assert int(runs["without pair_quadrature"].quadrature_merges) == 0
    assert int(runs["without subcycling"].subcycled_steps) == 0
    assert int(runs["all accelerations"].quadrature_merges) > 0


def print_targets():
    """Seconds and errors of all targets."""
    seconds, run = five_tokens()
    print(f"five tokens at beta = 500: {seconds:.2f} s to log t = {float(run.log_time[-1]):.0f} (10 s wanted)")
    for beta in (20.0, 40.0, 80.0, 160.0):
        exact, formula = pair_errors(beta)
        print(f"a pair at beta = {beta:3.0f}: {exact:+.1e} from its integral, formula off by {100 * formula:+.2f} %")
    print(f"plain solver at beta = 4 to t = 20: largest difference {plain_error():.1e}")
    for n, d, wanted in TARGETS:
        seconds, work, run = measure(n, d)
        print(f"{n:5d} tokens on S^{d - 1}: {seconds:6.1f} s, {work:6.1f} s of processors ({wanted:.0f} s wanted)")
        print(f"      {run.outcome} {int(run.quadrature_merges)} merges by quadrature.")


if __name__ == "__main__":
    af.coalesce(flow(9.0, 2), af.initial.circle(3, rng=0), progress=False)  # imports are not timed
    if sys.argv[1:2] == ["ablation"]:
        chosen = [tuple(map(int, sys.argv[2:4]))] if len(sys.argv) > 3 else [target[:2] for target in TARGETS[:4]]
        for n, d in chosen:
            print_ablation(n, d)
    else:
        print_targets()
