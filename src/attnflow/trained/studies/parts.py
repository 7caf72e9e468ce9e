"""Parts of a study on disk: each is written when it is finished, so that a study that was stopped goes on from there.

While `study.nc` is being made, `study.nc.parts` beside it holds the settings of the study as JSON and one netCDF file a
part. It is removed when the study is whole.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from attnflow._common.checks import InputError
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

    def remove(self) -> None:
        """Remove the folder, when the study is written as a whole."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def parts_folder(out: Path) -> Path:
    """The folder of the finished parts of a study that is to be written to `out`."""
    return out.with_name(f"{out.name}.parts")


def opened_parts(out: Path | None, settings: dict[str, Any]) -> FinishedParts:
    """The parts beside `out`; InputError if they are of a study with other settings."""
    if out is None:
        return FinishedParts(None)
    folder = require_folder(parts_folder(out))
    record, text = folder / "settings.json", json.dumps(settings, sort_keys=True)
    if record.exists() and record.read_text("utf-8") != text:
        changed = _changed(record, settings)
        raise InputError(
            f"{folder} holds parts of a study with other settings ({changed}). Repeat the first call to finish it, "
            "choose another name, or remove that folder."
        )
    with written_beside(record) as beside:
        beside.write_text(text, "utf-8")
    return FinishedParts(folder)


def _changed(record: Path, settings: dict[str, Any]) -> str:
    """The names of the settings that differ."""
    try:
        before = json.loads(record.read_text("utf-8"))
        names = [name for name in settings if before.get(name) != settings[name]]
    except (ValueError, AttributeError):
        return "its record is damaged"
    return f"different: {', '.join(names)}"
