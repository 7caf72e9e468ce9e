"""Output paths are checked before work begins, and nothing is left beside a file."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.systems import needs_posix

import attnflow as af
from attnflow._common import files
from attnflow._common.files import require_folder, require_free, require_free_picture, with_suffix, written_beside

BEGIN_AND_WAIT = """
import sys, time
from pathlib import Path
from attnflow._common.files import written_beside
with written_beside(Path(sys.argv[1])) as beside:
    beside.mkdir()
    (beside / "part").write_text("half")
    print("begun", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def process_that_writes(path):
    """A process that has begun to write `path`; it is killed at the end."""
    with subprocess.Popen([sys.executable, "-c", BEGIN_AND_WAIT, str(path)], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "begun\n"
        try:
            yield
        finally:
            one.kill()


def test_a_process_counts_as_alive_where_the_system_cannot_be_asked(monkeypatch):
    """Windows would end the process instead of asking for it."""
    monkeypatch.setattr(files.os, "kill", lambda process, signal: pytest.fail("a signal was sent"))
    monkeypatch.setattr(files.os, "name", "nt")

    assert files._is_alive(1)


def test_a_system_without_namespaces_has_a_name(monkeypatch):
    def refuse(path):
        raise FileNotFoundError(path)

    present = files._machine()
    monkeypatch.setattr(files.os, "readlink", refuse)

    assert len(files._machine()) == len(present) == 8


@pytest.mark.parametrize("path", ["", ".", "..", "/", "a/..", "no\0name"])
def test_a_path_without_a_name_is_refused(path):
    for check in (lambda: require_free(path, overwrite=True), lambda: with_suffix(path, ".png")):
        with pytest.raises(ValueError, match=r"^A path (must end with a name|cannot hold)"):
            check()


@pytest.mark.parametrize("path", ["/proc/x.csv", "n" * 300, "a/" * 3000 + "x", "nothing/x.csv", "file/x.csv", "folder"])
def test_a_path_that_the_system_cannot_write_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    with pytest.raises(ValueError, match="cannot be written: "):
        require_free(path, overwrite=True)
    assert sorted(os.listdir()) == ["file", "folder"]


@needs_posix
def test_a_name_must_leave_room_for_the_temporary_one(tmp_path):
    """A name of 250 letters is allowed by the system, the name under which the file is written first is not."""
    with pytest.raises(ValueError, match="File name too long"):
        require_free(tmp_path / ("n" * 250), overwrite=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="Permission denied"):
        require_free(tmp_path / "x", overwrite=False)


def test_a_directory_is_never_replaced_by_a_file(tmp_path):
    (tmp_path / "work.png").mkdir()
    (tmp_path / "work.png" / "thesis.tex").write_text("precious")

    with pytest.raises(ValueError, match="it is a directory"):
        require_free_picture(tmp_path / "work.png")
    with pytest.raises(ValueError, match="cannot be written"), written_beside(tmp_path / "work.png") as beside:
        beside.write_text("a picture")
    assert (tmp_path / "work.png" / "thesis.tex").exists()
    assert os.listdir(tmp_path) == ["work.png"]


PROC = pytest.param("/proc/x", marks=needs_posix)  # a folder like any other on Windows


@pytest.mark.parametrize("folder", ["file", "file/below", "n" * 300, PROC, "no\0name"])
def test_a_folder_that_cannot_be_written_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")

    with pytest.raises(ValueError, match=r"`out` must be a folder|A path cannot hold"):
        require_folder(folder)
    assert os.listdir() == ["file"]


def test_a_folder_is_created_and_left_empty(tmp_path):
    assert os.listdir(require_folder(tmp_path / "a" / "b")) == []


def test_a_folder_that_vanishes_is_a_sentence(tmp_path):
    folder = require_folder(tmp_path / "a")
    path = require_free(folder / "x.csv", overwrite=False)
    folder.rmdir()

    with pytest.raises(ValueError, match=r"x.csv cannot be written: No such file"), written_beside(path) as beside:
        beside.write_text("1")


@needs_posix
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    with process_that_writes(tmp_path / "run.zarr"):
        pass
    (left,) = os.listdir(tmp_path)
    (tmp_path / f"{left}.old").mkdir()  # what remains if the process is killed between two renames
    kept = [".other.zarr.part", ".run.zarr.part", left.replace("run.zarr", "run.zarr2"), "run.zarr.1-2-3.part"]
    for name in kept:
        (tmp_path / name).write_text("of another kind")

    with written_beside(tmp_path / "run.zarr") as beside:
        beside.mkdir()
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "run.zarr"])


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    with process_that_writes(tmp_path / "run.zarr"):
        with written_beside(tmp_path / "run.zarr") as beside:
            beside.mkdir()
        assert len(os.listdir(tmp_path)) == 2


FULL_DISK = """
import os, resource, sys, time
import numpy as np
import attnflow as af
run = af.simulate(af.SphereAttention(af.Head.identity(3)), af.initial.sphere(40, 3, rng=0), np.linspace(0, 1, 200))
for name, limit in (("x.zarr", 10), ("x.zarr", 2000), ("x.nc", 2000)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        af.save(run, f"{sys.argv[1]}/{name}")
    except ValueError as error:
        print(error)
    time.sleep(0.2)
    print("left:", os.listdir(sys.argv[1]))
"""


@needs_posix
def test_a_full_disk_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert printed.count("cannot be written: File too large") == 3
    assert printed.count("left: []") == 3


WRITERS = {
    "save": af.save,
    "html": lambda run, path: af.show.html(run, path),
    "trajectories": lambda run, path: af.show.trajectories(run, path),
    "movie": lambda run, path: af.show.movie(run, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_functions_that_write_refuse_a_path_without_a_name(name):
    run = af.simulate(af.SphereAttention(af.Head.identity(2)), af.initial.circle(4, rng=0), np.linspace(0, 1, 5))

    with pytest.raises(ValueError, match="A path must end with a name"):
        WRITERS[name](run, "")
