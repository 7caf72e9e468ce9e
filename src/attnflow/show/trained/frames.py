"""`frames`: a prompt's tokens through the layers, as they are and in the frames that move with V, S and A."""

import os

import xarray as xr
from matplotlib.figure import Figure

from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.principal_components import principal_scene
from attnflow.show.parts.scene import Snapshot
from attnflow.show.parts.style import OKABE_ITO, in_house_style, save_figure
from attnflow.show.trained.prompt import first_words
from attnflow.trained.measures import ANGLE, directions

NAMES = {"x": "x, as they are", "V": r"$e^{-tV}x$", "S": r"$e^{-tS}x$", "A": r"$e^{-tA}x$"}
STYLES = {"x": "-", "V": "-", "S": "-", "A": ":"}  # the frame of A only turns: its cosines are those of x


@in_house_style()
def frames(seen: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw the directions of tokens through the layers in each frame, and their mean cosine and effective rank.

    Parameters
    ----------
    seen
        Made by `trained.frames`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    units = directions(seen)
    ways = [_way(units.sel(frame=name), NAMES[name]) for name in NAMES]
    below = [
        Lines(_lines(seen.mean_cosine), xlabel="layer", counts=True, title="Mean cosine of two tokens", columns=2),
        Lines(
            _lines(seen.effective_rank),
            xlabel="layer",
            counts=True,
            title="Effective rank of the tokens",
            ylim=(0, None),
            columns=2,
        ),
    ]
    caption = (
        "Above: directions x / |x| from embedding to last layer in two principal components; tokens closer than "
        f"{ANGLE:g} at the end share a colour. V is the sum over a layer's heads, S and A are its symmetric and "
        "antisymmetric parts, and a layer is the unit of time. Norms and MLP are in the tokens, not in the frame."
    )
    words = first_words([str(word) for word in seen.word.values])
    title = f"{words} in {seen.attrs['model']}, seen from moving frames"
    figure = panel_figure([ways, below], title, caption, width=2.9, heights=[2.9, 3.3])
    if path is not None:
        save_figure(figure, path)
    return figure


def _way(units: xr.DataArray, title: str) -> Snapshot:
    scene = principal_scene(xr.Dataset({"tokens": units.drop_vars("frame")}), distance=ANGLE)
    return Snapshot(scene, units.sizes["time"] - 1, title)


def _lines(values: xr.DataArray) -> list[Line]:
    return [
        Line(values.time.values, values.sel(frame=name).values, said, OKABE_ITO[place], STYLES[name], marker=".")
        for place, (name, said) in enumerate(NAMES.items())
    ]
