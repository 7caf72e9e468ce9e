"""`atlas`: predicted and simulated limits of a grid of value matrices, side by side."""

import os
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Polygon

from attnflow._common.checks import InputError
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import colours, fix_ticks
from attnflow.show.parts.symbols import BETA, PLUS_MINUS_XI, typeset
from attnflow.theorems.prediction.limits import WORDS

# Colours of a limit by their place in the cycle of the page. Limits that can occur in one atlas have different colours;
# those of the sphere and of R^d share colours.
PLACES = {
    "hyperplanes": 0, "polytope": 1, "polytope-times-hyperplane": 4, "zero": 2, "diverging": 7, "rotation": 3,
    "several-points": 5, "poles": 0, "first-token": 1, "point-of-subspace": 4, "point": 5, "cloud-around-subspace": 2,
    "clouds-around-poles": 7, "leaders": 5, "boolean": 5, "at-rest": 6, "point-at-rest": 6,
}  # fmt: skip
SPACES = {
    "rescaled": "rescaled attention",
    "sphere-causal": "causal attention on the sphere",
    "sphere": "attention on the sphere",
}
HATCH = "////"  # not proved
DOTS = "...."  # undecided


@draws
def atlas(
    dataset: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw an atlas: predicted limits on the left, simulated limits on the right.

    Hatched cells are conjectured or observed, not proved. On the right a cell has the colour of the limit of most of
    its decided runs; a cross marks cells in which a run contradicts the prediction.

    Parameters
    ----------
    dataset
        Made by `af.atlas`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states how many cells agree; None: no title.

    Examples
    --------
    >>> import attnflow as af
    >>> figure = atlas(af.atlas([-1.0, 0.5, 1.0], n=6, runs=1), size="page", title=None)
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['predicted', 'simulated']
    """
    _require_atlas(dataset)
    predicted, shown = dataset.predicted.values, majority(dataset.simulated.values)
    words = np.unique(np.concatenate([predicted.ravel(), shown.ravel()]))
    shades = _shades([word for word in WORDS if word in words])

    def draw_predicted(axes: Axes) -> None:
        _draw_cells(axes, dataset, predicted, shades, "predicted")
        _hatch(axes, dataset, (predicted != "") & (predicted != "unknown") & ~dataset.proved.values)

    def draw_simulated(axes: Axes) -> None:
        _draw_cells(axes, dataset, shown, shades, "simulated")
        _hatch(axes, dataset, shown == "undecided", theme().grey, DOTS)
        up, across = np.nonzero(np.nan_to_num(dataset.share.values, nan=1.0) < 1)
        where = dataset.x.values[across], dataset.y.values[up]
        axes.scatter(*where, marker="x", s=26, c=theme().ink, linewidths=1.2, zorder=4)

    panels = [FunctionPanel(draw_predicted), FunctionPanel(draw_simulated)]
    return Picture(
        [PanelRow(panels, 4.2, least=2.2, is_shared=True, is_square=True)],
        _title(dataset),
        width=8.2,
        height=5.5,
        legend=lambda axes: _legend(shades, has_hatch=not dataset.proved.all()),
    )


def _shades(words: list[str]) -> dict[str, Any]:
    """The colour of each limit; those of the user's palette in the order of the legend."""
    if current_page().palette is None:
        on_page = {word: theme().cycle[place] for word, place in PLACES.items()}
        on_page |= {"undecided": theme().paper, "unknown": theme().pale}
        return {word: to_rgb(on_page[word]) for word in words}
    return dict(zip(words, colours(len(words)), strict=True))


def majority(simulated: np.ndarray) -> np.ndarray:
    """The most frequent limit of the runs of each cell, undecided runs left out; of equal counts, that of the first."""
    flat = simulated.reshape(-1, simulated.shape[-1])
    return np.array([_most_frequent(list(words)) for words in flat]).reshape(simulated.shape[:-1])


def _most_frequent(words: list[str]) -> str:
    decided = [word for word in words if word != "undecided"] or words
    return max(decided, key=decided.count)


def _draw_cells(axes: Axes, dataset: xr.Dataset, words: np.ndarray, shades: dict[str, Any], heading: str) -> None:
    """Draw one coloured cell a limit; none where there is no matrix."""
    image = np.ones((*words.shape, 4))
    for word in np.unique(words):
        image[words == word] = (*shades[word], 0.85) if word else (1, 1, 1, 0)
    x, y = _edges(dataset.x.values), _edges(dataset.y.values)
    axes.pcolormesh(x, y, image, edgecolors=theme().paper, linewidth=0.6, zorder=2)
    axes.spines[:].set(visible=True, color=theme().grey, linewidth=0.6)
    axes.set_box_aspect(1)
    axes.locator_params(nbins=5)
    names = typeset(dataset.x.attrs["long_name"]), typeset(dataset.y.attrs["long_name"])
    axes.set(title=heading, xlabel=names[0], ylabel=names[1])
    _draw_guides(axes, dataset)
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
    style: dict[str, Any] = {"color": theme().ink, "zorder": 5}
    axes.plot(x, coinciding, linewidth=1.1, **style)
    axes.axhline(0, linewidth=0.5, linestyle=(0, (4, 3)), **style)
    axes.axvline(0, linewidth=0.5, linestyle=(0, (4, 3)), **style)
    axes.set(xlim=limits[0], ylim=limits[1])


def _legend(shades: dict[str, Any], *, has_hatch: bool) -> list[Patch]:
    """Legend entries of the limits in this atlas, in the order of `WORDS`."""
    entries = [_entry(word, shade) for word, shade in shades.items()]
    if has_hatch:
        entries.append(Patch(facecolor=theme().pale, edgecolor="white", hatch=HATCH, linewidth=0, label="not proved"))
    return entries


def _entry(word: str, shade: Any) -> Patch:
    text = WORDS[word].replace("+xi and -xi", PLUS_MINUS_XI)
    hatch = DOTS if word == "undecided" else None
    return Patch(facecolor=(*shade, 0.85), edgecolor=theme().grey, hatch=hatch, linewidth=0.5, label=text)


def _title(dataset: xr.Dataset) -> str:
    attributes = dataset.attrs
    agreement = attributes["agreement"]
    result = "no prediction to compare" if np.isnan(agreement) else f"agreement {100 * agreement:.3g} %"
    setting = (
        f"{SPACES[attributes['space']]}, d = {attributes['d']}, n = {attributes['n']}, {BETA} = {attributes['beta']:g}"
    )
    counted = f"{attributes['cells_compared']} of {attributes['cells']} cells compared"
    starts = "1 start" if dataset.sizes["run"] == 1 else f"{dataset.sizes['run']} starts"
    return f"Limits by the spectrum of V: {result} ({counted})\n{setting}, {starts} a cell"


def _edges(centres: np.ndarray) -> np.ndarray:
    middles = (centres[1:] + centres[:-1]) / 2
    return np.r_[2 * centres[0] - middles[0], middles, 2 * centres[-1] - middles[-1]]


def _require_atlas(dataset: Any) -> None:
    needed = {"predicted", "simulated", "share", "proved"}
    if not isinstance(dataset, xr.Dataset) or not needed <= set(dataset.variables):
        raise InputError("`dataset` must be made by `theorems.atlas.atlas`, but it holds no predicted limits.")
