"""Figures of controls: one token after the other beside all tokens at once, and a control of points of the plane."""

import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, reporting
from attnflow.control.optimiser import optimise
from attnflow.control.steering import Steering, steer
from attnflow.figures.entries.control_labels import LABELS
from attnflow.figures.entries.control_obstructions import OBSTRUCTIONS
from attnflow.figures.entries.control_sequences import SEQUENCES
from attnflow.figures.figure import Figure
from attnflow.model.initial import sphere
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.panels import Line, Lines
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.runs.steering import BAR_CAPTION, CROSSES_CAPTION, control_panels

WAYS = {"construction": "One after the other, by a perceptron", "search": "All at once, by attention alone"}
ARRIVED = 1e-5  # distance from the target: runs are drawn with the error 1e-8 a step
FACTS = ("time", "gap", "pieces", "error", "limit")


def stored_run(found: Steering, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables and attributes of a control and its run, whose names begin with `name`."""
    run, time = found.run, f"{name}_time"
    variables = {
        f"{name}_tokens": ((time, "token", "coordinate"), run.tokens.transpose("time", "token", "coordinate").values),
        f"{name}_target": (("token", "coordinate"), found.targets),
        time: ((time,), run.time.values),
    }
    numbers = (found.time, found.gap, len(found.control.pieces), found.terminal_error, found.limit.time)
    attributes = {f"{name}_{fact}": value for fact, value in zip(FACTS, numbers, strict=True)}
    return variables, attributes | {f"{name}_record": json.dumps(run.attrs)}


def run_of(data: xr.Dataset, name: str) -> xr.Dataset:
    """The run that `stored_run` has put into a dataset."""
    tokens = data[f"{name}_tokens"].values
    variables = {
        "tokens": (("time", "token", "coordinate"), tokens),
        "initial_tokens": (("token", "coordinate"), tokens[0]),
        "target": (("token", "coordinate"), data[f"{name}_target"].values),
    }
    return xr.Dataset(variables, {"time": data[f"{name}_time"].values}, json.loads(data.attrs[f"{name}_record"]))


def compute_sphere(progress: Progress, *, n: int, d: int, pieces: int, seed: int) -> xr.Dataset:
    """The run of the construction and that of the search for the same tokens and targets."""
    of_tokens, of_targets, of_search = np.random.SeedSequence(seed).spawn(3)
    tokens, targets = sphere(n, d, rng=of_tokens), sphere(n, d, rng=of_targets)
    with reporting(progress) as report:
        built = stored_run(steer(tokens, targets, rng=of_search), "construction")
        report(0.1, "construction")
        searched = stored_run(optimise(tokens, targets, pieces, rng=of_search), "search")
    return xr.Dataset(built[0] | searched[0], attrs=built[1] | searched[1] | {"n": n, "d": d})


def draw_sphere(data: xr.Dataset) -> Picture:
    """Draw tokens, targets, distances and pieces of both controls, one below the other."""
    rows = [PanelRow(control_panels(run_of(data, name))[0], 3.6, widths=_widths(data)) for name in WAYS]
    sentences = [f"{words}: {_cost(data, name)}." for name, words in WAYS.items()]
    places = "Above: one after the other; below: all at once."
    caption = " ".join([*sentences, places, *([CROSSES_CAPTION] if int(data.attrs["d"]) <= 3 else []), BAR_CAPTION])
    n = data.attrs["n"]
    built, searched = (_arrived(data, name) for name in WAYS)
    title = f"{n} tokens to {n} targets on the sphere: one after the other {built} arrive, all at once {searched}"
    return Picture(rows, title, caption, 9.5, 9.0)


def _arrived(data: xr.Dataset, name: str) -> int:
    """The number of tokens of a run that are at their targets."""
    distances = np.linalg.norm(data[f"{name}_tokens"].values[-1] - data[f"{name}_target"].values, axis=1)
    return int(np.sum(distances < ARRIVED))


def _widths(data: xr.Dataset) -> tuple[float, ...]:
    return (1.0, 1.25) if data.attrs["d"] <= 3 else ()


def _cost(data: xr.Dataset, name: str) -> str:
    time, gap, pieces, error, limit = (data.attrs[f"{name}_{fact}"] for fact in FACTS)
    return (
        f"{pieces} pieces, time {time:.3g}, {gap:.3g} times the limit {limit:.3g} by the operator norms of its "
        f"weights; largest error {error:.1e}"
    )


def sphere_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Pieces, times, gaps and errors of both controls."""
    facts = ("pieces", "time", "gap", "error")
    return {f"{fact} of the {name}": data.attrs[f"{name}_{fact}"] for name in WAYS for fact in facts}


def compute_plane(progress: Progress, *, n: int, counts: list[int], draws: int, seed: int) -> xr.Dataset:
    """The run of one control in the plane, and numbers of pieces over (count, draw)."""
    found = _plane(n, np.random.SeedSequence(seed))
    variables, attributes = stored_run(found, "plane")
    pieces = []
    with reporting(progress) as report:
        for place, count in enumerate(counts):
            seeds = np.random.SeedSequence((seed, count)).spawn(draws)
            pieces.append([len(_plane(count, one).control.pieces) for one in seeds])
            report((place + 1) / len(counts), f"{count} points")
    variables["pieces"] = (("count", "draw"), pieces)
    return xr.Dataset(variables, {"count": counts}, attributes | {"n": n})


def _plane(n: int, seed: np.random.SeedSequence) -> Steering:
    of_tokens, of_targets, of_search = seed.spawn(3)
    tokens, targets = (np.random.default_rng(one).normal(size=(n, 2)) for one in (of_tokens, of_targets))
    return steer(tokens, targets, space="euclidean", rng=of_search)


def draw_plane(data: xr.Dataset) -> Picture:
    """Draw the run with its pieces, and numbers of pieces against that of points."""
    panels = control_panels(run_of(data, "plane"))[0]
    count, ratios = data["count"].values, data.pieces.values / data["count"].values[:, None]
    mean, error = ratios.mean(axis=1), 2 * ratios.std(axis=1, ddof=1) / np.sqrt(ratios.shape[1])
    line = Line(count, mean, "mean of the draws", line_colour(0), "-", "o", error=error)
    panel = Lines(
        [line], xlabel="number of points", ylabel="pieces for each point", xscale="log", xticks=count.tolist(),
        ylim=(0, max(2.0, 1.1 * float(mean.max()))),
    )  # fmt: skip
    extra = float(mean.max())
    caption = (
        f"{_cost(data, 'plane')}. Right: pieces for Gaussian points and targets, means of {data.sizes['draw']} draws "
        f"with two standard errors; at most {extra:.2f} pieces a point in the mean. {CROSSES_CAPTION} {BAR_CAPTION}"
    )
    title = f"{data.attrs['n']} points of the plane to their targets by one neural ODE"
    return Picture([PanelRow([*panels, panel], 4.2)], title, caption, 13.0)


def plane_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Pieces, time, gap and error of the run, and the mean number of pieces for each number of points."""
    numbers = {fact: data.attrs[f"plane_{fact}"] for fact in ("pieces", "time", "gap", "error")}
    means = data.pieces.mean("draw").values
    counts = data["count"].values.tolist()
    return numbers | {f"mean number of pieces, {n} points": float(one) for n, one in zip(counts, means, strict=True)}


FIGURES = (
    Figure(
        id="steer-sphere",
        source="arXiv:2411.04551: targets that are points",
        title="Tokens on the sphere to targets, one after the other and all at once",
        shows="Tokens, targets as crosses, distances to the targets, and the pieces of two controls: a perceptron that "
        "moves one token after the other inside strips, and attention alone, found by a search. The limit on the "
        "time is the largest angle over the speed that the operator norms of the weights allow.",
        deviates="The publication has no figure; the construction and the search are attnflow's. The search arrives "
        "from some first tokens and stalls from others; the seed was chosen so that it arrives.",
        compute=compute_sphere,
        draw=draw_sphere,
        numbers=sphere_numbers,
        settings={"n": 8, "d": 3, "pieces": 8, "seed": 2},
        quick={"n": 2, "pieces": 2},
        seconds=(40.0, 10.0),
        runs=lambda data: {words: run_of(data, name) for name, words in WAYS.items()},
    ),
    LABELS,
    SEQUENCES,
    Figure(
        id="steer-neural-ode",
        source="arXiv:2104.05278: simultaneous control of a neural ODE",
        title="Points of the plane to their targets by one neural ODE",
        shows="Points and targets of the plane, distances to the targets and pieces of a control without attention. "
        "Beside them the number of pieces against that of points.",
        deviates="The publication proves that such controls exist; the strips are attnflow's.",
        compute=compute_plane,
        draw=draw_plane,
        numbers=plane_numbers,
        settings={"n": 10, "counts": [5, 10, 20, 40, 80], "draws": 20, "seed": 0},
        quick={"n": 4, "counts": [5, 10], "draws": 4},
        seconds=(15.0, 6.0),
        runs=lambda data: {"points of the plane": run_of(data, "plane")},
    ),
    OBSTRUCTIONS,
)
