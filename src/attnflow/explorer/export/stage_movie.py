"""A movie of a watched run as the page shows it: the same camera, colours and hidden parts, changes named in it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnflow._common.checks import InputError
from attnflow._common.plain import evenly_spaced
from attnflow.explorer.descriptions import values_in_words
from attnflow.explorer.export.recorded_run import palette
from attnflow.explorer.export.stage_pen import StagePen
from attnflow.explorer.export.stage_picture import StageFrame, StagePicture, StageScene
from attnflow.explorer.export.stage_view import StageView, default_view
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.measure.measurements import AbstractMeasurements, clusters_of_parts
from attnflow.explorer.measure.principal_axes import principal_axes
from attnflow.explorer.recording import Frame
from attnflow.show.parts.animation import MOST_FRAMES, Movie

TRAIL_FRAMES = 60  # earlier frames of a trail, as on the page
MAX_PIXELS = 600_000  # of a picture; a larger stage is drawn smaller
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class WatchedRun:
    """The frames of a run, its measurements, and the changes made while it played."""

    frames: Sequence[Frame]
    measurements: AbstractMeasurements
    later: Sequence[tuple[float, dict[str, Any]]] = ()
    labels: tuple[str, ...] = ()
    is_layered: bool = False
    is_log: bool = False
    """Whether times are log t."""


def stage_movie(run: WatchedRun, view: StageView | None) -> Movie:
    """The movie of a run in the view of a page; None for the view of a page that was not touched."""
    facts = run.measurements.facts()
    measured = run.measurements
    scene = StageScene(
        facts["isSphere"], run.labels, measured.parts, tuple(facts["centres"]), facts["leading"], measured.targets
    )
    view = _complete(view, run, scene.is_sphere)
    shrink = min(1.0, math.sqrt(MAX_PIXELS / (view.width * view.height)))
    figure = Figure(figsize=(view.width * shrink / 100, view.height * shrink / 100), facecolor=view.theme["paper"])
    pen = StagePen(figure.add_axes((0, 0, 1, 1)), view, shrink, palette())
    shown = list(_shown(run))
    return Movie(figure, len(shown), lambda number: StagePicture(pen, scene, shown[number]).draw())


def _complete(view: StageView | None, run: WatchedRun, is_sphere: bool) -> StageView:
    """The view with axes for the dimension of the tokens."""
    tokens = [run.frames[index].tokens for index in evenly_spaced(len(run.frames), MOST_FRAMES)]
    if view is None:
        return default_view(tokens, is_sphere)
    d = tokens[0].shape[1]
    if view.axes is not None and view.axes.shape[1] != d:
        raise InputError(f"`axes` must have rows of length {d}, but they have {view.axes.shape[1]}.")
    if d <= 3:
        return replace(view, axes=None)
    return view if view.axes is not None else replace(view, axes=np.array(principal_axes(np.concatenate(tokens))))


def _shown(run: WatchedRun) -> Iterator[StageFrame]:
    if run.is_layered:
        yield from _between_layers(run)
        return
    positions = evenly_spaced(len(run.frames), MOST_FRAMES)
    for position in positions:
        frame = run.frames[position]
        earlier = run.frames[max(position - TRAIL_FRAMES + 1, 0) : position + 1]
        clock = f"t = {time_text(frame.time, run.is_log)}"
        trail = tuple(one.tokens for one in earlier)
        yield _picture(run, frame, StageFrame(frame.tokens, _clusters(frame), clock, _notes(run, frame), trail))


def _between_layers(run: WatchedRun) -> Iterator[StageFrame]:
    """Directions interpolated between layers for display only, as on the page."""
    steps = max(MOST_FRAMES // max(len(run.frames) - 1, 1), 1)
    trail: tuple[np.ndarray, ...] = ()
    for start, end in zip(run.frames[:-1], run.frames[1:], strict=True):
        for step in range(steps):
            part = step / steps
            tokens = start.tokens + part**2 * (3 - 2 * part) * (end.tokens - start.tokens)
            tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
            trail = (*trail, tokens)[-TRAIL_FRAMES:]
            clock = f"layer {start.time:.0f} → {end.time:.0f}" if step else _layer(start)
            yield _picture(run, start, StageFrame(tokens, _clusters(start), clock, _notes(run, start), trail))
    last = run.frames[-1]
    trail = (*trail, last.tokens)[-TRAIL_FRAMES:]
    yield _picture(run, last, StageFrame(last.tokens, _clusters(last), _layer(last), _notes(run, last), trail))


def _layer(frame: Frame) -> str:
    return f"after layer {frame.time:.0f}" if frame.time else "before layer 1"


def _picture(run: WatchedRun, frame: Frame, shown: StageFrame) -> StageFrame:
    """The picture with what is measured on its frame: parallel subspaces, attention between words."""
    planes = run.measurements.subspaces(frame.tokens) if isinstance(run.measurements, FlowMeasurements) else None
    attention = run.measurements.attention_image(frame) if run.labels else None
    return replace(shown, planes=planes, attention=attention)


def _clusters(frame: Frame) -> np.ndarray:
    return np.zeros(len(frame.tokens), np.uint16) if frame.colours is None else frame.colours


def _notes(run: WatchedRun, frame: Frame) -> tuple[str, ...]:
    """The changes made up to the time of a frame, and the clusters of two prompts."""
    made = [(time, changes) for time, changes in run.later if time <= frame.time]
    notes = [f"{values_in_words(changes)} from t = {time:.4g}" for time, changes in made]
    counts = clusters_of_parts(frame.tokens, run.measurements.parts, run.measurements.distance) or []
    marks = [f"{mark} {count} cluster{'' if count == 1 else 's'}" for mark, count in zip("●■", counts, strict=False)]
    return (*marks, *notes)


def time_text(time: float, is_log: bool) -> str:
    """A time as the page writes it: four digits, or a power of ten; with `is_log` given by its natural logarithm.

    Examples
    --------
    >>> time_text(3.25, False), time_text(1000.0, True)
    ('3.250', '1.97 × 10⁴³⁴')
    """
    if (is_log and time == -math.inf) or (not is_log and time == 0):
        return "0"
    if not math.isfinite(time):
        return "∞"
    decades = time / math.log(10) if is_log else math.log10(time)
    if -3 <= decades < 5:
        value = math.exp(time) if is_log else time
        return f"{value:.{max(3 - math.floor(decades), 0)}f}"
    power = math.floor(decades)
    mantissa = f"{10 ** (decades - power):.2f}"
    if mantissa == "10.00":
        mantissa, power = "1.00", power + 1
    return f"{mantissa} × 10{str(power).translate(RAISED)}"
