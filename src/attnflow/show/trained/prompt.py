"""`prompt`: a prompt's tokens through the layers of a trained model, and the words that gather."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnflow._common.plain import evenly_spaced
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.ridgeline import RidgelinePanel
from attnflow.show.parts.style import OKABE_ITO, PALE, colours, fix_ticks, in_house_style, save_figure

MOST_RIDGES = 9
MOST_WORDS = 40
RIDGE = 0.9  # of its row: the cosines of one layer do not reach into the next
WIDTH = 3.7  # inches of a panel
COLLAPSE = {
    "variability": "spread within clusters",
    "unequal_norms": "unequal lengths of their means",
    "unequal_angles": "unequal angles between them",
    "simplex_distance": "distance from a simplex",
}
TITLE = 60  # letters of the prompt in the title


@dataclass(frozen=True)
class WordClusters:
    """One row a token, one column a layer, a colour a cluster; lone tokens are pale. Fits on a board."""

    labels: np.ndarray
    """Cluster of each token, (time, token), with names that last."""
    words: list[str]
    title: str = "Clusters and their words"
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw it into empty axes: tokens of one last cluster stand together, the largest first."""
        order = self._order()
        axes.imshow(self._picture()[order], aspect="auto", interpolation="nearest")
        axes.set_yticks(range(len(order)), [self.words[token] for token in order])
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10]))
        axes.set(xlabel="layer")
        some = f": {len(order)} of {len(self.words)} tokens" if len(order) < len(self.words) else ""
        axes.set_title(f"{self.title}{some}", loc="left")
        fix_ticks(axes)
        axes.tick_params(axis="y", length=0, labelsize=7 if len(order) > 25 else 8)
        for spine in axes.spines.values():
            spine.set_visible(False)

    def _order(self) -> np.ndarray:
        last = self.labels[-1]
        sizes = np.bincount(last[last >= 0], minlength=last.max() + 1)
        order = np.lexsort((np.arange(len(last)), last, -sizes[last]))
        return order[:MOST_WORDS]

    def _picture(self) -> np.ndarray:
        """(token, time, 3): colours go to the clusters that are largest over all layers."""
        picture = np.full((*self.labels.T.shape, 3), to_rgb(PALE))
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


@in_house_style()
def prompt(report: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw a prompt's report: cosines by layer, clusters and their words, energy, ranks, attention graphs, collapse.

    Of a single token there is only its way: everything else compares two.

    Parameters
    ----------
    report
        Made by `trained.prompt_report`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    words = [str(word) for word in report.word.values]
    n, layers = report.sizes["token"], report.sizes["time"] - 1
    gathered = WordClusters(report.cluster.values.astype(int), words)
    title = f"{first_words(words)} in {report.attrs['model']}"
    if n == 1:
        caption = f"One token through {layers} layers: there are no two to compare."
        figure = panel_figure([[gathered]], title, caption, width=WIDTH, heights=[1.2])
    else:
        tall = float(np.clip(0.16 * min(n, MOST_WORDS), 3.2, 6.4))
        below = [
            [_cosines(report), _energy(report), _halves(report)],
            [_ranks(report), _mixing(report), *_collapse(report)],
        ]
        rows = [[cosine_ridges(report), gathered], *below]
        figure = panel_figure(rows, title, _caption(report), width=WIDTH, heights=[tall, 3.3, 3.3])
    if path is not None:
        save_figure(figure, path)
    return figure


def first_words(words: Sequence[str]) -> str:
    """How the prompt begins, for a title.

    Examples
    --------
    >>> first_words(["[CLS]", "the", "cat", "[SEP]"])
    '“[CLS] the cat [SEP]”'
    """
    return f"“{shorten(' '.join(words), TITLE, placeholder=' …')}”"


def cosine_ridges(report: xr.Dataset) -> RidgelinePanel:
    """The cosines between distinct tokens at the embedding (below) and after some layers."""
    count = report.sizes["time"]
    chosen = evenly_spaced(count, MOST_RIDGES)
    densities = report.cosine_density.values[chosen]
    whole = np.isfinite(densities).all(axis=1)
    names = ["embedding" if place == 0 else f"layer {place}" for place in chosen]
    kept = [name for name, is_whole in zip(names, whole, strict=True) if is_whole]
    means = report.mean_cosine.values[chosen][whole]
    return RidgelinePanel(
        report.cosine.values, densities[whole], kept, means, "mean", "cosine of two tokens", (-0.5, 1.0)
        if report.cosine_density.sel(cosine=slice(None, -0.5)).sum() == 0 else (-1.0, 1.0), tall=RIDGE,
    )  # fmt: skip


def _caption(report: xr.Dataset) -> str:
    n, layers, angle = report.sizes["token"], report.sizes["time"] - 1, report.attrs["angle"]
    return (
        f"{n} tokens through {layers} layers. Directions closer than {angle:g} rad, and chains of them, are one "
        "cluster; colours last from layer to layer. Energy: mean of exp(β(cosine − 1)) over all pairs of tokens. "
        "Bands: from head to head. Neural collapse is complete at 0."
    )


def _cosines(report: xr.Dataset) -> Lines:
    means = report.mean_cosine.values
    low = min(0.0, float(np.nanmin(means)))
    line = Line(report.time.values, means, marker=".")
    return Lines([line], xlabel="layer", counts=True, ylim=(low, 1.02), title="Mean cosine of two tokens")


def _collapse(report: xr.Dataset) -> list[Lines]:
    """None where all tokens are one cluster at the end: there are no means to compare."""
    lines = [
        Line(report.time.values, report[name].values, said, marker=".")
        for name, said in COLLAPSE.items()
        if np.isfinite(report[name].values).any()
    ]
    panel = Lines(lines, xlabel="layer", counts=True, ylim=(0, None), title="Neural collapse of the last clusters")
    return [panel] if lines else []


def _energy(report: xr.Dataset) -> Lines:
    lines = [
        Line(report.time.values, report.energy.sel(beta=beta).values, f"β = {beta:g}", marker=".")
        for beta in report.beta.values
    ]
    return Lines(lines, xlabel="layer", counts=True, ylim=(0, None), title="Interaction energy")


def _halves(report: xr.Dataset) -> Lines:
    beta = report.beta.values[0]
    names = {"attention": "by attention", "mlp": "by the MLP"}
    lines = [
        Line(report.time.values[1:], report.change.sel(beta=beta, half=half).values, name, marker=".")
        for half, name in names.items()
    ]
    levels = {"": 0.0}
    return Lines(lines, xlabel="layer", counts=True, levels=levels, title=f"Energy added, β = {beta:g}")


def _ranks(report: xr.Dataset) -> Lines:
    after = report.time.values[1:]
    heads = report.attention_rank.values
    band = (np.nanmin(heads, axis=1), np.nanmax(heads, axis=1))
    lines = [
        Line(report.time.values, report.clusters.values, "clusters", OKABE_ITO[2], marker="."),
        Line(report.time.values, report.effective_rank.values, "rank of tokens", OKABE_ITO[0], marker="."),
        Line(after, heads.mean(axis=1), "rank of attention", OKABE_ITO[1], marker=".", band=band),
    ]
    return Lines(lines, xlabel="layer", counts=True, ylim=(0, None), title="Clusters and ranks")


def _mixing(report: xr.Dataset) -> Lines:
    values = report.second_eigenvalue.values
    band = (np.nanmin(values, axis=1), np.nanmax(values, axis=1))
    lines = [
        Line(
            report.time.values[1:],
            values.mean(axis=1),
            "|λ₂| of attention, all heads",
            OKABE_ITO[1],
            marker=".",
            band=band,
        ),
        Line(report.time.values[1:], report.cka.values, "CKA with the layer before", OKABE_ITO[0], marker="."),
    ]
    return Lines(lines, xlabel="layer", counts=True, ylim=(0, 1.02), title="Mixing and similarity")
