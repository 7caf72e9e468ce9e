"""Files of a watched run: its dataset, Python code, a movie, or a page that plays it."""

import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.explorer import catalogue
from attnflow.explorer.export.python_code import python_code
from attnflow.explorer.export.recorded_run import Caption, recorded_messages, recorded_run
from attnflow.explorer.export.single_page import single_page
from attnflow.explorer.export.stage_view import StageView
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.control_measurements import ControlMeasurements
from attnflow.explorer.measure.layer_measurements import LayerMeasurements
from attnflow.explorer.recording import Frame
from attnflow.explorer.stepper import Stepper
from attnflow.integrate.request import DEFAULT_MEMORY
from attnflow.results import run_dataset
from attnflow.results.files import save
from attnflow.results.run_arrays import RunArrays
from attnflow.results.run_dataset import Request
from attnflow.solvers.status import Status

SUFFIXES = {"dataset": ".nc", "code": ".py", "html": ".html", "mp4": ".mp4", "gif": ".gif"}
COMPUTED_BY = "programs compiled by XLA, since the explorer shows single steps"
_DRAWING = threading.Lock()  # matplotlib has one style for all threads


@dataclass(frozen=True)
class RunSnapshot:
    """What was recorded of a run when a file was asked for; the run may continue meanwhile."""

    run: LiveRun
    frames: tuple[Frame, ...]
    later: tuple[tuple[float, dict[str, Any]], ...]
    """Changes made while the run played, with their times."""
    request: Request | None
    """The arguments of `simulate` that repeat it; None for a precomputed run, which has its dataset."""

    @property
    def name(self) -> str:
        """Name of the files, without suffix."""
        return f"attnflow-{self.run.scenario.name}"


def snapshot_of(run: LiveRun) -> RunSnapshot:
    """A snapshot of a run; it must have two frames or more."""
    frames = tuple(run.recording.frames)
    if len(frames) < 2:
        raise InputError("There is only the first frame yet. Play a little, then save the run.")
    later = tuple(run.later)
    return RunSnapshot(run, frames, later, run.stepper and _request(run.stepper, frames, later))


def _request(stepper: Stepper, frames: tuple[Frame, ...], later: tuple[tuple[float, dict[str, Any]], ...]) -> Request:
    first = _first_of_model(frames, later)
    times = np.array([frame.time for frame in frames if frame.time >= first.time])
    return Request(
        stepper.flow, first.full_tokens, times, stepper.solver, (), {}, True, stepper.rng, "float64", DEFAULT_MEMORY
    )


def exported_file(snapshot: RunSnapshot, kind: str, view: StageView | None = None) -> tuple[str, bytes]:
    """Name and content of a file of one of the kinds in `SUFFIXES`; a movie in a view of the page's stage."""
    name = snapshot.name + SUFFIXES[kind]
    if kind == "code":
        return name, python_code(snapshot.run, snapshot.frames, snapshot.later).encode()
    if kind == "html":
        return name, _page(dataset_of(snapshot), snapshot).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if kind == "dataset":
            save(dataset_of(snapshot), path)
        else:
            _write_movie(snapshot, view, path)
        return name, path.read_bytes()


def _page(dataset: xr.Dataset, snapshot: RunSnapshot) -> str:
    recorded, measurements = recorded_run(dataset), snapshot.run.measurements
    if isinstance(measurements, ControlMeasurements):  # the dataset has no targets
        tokens, times = (np.array([getattr(one, name) for one in snapshot.frames]) for name in ("tokens", "time"))
        colours = snapshot.frames[0].colours
        recorded = replace(recorded, measurements=measurements, times=times, tokens=tokens, colours=colours)
    if isinstance(measurements, LayerMeasurements):  # they know the spectra of all layers; the dataset does not
        recorded = replace(recorded, measurements=measurements)
    scenario = snapshot.run.scenario
    caption = Caption(scenario.name, tuple(snapshot.run.sentences), scenario.paper)
    return single_page(recorded_messages(recorded, caption))


def _write_movie(snapshot: RunSnapshot, view: StageView | None, path: Path) -> None:
    from attnflow.explorer.export.stage_movie import WatchedRun, stage_movie
    from attnflow.show.parts.animation import save_movie

    run = snapshot.run
    is_layered = isinstance(run.measurements, LayerMeasurements)
    labels = catalogue.labels(run.settings)
    watched = WatchedRun(snapshot.frames, run.measurements, snapshot.later, labels, is_layered, run.is_coalescing)
    with _DRAWING:
        save_movie(stage_movie(watched, view), path)


def dataset_of(snapshot: RunSnapshot) -> xr.Dataset:
    """The recorded frames as a dataset of `simulate`, `coalesce` or a model's `trajectory`."""
    if isinstance(measurements := snapshot.run.measurements, ControlMeasurements):
        return measurements.found.run
    if snapshot.request is None:
        assert snapshot.run.dataset is not None
        return snapshot.run.dataset
    times = np.array([frame.time for frame in snapshot.frames])
    sentence = f"Reached t = {times[-1]:.6g}, watched in the explorer."
    later = [f"t = {time:.6g}" for time, _ in snapshot.later]
    changed = f" The model was changed at {', '.join(later)}; `rerun` repeats what followed the last." if later else ""
    attributes = run_dataset.attributes(snapshot.request, sentence + changed, [sentence], COMPUTED_BY)
    dataset = run_dataset.labelled(_run_arrays(snapshot), times, snapshot.request.tokens).assign_attrs(attributes)
    if labels := catalogue.labels(snapshot.run.settings):
        dataset = dataset.assign_coords(word=("token", np.array(labels, dtype=object)))
    if len(parts := catalogue.parts(snapshot.run.settings)) > 1:
        dataset = dataset.assign_coords(prompt=("token", np.repeat(np.arange(len(parts)), parts)))
    return dataset


def _run_arrays(snapshot: RunSnapshot) -> RunArrays:
    last = snapshot.frames[-1]
    saved: dict[str, Any] = {"tokens": np.stack([frame.tokens for frame in snapshot.frames])[None]}
    if last.radii is not None:
        saved["radius"] = np.stack([np.asarray(frame.radii) for frame in snapshot.frames])[None]
    return RunArrays(
        saved=saved,
        status=np.array([Status.RUNNING]),
        time=np.array([last.time]),
        tokens=last.tokens[None],
        radii=None if last.radii is None else last.radii[None],
        accepted=np.array([last.steps]),
        rejected=np.array([0]),
        drift=np.array([np.nan]),
    )


def _first_of_model(frames: tuple[Frame, ...], later: tuple[tuple[float, dict[str, Any]], ...]) -> Frame:
    """The frame from which the present model acts."""
    if not later:
        return frames[0]
    changed = later[-1][0]
    return next((frame for frame in frames if frame.time >= changed), frames[-1])
