"""Small sweeps, their comparison, and sweeps in processes that are killed."""

import os
import signal
import subprocess
import sys
import time

import xarray as xr

import attnflow as af

SMALL = {
    "over": {"beta": [1.0, 9.0], "n": [4, 6]},
    "runs": 10,
    "observables": ["mean-cosine", "final-clusters:0.5"],
    "reduce": ["mean", "quantiles:0.1,0.9", "all"],
    "settings": {"end": 2.0, "saves": 3},
}
"""Arguments of `sweep` beside the scenario and the store: 4 cells of 10 runs."""

PROGRAM = """
import sys
import attnflow as af
from attnflow.sweeps import planning, sweep
planning.SECONDS_PER_BATCH = 0.002  # many files, and a kill in the middle of any of them
sweep.SECONDS_BETWEEN_ARRAYS = sweep.SHARE_OF_WRITING = 0.3
import attnflow.integrate.simulate
print("ready", flush=True)
af.sweep("sphere", sys.argv[1], over={"beta": "1:9:5", "n": [6, 8]}, runs=40, settings={"end": 4.0, "saves": 5},
         observables=["mean-cosine", "final-clusters:0.5"], reduce=["mean", "quantiles:0.5", "all"], progress=False)
"""
"""A sweep of 400 runs in files of a few runs, whose path is the argument."""


def numbers_of(store):
    """Variables and coordinates of a store in memory, without attributes."""
    return xr.open_zarr(store).load().drop_attrs()


def assert_same(first, second):
    """Two stores have the same variables, bit for bit."""
    xr.testing.assert_identical(numbers_of(first), numbers_of(second))


def small_sweep(path, scenario="sphere", **changes):
    """A small sweep."""
    return af.sweep(scenario, path, progress=False, **(SMALL | changes))


def killed_after(seconds, store):
    """Run `PROGRAM`, kill it some seconds after its libraries are loaded; True if it was killed before its end."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, errors.decode()
    return False


def killed_sweep(store, kills, rng, longest):
    """Kill `PROGRAM` up to `kills` times at random moments and let it end; the number of kills before its end."""
    count = 0
    for _ in range(kills):
        if not killed_after(rng.uniform(0, longest), store):
            return count
        count += 1
    assert not killed_after(600, store)
    return count


def seconds_undisturbed(store):
    """The duration of `PROGRAM` after its libraries are loaded."""
    began = time.monotonic()
    assert not killed_after(600, store)
    return time.monotonic() - began
