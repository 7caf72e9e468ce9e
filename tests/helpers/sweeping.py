"""Small sweeps, their comparison, and sweeps in processes that are killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import xarray as xr

import attnflow as af
from attnflow.sweeps.cells import cells_of, first_tokens, prepared
from attnflow.sweeps.spec_files import spec_of_values

SMALL = {
    "over": {"beta": [1.0, 9.0], "n": [4, 6]},
    "runs": 10,
    "observables": ["mean-cosine", "final-clusters:0.5"],
    "reduce": ["mean", "quantiles:0.1,0.9", "all"],
    "settings": {"end": 2.0, "saves": 3},
}
"""Arguments of `sweep` beside the scenario and the store: 4 cells of 10 runs."""

PROGRAM = """
import os
import sys
import attnflow as af
from attnflow.integrate import simulate
from attnflow.sweeps import planning, sweep
planning.SECONDS_PER_BATCH = 0.002  # many files, and a kill in the middle of any of them
sweep.SECONDS_BETWEEN_ARRAYS = sweep.SHARE_OF_WRITING = 0.3

def run(store, runs, workers=None):
    af.sweep("sphere", store, over={"beta": "1:9:5", "n": [6, 8]}, runs=runs, settings={"end": 4.0, "saves": 5},
             observables=["mean-cosine", "final-clusters:0.5"], reduce=["mean", "quantiles:0.5", "all"], progress=False,
             workers=workers)
"""
"""A sweep of ten cells in files of a few runs."""

# The libraries are loaded once; each line of the input is a store, for which a copy of the process begins the sweep.
SERVER = (
    PROGRAM
    + """
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(line.strip(), 40)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
)


class KilledSweeps:
    """A process that begins sweeps in copies of itself, which are killed with signal 9 at random moments."""

    def __init__(self):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._server.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def killed_after(self, seconds, store):
        """Begin a sweep and kill it some seconds later; True if it was killed before its end."""
        self._server.stdin.write(f"{store}\n")
        self._server.stdin.flush()
        child = int(self._server.stdout.readline())
        killer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
        killer.start()
        code = int(self._server.stdout.readline())
        killer.cancel()
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def sweep(self, store, kills, rng, longest):
        """Kill a sweep up to `kills` times at random moments and let it end; the number of kills before its end."""
        for count in range(kills):
            if not self.killed_after(rng.uniform(0, longest), store):
                return count
        assert not self.killed_after(3600, store)
        return kills

    def seconds_undisturbed(self, store):
        """The duration of a sweep that is not killed."""
        began = time.monotonic()
        assert not self.killed_after(3600, store)
        return time.monotonic() - began


def numbers_of(store):
    """Variables and coordinates of a store in memory, without attributes."""
    return xr.open_zarr(store).load().drop_attrs()


def assert_same(first, second):
    """Two stores have the same variables, bit for bit."""
    xr.testing.assert_identical(numbers_of(first), numbers_of(second))


def first_tokens_of(values, cell, runs):
    """The first tokens of the runs of one cell of a sweep, from the keys of its spec and the values of its axes."""
    spec = spec_of_values(values, Path())
    found = next(one for one in cells_of(spec) if one.values == cell)
    return first_tokens(spec, found, prepared(spec, found), range(runs))


def small_sweep(path, scenario="sphere", **changes):
    """A small sweep."""
    return af.sweep(scenario, path, progress=False, **(SMALL | changes))
