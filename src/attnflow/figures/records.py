"""Records of figures in a folder: parameters and code of each, its numbers, and whether its files are whole."""

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import attnflow
from attnflow.figures.catalogue import catalogue
from attnflow.figures.figure import Figure
from attnflow.show.parts.animation import has_video

LIBRARIES = ("numpy", "scipy", "jax", "diffrax", "matplotlib")  # whose versions can change a figure


@dataclass(frozen=True)
class Made:
    """The record of making a figure."""

    id: str
    state: str
    """"made", "kept" (it was made before), "skipped" or "failed"."""
    settings: dict[str, Any]
    is_quick: bool
    seconds: float = 0.0
    numbers: dict[str, Any] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Names of its files in the folder of the report."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Parameters that differ from those of the catalogue."""
    drawing: dict[str, Any] = field(default_factory=dict)
    """Size, style and title of the picture as they were asked for; empty for those of the catalogue."""
    caption: list[str] = field(default_factory=list)
    """Title and caption, whether the picture has them or not."""
    panel: list[float] = field(default_factory=list)
    """Edges of the panel that stands for the picture in the overview, as shares of its width and height."""
    data_key: str = ""
    """Digest of settings and code: figures of one such key have the same data."""
    digest: str = ""
    """Digest of the contents of the files, by which damage is noticed."""
    note: str = ""
    """Reason why the figure was skipped or failed."""

    @property
    def is_there(self) -> bool:
        """Whether the files of the figure exist."""
        return self.state in ("made", "kept")


def kept(figure: Figure, folder: Path, *, is_quick: bool, drawing: dict[str, Any] | None = None) -> Made | None:
    """The record in a folder, if it is of the same figure and its files are unchanged; else None."""
    record = recorded(figure, folder, is_quick=is_quick)
    is_same = (
        record is not None and record.drawing == (drawing or {}) and bool(record.files) and has_movies(record, figure)
    )
    return replace(record, state="kept") if record is not None and is_same else None


def recorded(figure: Figure, folder: Path, *, is_quick: bool) -> Made | None:
    """The record of the figure's data in a folder, if made by the same code and all files are whole; else None."""
    record = _read(folder / f"{figure.stem(is_quick)}.json")
    if record is None or record.data_key != data_key(figure, is_quick=is_quick):
        return None
    try:
        return record if record.digest == digest_of(folder, record.files) else None
    except OSError:
        return None


def figures_in(folder: Path, *, is_quick: bool) -> list[tuple[Figure, Made]]:
    """All figures of a folder whose files are whole, with any parameters and models, in the order of the catalogue."""
    found = []
    for path in sorted(folder.glob("*.json")):
        record = _read(path)
        if record is None or record.id not in catalogue() or record.is_quick != is_quick:
            continue
        figure = catalogue()[record.id].with_changes(record.changes)
        if path.stem == figure.stem(is_quick) and (
            made := kept(figure, folder, is_quick=is_quick, drawing=record.drawing)
        ):
            found.append((figure, made))
    order = list(catalogue())
    return sorted(found, key=lambda entry: order.index(entry[0].id))


def has_movies(record: Made, figure: Figure) -> bool:
    """Whether a record has the movies that can be written now: the extra [video] may have been installed since."""
    wanted = {".mp4"} if figure.movie is not None and has_video() else set()
    return wanted <= {Path(name).suffix for name in record.files}


def data_key(figure: Figure, *, is_quick: bool) -> str:
    """Digest of the settings of a figure, the code and the files of its model."""
    settings = figure.settings_of(is_quick)
    parts = [figure.id, settings, code_fingerprint(), _files_of_model(settings.get("model", ""))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@cache
def code_fingerprint() -> str:
    """Digest of all code of the package and the versions of its libraries."""
    digest = hashlib.sha256()
    for path in sorted(Path(attnflow.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".cpp", ".h"):
            digest.update(path.name.encode() + path.read_bytes())
    digest.update(json.dumps([importlib.metadata.version(name) for name in LIBRARIES]).encode())
    return digest.hexdigest()


def digest_of(folder: Path, files: Sequence[str]) -> str:
    """Digest of the contents of files."""
    digest = hashlib.sha256()
    for name in files:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:32]


def _read(path: Path) -> Made | None:
    try:
        return Made(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):  # no record, a damaged one, or one of another version
        return None


def _files_of_model(model: str) -> list[tuple[str, int, int]]:
    """Names, sizes and times of the files of a model, which change when a model is trained further in one place."""
    files = sorted(Path(model).iterdir()) if model and os.path.isdir(model) else []
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
