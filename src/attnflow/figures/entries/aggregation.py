"""Figure of the aggregation equation with the logarithmic kernel beside attention, from the same start."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.mean_field.aggregation import aggregate
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour


def compute_aggregation(
    progress: Progress, *, n: int, saves: int, times_shown: list[float], attention_shown: list[float]
) -> xr.Dataset:
    """The same disc of tokens under the aggregation equation and under attention, up to 1.2 T*.

    `times_shown` and `attention_shown` are the times, over T*, at which tokens are drawn under both equations.
    """
    index = np.arange(n) + 0.5
    radius, angle = np.sqrt(index / n), index * np.pi * (3 - np.sqrt(5))  # nearly uniform in the unit disc
    tokens = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    tokens = tokens - tokens.mean(axis=0)
    moment = float(np.sum(tokens**2) / n)
    times = np.linspace(0, 1.2 * moment, saves)
    gathered = aggregate(tokens, times, progress=progress)
    outward, inward = RescaledAttention(Head.identity(2)), EuclideanAttention(Head(value=-np.eye(2)))
    shown = moment * np.array([times_shown, attention_shown])
    drawn = {
        "aggregation": _drawn(lambda saved: aggregate(tokens, saved, progress=False), shown[0]),
        "attention": _drawn(lambda saved: simulate(outward, tokens, saved, progress=False), shown[1]),
    }
    over_time = {
        "aggregation": np.sqrt(gathered.second_moment.values),
        "outward": _spread(simulate(outward, tokens, times, progress=False).tokens.values),
        "inward": _spread(simulate(inward, tokens, times, progress=False).tokens.values),
        "exact": np.sqrt(np.maximum(moment - times, 0)),
    }
    variables = {
        **{name: (("time",), values) for name, values in over_time.items()},
        "places": (("equation", "shown", "token", "coordinate"), np.stack(list(drawn.values()))),
        "shown_time": (("equation", "shown"), shown),
        "predicted_time": ((), float(gathered.predicted_time)),
        "collapse_time": ((), float(gathered.collapse_time)),
    }
    return xr.Dataset(variables, {"time": times, "equation": list(drawn)}, {"n": n})


def _drawn(run: Callable[[np.ndarray], xr.Dataset], times: np.ndarray) -> np.ndarray:
    """The tokens of a run from time zero at the times shown."""
    saved = np.unique([0.0, *times])
    return run(saved).tokens.values[np.searchsorted(saved, times)]


def _spread(path: np.ndarray) -> np.ndarray:
    """Root mean square distance from the mean over time."""
    away = path - path.mean(axis=1, keepdims=True)
    return np.sqrt(np.mean(np.sum(away**2, axis=2), axis=1))


def draw_aggregation(data: xr.Dataset) -> Picture:
    """Draw the tokens at some times under both equations, and the root mean square distance from the mean."""
    panels = []
    titles = {"aggregation": "aggregation, kernel log |x|", "attention": "attention, V = I, rescaled"}
    for equation, title in titles.items():
        places = data.places.sel(equation=equation).values
        lines = [
            Line(places[index, :, 0], places[index, :, 1], f"t = {float(time):.2g}", line_colour(index), "", ".")
            for index, time in enumerate(data.shown_time.sel(equation=equation).values)
        ]
        panels.append(
            Lines(lines, xlabel="", title=title, is_square=True, xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), columns=3)
        )
    star = float(data.predicted_time)
    spread = Lines(
        [
            Line(data.time, data.aggregation, "aggregation", line_colour(0)),
            Line(data.time, data.exact, "(T* - t)$^{1/2}$", theme().grey, "--"),
            Line(data.time, data.outward, "attention, V = I, rescaled", line_colour(1)),
            Line(data.time, data.inward, "attention, V = -I", line_colour(2)),
        ],
        ylabel="distance from the mean", ylim=(0, None), marked_x={"T*": star}, columns=2,
        title="root mean square",
    )  # fmt: skip
    return panel_picture([[*panels, spread]], "Aggregation and attention", aggregation_sentence(data), width=3.6)


def aggregation_sentence(data: xr.Dataset) -> str:
    """Sentence on T*, the time at which tokens met, and what is left of the spread under attention."""
    star, measured = float(data.predicted_time), float(data.collapse_time)
    met = f"all tokens met at t = {measured:.4g}" if np.isfinite(measured) else "tokens have not met"
    left = [f"{float(data[name][-1] / data[name][0]):.2g}" for name in ("outward", "inward")]
    return (
        f"{data.attrs['n']} tokens from one start. Aggregation: T* = {star:.4g} for the law, {met}. In theory tokens "
        f"under attention have met at no finite time; at t = {float(data.time[-1]):.2g} their spread is {left[0]} of "
        f"the first one for V = I, rescaled, and {left[1]} for V = -I."
    )


def aggregation_numbers(data: xr.Dataset) -> dict:
    """T* computed and measured, and the error of the linear law of the second moment before it."""
    before = data.time.values < 0.8 * float(data.predicted_time)
    n = data.attrs["n"]
    expected = float(data.predicted_time) - (1 - 1 / n) * data.time.values
    return {
        "T* of the law, the first second moment": float(data.predicted_time),
        "time at which all tokens have met": float(data.collapse_time),
        "largest error of the second moment before 0.8 T*": float(
            np.abs(data.aggregation.values**2 - expected)[before].max()
        ),
        "spread at the end over the first, attention with V = I, rescaled": float(data.outward[-1] / data.outward[0]),
        "spread at the end over the first, attention with V = -I": float(data.inward[-1] / data.inward[0]),
    }


FIGURES = (
    Figure(
        id="aggregation",
        source="arXiv:2512.01868, comparison with aggregation equations",
        title="Aggregation beside attention",
        shows="One start under the aggregation equation with the logarithmic kernel, whose law has all mass at its "
        "mean at a finite time T*, and under attention. The third panel shows the distance from the mean in time.",
        deviates="The comparison is drawn here for one start; for V = I attention is shown in the rescaled variables, "
        "since distances are unbounded without them.",
        compute=compute_aggregation,
        draw=draw_aggregation,
        numbers=aggregation_numbers,
        settings={
            "n": 200, "saves": 121, "times_shown": [0.0, 0.5, 0.9], "attention_shown": [0.0, 1.0, 6.0],
        },
        quick={"n": 60, "saves": 61},
        seconds=(8.0, 5.0),
    ),
)  # fmt: skip
