"""`head_counts`: tokens under an increasing number of heads of a trained layer."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import line_colour
from attnflow.trained.head_subsets import count_rows, mean_interval


@draws
def head_counts(
    rows: Sequence[dict[str, Any]],
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw flows with 1, 2, 4, ... heads: cosines over time, the rate of alignment, clusters and ranks at the end.

    Parameters
    ----------
    rows
        Made by `trained.by_number_of_heads`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = head_counts(trained.by_number_of_heads(model), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    counts = count_rows(rows)
    numbers = [row["heads"] for row in counts]
    over_time = Lines([_curve(rows, count) for count in numbers], title="Mean cosine of two tokens", columns=2)
    columns = {name: _column(counts, name) for name in ("rate", "clusters", "attention_rank")}
    ranges = {name: (_column(counts, f"{name}_low"), _column(counts, f"{name}_high")) for name in columns}
    panels = [over_time, *against_count(numbers, **columns, ranges=ranges)]
    heading = f"Tokens under more and more heads of {rows[0]['model']}, layer {rows[0]['layer']}"
    unfitted = len(rows) - sum(row["with_rate"] for row in counts)
    lacking = (
        f" {unfitted} of {len(rows)} runs have no rate: tokens do not align at one, or do so between two kept times."
        if unfitted
        else ""
    )
    caption = (
        f"Attention alone, from the same tokens. Lines: means over random subsets of heads, at most "
        f"{max(row['subsets'] for row in counts)} of each number; bands: 95 % t intervals of the mean over all "
        f"subsets of that number.{lacking}"
    )
    return panel_picture([panels], heading, caption, width=3.5, heights=[3.9])


def _curve(rows: Sequence[dict[str, Any]], count: int) -> Line:
    """Mean cosine over time, a mean over the subsets of this many heads, with its interval."""
    same = [row for row in rows if len(row["heads"]) == count]
    values = np.stack([_column(row["course"], "mean_cosine") for row in same])
    share = len(same) / same[0]["possible_subsets"]
    ends = [mean_interval(at_one_time, share) or (np.nan, np.nan) for at_one_time in values.T.tolist()]
    low, high = np.clip(np.transpose(ends), -1, 1)
    band = (low, high) if np.isfinite(ends).any() else None
    times = _column(same[0]["course"], "time")
    return Line(times, values.mean(axis=0), counted_heads(count), marker=".", band=band)


def against_count(
    numbers: Sequence[int] | np.ndarray,
    rate: np.ndarray,
    clusters: np.ndarray,
    attention_rank: np.ndarray,
    ranges: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> list[Lines]:
    """Panels against the number of heads: the rate of alignment; clusters and rank of attention at the end.

    `ranges` are lower and upper ends by name, drawn as bands. Without any rate there is no panel of rates.
    """
    bands = ranges or {}
    ends = [
        Line(
            numbers, clusters, "clusters", line_colour(2), marker="o", width=4.0, alpha=0.5, band=bands.get("clusters")
        ),
        Line(
            numbers,
            attention_rank,
            "rank of attention, mean over heads",
            line_colour(1),
            marker="s",
            band=bands.get("attention_rank"),
        ),
    ]
    margin = 0.05 * max(numbers)
    shared: dict[str, Any] = {
        "xlabel": "number of heads",
        "ylim": (0, None),
        "xticks": [float(number) for number in numbers],
        "xlim": (float(min(numbers)) - margin, float(max(numbers)) + margin),
    }
    largest = np.nanmax(np.r_[rate, np.ravel(bands.get("rate", ()))], initial=0.0)
    above: dict[str, Any] = {"ylim": (0, 1.08 * float(largest))} if largest > 0 else {}
    curve = Line(numbers, rate, marker="o", band=bands.get("rate"))
    rates = Lines([curve], title="Rate of alignment", **(shared | above))
    at_end = Lines(ends, title="At the end", **shared)
    return [rates, at_end] if np.isfinite(rate).any() else [at_end]


def counted_heads(count: int) -> str:
    """A number of heads in words."""
    return f"{count} head{'' if count == 1 else 's'}"


def _column(rows: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=float)
