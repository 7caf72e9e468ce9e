"""Numbers of vertices, leaders and ranks of the limit polytope against n, d and the law of the first tokens."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

QUANTITIES = {"vertices": "vertices", "leaders": "leaders", "rank": "rank of P"}


def counts_spec(*, n: list[int], d: list[int], starts: list[str], end: float, runs: int, seed: int) -> dict[str, Any]:
    """The sweep of the figure, as `sweeps/polytope_counts.toml` has it."""
    return {
        "scenario": "polytope", "end": end, "saves": 2, "runs": runs, "seed": seed, "reduce": ["mean", "counts"],
        "over": {"n": n, "d": d, "start": starts},
        "observables": {"vertices": "vertices:0.01", "leaders": "leaders", "rank": "rank"},
    }  # fmt: skip


def compute_polytope_counts(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Means over runs with their standard errors, over (start, d, n)."""
    found = swept(progress, counts_spec(**settings), store)
    names = [f"{name}_{part}" for name in QUANTITIES for part in ("mean", "error")]
    drawn = found[names].transpose("start", "d", "n")
    return xr.Dataset(
        {name: (("start", "d", "n"), drawn[name].values) for name in names},
        {"start": [str(word) for word in found.start.values], "d": found.d.values, "n": found.n.values},
        {"runs": settings["runs"], "end": settings["end"]},
    )


def draw_polytope_counts(data: xr.Dataset) -> Picture:
    """Draw one panel for each dimension: a line of vertices for each law, with the leaders and ranks as marks."""
    panels = [_panel(data, int(d)) for d in data.d.values]
    caption = (
        f"V = Q = K = I, rescaled tokens at t = {data.attrs['end']:g}; means of {data.attrs['runs']} starts. Lines: "
        f"vertices of the hull of tokens merged within 0.01, with two standard errors. Crosses: leaders, which get "
        f"more than half of another token's attention. Plus signs: rank of the attention matrix P. "
        f"{counts_sentence(data)}"
    )
    title = "Vertices, leaders and rank against the number of tokens"
    return panel_picture([panels], title, caption, width=3.1, heights=[3.6])


def _panel(data: xr.Dataset, d: int) -> Lines:
    lines = []
    for place, law in enumerate(data.start.values.tolist()):
        at, colour = {"start": law, "d": d}, line_colour(place)
        error = 2 * data.vertices_error.sel(at).values
        lines.append(Line(data.n.values, data.vertices_mean.sel(at).values, law_words(law), colour, error=error))
        lines.append(Line(data.n.values, data.leaders_mean.sel(at).values, "", colour, "", "x"))
        lines.append(Line(data.n.values, data.rank_mean.sel(at).values, "", colour, "", "+"))
    return Lines(
        lines,
        xlabel="number of tokens n",
        ylabel="number",
        title=f"d = {d}",
        xscale="log",
        xticks=data.n.values.tolist(),
        ylim=(0, None),
    )


def law_words(law: str) -> str:
    """The words of a law in a legend; a law that is not known here keeps its word.

    Examples
    --------
    >>> law_words("gaussian:3"), law_words("shell")
    ('Gaussian, deviation 3', 'shell')
    """
    name, _, numbers = law.partition(":")
    patterns = {"box": "box, {}", "gaussian": "Gaussian, deviation {}", "ball": "ball, radius {}"}
    return patterns[name].format(numbers.replace(",", " to ")) if name in patterns and numbers else law


def counts_sentence(data: xr.Dataset) -> str:
    """Sentence on the mean number of vertices for the largest n, by law."""
    n, d = int(data.n[-1]), int(data.d[0])
    words = [
        f"{float(data.vertices_mean.sel(start=law, d=d, n=n)):.2f} ({law_words(law)})"
        for law in data.start.values.tolist()
    ]
    compared = [_comparison(data, "leaders", "of leaders"), _comparison(data, "rank", "of the rank")]
    return f"Mean numbers of vertices for n = {n}, d = {d}: {'; '.join(words)}. {' '.join(compared)}"


def _comparison(data: xr.Dataset, name: str, words: str) -> str:
    """Sentence on the largest difference of a mean from that of the vertices."""
    largest = _largest(data, name)
    if largest == 0:
        return f"Means {words} equal those of vertices."
    return f"Means {words} differ from those of vertices by at most {largest:.2g}."


def _largest(data: xr.Dataset, name: str) -> float:
    """The largest difference of a mean from that of the vertices."""
    return float(np.abs(data[f"{name}_mean"] - data.vertices_mean).max())


def polytope_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Means for the largest n, by law and dimension, and how often leaders and vertices differ in the mean."""
    n = int(data.n[-1])
    numbers: dict[str, Any] = {
        f"{QUANTITIES[name]}, {law}, d = {d}, n = {n}": float(data[f"{name}_mean"].sel(start=law, d=d, n=n))
        for name in QUANTITIES
        for law in data.start.values.tolist()
        for d in data.d.values.tolist()
    }
    for name in ("leaders", "rank"):
        numbers[f"largest difference of the means of {QUANTITIES[name]} and vertices"] = _largest(data, name)
    return numbers


FIGURES = (
    Figure(
        id="polytope-counts",
        source="arXiv:2305.05465, Theorem 3.1: the limit is a polytope; its vertices are counted here",
        title="Vertices, leaders and rank of the limit polytope",
        shows="Mean numbers of vertices of the limit, of leaders and ranks of the attention matrix, for several laws "
        "of the start, against the number of tokens, in several dimensions. In theory the limit of a rescaled token is "
        "a vertex of the polytope, a point of a face, or zero.",
        deviates="The publication shows single runs and no counts; here every point is a mean over many starts.",
        compute=compute_polytope_counts,
        draw=draw_polytope_counts,
        numbers=polytope_numbers,
        settings={
            "n": [10, 20, 40, 80], "d": [2, 3, 4], "starts": ["box:-5,5", "gaussian:3", "ball:5"], "end": 12.0,
            "runs": 200, "seed": 0, "store": "",
        },
        quick={"n": [10, 20], "d": [2, 3], "runs": 8},
        seconds=(78.0, 6.0),
    ),
)  # fmt: skip
