"""The store of a sweep: a Zarr directory with the dataset, and in it a hidden folder with spec, journal and lock."""

import contextlib
import datetime
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.file_locks import is_locked, locked_file
from attnflow._common.files import require_suffix
from attnflow.sweeps.journal import Journal, write_json
from attnflow.sweeps.sweep_spec import SweepSpec

FORMAT = 1  # of the folder; a later version of attnflow with another layout raises it
HIDDEN = ".sweep"
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}  # without it Zarr warns of a foreign folder


class DamagedError(InputError):
    """The spec of a store cannot be read."""


class Store:
    """A directory that holds a sweep, of which this process has the lock."""

    def __init__(self, path: Path):
        self.path = path
        self._hidden = path / HIDDEN

    def journal(self, times: np.ndarray) -> Journal:
        """The finished batches of a sweep to some times."""
        return Journal(self._hidden / "batches", times, is_writer=True)

    def write_spec(self, spec: SweepSpec, command: str) -> None:
        """Record the spec, the version and the date; the date of the first command is kept."""
        before = recorded(self.path) if has_spec(self.path) else {}
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        versions = dict.fromkeys([*before.get("versions", []), version("attnflow")])
        commands = dict.fromkeys([*before.get("commands", []), *([command] if command else [])])
        history = {"begun": before.get("begun", now), "versions": list(versions), "commands": list(commands)}
        write_json(self._hidden / "zarr.json", GROUP)
        write_json(self._hidden / "spec.json", {"format": FORMAT, "spec": spec.record()} | history)

    def publish(self, dataset: xr.Dataset) -> None:
        """Replace the arrays that `xarray.open_zarr` reads; InputError if they cannot be written.

        They are written in the hidden folder and moved, the metadata last. A process that is killed between two moves
        leaves numbers that are right, some of which may be missing; the next command replaces them.
        """
        beside, old = self._hidden / "next", self._hidden / "old"
        try:
            for folder in (beside, old):
                shutil.rmtree(folder, ignore_errors=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # texts and the summary of metadata are no part of Zarr 3
                dataset.to_zarr(beside, mode="w", consolidated=True, zarr_format=3)
            old.mkdir()
            for part in sorted(beside.iterdir(), key=lambda part: (part.is_file(), part.name)):
                if part.is_dir() and (self.path / part.name).exists():
                    os.replace(self.path / part.name, old / part.name)
                os.replace(part, self.path / part.name)
            kept = {str(name) for name in dataset.variables}
            for former in [part for part in self.path.iterdir() if part.is_dir() and part.name not in {HIDDEN, *kept}]:
                shutil.rmtree(former, ignore_errors=True)
            for folder in (beside, old):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror or error}. What was finished is kept: the same "
                "command continues the sweep."
            ) from error


@contextmanager
def locked(path: str | os.PathLike) -> Iterator[Store]:
    """The store at a path, created if there is none, with the lock that keeps other processes from writing to it."""
    require_suffix(path, "The store of a sweep", (".zarr",))
    path = Path(path)
    is_new = not path.exists()
    if not is_new and not (path / HIDDEN).is_dir() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path} exists already and is no sweep. Choose another name.")
    try:
        (path / HIDDEN).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
    with locked_file(path / HIDDEN / "lock", str(path)) as file:
        try:
            yield Store(path)
        finally:
            if is_new and not has_spec(path):  # refused before anything was computed
                if sys.platform == "win32":  # which does not remove a folder with an open file
                    file.close()
                shutil.rmtree(path, ignore_errors=True)


def is_being_written(path: str | os.PathLike) -> bool:
    """Whether a process has the lock of a store."""
    return is_locked(Path(path) / HIDDEN / "lock")


def read_journal(path: str | os.PathLike, times: np.ndarray) -> Journal:
    """The finished batches of a store, which another process may be writing."""
    return Journal(Path(path) / HIDDEN / "batches", times, is_writer=False)


def is_sweep(path: str | os.PathLike) -> bool:
    """Whether there is the store of a sweep at a path."""
    return os.path.isdir(Path(path) / HIDDEN)  # False too for names that no file can have


def has_spec(path: str | os.PathLike) -> bool:
    """Whether a spec is recorded; a process that was killed in its first moments may have left none."""
    return os.path.isfile(Path(path) / HIDDEN / "spec.json")


def recorded(path: str | os.PathLike) -> dict[str, Any]:
    """What the hidden folder of a store records: spec, versions, date, commands."""
    if not has_spec(path):
        raise InputError(f"There is no sweep at {path}.")
    try:
        record = json.loads((Path(path) / HIDDEN / "spec.json").read_text("utf-8"))
        is_newer, made_by = record["format"] > FORMAT, record["versions"][-1]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DamagedError(f"{path} is damaged: its spec cannot be read ({type(error).__name__}).") from error
    if is_newer:
        raise InputError(
            f"{path} was written by attnflow {made_by}, which is newer than this one, {version('attnflow')}. "
            "Install that version, or choose another name."
        )
    return record


def spec_of(path: str | os.PathLike) -> SweepSpec:
    """The spec of a store."""
    record = recorded(path)
    try:
        return SweepSpec.of_record(record["spec"])
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: its spec cannot be read ({type(error).__name__}).") from error


def load_sweep(path: str | os.PathLike) -> xr.Dataset:
    """The dataset of a sweep as it is now; arrays are read when they are used.

    Parameters
    ----------
    path
        The directory of a sweep.

    Examples
    --------
    >>> import tempfile, attnflow as af
    >>> store = tempfile.mkdtemp() + "/two.zarr"
    >>> _ = af.sweep("sphere", store, over={"beta": [1.0, 4.0]}, settings={"n": 4, "end": 1.0, "saves": 2})
    >>> af.load_sweep(store).beta.values
    array([1., 4.])
    """
    if not is_sweep(path) or not (Path(path) / "zarr.json").is_file():
        raise InputError(f"There is no sweep at {path}.")
    if has_spec(path):
        with contextlib.suppress(DamagedError):  # the arrays can be read without the spec
            recorded(path)
    try:
        return xr.open_zarr(path, consolidated=True, chunks=None)
    except Exception as error:  # a damaged directory can raise anything
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}). Run the sweep again: it writes the arrays anew from what "
            "is finished."
        ) from error
