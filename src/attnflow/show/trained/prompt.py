"""`prompt`: the tokens of a prompt through the layers of a trained model, and the words of their clusters."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator

from attnflow._common.plain import evenly_spaced
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.ridgeline import RidgelinePanel
from attnflow.show.parts.style import colours, fix_ticks, line_colour, size_in_inches
from attnflow.show.parts.symbols import BETA
from attnflow.show.runs.moments import saved_places
from attnflow.show.trained.by_layer import layer_panel, quoted_prompt
from attnflow.trained.neural_collapse import class_counts, classes_sentence

MOST_WORDS = 40  # rows of words that can be read in one panel
DENSITY_HEIGHT = 0.9  # below one: the densities of two layers do not overlap
PANEL_WIDTH = 3.7  # inches
COLLAPSE = {
    "variability": "spread within classes",
    "unequal_norms": "unequal lengths of their means",
    "unequal_angles": "unequal angles between them",
    "simplex_distance": "distance from a simplex",
}


@dataclass(frozen=True)
class WordClusters:
    """Panel with one row per token, one column per layer and one colour per cluster; single tokens are pale."""

    labels: np.ndarray
    """Cluster of each token, (time, token); a cluster keeps its number from layer to layer."""
    words: list[str]
    title: str = "Clusters and their words"
    projection: str = "rectilinear"

    @property
    def words_beside(self) -> int:
        """The number of words along the vertical axis."""
        return min(len(self.words), MOST_WORDS)

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes: tokens sorted by their last cluster, the largest first."""
        order = self._order()
        axes.imshow(self._picture()[order], aspect="auto", interpolation="nearest")
        axes.set_yticks(range(len(order)), [self.words[token] for token in order])
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10]))
        axes.set(xlabel="layer")
        some = (
            f": {len(order)} of {len(self.words)} tokens, in turn from each cluster"
            if len(order) < len(self.words)
            else ""
        )
        axes.set_title(f"{self.title}{some}", loc="left")
        fix_ticks(axes)
        axes.tick_params(axis="y", length=0, labelsize=_word_size(axes, len(order)))
        for spine in axes.spines.values():
            spine.set_visible(False)

    def _order(self) -> np.ndarray:
        last = self.labels[-1]
        sizes = np.bincount(last[last >= 0], minlength=last.max() + 1)
        order = np.lexsort((np.arange(len(last)), last, -sizes[last]))
        # At most MOST_WORDS tokens, taken in turn from every cluster: the first of each, then the second of each, ...
        place = np.array([np.sum(last[order[:row]] == last[token]) for row, token in enumerate(order)])
        return order[np.sort(np.argsort(place, kind="stable")[:MOST_WORDS])]

    def _picture(self) -> np.ndarray:
        """Colours (token, time, 3); the first colours go to the clusters that are largest over all layers."""
        picture = np.full((*self.labels.T.shape, 3), to_rgb(theme().pale))
        weights: dict[int, int] = {}
        for row in self.labels:
            for label, size in zip(*np.unique(row[row >= 0], return_counts=True), strict=True):
                if size > 1:
                    weights[int(label)] = weights.get(int(label), 0) + int(size)
        ranked = sorted(weights, key=lambda label: -weights[label])
        for colour, label in zip(colours(len(ranked)), ranked, strict=True):
            shared = (self.labels == label) & (np.sum(self.labels == label, axis=1) > 1)[:, None]
            picture[shared.T] = colour
        return picture


def _word_size(axes: Axes, count: int) -> float:
    """Size of the words of `count` rows in points, so that they do not overlap, but not below six."""
    inches = size_in_inches(axes)[1]
    return float(np.clip(72 * inches / count / 1.15, 6.0, 0.8 * current_page().text))


@draws
def prompt(
    report: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    times: Sequence[float] | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw a prompt's report: cosines by layer, clusters and their words, energy, ranks, attention graphs, collapse.

    For a single token only its clusters are drawn, since the other measures compare two tokens.

    Parameters
    ----------
    report
        Made by `trained.prompt_report`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    times
        Layers whose cosines are drawn, 0 for the embedding; by default at most nine, evenly spread.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = prompt(trained.prompt_report(model, [5, 17, 3, 39]), times=[0, 3], size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    n, layers = report.sizes["token"], report.sizes["time"] - 1
    clusters = WordClusters(report.cluster.values.astype(int), [str(word) for word in report.word.values])
    heading = f"{quoted_prompt(report, begins=True)} in {report.attrs['model']}"
    if n == 1:
        caption = f"One token through {layers} layers: there are no two to compare."
        return panel_picture([[clusters]], heading, caption, width=PANEL_WIDTH, heights=[1.2])
    tall = float(np.clip(0.16 * min(n, MOST_WORDS), 3.2, 6.4))
    below = [
        [_cosines(report), _energy(report), _halves(report)],
        [_ranks(report), _mixing(report), *_collapse(report)],
    ]
    chosen = None if times is None else np.array(saved_places(times, report.time.values))
    rows = [[_cosine_densities(report, chosen), clusters], *below]
    return panel_picture(rows, heading, _caption(report), width=PANEL_WIDTH, heights=[tall, 3.3, 3.3])


def density_panel(
    density: xr.DataArray,
    mean_cosine: xr.DataArray,
    xlim: tuple[float, float] = (-1.0, 1.0),
    chosen: np.ndarray | None = None,
) -> RidgelinePanel:
    """Panel of the densities (time, cosine) of the cosines between distinct tokens, in at most nine layers.

    `chosen` are the layers drawn; None: evenly spread.
    """
    chosen = evenly_spaced(density.sizes["time"], 9) if chosen is None else chosen
    values = density.values[chosen]
    is_finite = np.isfinite(values).all(axis=1)
    names = ["embedding" if layer == 0 else f"layer {layer}" for layer in chosen[is_finite]]
    return RidgelinePanel(
        density.cosine.values,
        values[is_finite],
        names,
        mean_cosine.values[chosen][is_finite],
        "mean",
        "cosine of two tokens",
        xlim,
        DENSITY_HEIGHT,
    )


def _cosine_densities(report: xr.Dataset, chosen: np.ndarray | None) -> RidgelinePanel:
    has_left_half = report.cosine_density.sel(cosine=slice(None, -0.5)).sum() > 0
    return density_panel(report.cosine_density, report.mean_cosine, (-1.0 if has_left_half else -0.5, 1.0), chosen)


def _caption(report: xr.Dataset) -> str:
    n, layers, angle = report.sizes["token"], report.sizes["time"] - 1, report.attrs["angle"]
    # Files of version 0.1 do not hold the classes, which were the clusters of the last layer.
    classes = _classes(report) if "collapse_class" in report else "clusters of the last layer"
    return (
        f"{n} tokens through {layers} layers. Directions closer than {angle:g} rad, and chains of them, are one "
        f"cluster; {_colours_of(report)}. Energy: mean of "
        "$e^{\\beta(\\mathrm{cosine}-1)}$ over all pairs of tokens. "
        f"Bands: from head to head. Neural collapse, complete at 0: {classes}."
    )


def _colours_of(report: xr.Dataset) -> str:
    """What the colours of the clusters mean, where there are any."""
    if all(np.unique(row[row >= 0], return_counts=True)[1].max(initial=1) == 1 for row in report.cluster.values):
        return "no two tokens are in one in any layer, so that all rows are pale"
    return "colours last from layer to layer, and tokens alone in theirs are pale"


def _classes(report: xr.Dataset) -> str:
    """The classes of neural collapse in words, without what is said of shuffled classes, which are not drawn."""
    drawn = report.drop_vars("shuffled_variability", errors="ignore")
    return classes_sentence(class_counts(drawn))


def _cosines(report: xr.Dataset) -> Lines:
    means = report.mean_cosine.values
    low = min(0.0, float(np.nanmin(means)))
    line = Line(report.time.values, means, marker=".")
    return layer_panel([line], "Mean cosine of two tokens", ylim=(low, 1.02))


def _collapse(report: xr.Dataset) -> list[Lines]:
    """Panel of neural collapse; none with fewer than two classes, since it compares means of classes."""
    lines = [
        Line(report.time.values, report[name].values, label, marker=".")
        for name, label in COLLAPSE.items()
        if np.isfinite(report[name].values).any()
    ]
    if not lines:
        return []
    # In a long text the spread within classes is many times the other measures, which are of size one.
    values = np.array([report[name].values for name in COLLAPSE])
    is_wide = np.nanmax(values) > 10 and np.nanmin(values) > 0
    return [layer_panel(lines, "Neural collapse", **({"yscale": "log"} if is_wide else {"ylim": (0, None)}))]


def _energy(report: xr.Dataset) -> Lines:
    lines = [
        Line(report.time.values, report.energy.sel(beta=beta).values, f"{BETA} = {beta:g}", marker=".")
        for beta in report.beta.values
    ]
    return layer_panel(lines, "Interaction energy", ylim=(0, None))


def _halves(report: xr.Dataset) -> Lines:
    beta = report.beta.values[0]
    names = {"attention": "by attention", "mlp": "by the MLP"}
    lines = [
        Line(report.time.values[1:], report.change.sel(beta=beta, half=half).values, name, marker=".")
        for half, name in names.items()
    ]
    return layer_panel(lines, f"Energy added, {BETA} = {beta:g}", levels={"": 0.0})


def _ranks(report: xr.Dataset) -> Lines:
    after = report.time.values[1:]
    heads = report.attention_rank.values
    band = (np.nanmin(heads, axis=1), np.nanmax(heads, axis=1))
    lines = [
        Line(report.time.values, report.clusters.values, "clusters", line_colour(2), marker="."),
        Line(report.time.values, report.effective_rank.values, "rank of tokens", line_colour(0), marker="."),
        Line(after, heads.mean(axis=1), "rank of attention", line_colour(1), marker=".", band=band),
    ]
    return layer_panel(lines, "Clusters and ranks", ylim=(0, None))


def _mixing(report: xr.Dataset) -> Lines:
    values = report.second_eigenvalue.values
    band = (np.nanmin(values, axis=1), np.nanmax(values, axis=1))
    lines = [
        Line(
            report.time.values[1:],
            values.mean(axis=1),
            r"$|\lambda_2|$ of attention, all heads",
            line_colour(1),
            marker=".",
            band=band,
        ),
        Line(report.time.values[1:], report.cka.values, "CKA with the layer before", line_colour(0), marker="."),
    ]
    return layer_panel(lines, "Mixing and similarity", ylim=(0, 1.02))
