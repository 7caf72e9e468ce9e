"""Souvenirs: what a visitor takes away of a run: the dataset, Python code, a movie, a page that plays it."""

import json
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from attnflow.explorer import catalogue
from attnflow.explorer.export.python_code import code_of
from attnflow.explorer.export.recorded_run import Reel, film_of, reel_of
from attnflow.explorer.export.single_page import single_page
from attnflow.explorer.export.story import Story
from attnflow.explorer.measure.layer_run import Passage
from attnflow.explorer.recording import Moment
from attnflow.results import run_dataset
from attnflow.results.files import save
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.status import Status

SUFFIXES = {"dataset": ".nc", "code": ".py", "html": ".html", "mp4": ".mp4", "gif": ".gif"}
_DRAWING = threading.Lock()  # matplotlib has one style for all threads


def written(story: Story, kind: str) -> tuple[str, bytes]:
    """A file of one of the kinds in `SUFFIXES`: its name and its content."""
    name = story.name + SUFFIXES[kind]
    if kind == "code":
        return name, code_of(story).encode()
    dataset = dataset_of(story)
    if kind == "html":
        return name, single_page(film_of(_reel_of(dataset, story), story.caption)).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if kind == "dataset":
            save(dataset, path)
        else:
            _write_movie(dataset, story, path)
        return name, path.read_bytes()


def _reel_of(dataset: xr.Dataset, story: Story) -> Reel:
    """The subject of a prompt knows the spectra of all layers, which its dataset has not."""
    reel, subject = reel_of(dataset), story.run.subject
    return replace(reel, subject=subject) if isinstance(subject, Passage) else reel


def _write_movie(dataset: xr.Dataset, story: Story, path: Path) -> None:
    from attnflow.show import movie

    subject, distance = story.run.subject, None
    if isinstance(subject, Passage):  # as the stage shows it
        dataset, distance = subject.as_shown(), subject.distance
    with _DRAWING:
        movie(dataset, path, title=story.run.scenario.sentence.partition(". ")[0], distance=distance)


def dataset_of(story: Story) -> xr.Dataset:
    """The recorded frames as `simulate`, `coalesce` or a model's `trajectory` gives them."""
    if story.run.dataset is not None:
        return story.run.dataset
    last, times = story.moments[-1], np.array([moment.time for moment in story.moments])
    first = _first_of_model(story)
    saved = {"tokens": np.stack([moment.tokens for moment in story.moments])[None]}
    if last.radii is not None:
        saved["radius"] = np.stack([moment.radii for moment in story.moments])[None]  # pyright: ignore[reportArgumentType, reportCallIssue]
    results = RunArrays(saved, np.array([Status.RUNNING]), np.array([last.time]), last.tokens[None],
                      None if last.radii is None else last.radii[None], np.array([last.steps]), np.array([0]),
                      np.array([np.nan]))  # fmt: skip
    sentence = f"Reached t = {last.time:.6g}, watched in the explorer."
    tokens = first.tokens if first.radii is None else first.tokens * first.radii[:, None]
    found = run_dataset.assemble(results, [sentence], times, tokens, story.making)
    asked = [time for time in times.tolist() if time >= first.time]
    later = [f"t = {time:.6g}" for time, _ in story.later]
    changed = f" The model was changed at {', '.join(later)}; `rerun` repeats what followed the last." if later else ""
    labels = catalogue.labels(story.run.settings)
    found = found.assign_coords(word=("token", np.array(labels, dtype=object))) if labels else found
    return found.assign_attrs(outcome=sentence + changed, requested_times=json.dumps(asked))


def _first_of_model(story: Story) -> Moment:
    """The moment from which the present model took the tokens on."""
    if not story.later:
        return story.moments[0]
    changed = story.later[-1][0]
    return next((moment for moment in story.moments if moment.time >= changed), story.moments[-1])
