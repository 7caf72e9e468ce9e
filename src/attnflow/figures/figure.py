"""`Figure`: one entry of the catalogue, from parameters to labelled arrays to a picture and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    import matplotlib.figure

    from attnflow.show.parts.animation import Movie
    from attnflow.theorems.verdict import Verdict


@dataclass(frozen=True)
class Figure:
    """How one published figure is made: `compute`, then `draw` and count what was computed."""

    id: str
    """What users type: kebab-case, unique in the catalogue."""
    source: str
    """Where it was published: "arXiv:2305.05465, Figure 3"."""
    title: str
    shows: str
    """Two sentences for readers."""
    deviates: str
    """How it differs from the published code or text, and why; empty if it does not."""
    compute: Callable[..., xr.Dataset]
    """compute(progress, **settings): everything that is drawn and counted, as labelled arrays; `progress` as in
    `simulate`, to be handed on."""
    draw: Callable[[xr.Dataset], matplotlib.figure.Figure]
    numbers: Callable[[xr.Dataset], dict[str, float | int | str]]
    """What is printed beside the picture, from the same arrays."""
    settings: dict[str, Any]
    """Full-size parameters, seed included, as JSON can hold them."""
    quick: dict[str, Any]
    """What `--quick` replaces: sizes of ensembles, not the physics, where possible."""
    seconds: tuple[float, float]
    """What to expect on two idle cores, compiling included: the full figure, and the quick one."""
    verdicts: Callable[[xr.Dataset], list[Verdict]] | None = None
    movie: Callable[[xr.Dataset], Movie] | None = None
    """Frames drawn by the functions that draw the picture."""
    needs: str = ""
    """The extra that must be installed; without it the figure is skipped, in a sentence."""

    @property
    def has_model(self) -> bool:
        """Whether it is made with a trained model."""
        return "model" in self.settings

    def on_model(self, name: str) -> Figure:
        """The same figure made with another trained model; figures without one stay as they are."""
        if not self.has_model:
            return self
        return replace(self, settings=self.settings | {"model": name}, needs="models")

    def settings_of(self, is_quick: bool) -> dict[str, Any]:
        """The parameters of the full or the quick figure."""
        return self.settings | self.quick if is_quick else dict(self.settings)
