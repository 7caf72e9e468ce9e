"""Flows with random subsets of 1, 2, 4, ... heads of a layer, and means over the subsets with their intervals."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow._common.checks import require_count
from attnflow._common.progress import Progress, parts_of, reporting
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.models.transformer import Model
from attnflow.trained.head_flows import flow_summary, head_flow

# Quantities at the end of a flow, and the least and greatest value that each can have; the number of tokens limits
# that of clusters and the rank too.
RANGES = {
    "clusters": (1.0, math.inf),
    "mean_cosine": (-1.0, 1.0),
    "misalignment": (0.0, 1.0),
    "rate": (0.0, math.inf),
    "attention_rank": (1.0, math.inf),
}
LEVEL = 0.95  # confidence of intervals


def by_number_of_heads(
    model: Model,
    layer: int = 0,
    counts: Sequence[int] | None = None,
    *,
    subsets: int = 6,
    seed: Rng = 0,
    progress: Progress = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """`flow_summary` with random subsets of 1, 2, 4, ... heads of a layer, all from the same initial tokens.

    Of each number of heads `subsets` subsets are drawn, or all where there are fewer; one row is one subset, with
    `possible_subsets`, the number of subsets of that size that the layer has. The seed is that
    of the subsets and of random tokens. A circle lies in the plane of all heads of the layer.
    `settings` are those of `head_flow`.

    Parameters
    ----------
    model
        A model made by `models.load`.
    layer
        Number of the layer.
    counts
        Numbers of heads. None: 1, 2, 4, ... up to all.
    subsets
        Subsets for each number.
    seed
        Seed of subsets and tokens.
    progress
        False: no progress bar. A function is called with the share done and a sentence.

    Examples
    --------
    >>> import attnflow as af
    >>> rows = af.trained.by_number_of_heads(model, counts=[1, 2], subsets=2, n=3, end=1.0, saves=6, progress=False)
    >>> [len(row["heads"]) for row in rows]
    [1, 1, 2, 2]
    """
    total = model.config.heads
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count < total] + [total] if counts is None else list(counts)
    for count in counts:
        require_count(count, "counts")
    require_count(subsets, "subsets")
    slots, sequence = min(max(counts), total), seed_sequence(seed)
    chosen = [subset for count in counts for subset in _subsets(total, count, subsets, sequence)]
    shared: dict[str, Any] = {"slots": slots, "seed": sequence, "circle_of": range(total), **settings}
    with reporting(progress) as report:
        return [
            flow_summary(head_flow(model, layer, subset, progress=part, **shared))
            | {"possible_subsets": math.comb(total, len(subset))}
            for subset, part in zip(chosen, parts_of(report, len(chosen)), strict=True)
        ]


def _subsets(total: int, count: int, most: int, seed: np.random.SeedSequence) -> list[list[int]]:
    """Up to `most` different subsets of `count` of the numbers below `total`; they do not depend on other counts."""
    if count >= total:
        return [list(range(count))]
    rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, count)))
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < min(most, math.comb(total, count)):
        drawn.add(tuple(sorted(rng.choice(total, count, replace=False).tolist())))
    return [list(subset) for subset in sorted(drawn)]


def count_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `by_number_of_heads` by number of heads: the mean of each quantity over the subsets, and its interval.

    `clusters_low` and `clusters_high`, and so on, are the ends of `mean_interval` for the mean over all
    `possible_subsets`; None where one subset was drawn, or all, or values are equal. `subsets` is the number drawn,
    and `with_rate` that of subsets whose tokens align at a rate; the rate is a mean over these.

    Parameters
    ----------
    rows
        Rows made by `by_number_of_heads`.

    Examples
    --------
    >>> import attnflow as af
    >>> rows = af.trained.by_number_of_heads(model, counts=[1, 2], subsets=2, n=3, end=1.0, saves=6, progress=False)
    >>> af.trained.count_rows(rows)[0]["subsets"]
    2
    """
    summaries = []
    for count in sorted({len(row["heads"]) for row in rows}):
        same = [row for row in rows if len(row["heads"]) == count]
        summary: dict[str, Any] = {"heads": count, "subsets": len(same)}
        summary["possible_subsets"] = possible = same[0]["possible_subsets"]
        for name, (least, most) in RANGES.items():
            greatest = same[0]["tokens"] if name in ("clusters", "attention_rank") else most
            values = [row[name] for row in same if row[name] is not None]
            ends = mean_interval(values, len(same) / possible)
            summary[name] = float(np.mean(values)) if values else None
            summary[f"{name}_low"] = None if ends is None else max(ends[0], least)
            summary[f"{name}_high"] = None if ends is None else min(ends[1], greatest)
        summaries.append(summary | {"with_rate": sum(row["rate"] is not None for row in same)})
    return summaries


def mean_interval(values: Sequence[float], drawn_share: float) -> tuple[float, float] | None:
    """The 95 % t interval of the mean of a population of which a share was drawn without repetition.

    The half-width is t s sqrt((1 - share) / m) for m values of deviation s, with Student's t of m - 1 degrees of
    freedom. None for a single value or equal ones, from which no deviation can be estimated, and where all were
    drawn: then the mean is known.

    Examples
    --------
    >>> tuple(round(end, 3) for end in mean_interval([1.0, 2.0, 3.0], 0.0) or ())
    (-0.484, 4.484)
    >>> mean_interval([1.0, 2.0, 3.0], 1.0) is None
    True
    """
    from scipy.stats import t  # 0.5 s to import

    m = len(values)
    if m < 2 or drawn_share >= 1 or len({*values}) == 1:
        return None
    half = t.ppf((1 + LEVEL) / 2, m - 1) * np.std(values, ddof=1) * math.sqrt((1 - drawn_share) / m)
    return float(np.mean(values) - half), float(np.mean(values) + half)
