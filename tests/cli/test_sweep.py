"""`attnflow sweep`: axes on the command line, specs, the state of a store, exit codes."""

import importlib
import json
import signal
import subprocess
import sys
import time
from unittest import mock

import numpy as np
import xarray as xr
from tests.helpers.command_line import attnflow
from tests.helpers.sweeping import assert_same
from tests.helpers.systems import needs_posix

SPEC = """
scenario = "sphere"
n = 4
end = 1.0
saves = 2
runs = 6

[over]
beta = "1:4:2"
mask = ["full", "causal"]

[observables]
order = "mean-cosine"
"""


def test_a_spec_and_options_give_the_same_store(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)

    printed, _ = attnflow("sweep", "spec.toml", cwd=tmp_path)
    options = [
        "--from",
        "sphere",
        "--over",
        "beta=1:4:2",
        "--over",
        "mask=full,causal",
        "--observe",
        "order=mean-cosine",
    ]
    text, _ = attnflow(
        "sweep", *options, "--n", 4, "--end", 1, "--saves", 2, "--runs", 6, "--out", "b.zarr", "--json", cwd=tmp_path
    )

    assert "24 of 24 computed, 0 missing" in printed
    found = json.loads(text)
    assert (found["computed"], found["axes"]["mask"]) == (24, {"mask": ["full", "causal"]})
    assert found["endings"] == {"Reached the end.": 24}
    assert_same(tmp_path / "spec-sweep.zarr", tmp_path / "b.zarr")
    commands = json.loads(xr.open_zarr(tmp_path / "b.zarr").attrs["commands"])
    assert commands[0].startswith("attnflow sweep --from sphere --over beta=1:4:2")


def test_the_state_of_a_store_is_printed(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    attnflow("sweep", "spec.toml", cwd=tmp_path)

    printed, _ = attnflow("sweep", "--status", "spec-sweep.zarr", cwd=tmp_path)

    assert "4 of 4 finished; axes beta (2), mask (2)" in printed
    assert "24: Reached the end." in printed
    assert "There is no sweep at no.zarr" in attnflow("sweep", "--status", "no.zarr", cwd=tmp_path, code=2)[1]

    (tmp_path / "spec-sweep.zarr" / "zarr.json").unlink()  # as before the arrays are first written
    assert (
        "24: computed, not in the arrays of the store yet"
        in attnflow("sweep", "--status", "spec-sweep.zarr", cwd=tmp_path)[0]
    )


def test_bad_input_is_one_sentence(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    base = ("sweep", "--from", "sphere", "--over")
    refusals = {
        ("sweep",): "Give a spec (.toml) or a scenario with `--from`, but neither is given",
        ("sweep", "sphere"): "For a scenario, write --from sphere",
        ("sweep", "spec.toml", "--from", "sphere"): "but both is given",
        (*base, "beta"): "`--over` must be NAME=VALUES",
        (*base, "beta=1", "--over", "beta=2"): "gives the axis 'beta' twice",
        (*base, "bet=1"): "Did you mean 'beta'",
        (*base, "beta=1", "--workers", "0"): "`workers` must be a whole number, at least 1",
        (*base, "beta=1", "--workers", "1", "--dask", "tcp://x:1"): "`workers` and `dask` both say where to compute",
    }
    for command, sentence in refusals.items():
        _, error = attnflow(*command, cwd=tmp_path, code=2)
        assert sentence in error
        assert error.count("\n") == 1


# Shells start background jobs with Ctrl-C ignored, the tests may be one, and processes inherit it.
WITH_CTRL_C = """
import signal
from attnflow.cli.process import run
signal.signal(signal.SIGINT, signal.default_int_handler)
run()
"""


@needs_posix
def test_ctrl_c_keeps_what_was_finished_and_the_same_command_continues(tmp_path):
    command = ["sweep", "--from", "renyi", "--over", "beta=4,64", "--n", "60", "--runs", "20000", "--out", "a.zarr"]
    program = [sys.executable, "-c", WITH_CTRL_C]
    process = subprocess.Popen([*program, *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not list((tmp_path / "a.zarr/.sweep/batches").glob("*.npz")):
        assert time.monotonic() < until
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)

    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)

    assert process.returncode == 130, error
    assert "runs are kept in a.zarr; the same command continues" in error
    found = xr.open_zarr(tmp_path / "a.zarr")
    kept = found.attrs["runs_computed"]
    assert kept > 0
    assert int((found.status == "Reached the end.").sum()) == kept
    assert np.isfinite(found.final_time).sum() == kept


def test_ctrl_c_before_anything_has_begun(tmp_path):
    interrupted = mock.Mock(side_effect=KeyboardInterrupt)
    with mock.patch.object(importlib.import_module("attnflow.sweeps.sweep"), "times_of", interrupted):
        _, error = attnflow("sweep", "--from", "renyi", "--out", "a.zarr", cwd=tmp_path, code=130)

    assert error == "attnflow: interrupted. Nothing was computed.\n"
    assert not (tmp_path / "a.zarr").exists()
