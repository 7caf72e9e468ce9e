"""`ladder`: the tokens of a prompt as the parts of a trained block are added one by one."""

import json
import os
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.colors import to_hex

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import from_oklch
from attnflow.show.parts.tables import Table
from attnflow.show.trained.by_layer import layer_panel, quoted_prompt

PANELS = {
    "mean_cosine": "mean cosine of two tokens",
    "clusters": "clusters",
    "effective_rank": "effective rank of the tokens",
}


@draws
def ladder(
    climbed: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw a ladder: cosine, clusters and rank by layer, a line a rung, and how each rung ends.

    Parameters
    ----------
    climbed
        Made by `trained.ladder`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = ladder(trained.ladder(model, [5, 17, 3, 39]), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    panels = [_panel(climbed, place) for place in range(len(PANELS))]
    table = Table(
        ("rung", "cosine, first", "cosine, last", "clusters", "rank of tokens", "rank of attention"),
        [_row(climbed.isel(rung=place)) for place in range(climbed.sizes["rung"])],
        (2.2, 1, 1, 1, 1, 1),
        [_colour(place, climbed.sizes["rung"]) for place in range(climbed.sizes["rung"])],
    )
    n, layers = climbed.sizes["token"], climbed.sizes["time"] - 1
    gap, head = climbed.attrs["distance_to_model"], climbed.attrs["head"]
    caption = (
        f"{quoted_prompt(climbed, begins=True)} in {climbed.attrs['model']}, {n} tokens, {layers} layers; "
        f"the first rungs have head {head} of each layer{_other_mask(climbed)}. "
        f"Clusters: directions closer than {climbed.attrs['angle']:g} rad. "
        f"The last rung is the model itself, {f'within {gap:.0e}' if gap else 'exactly'}."
    )
    heading = "From attention alone to the true block: which part changes how far tokens are apart?"
    return panel_picture(
        [panels, [table]], heading, caption, width=3.4, heights=[3.5, 0.26 * (climbed.sizes["rung"] + 2)]
    )


def _other_mask(climbed: xr.Dataset) -> str:
    """Clause on the mask of the rungs, where it is not the mask of the model."""
    model_mask = "causal" if json.loads(climbed.attrs["config"])["is_causal"] else "full"
    is_other = model_mask != climbed.attrs["mask"]
    return f", and all but the last a {climbed.attrs['mask']} mask" if is_other else ""


def _panel(climbed: xr.Dataset, panel: int) -> Lines:
    """Panel of one measure by layer; the table below names the colours of the rungs."""
    name, label = list(PANELS.items())[panel]
    count = climbed.sizes["rung"]
    values = np.where(climbed.is_whole.values, climbed[name].values, np.nan)
    lines = []
    for place in range(count):
        width = 2.4 if place == count - 1 else 1.6
        lines.append(Line(climbed.time.values, values[place], "", _colour(place, count), marker=".", width=width))
    low = float(np.min(values, initial=0.0, where=np.isfinite(values)))
    return layer_panel(lines, ylabel=label, ylim=(low, 1.02 if name == "mean_cosine" else None))


def _colour(place: int, count: int) -> str:
    """Colour of a rung from light blue through green to orange, different also in lightness; the model is black."""
    if place == count - 1:
        return theme().ink
    share = place / max(count - 2, 1)
    rgb = from_oklch(np.array([0.80 - 0.22 * share]), np.array([0.13]), np.array([4.2 - 3.4 * share]))[0]
    return to_hex(rgb)


def _row(one: xr.Dataset) -> list[str]:
    """Row of the table: the measures of one rung at the last layer, or where it overflows."""
    whole = int(one.is_whole.sum())
    if whole < one.sizes["time"]:
        return [str(one.rung.item()), _number(one.mean_cosine[0], 2), f"overflows after layer {whole - 1}", "", "", ""]
    last = one.isel(time=-1)
    ranks = one.attention_rank.values[np.isfinite(one.attention_rank.values)]
    return [
        str(one.rung.item()),
        _number(one.mean_cosine[0], 2),
        _number(last.mean_cosine, 2),
        f"{int(last.clusters)}",
        _number(last.effective_rank, 1),
        f"{ranks[-1]:.1f}" if len(ranks) else "",
    ]


def _number(value: xr.DataArray, digits: int) -> str:
    """A number as text; empty where there is none, such as the cosine of one token."""
    return f"{float(value):.{digits}f}" if np.isfinite(value) else ""
