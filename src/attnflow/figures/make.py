"""Making figures: compute, draw and write; a figure made with the same parameters and code is kept."""

import hashlib
import importlib.metadata
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import attnflow
from attnflow._common import extras
from attnflow._common.files import written_beside
from attnflow._common.progress import Progress, reporting
from attnflow.figures.figure import Figure
from attnflow.show.parts.animation import has_video, save_movies
from attnflow.show.parts.style import save_figure

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
    key: str = ""
    """Digest of parameters and code: figures of one key are the same."""
    digest: str = ""
    """Digest of the contents of the files, by which damage is noticed."""
    note: str = ""
    """Reason why the figure was skipped or failed."""

    @property
    def is_there(self) -> bool:
        """Whether the files of the figure exist."""
        return self.state in ("made", "kept")


def make(figure: Figure, folder: Path, *, is_quick: bool, progress: Progress = None) -> Made:
    """Make a figure in a folder, unless it is there with the same parameters, made by the same code.

    The record ``ID.json`` is written last, so that a figure that was interrupted is made again.
    """
    settings = figure.settings_of(is_quick)
    if figure.needs and (missing := extras.missing(figure.needs)):
        return Made(figure.id, "skipped", settings, is_quick, note=extras.needs("Skipped: the figure", *missing))
    if (already := kept(figure, folder, is_quick=is_quick)) is not None:
        return already
    record = folder / f"{stem(figure, is_quick)}.json"
    record.unlink(missing_ok=True)
    began = time.monotonic()
    with reporting(progress) as report, _noticing_interrupts() as require_uninterrupted:
        dataset = figure.compute(report, **settings)
        require_uninterrupted()
        numbers = {name: _plain(value) for name, value in figure.numbers(dataset).items()}
        verdicts = [one.as_dict() for one in figure.verdicts(dataset)] if figure.verdicts else []
        files = _write(figure, dataset, folder, is_quick, report)
        require_uninterrupted()
    seconds = round(time.monotonic() - began, 2)
    stamps = {"key": _key(figure, settings), "digest": _digest(folder, files)}
    made = Made(figure.id, "made", settings, is_quick, seconds, numbers, verdicts, files, **stamps)
    with written_beside(record) as beside:
        beside.write_text(json.dumps(asdict(made), indent=2))
    return made


def kept(figure: Figure, folder: Path, *, is_quick: bool) -> Made | None:
    """The record in a folder, if it is of the same figure and its files are unchanged; else None."""
    record = _recorded(figure, folder, is_quick)
    if record is None or record.key != _key(figure, figure.settings_of(is_quick)):
        return None
    try:
        is_unchanged = record.digest == _digest(folder, record.files)
    except OSError:
        return None
    return replace(record, state="kept") if is_unchanged else None


def kept_with_any_model(figure: Figure, folder: Path, *, is_quick: bool) -> Made | None:
    """The record in a folder, as `kept` gives it, whichever trained model the figure was made with."""
    record = _recorded(figure, folder, is_quick)
    if record is not None and (model := record.settings.get("model")):
        figure = figure.on_model(model)
    return kept(figure, folder, is_quick=is_quick)


def _recorded(figure: Figure, folder: Path, is_quick: bool) -> Made | None:
    try:
        return Made(**json.loads((folder / f"{stem(figure, is_quick)}.json").read_text()))
    except (OSError, ValueError, TypeError):  # no record, a damaged one, or one of another version
        return None


def stem(figure: Figure, is_quick: bool) -> str:
    """Name of the files of a figure; quick and full figures have different names."""
    return f"{figure.id}-quick" if is_quick else figure.id


@cache
def code_fingerprint() -> str:
    """Digest of all code of the package and the versions of its libraries."""
    digest = hashlib.sha256()
    for path in sorted(Path(attnflow.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".cpp", ".h"):
            digest.update(path.name.encode() + path.read_bytes())
    digest.update(json.dumps([importlib.metadata.version(name) for name in LIBRARIES]).encode())
    return digest.hexdigest()


def _key(figure: Figure, settings: dict[str, Any]) -> str:
    parts = [figure.id, settings, code_fingerprint(), has_video(), _files_of_model(settings.get("model", ""))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _files_of_model(model: str) -> list[tuple[str, int, int]]:
    """Names, sizes and times of the files of a model, which change when a model is trained further in one place."""
    files = sorted(Path(model).iterdir()) if model and Path(model).is_dir() else []
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _digest(folder: Path, files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in files:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:32]


def _write(
    figure: Figure, dataset: Any, folder: Path, is_quick: bool, show: Callable[[float, str], None] | None
) -> list[str]:
    name = stem(figure, is_quick)
    if show is not None:
        show(0.0, "drawing")
    picture, paths = figure.draw(dataset), []
    for suffix in (".png", ".pdf"):
        paths.append(save_figure(picture, folder / f"{name}{suffix}"))
        picture.set_layout_engine("none")  # a second layout would give the same and double the time
    if figure.movie is not None:
        suffixes = (".mp4", ".gif") if has_video() else (".gif",)
        paths += save_movies(figure.movie(dataset), [folder / f"{name}{suffix}" for suffix in suffixes], show)
    return [path.name for path in paths]


@contextmanager
def _noticing_interrupts() -> Iterator[Callable[[], None]]:
    """Context manager that gives a check, which raises KeyboardInterrupt after Ctrl-C.

    `simulate` returns an incomplete run after Ctrl-C, of which no figure must be made.
    """
    was_interrupted = False

    def require_uninterrupted() -> None:
        if was_interrupted:
            raise KeyboardInterrupt

    def note(number: int, frame: Any) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield require_uninterrupted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield require_uninterrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _plain(value: Any) -> float | int | str:
    """A number of any library as a Python number."""
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, float | int | str):
        raise TypeError(f"A figure's number must be a number or text, but it is {type(plain).__name__}.")
    return plain
