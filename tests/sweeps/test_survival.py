"""Sweeps that are killed, whose workers are killed, or whose disk fills up: the same numbers in the end.

``python -m tests.sweeps.kill_many 200`` kills a sweep at 200 random moments.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xarray as xr
from tests.helpers.sweeping import PROGRAM, SMALL, KilledSweeps, assert_same, small_sweep
from tests.helpers.systems import needs_linux, needs_posix

from attnflow._common.checks import InputError
from attnflow.sweeps.batches import compute
from attnflow.sweeps.pools import LocalProcesses

pytestmark = needs_posix
KILLS = 5


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The path of an undisturbed small sweep."""
    path = tmp_path_factory.mktemp("sweep") / "small.zarr"
    small_sweep(path)
    return path


@needs_linux
def test_a_sweep_killed_at_random_moments_ends_with_the_same_numbers(tmp_path):
    with KilledSweeps() as killed:
        longest = killed.seconds_undisturbed(tmp_path / "whole.zarr")
        count, rng = 0, np.random.default_rng(0)
        for _ in range(12):  # where the machine has become quicker, kills come after the end: sooner then
            shutil.rmtree(tmp_path / "killed.zarr", ignore_errors=True)
            longest /= 2
            if (count := killed.sweep(tmp_path / "killed.zarr", KILLS, rng, longest)) >= 2:
                break

    assert count >= 2, "too few kills have met the sweep while it ran"
    assert_same(tmp_path / "whole.zarr", tmp_path / "killed.zarr")


def test_local_processes_give_the_same_numbers_also_when_they_are_killed(small, tmp_path):
    killed = []

    def kill_workers():
        """Kill one process after the other, as soon as it appears."""
        while len(killed) < 2:
            for process in _children():
                if "multiprocessing.spawn" in _command(process) and process not in killed:
                    time.sleep(0.5)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    break
            time.sleep(0.05)

    thread = threading.Thread(target=kill_workers, daemon=True)
    thread.start()
    found = small_sweep(tmp_path / "a.zarr", workers=1)

    assert found.attrs["runs_failed"] == 0
    assert len(killed) == 2
    assert_same(small, tmp_path / "a.zarr")


def _children():
    """Processes that this one has started, and those that they have started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {os.getpid()})


def _command(process):
    """The command line of a process; empty if it has ended."""
    return subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(process)], capture_output=True, text=True).stdout


def test_a_batch_that_kills_its_process_is_recorded_and_the_others_go_on(small, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalProcesses, "submit", lambda pool, _, batch: pool._pool.submit(deadly, batch))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    found = small_sweep(tmp_path / "a.zarr", workers=1, over={"beta": [1.0, 9.0], "n": [4, 6]}).load()

    reasons = set(found.status.sel(beta=9.0, n=6).values[-1:])
    assert reasons == {"Failed three times: the process that computed it was killed."}
    assert found.attrs["runs_failed"] < 20
    np.testing.assert_array_equal(found.mean_cosine.sel(n=4), xr.open_zarr(small).mean_cosine.sel(n=4))


def deadly(batch):
    """Compute a batch, but die of one that has the last run of the cell beta = 9, n = 6."""
    for segment in batch.segments:
        if segment.cell.values == {"beta": 9.0, "n": 6} and 9 in segment.numbers:
            os.kill(os.getpid(), signal.SIGKILL)
    return compute(batch)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(f"{PROGRAM}\nif __name__ == '__main__':\n    run(sys.argv[1], 4000, workers=1)\n")
    process = subprocess.Popen([sys.executable, script, tmp_path / "a.zarr"])
    workers = _wait_for(lambda: [pid for pid in _family_of(process.pid) if "spawn_main" in _command(pid)])

    process.kill()
    process.communicate()

    assert _wait_for(lambda: not any("spawn_main" in _command(pid) for pid in workers))


def _family_of(pid):
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in (line.split() for line in listed.splitlines()) if int(parent) == pid]


def _wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def _small_disk(folder, size):
    """A file system of some bytes at a folder; skips the test where none can be mounted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path, monkeypatch):
    given = {
        "over": {"beta": [1.0, 9.0]},
        "runs": 400,
        "reduce": ["mean"],
        "settings": {"n": 4, "end": 2.0, "saves": 41},
    }
    given |= {"observables": ["mean-cosine"]}
    small_sweep(tmp_path / "whole.zarr", **given)
    with _small_disk(tmp_path / "disk", "320k"):
        with pytest.raises(InputError, match=r"needs about .* of disk, but .* are free"):
            small_sweep(tmp_path / "disk/a.zarr", **given)
        monkeypatch.setattr("attnflow.sweeps.sweep.require_disk", lambda *_: None)  # another program fills it later
        with pytest.raises(InputError, match=r"No space left on device\. What was finished is kept"):
            small_sweep(tmp_path / "disk/a.zarr", **given)
        kept = len(list((tmp_path / "disk/a.zarr/.sweep/batches").glob("*.npz")))
        assert kept > 0
        assert not list((tmp_path / "disk/a.zarr/.sweep/batches").glob("*.part"))
        subprocess.run(["mount", "-o", "remount,size=20m", tmp_path / "disk"], check=True)

        found = small_sweep(tmp_path / "disk/a.zarr", **given)

        assert found.attrs["runs_computed"] == 800
        assert_same(tmp_path / "whole.zarr", tmp_path / "disk/a.zarr")


@pytest.mark.parametrize("size", [0, 3000])
def test_files_of_limited_size_end_with_a_sentence(tmp_path, size):
    """The limit that a system sets on the size of files stands in for a full disk where none can be mounted.

    With size 0 not even the name of the process that writes has room.
    """
    program = f"""
import resource, signal
import attnflow as af
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))
given = {SMALL!r}
try:
    af.sweep("sphere", {str(tmp_path / "a.zarr")!r}, progress=False, **(given | {{"runs": 500}}))
except ValueError as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "cannot be written: File too large. What was finished is kept" in finished.stdout, finished.stderr
    small_sweep(tmp_path / "a.zarr", runs=500)
    small_sweep(tmp_path / "b.zarr", runs=500)
    assert_same(tmp_path / "a.zarr", tmp_path / "b.zarr")


def _kill_when_begun(store, victims):
    _wait_for(lambda: (store / ".sweep/spec.json").exists())
    time.sleep(0.2)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # of Dask, about ports and workers that end
def test_a_cluster_whose_workers_are_killed_gives_the_same_numbers(small, tmp_path):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        victims = [int(pid) for pid in client.run(os.getpid).values()]
        killer = threading.Thread(target=_kill_when_begun, args=(tmp_path / "a.zarr", victims))
        killer.start()
        found = small_sweep(tmp_path / "a.zarr", dask=client)
        killer.join()

        assert found.attrs["runs_failed"] == 0
        assert not set(victims) & set(client.run(os.getpid).values()), "no worker was replaced"
    assert_same(small, tmp_path / "a.zarr")


def test_an_address_without_a_scheduler_is_refused_quickly(tmp_path):
    pytest.importorskip("distributed")
    began = time.monotonic()
    with pytest.raises(InputError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9' within 10 s"):
        small_sweep(tmp_path / "a.zarr", dask="tcp://127.0.0.1:9")
    assert time.monotonic() - began < 60  # ten of them wait for an answer
    assert not (tmp_path / "a.zarr").exists()
