"""`head_counts`: tokens under an increasing number of heads of a trained layer."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.style import OKABE_ITO, in_house_style, save_and_return


@in_house_style()
def head_counts(rows: Sequence[dict[str, Any]], path: str | os.PathLike | None = None) -> Figure:
    """Draw flows with 1, 2, 4, ... heads: cosines over time, the rate of alignment, clusters and ranks at the end.

    Parameters
    ----------
    rows
        Made by `trained.by_number_of_heads`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    curves = [
        Line(
            _column(row["course"], "time"),
            _column(row["course"], "mean_cosine"),
            counted_heads(len(row["heads"])),
            marker=".",
        )
        for row in rows
    ]
    low = min(0.0, *(float(curve.y.min()) for curve in curves))
    over_time = Lines(curves, title="Mean cosine of two tokens", ylim=(low, 1.02), columns=2)
    columns = {name: _column(rows, name) for name in ("rate", "clusters", "attention_rank")}
    panels = [over_time, *against_count([len(row["heads"]) for row in rows], **columns)]
    title = f"Tokens under more and more heads of {rows[0]['model']}, layer {rows[0]['layer']}"
    unfitted = int(np.isnan(columns["rate"]).sum())
    lacking = (
        f" {unfitted} of {len(rows)} runs have no rate: tokens do not align at one, or do so between two kept times."
        if unfitted
        else ""
    )
    figure = panel_figure([panels], title, f"Attention alone.{lacking}", width=3.5, heights=[3.9])
    return save_and_return(figure, path)


def against_count(
    numbers: Sequence[int] | np.ndarray, rate: np.ndarray, clusters: np.ndarray, attention_rank: np.ndarray
) -> list[Lines]:
    """Panels against the number of heads: the rate of alignment; clusters and rank of attention at the end."""
    ends = [
        Line(numbers, clusters, "clusters", OKABE_ITO[2], marker="o", width=4.0, alpha=0.5),
        Line(numbers, attention_rank, "rank of attention, mean over heads", OKABE_ITO[1], marker="s"),
    ]
    margin = 0.05 * max(numbers)
    shared: dict[str, Any] = {
        "xlabel": "number of heads",
        "ylim": (0, None),
        "xticks": [float(number) for number in numbers],
        "xlim": (float(min(numbers)) - margin, float(max(numbers)) + margin),
    }
    return [
        Lines([Line(numbers, rate, marker="o")], title="Rate of alignment", **shared),
        Lines(ends, title="At the end", **shared),
    ]


def counted_heads(count: int) -> str:
    """A number of heads in words."""
    return f"{count} head{'' if count == 1 else 's'}"


def _column(rows: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=float)
