"""Processes that are killed, or interrupted with Ctrl-C, at random moments: no damaged result, no leftover.

Processes are forked from one that has imported the package and has started no thread, so that they begin at once.
"""

import collections
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

import attnflow as af

RUN = ["run", "kuramoto", "--n", "4", "--end", "2", "--saves", "5", "--out", "killed.zarr", "--overwrite"]
REPRODUCE = ["reproduce", "hardmax-leaders", "--quick", "--out", "figures"]


def _save_again_and_again(run: xr.Dataset, suffix: str) -> None:
    while True:
        af.save(run, f"killed{suffix}", overwrite=True)


def _command(arguments: list[str]) -> None:
    from attnflow.cli.process import run

    sys.argv = ["attnflow", *arguments]
    run()


def ended_early(work: Callable[[], None], seconds: float, number: int, folder: Path) -> int:
    """Do some work in a forked process, end it by a signal after some seconds; returns its exit code, or -signal."""
    begun, begins = os.pipe()
    process = os.fork()
    if process == 0:
        _become(work, folder, begins)
    os.read(begun, 1)  # before that, the process ignores Ctrl-C if it was started in the background
    os.close(begun)
    os.close(begins)
    time.sleep(seconds)
    os.kill(process, number)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 255  # it hung


def _become(work: Callable[[], None], folder: Path, begins: int) -> None:
    """Do the work as a process of its own does, and exit."""
    code = 0
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.write(begins, b"1")
        work()
    except SystemExit as ending:
        code = int(ending.code or 0)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        code = 3
    finally:
        os._exit(code)


def run(seconds: float, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """End processes early for some seconds; returns how many ended how, and what was wrong."""
    draw = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    saved = _result()
    until = time.monotonic() + seconds  # after the imports, which may take longer than a short test
    works: dict[str, Callable[[], None]] = {
        "save .zarr": lambda: _save_again_and_again(saved, ".zarr"),
        "save .nc": lambda: _save_again_and_again(saved, ".nc"),
        "run": lambda: _command(RUN),
        "reproduce": lambda: _command(REPRODUCE),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while time.monotonic() < until:
            kind = draw.choice(("save .zarr", "save .zarr", "save .nc", "run", "reproduce"))
            number = draw.choice((signal.SIGKILL, signal.SIGINT))
            longest = 1.0 if kind.startswith("save") else 8.0
            code = ended_early(works[kind], draw.uniform(0, longest), number, folder)
            counts[f"{kind} ended by {signal.Signals(number).name}"] += 1
            counts[f"exit code {code}"] += 1
            allowed = (-9, 0, 1, 2) if number == signal.SIGKILL else (0, 1, 2, 130)
            if code not in allowed:
                failures.append(f"{kind}, {signal.Signals(number).name}: exit code {code}")
            counts["ended inside a save"] += any(entry.startswith(".killed") for entry in os.listdir(folder))
            failures += [f"{kind}: {fault}" for fault in _faults(folder, saved)]
    return dict(counts), failures


def _result() -> xr.Dataset:
    """A result of some thousand numbers, read from a file: computing one would start threads."""
    old = af.load(Path(__file__).parents[1] / "results" / "files_of_0_1_0" / "single_run.nc")
    return old.assign(more=("entry", np.arange(20_000.0)))


def _faults(folder: Path, saved: xr.Dataset) -> list[str]:
    """Results that cannot be loaded, and what is left after the next save of the same name."""
    found = []
    for suffix in (".zarr", ".nc"):
        path = folder / f"killed{suffix}"
        if path.exists():
            try:
                af.load(path)
            except ValueError as error:
                found.append(str(error))
        af.save(saved, path, overwrite=True)
        left = [entry for entry in os.listdir(folder) if entry.startswith(f".killed{suffix}")]
        found += [f"left {left}"] if left else []
    return found
