"""Making figures: compute the data, write it, draw it from the file, and record what was made."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import xarray as xr

from attnflow._common import extras
from attnflow._common.files import written_beside
from attnflow._common.progress import Progress, Report, reporting
from attnflow.figures.data_file import read_data, stamped, write_data, write_script
from attnflow.figures.drawing import drawn
from attnflow.figures.figure import Figure
from attnflow.figures.records import Made, data_key, digest_of, kept, recorded
from attnflow.figures.thumbnails import panel_box
from attnflow.show.parts.animation import has_video, save_movies
from attnflow.show.parts.page import drawing_on, page_of
from attnflow.show.parts.style import save_figure


def make(
    figure: Figure, folder: Path, *, is_quick: bool, drawing: dict[str, Any] | None = None, progress: Progress = None
) -> Made:
    """Make a figure in a folder, unless the folder holds it already, made with these parameters by the same code.

    `drawing` has the arguments of `figures.drawing.drawn`. Picture, movie and numbers are made of the data as the file
    ``NAME.nc`` holds them, so that its script draws the same picture. Where only `drawing` differs, the data of the
    folder are used again. The record ``NAME.json`` is written last, so that an interrupted figure is made again.
    """
    settings, stem, drawing = figure.settings_of(is_quick), figure.stem(is_quick), drawing or {}
    if figure.needs and (missing := extras.missing(figure.needs)):
        return Made(figure.id, "skipped", settings, is_quick, note=extras.needs("Skipped: the figure", *missing))
    if (already := kept(figure, folder, is_quick=is_quick, drawing=drawing)) is not None:
        return already
    has_data = recorded(figure, folder, is_quick=is_quick) is not None
    record, data_path = folder / f"{stem}.json", folder / f"{stem}.nc"
    record.unlink(missing_ok=True)
    began = time.monotonic()
    with reporting(progress) as report, _noticing_interrupts() as require_uninterrupted:
        if not has_data:
            computed = figure.compute(report, **settings)
            require_uninterrupted()
            write_data(stamped(figure, computed, is_quick=is_quick), data_path)
        data = read_data(data_path)
        numbers, verdicts = _numbers_and_verdicts(figure, data)
        pictures, panel = _write_pictures(figure, data, folder / stem, drawing, report)
        described = figure.draw(data)
        script = write_script(figure, folder, is_quick=is_quick, drawing=drawing)
        require_uninterrupted()
    files = [path.name for path in (*pictures, data_path, script)]
    made = Made(
        id=figure.id,
        state="made",
        settings=settings,
        is_quick=is_quick,
        seconds=round(time.monotonic() - began, 2),
        numbers=numbers,
        verdicts=verdicts,
        files=files,
        changes=figure.changes,
        drawing=drawing,
        caption=[described.title, described.caption],
        panel=panel,
        data_key=data_key(figure, is_quick=is_quick),
        digest=digest_of(folder, files),
    )
    with written_beside(record) as beside:
        beside.write_text(json.dumps(asdict(made), indent=2), "utf-8")
    return made


def _numbers_and_verdicts(figure: Figure, data: xr.Dataset) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The numbers printed beside the picture, and the verdicts of theorems on the data, as JSON knows them."""
    numbers = {name: _plain(value) for name, value in figure.numbers(data).items()}
    verdicts = [verdict.as_dict() for verdict in figure.verdicts(data)] if figure.verdicts else []
    return numbers, verdicts


def _write_pictures(
    figure: Figure, data: xr.Dataset, stem: Path, drawing: dict[str, Any], report: Report
) -> tuple[list[Path], list[float]]:
    """Write picture and movie; returns the paths, and the place of the panel that stands for the picture."""
    report(0.0, "drawing")
    picture, paths = drawn(figure, data, **drawing), []
    for suffix in (".png", ".pdf"):
        paths.append(save_figure(picture, _with_suffix(stem, suffix)))
        picture.set_layout_engine("none")  # a second layout would give the same and double the time
    panel = panel_box(picture)
    if figure.movie is not None:
        suffixes = (".mp4", ".gif") if has_video() else (".gif",)
        style = "dark" if drawing.get("style") == "dark" else None  # movies have one size, for screens
        with drawing_on(page_of(None, style, None)):
            paths += save_movies(figure.movie(data), [_with_suffix(stem, suffix) for suffix in suffixes], report)
    return paths, panel


def _with_suffix(stem: Path, suffix: str) -> Path:
    """The path `stem` followed by a suffix; `Path.with_suffix` would cut the last digits off force-beta-0.5."""
    return stem.with_name(stem.name + suffix)


@contextmanager
def _noticing_interrupts() -> Iterator[Callable[[], None]]:
    """Context manager whose value is a function that raises KeyboardInterrupt if Ctrl-C was pressed in the meantime.

    `simulate` catches KeyboardInterrupt and returns an incomplete run, of which no figure must be made.
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
