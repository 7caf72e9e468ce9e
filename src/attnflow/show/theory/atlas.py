"""`atlas`: predicted and simulated limits of a grid of value matrices, side by side."""

import os
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon

from attnflow._common.checks import InputError
from attnflow.show.parts.style import (
    GREY,
    INK,
    OKABE_ITO,
    PALE,
    fix_ticks,
    in_house_style,
    new_figure,
    require_free_picture,
    save_and_return,
    write_heading,
)
from attnflow.theorems.prediction.limits import WORDS

BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK, YELLOW = OKABE_ITO
# Limits that can occur in one atlas have different colours; those of the sphere and of R^d share colours.
COLOURS = {
    "hyperplanes": BLUE,
    "polytope": ORANGE,
    "polytope-times-hyperplane": AMBER,
    "zero": GREEN,
    "diverging": YELLOW,
    "rotation": PINK,
    "several-points": SKY,
    "poles": BLUE,
    "first-token": ORANGE,
    "point-of-subspace": AMBER,
    "point": SKY,
    "cloud-around-subspace": GREEN,
    "clouds-around-poles": YELLOW,
    "leaders": SKY,
    "boolean": SKY,
    "at-rest": BLACK,
    "undecided": "#ffffff",
    "unknown": PALE,
}
SPACES = {
    "rescaled": "rescaled attention",
    "sphere-causal": "causal attention on the sphere",
    "sphere": "attention on the sphere",
}
HATCH = "////"  # not proved
DOTS = "...."  # undecided


@in_house_style()
def atlas(dataset: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw an atlas: predicted limits on the left, simulated limits on the right.

    Hatched cells are conjectured or observed, not proved. On the right a cell has the colour of the limit of most of
    its decided runs; a cross marks cells in which a run contradicts the prediction.

    Parameters
    ----------
    dataset
        Made by `attnflow.theorems.atlas.atlas`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    if path is not None:
        require_free_picture(path)
    _require_atlas(dataset)
    figure = _figure_of(dataset)
    return save_and_return(figure, path)


def _figure_of(dataset: xr.Dataset) -> Figure:
    figure = new_figure(8.2, 5.5)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    predicted, shown = dataset.predicted.values, majority(dataset.simulated.values)
    _draw_cells(left, dataset, predicted)
    _draw_cells(right, dataset, shown)
    _hatch(left, dataset, (predicted != "") & (predicted != "unknown") & ~dataset.proved.values)
    _hatch(right, dataset, shown == "undecided", GREY, DOTS)
    broken = np.nan_to_num(dataset.share.values, nan=1.0) < 1
    up, across = np.nonzero(broken)
    right.scatter(dataset.x.values[across], dataset.y.values[up], marker="x", s=26, c=INK, linewidths=1.2, zorder=4)
    for axes, heading in ((left, "predicted"), (right, "simulated")):
        axes.set(title=heading, xlabel=dataset.x.attrs["long_name"], ylabel=dataset.y.attrs["long_name"])
        _draw_guides(axes, dataset)
        axes.label_outer()
    entries = _legend(np.unique(np.concatenate([predicted.ravel(), shown.ravel()])), has_hatch=not dataset.proved.all())
    figure.legend(handles=entries, loc="outside lower left", ncols=3, columnspacing=1.6, handlelength=1.4)
    write_heading(figure, _title(dataset), "")
    return figure


def majority(simulated: np.ndarray) -> np.ndarray:
    """The most frequent limit of the runs of each cell, undecided runs left out; of equal counts, that of the first."""
    flat = simulated.reshape(-1, simulated.shape[-1])
    return np.array([_most_frequent(list(words)) for words in flat]).reshape(simulated.shape[:-1])


def _most_frequent(words: list[str]) -> str:
    decided = [word for word in words if word != "undecided"] or words
    return max(decided, key=decided.count)


def _draw_cells(axes: Axes, dataset: xr.Dataset, words: np.ndarray) -> None:
    """Draw one coloured cell a limit; none where there is no matrix."""
    image = np.ones((*words.shape, 4))
    for word in np.unique(words):
        image[words == word] = (*to_rgb(COLOURS[word]), 0.85) if word else (1, 1, 1, 0)
    x, y = _edges(dataset.x.values), _edges(dataset.y.values)
    axes.pcolormesh(x, y, image, edgecolors="white", linewidth=0.6, zorder=2)
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.6)
    axes.set_box_aspect(1)
    axes.locator_params(nbins=5)
    fix_ticks(axes)


def _hatch(axes: Axes, dataset: xr.Dataset, chosen: np.ndarray, colour: str = "white", hatch: str = HATCH) -> None:
    """Draw thin lines or dots over the chosen cells."""
    x, y = _edges(dataset.x.values), _edges(dataset.y.values)
    for row, column in np.argwhere(chosen):
        corners = [(x[column], y[row]), (x[column + 1], y[row]), (x[column + 1], y[row + 1]), (x[column], y[row + 1])]
        axes.add_patch(Polygon(corners, fill=False, edgecolor=colour, hatch=hatch, linewidth=0, zorder=3))


def _draw_guides(axes: Axes, dataset: xr.Dataset) -> None:
    """Draw lines where a coordinate is zero, and where two eigenvalues coincide."""
    limits = axes.get_xlim(), axes.get_ylim()
    x = np.linspace(*limits[0], 200)
    coinciding = x**2 / 4 if dataset.attrs["kind"] == "trace-determinant" else x
    style: dict[str, Any] = {"color": INK, "zorder": 5}
    axes.plot(x, coinciding, linewidth=1.1, **style)
    axes.axhline(0, linewidth=0.5, linestyle=(0, (4, 3)), **style)
    axes.axvline(0, linewidth=0.5, linestyle=(0, (4, 3)), **style)
    axes.set(xlim=limits[0], ylim=limits[1])


def _legend(words: np.ndarray, *, has_hatch: bool) -> list[Patch]:
    """Legend entries of the limits in this atlas, in the order of `WORDS`."""
    entries = [_entry(word) for word in WORDS if word in words]
    if has_hatch:
        entries.append(Patch(facecolor=PALE, edgecolor="white", hatch=HATCH, linewidth=0, label="not proved"))
    return entries


def _entry(word: str) -> Patch:
    text = WORDS[word].replace("+xi and -xi", "±ξ")
    hatch = DOTS if word == "undecided" else None
    return Patch(facecolor=(*to_rgb(COLOURS[word]), 0.85), edgecolor=GREY, hatch=hatch, linewidth=0.5, label=text)


def _title(dataset: xr.Dataset) -> str:
    attributes = dataset.attrs
    agreement = attributes["agreement"]
    result = "no prediction to compare" if np.isnan(agreement) else f"agreement {100 * agreement:.3g} %"
    setting = (
        f"{SPACES[attributes['space']]}, d = {attributes['d']}, n = {attributes['n']}, beta = {attributes['beta']:g}"
    )
    counted = f"{attributes['cells_compared']} of {attributes['cells']} cells compared"
    return f"Limits by the spectrum of V: {result} ({counted})\n{setting}, {dataset.sizes['run']} starts a cell"


def _edges(centres: np.ndarray) -> np.ndarray:
    middles = (centres[1:] + centres[:-1]) / 2
    return np.r_[2 * centres[0] - middles[0], middles, 2 * centres[-1] - middles[-1]]


def _require_atlas(dataset: Any) -> None:
    needed = {"predicted", "simulated", "share", "proved"}
    if not isinstance(dataset, xr.Dataset) or not needed <= set(dataset.variables):
        raise InputError("`dataset` must be made by `theorems.atlas.atlas`, but it holds no predicted limits.")
