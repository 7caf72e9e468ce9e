"""`head_spectra`: the eigenvalues of all heads of a trained model, and the limit of each head's simulation."""

import os
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour
from attnflow.show.trained.by_layer import has_name, layer_colours
from attnflow.trained.head_controls import controls_sentences


@dataclass(frozen=True)
class Eigenvalues:
    """Panel of eigenvalues in the complex plane, one colour per layer, with those of the model before training."""

    table: xr.Dataset
    untrained: np.ndarray | None = None
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes: early layers light, late ones dark."""
        count = self.table.sizes["layer"]
        colours = layer_colours(count)
        for place in range(count):
            one = self.table.isel(layer=place)
            name = f"layer {int(one.layer)}" if has_name(place, count) else None
            where = one.eigenvalue_real.values.ravel(), one.eigenvalue_imaginary.values.ravel()
            order = 3 - place / count  # early layers, whose eigenvalues are smaller, in front
            axes.scatter(*where, s=7, color=colours[place], linewidths=0, label=name, zorder=order)
        if self.untrained is not None:
            where = np.real(self.untrained).ravel(), np.imag(self.untrained).ravel()
            axes.scatter(*where, s=7, color=line_colour(1), linewidths=0, label="freshly initialised", zorder=4)
        axes.axvline(0, color=theme().grey, linewidth=0.8, zorder=1)
        axes.axhline(0, color=theme().pale, linewidth=0.8, zorder=1)
        axes.set(xlabel="real part", ylabel="imaginary part")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title("All eigenvalues of all heads", loc="left")
        legend_below(axes, columns=4)
        fix_ticks(axes)


@dataclass(frozen=True)
class HeadGrid:
    """Panel with one cell per head: colour for the leading real part, a mark for the result of its simulation."""

    table: xr.Dataset
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        real = self.table.real_part.values
        image = axes.imshow(real, cmap=_attraction(), norm=CenteredNorm(0), aspect="auto")
        for name, (marker, colour, is_marked) in _marks(self.table).items():
            rows, columns = np.nonzero(is_marked)
            filled: dict[str, Any] = {"color": colour}
            if marker == "o":
                filled = {"facecolors": "none", "edgecolors": colour}
            axes.scatter(columns, rows, s=26, marker=marker, linewidths=1.2, label=name, **filled)
        axes.set(xlabel="head", ylabel="layer")
        axes.set_yticks(range(len(real)), [str(int(layer)) for layer in self.table.layer])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title("Real part of the leading eigenvalue", loc="left")
        if axes.get_legend_handles_labels()[1]:  # without simulations there are no marks
            legend_below(axes, columns=2)
        fix_ticks(axes)
        bar = axes.figure.colorbar(image, ax=axes, aspect=25, pad=0.02)
        fix_ticks(bar.ax)


@draws
def head_spectra(
    table: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    untrained: np.ndarray | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw a table of heads: all eigenvalues in the complex plane, and a cell for each head.

    Parameters
    ----------
    table
        Made by `trained.head_table`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    untrained
        Eigenvalues of the freshly initialised model, `trained.eigenvalues_of_heads(model.reinitialised(0))`.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = head_spectra(trained.head_table(model), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    return panel_picture(
        [[Eigenvalues(table, untrained), HeadGrid(table)]],
        f"Eigenvalues of the heads of {table.attrs['model']}",
        _caption(table),
        width=4.6,
        heights=[4.2],
    )


def _caption(table: xr.Dataset) -> str:
    kinds = table.kind.values.ravel()
    words = {"real-positive": "positive", "real-negative": "negative", "complex": "complex"}
    counts = [f"{word} in {int(np.sum(kinds == kind))}" for kind, word in words.items()]
    d, k = table.attrs["width"], table.sizes["eigenvalue"]
    sentences = [
        f"$V = W_O W_V$ of {kinds.size} heads: {k} eigenvalues each, all others of the {d} are 0.",
        f"The leading eigenvalue, of largest real part, is {', '.join(counts)} heads.",
        *(["Marks: whether a simulation with the head reaches the limit predicted from V."] if _marks(table) else []),
        *controls_sentences(table)[:1],
    ]
    return " ".join(sentences)


def _marks(table: xr.Dataset) -> dict[str, tuple[str, str, np.ndarray]]:
    """Marker, colour and heads (True) of each result of the simulations; empty without simulations."""
    is_complex, agreement = (table.kind == "complex").values, table.agreement.values
    is_simulated, agrees = (table.simulated != "").values, agreement >= 0.5
    marks = {
        "real: as predicted": (".", theme().ink, ~is_complex & agrees),
        "complex: as predicted": ("o", theme().ink, is_complex & agrees),
        "does otherwise": ("x", line_colour(1), is_simulated & (agreement < 0.5)),
        "undecided": ("_", theme().grey, is_simulated & np.isnan(agreement)),
    }
    return {name: mark for name, mark in marks.items() if mark[2].any()}


def _attraction() -> LinearSegmentedColormap:
    """Colour map: orange where tokens repel, white at zero, blue where they attract."""
    return LinearSegmentedColormap.from_list("attnflow attraction", [line_colour(1), theme().paper, line_colour(0)])
