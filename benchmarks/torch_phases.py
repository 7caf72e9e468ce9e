"""The phase diagram of 2,048 runs over beta, n = 32, d = 3, T = 30: a sweep against the published torch batch.

The published code takes Euler steps of 0.1 for all runs at once in torch's default type, float32. Both sides measure
the mean over runs of the share of pairs with a cosine above 0.999, at the same times, and the error of each is its
largest difference from runs of the same starts with tolerances of 1e-10. Some of the 90 betas are enough for the ratio.

    python -m benchmarks.torch_phases 4 2     # betas, threads

torch is no dependency of attnflow: without it the sweep alone is measured.
"""

import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import attnflow as af
from attnflow.experiments.bench.baselines import euler_batch
from attnflow.sweeps.cells import cells_of, first_tokens, prepared
from attnflow.sweeps.spec_files import spec_of_values

N, COSINE, END, SAVES, STEP = 32, 0.999, 30.0, 61, 0.1
RTOL, ATOL = 1e-3, 1e-4  # the error of the sweep is then still a fortieth of that of Euler steps of 0.1


def spec_of(betas, runs):
    """The spec of the phase diagram with some of the betas of the paper."""
    values = np.linspace(0.1, 9.0, 90)[np.linspace(0, 89, betas).round().astype(int)]
    settings = {"space": "sphere", "n": N, "d": 3, "start": "sphere", "end": END, "saves": SAVES, "float32": True}
    settings |= {"rtol": RTOL, "atol": ATOL}
    own = {"runs": runs, "reduce": ["mean"], "observables": {"close": f"close-pairs:{COSINE}"}}
    return spec_of_values(settings | own | {"over": {"beta": values.tolist()}}, Path())


def timed(function):
    """What a function returns, its wall-clock seconds and its processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = function()
    return found, time.perf_counter() - wall, time.process_time() - processor


def by_sweep(spec):
    """Shares over (beta, time) by a sweep, store included."""
    with tempfile.TemporaryDirectory() as folder:
        return af.sweep(spec, f"{folder}/a.zarr", progress=False).close_mean.values


def close_share(x):
    """The share of pairs of unit vectors with a cosine above `COSINE`, for every run."""
    close = (x @ x.transpose(-1, -2) > COSINE).sum((-1, -2)) - x.shape[-2]
    return close / (x.shape[-2] * (x.shape[-2] - 1))


def by_torch(starts, betas, threads):
    """Shares over (beta, time) by the published batch."""
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(threads)
    batch = lambda tokens, beta: euler_batch(
        torch.tensor(tokens, dtype=torch.float32), beta, END, STEP, SAVES, xp=torch, observable=close_share
    )
    return np.array([[float(now.mean()) for now in batch(*one)] for one in zip(starts, betas, strict=True)])


def by_reference(starts, betas):
    """Shares over (beta, time) with small tolerances."""
    times, tight = np.linspace(0, END, SAVES), af.Adaptive(1e-10, 1e-12)
    how = {"observables": {"close": af.observables.ClosePairs(COSINE)}, "keep_tokens": False, "solver": tight}
    flows = [af.SphereAttention(af.Head.identity(3), af.Softmax(beta)) for beta in betas]
    runs = [af.simulate(flow, x, times, progress=False, **how) for flow, x in zip(flows, starts, strict=True)]
    return np.array([run["close"].mean("run").values for run in runs])


def measured(betas=3, runs=2048):
    """Seconds and largest errors of both, and their ratio; the threads are those that the process may use."""
    spec, threads = spec_of(betas, runs), len(os.sched_getaffinity(0))
    cells = cells_of(spec)
    values = [cell.values["beta"] for cell in cells]
    starts = [first_tokens(spec, cell, prepared(spec, cell), range(runs)) for cell in cells]
    by_sweep(spec_of(1, 8))  # compiles what has to be compiled
    shares, wall, processor = timed(lambda: by_sweep(spec))
    reference = by_reference(starts, values)
    found = {
        "betas": betas, "runs": runs, "threads": threads, "sweep_seconds": wall, "sweep_processor_seconds": processor,
        "sweep_error": np.abs(shares - reference).max(), "sweep_mean_error": np.abs(shares - reference).mean(),
    }  # fmt: skip
    if importlib.util.find_spec("torch") is None:
        return found
    by_torch([starts[0][:8]], values[:1], threads)
    shares, seconds, processor = timed(lambda: by_torch(starts, values, threads))
    return found | {
        "torch_seconds": seconds, "torch_processor_seconds": processor,
        "torch_error": np.abs(shares - reference).max(), "torch_mean_error": np.abs(shares - reference).mean(),
        "ratio": seconds / wall, "processor_ratio": processor / found["sweep_processor_seconds"],
    }  # fmt: skip


def test_a_small_phase_diagram_is_measured():
    spec = spec_of(2, 4)
    cells = cells_of(spec)
    starts = [first_tokens(spec, cell, prepared(spec, cell), range(4)) for cell in cells]
    shares = by_sweep(spec)

    assert shares.shape == (2, SAVES)
    # In float32 a pair whose cosine is at the threshold at a saved time may count on either side.
    assert np.abs(shares - by_reference(starts, [cell.values["beta"] for cell in cells])).max() < 0.05


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    if len(numbers) > 1:  # before any library starts its threads
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: numbers[1]]))
    for name, value in measured(*numbers[:1]).items():
        print(f"{name:24} {value:.4g}")
