"""Making figures: compute, draw, count, write; what is already made with the same parameters and code is kept."""

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
from attnflow._common.checks import InputError
from attnflow._common.files import written_beside
from attnflow._common.progress import Progress, reporting
from attnflow.figures.figure import Figure
from attnflow.show.parts.animation import has_video, save_movies
from attnflow.show.parts.style import save_figure

PICTURES = (".png", ".pdf")
CODE = (".py", ".cpp", ".h")
LIBRARIES = ("numpy", "scipy", "jax", "diffrax", "matplotlib")


@dataclass(frozen=True)
class Made:
    """What making a figure gave."""

    id: str
    state: str
    """"made", "kept" (it was there already), "skipped" or "failed"."""
    settings: dict[str, Any]
    is_quick: bool
    seconds: float = 0.0
    numbers: dict[str, Any] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Names in the folder of the report."""
    key: str = ""
    """Of parameters and code: the same key is the same figure."""
    digest: str = ""
    """Of what is in the files: a damaged one has another."""
    note: str = ""
    """Why it was skipped or failed."""

    @property
    def is_there(self) -> bool:
        """Whether there is something to show."""
        return self.state in ("made", "kept")


def make(figure: Figure, folder: Path, *, is_quick: bool, progress: Progress = None) -> Made:
    """Make a figure in a folder, unless it is there with the same parameters, made by the same code.

    The record ``ID.json`` is written last: what was interrupted has none and is made again.
    """
    settings = figure.settings_of(is_quick)
    if figure.needs and (missing := extras.missing(figure.needs)):
        return Made(figure.id, "skipped", settings, is_quick, note=extras.needs("Skipped: the figure", *missing))
    if (already := kept(figure, folder, is_quick=is_quick)) is not None:
        return already
    record = folder / f"{stem(figure, is_quick)}.json"
    record.unlink(missing_ok=True)
    began = time.monotonic()
    with reporting(progress) as report, _noticing_interrupts() as require_whole:
        dataset = figure.compute(report, **settings)
        require_whole()
        numbers = {name: _plain(value) for name, value in figure.numbers(dataset).items()}
        verdicts = [one.as_dict() for one in figure.verdicts(dataset)] if figure.verdicts else []
        files = _write(figure, dataset, folder, is_quick, report)
        require_whole()
    seconds = round(time.monotonic() - began, 2)
    stamps = {"key": _key(figure, settings), "digest": _digest(folder, files)}
    made = Made(figure.id, "made", settings, is_quick, seconds, numbers, verdicts, files, **stamps)
    with written_beside(record) as beside:
        beside.write_text(json.dumps(asdict(made), indent=2))
    return made


def kept(figure: Figure, folder: Path, *, is_quick: bool) -> Made | None:
    """What is recorded in a folder, if it is the same figure and all its files are as they were written."""
    found = _recorded(figure, folder, is_quick)
    if found is None or found.key != _key(figure, figure.settings_of(is_quick)):
        return None
    try:
        is_whole = found.digest == _digest(folder, found.files)
    except OSError:
        return None
    return replace(found, state="kept") if is_whole else None


def kept_with_any_model(figure: Figure, folder: Path, *, is_quick: bool) -> Made | None:
    """The same, whichever trained model the figure was made with."""
    found = _recorded(figure, folder, is_quick)
    if found is not None and (model := found.settings.get("model")):
        figure = figure.on_model(model)
    return kept(figure, folder, is_quick=is_quick)


def _recorded(figure: Figure, folder: Path, is_quick: bool) -> Made | None:
    try:
        return Made(**json.loads((folder / f"{stem(figure, is_quick)}.json").read_text()))
    except (OSError, ValueError, TypeError):  # none, damaged, or of another version
        return None


def stem(figure: Figure, is_quick: bool) -> str:
    """The name of its files; quick and full figures do not replace each other."""
    return f"{figure.id}-quick" if is_quick else figure.id


@cache
def code_fingerprint() -> str:
    """Of all code of the package and the versions of what it computes with."""
    digest = hashlib.sha256()
    for path in sorted(Path(attnflow.__file__).parent.rglob("*")):
        if path.suffix not in CODE:
            continue
        digest.update(path.name.encode() + path.read_bytes())
    digest.update(json.dumps([importlib.metadata.version(name) for name in LIBRARIES]).encode())
    return digest.hexdigest()


def _key(figure: Figure, settings: dict[str, Any]) -> str:
    said = [figure.id, settings, code_fingerprint(), has_video(), _files_of_model(settings.get("model", ""))]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _files_of_model(model: str) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a directory's files: a model trained further in the same place is another one."""
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
    for suffix in PICTURES:
        paths.append(save_figure(picture, folder / f"{name}{suffix}"))
        picture.set_layout_engine("none")  # everything has its place now; finding it again would double the time
    if figure.movie is not None:
        suffixes = (".mp4", ".gif") if has_video() else (".gif",)
        paths += save_movies(figure.movie(dataset), [folder / f"{name}{suffix}" for suffix in suffixes], show)
    return [path.name for path in paths]


@contextmanager
def _noticing_interrupts() -> Iterator[Callable[[], None]]:
    """A check that raises if Ctrl-C came: `simulate` returns what it has then, and half a run is no figure."""
    was_interrupted = False

    def require_whole() -> None:
        if was_interrupted:
            raise KeyboardInterrupt

    def note(number: int, frame: Any) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield require_whole
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield require_whole
    finally:
        signal.signal(signal.SIGINT, before)


def _plain(value: Any) -> float | int | str:
    """Numbers of any library as JSON knows them."""
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, float | int | str):
        raise TypeError(f"A figure's number must be a number or words, but it is {type(plain).__name__}.")
    return plain


def require_folder(folder: Path) -> Path:
    """A folder that can be written to; made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with written_beside(folder / "writable") as beside:
            beside.touch()
        (folder / "writable").unlink()
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"`out` must be a folder that can be written to, but {folder} is not: {why}.") from error
    return folder
