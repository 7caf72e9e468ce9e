"""`Figure`: one entry of the catalogue: parameters, labelled arrays computed from them, picture and numbers."""

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
    """How one published figure is made: `compute`, then `draw` and `numbers` from the arrays computed."""

    id: str
    """Name in commands: lower case with hyphens, unique in the catalogue."""
    source: str
    """Publication, such as "arXiv:2305.05465, Figure 3"."""
    title: str
    shows: str
    """Two sentences on what the figure shows."""
    deviates: str
    """How it differs from the published figure, and why; empty if it does not."""
    compute: Callable[..., xr.Dataset]
    """compute(progress, **settings): all arrays that are drawn or counted; `progress` is that of `simulate`."""
    draw: Callable[[xr.Dataset], matplotlib.figure.Figure]
    numbers: Callable[[xr.Dataset], dict[str, float | int | str]]
    """Numbers printed beside the picture, from the same arrays."""
    settings: dict[str, Any]
    """Parameters of the full figure, seed included, as JSON values."""
    quick: dict[str, Any]
    """Parameters that `--quick` replaces: where possible sizes of ensembles, not the physics."""
    seconds: tuple[float, float]
    """Expected seconds on two idle cores, with compilation: of the full and of the quick figure."""
    verdicts: Callable[[xr.Dataset], list[Verdict]] | None = None
    movie: Callable[[xr.Dataset], Movie] | None = None
    """Movie from the same arrays."""
    needs: str = ""
    """Extra that must be installed; without it the figure is skipped with a message."""

    @property
    def has_model(self) -> bool:
        """Whether the figure is made with a trained model."""
        return "model" in self.settings

    def on_model(self, name: str) -> Figure:
        """The same figure with another trained model; a figure without a model is returned as it is."""
        if not self.has_model:
            return self
        return replace(self, settings=self.settings | {"model": name}, needs="models")

    def settings_of(self, is_quick: bool) -> dict[str, Any]:
        """The parameters of the full or the quick figure."""
        return self.settings | self.quick if is_quick else dict(self.settings)
