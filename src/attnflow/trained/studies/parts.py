"""Parts of a study on disk: each is written when it is finished, so that a study that was stopped goes on from there.

While `study.nc` is being made, `study.nc.parts` beside it holds the settings of the study as JSON, one netCDF file a
part, and the file of the lock that keeps other processes from computing the same study. It is removed when the study is
whole.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.file_locks import locked_file
from attnflow._common.files import require_folder, written_beside


@dataclass(frozen=True)
class FinishedParts:
    """The finished parts of one study; without a folder nothing is kept."""

    folder: Path | None

    def read(self, name: str) -> xr.Dataset | None:
        """A finished part, or None if it has to be computed, as a damaged one has."""
        if self.folder is None or not (self.folder / f"{name}.nc").is_file():
            return None
        try:
            return xr.load_dataset(self.folder / f"{name}.nc", engine="scipy")
        except Exception:  # a damaged file can raise anything
            return None

    def write(self, name: str, part: xr.Dataset) -> None:
        """Keep a finished part."""
        if self.folder is not None:
            with written_beside(self.folder / f"{name}.nc") as beside:
                part.to_netcdf(beside, engine="scipy")


def parts_folder(out: Path) -> Path:
    """The folder of the finished parts of a study that is to be written to `out`."""
    return out.with_name(f"{out.name}.parts")


@contextmanager
def opened_parts(out: Path | None, settings: dict[str, Any]) -> Iterator[FinishedParts]:
    """The parts beside `out`, which are removed when the study was written without an error.

    InputError if they are of a study with other settings, or if another process is computing this one.
    """
    if out is None:
        yield FinishedParts(None)
        return
    folder = require_folder(parts_folder(out))
    with locked_file(folder / "lock", str(out)):
        record, text = folder / "settings.json", json.dumps(settings, sort_keys=True)
        if record.exists() and record.read_text("utf-8") != text:
            changed = _changed(record, settings)
            raise InputError(
                f"{folder} holds parts of a study with other settings ({changed}). Repeat the first call to finish it, "
                "choose another name, or remove that folder."
            )
        with written_beside(record) as beside:
            beside.write_text(text, "utf-8")
        yield FinishedParts(folder)
    shutil.rmtree(folder, ignore_errors=True)  # after the lock: Windows does not remove a folder with an open file


def _changed(record: Path, settings: dict[str, Any]) -> str:
    """The names of the settings that differ."""
    try:
        before = json.loads(record.read_text("utf-8"))
        names = [name for name in settings if before.get(name) != settings[name]]
    except (ValueError, AttributeError):
        return "its record is damaged"
    return f"different: {', '.join(names)}"
