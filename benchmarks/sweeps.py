"""Sweeps of many small runs: runs a second, the share of store and scheduling, bytes on disk, memory.

``python benchmarks/sweeps.py 1000000`` has a million runs of 8 tokens in the plane to t = 10; pytest runs 512.
"""

import importlib
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import attnflow as af

CELLS = 8
module = importlib.import_module("attnflow.sweeps.sweep")


def measured(runs):
    """A sweep of some runs in all, timed: seconds inside `compute`, and of the whole call."""
    computing = []
    real = module.compute

    def timed(batch):
        began = time.monotonic()
        found = real(batch)
        computing.append(time.monotonic() - began)
        return found

    module.compute = timed
    try:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            found = af.sweep(
                "sphere",
                f"{folder}/a.zarr",
                over={"beta": f"1:8:{CELLS}"},
                runs=runs // CELLS,
                settings={"n": 8, "d": 2, "end": 10.0, "saves": 11},
                observables=["mean-cosine"],
                progress=False,
            )
            seconds = time.monotonic() - began
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            computed = int(found.attrs["runs_computed"])
    finally:
        module.compute = real
    return {
        "runs": computed,
        "runs_per_second": computed / seconds,
        "overhead": 1 - sum(computing) / seconds,
        "bytes_per_run": size / computed,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "cores": os.cpu_count(),
    }


def test_a_small_sweep_is_measured():
    found = measured(512)

    assert found["runs"] == 512
    assert 0 <= found["overhead"] < 1


if __name__ == "__main__":
    for name, value in measured(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000).items():
        print(f"{name:16} {value:.4g}")
