"""The picture of an ensemble: means and quantiles over its runs, and the distribution of their outcomes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from scipy.spatial.distance import pdist

from attnflow._common.plain import evenly_spaced
from attnflow.analyse import order
from attnflow.analyse.mean_intervals import mean_with_interval
from attnflow.experiments.headline import headline_parts
from attnflow.show.parts.drawn_run import DrawnRun, reached_end, recorded_flow, run_to_draw, title_of
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.picture import FunctionPanel, Picture
from attnflow.show.parts.style import fix_ticks, line_colour
from attnflow.show.parts.symbols import typeset
from attnflow.show.runs.observables import observable_names, set_observable_axes

QUANTILES = (0.1, 0.25, 0.75, 0.9)  # edges of the outer band, and between them those of the inner band
MOST_TIMES = 100  # of a band: all pairs of tokens are compared at each
MOST_TOKENS = 300  # whose pairs are compared


@dataclass(frozen=True)
class RunQuantiles:
    """Mean and quantiles over runs of a quantity at each time."""

    times: np.ndarray
    mean: np.ndarray
    quantiles: np.ndarray
    """(quantile, time), of `QUANTILES`."""

    @classmethod
    def of(cls, times: np.ndarray, values: np.ndarray) -> "RunQuantiles":
        """Mean and quantiles of values (run, time)."""
        return cls(times, values.mean(axis=0), np.quantile(values, QUANTILES, axis=0))


@dataclass(frozen=True)
class Members:
    """The runs of an ensemble that did not fail, as they are drawn."""

    drawn: tuple[DrawnRun, ...]
    final_times: np.ndarray
    is_stopped: np.ndarray
    """Whether each ended before the last time that was asked for."""
    failed: int

    @property
    def groups_name(self) -> str:
        """What the tokens of all runs gather in: clusters, or parallel lines or planes where all runs show such."""
        names = {one.groups_name for one in self.drawn}
        return names.pop() if len(names) == 1 else "clusters, lines or planes"

    @property
    def is_noisy(self) -> bool:
        """Whether noise spreads the tokens, so that they form no clusters."""
        return self.drawn[0].is_noisy

    @property
    def times(self) -> np.ndarray:
        """At most a hundred times from the first to the last that any run reached."""
        every = np.unique(np.concatenate([one.times for one in self.drawn]))
        return every[evenly_spaced(len(every), MOST_TIMES)]


def ensemble_picture(run: xr.Dataset, distance: float | None) -> Picture:
    """Picture of all runs of an ensemble, some of which did not fail; tokens closer than `distance` are one cluster."""
    members = _members(run, distance)
    names = [name for name in observable_names(run) if set(run[name].dims) == {"run", "time"}]
    over_time = _token_panels(members) if "tokens" in run else [_observable_panel(run, name) for name in names]
    outcomes = [FunctionPanel(lambda axes: _draw_outcomes(axes, members))]
    if members.is_stopped.any():
        outcomes.append(FunctionPanel(lambda axes: _draw_stops(axes, members)))
    rows = [PanelRow(over_time[first : first + 3], 3.0) for first in range(0, len(over_time), 3)]
    rows = (
        [PanelRow([*over_time, *outcomes], 3.3)]
        if len(over_time) + len(outcomes) <= 3
        else [*rows, PanelRow(outcomes, 3.0)]
    )
    flow = recorded_flow(run)
    start, end = float(run.time[0]), float(run.time[-1])
    title = title_of(run, start, end) if flow is None else typeset("\n".join(headline_parts(flow, run)))
    width = 0.3 + 3.7 * max(len(row.panels) for row in rows)
    return Picture(rows, title, _caption(run, members), width, legend=lambda axes: _legend())


def failed_runs(run: xr.Dataset) -> np.ndarray:
    """Whether each run of an ensemble failed, or left no finite tokens."""
    failed = run.failed.values.astype(bool) if "failed" in run else np.zeros(run.sizes["run"], bool)
    if "final_tokens" not in run:
        return failed
    return failed | ~np.isfinite(run.final_tokens).all(("token", "coordinate")).values


def _members(run: xr.Dataset, distance: float | None) -> Members:
    failed = failed_runs(run)
    kept = np.flatnonzero(~failed)
    drawn = tuple(run_to_draw(run, int(index), distance=distance) for index in kept)
    stopped = np.array([not reached_end(run.isel(run=int(index))) for index in kept])
    return Members(drawn, np.array([one.times[-1] for one in drawn]), stopped, int(failed.sum()))


def _token_panels(members: Members) -> list[FunctionPanel]:
    """Panels over time of a measure of order and, without noise, of the number of clusters."""
    if members.is_noisy and members.drawn[0].is_sphere:
        lengths = _at_times(members, lambda one, index: float(order.mean_length(one.tokens[index])))
        return [_band_panel(RunQuantiles.of(members.times, lengths), "length of the mean", is_log=False)]
    counts = cluster_quantiles(members)
    distances = RunQuantiles.of(members.times, _at_times(members, _largest_distance))
    name = "largest distance" + (" / largest norm" if members.drawn[0].is_scaled else "")
    return [_band_panel(counts, members.groups_name, is_log=False), _band_panel(distances, name, is_log=True)]


def cluster_quantiles(members: Members) -> RunQuantiles:
    """Mean and quantiles over runs of the number of clusters at each time."""
    counts = []
    for one in members.drawn:
        times, numbers = one.cluster_counts()
        counts.append(numbers[_last_before(times, members.times)])
    return RunQuantiles.of(members.times, np.array(counts, dtype=float))


def _at_times(members: Members, measure: Any) -> np.ndarray:
    """A measure of the tokens of each run, (run, time); after its end a run keeps its last value."""
    rows = []
    for one in members.drawn:
        places = _last_before(one.times, members.times)
        values = {place: measure(one, place) for place in np.unique(places)}
        rows.append([values[place] for place in places])
    return np.array(rows)


def _last_before(saved: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Position of the last saved time at or before each time."""
    return np.maximum(np.searchsorted(saved, times, side="right") - 1, 0)


def _largest_distance(one: DrawnRun, index: int) -> float:
    some = evenly_spaced(one.tokens.shape[1], MOST_TOKENS)
    return float(pdist(one.tokens[index][some]).max(initial=0.0))


def _observable_panel(run: xr.Dataset, name: str) -> FunctionPanel:
    kept = run[name].transpose("run", "time").values.astype(float)[~failed_runs(run)]
    known = np.maximum.accumulate(np.where(np.isfinite(kept), np.arange(kept.shape[1]), 0), axis=1)
    filled = np.take_along_axis(kept, known, axis=1)  # the last value of a run that stopped
    return _band_panel(RunQuantiles.of(run.time.values, filled), name.replace("_", " "), is_log=False)


def _band_panel(quantiles: RunQuantiles, name: str, *, is_log: bool) -> FunctionPanel:
    def draw(axes: Axes) -> None:
        times, (lowest, low, high, highest) = quantiles.times, quantiles.quantiles
        shade = line_colour(0)
        axes.fill_between(times, lowest, highest, color=shade, alpha=0.16, linewidth=0, label="outer band")
        axes.fill_between(times, low, high, color=shade, alpha=0.3, linewidth=0, label="inner band")
        axes.plot(times, quantiles.mean, color=shade, label="mean")
        positive = quantiles.quantiles[quantiles.quantiles > 0]
        if is_log and len(positive) and quantiles.quantiles.max() > 100 * positive.min():
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, None)
        set_observable_axes(axes, times, "")
        axes.set_ylabel(name)

    return FunctionPanel(draw)


def _draw_outcomes(axes: Axes, members: Members) -> None:
    """Draw how many runs end with each number of clusters; with noise, the lengths of the mean at the end."""
    if members.is_noisy:
        ends = [float(order.mean_length(one.tokens[-1])) for one in members.drawn]
        axes.hist(ends, bins="auto", color=line_colour(0), alpha=0.75)
        axes.set(xlabel="length of the mean at the end", ylabel="runs")
    else:
        numbers, runs = np.unique(final_counts(members), return_counts=True)
        axes.bar(numbers, runs, width=0.8, color=line_colour(0), alpha=0.75)
        axes.set(xlabel=f"{members.groups_name} at the end", ylabel="runs")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        axes.set_xlim(numbers[0] - 1, numbers[-1] + 1)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    fix_ticks(axes)


def final_counts(members: Members) -> np.ndarray:
    """Number of clusters of each run at its end."""
    return np.array([len(one.cluster_sizes) for one in members.drawn])


def _draw_stops(axes: Axes, members: Members) -> None:
    """Draw the times at which runs stopped."""
    axes.hist(members.final_times[members.is_stopped], bins="auto", color=line_colour(1), alpha=0.75)
    axes.set(xlabel="time $t$ at which a run stopped", ylabel="runs")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    fix_ticks(axes)


def _legend() -> list[Any]:
    shade = line_colour(0)
    return [
        Line2D([], [], color=shade, label="mean over runs"),
        Patch(color=shade, alpha=0.42, linewidth=0, label="25–75 % of runs"),
        Patch(color=shade, alpha=0.16, linewidth=0, label="10–90 % of runs"),
    ]


def _caption(run: xr.Dataset, members: Members) -> str:
    first = members.drawn[0]
    parts = [f"{len(members.drawn)} runs of {run.sizes['token']} tokens."]
    if members.failed:
        parts.append(f"Runs that failed and are left out: {members.failed}.")
    if not members.is_noisy:
        counted = mean_with_interval(final_counts(members))
        parts.append(f"{members.groups_name.capitalize()} at the end (closer than {first.distance:.2g}): {counted}.")
    if "tokens" in run and not members.is_noisy:
        parts.append("Largest distance: of two tokens.")
    if members.is_stopped.all():
        parts.append(f"Stopping time: {mean_with_interval(members.final_times)}.")
    elif members.is_stopped.any():
        parts.append(f"{int(members.is_stopped.sum())} of {len(members.drawn)} runs stopped before the last time.")
    if members.is_stopped.any():
        parts.append("A run that stopped keeps its last value.")
    return " ".join(parts)
