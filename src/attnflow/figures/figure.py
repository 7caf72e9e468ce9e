"""`Figure`: one entry of the catalogue: parameters, labelled arrays computed from them, picture and numbers."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    from attnflow.show.parts.animation import Movie
    from attnflow.show.parts.picture import Picture
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
    """Two sentences on what the figure shows, true for all values of its parameters."""
    deviates: str
    """How it differs from the published figure, and why; empty if it does not."""
    compute: Callable[..., xr.Dataset]
    """compute(progress, **settings): all arrays that are drawn or counted; `progress` is that of `simulate`."""
    draw: Callable[[xr.Dataset], Picture]
    """Describes the picture; `figures.drawing.drawn` draws it."""
    numbers: Callable[[xr.Dataset], dict[str, float | int | str]]
    """Numbers printed beside the picture, from the same arrays."""
    settings: dict[str, Any]
    """Arguments of `compute` for the full figure, seed included, as JSON values."""
    quick: dict[str, Any]
    """Settings that `--quick` replaces: where possible sizes of ensembles, not the physics."""
    seconds: tuple[float, float]
    """Expected seconds on two idle cores, with compilation: of the full and of the quick figure."""
    verdicts: Callable[[xr.Dataset], list[Verdict]] | None = None
    movie: Callable[[xr.Dataset], Movie] | None = None
    """Movie from the same arrays."""
    runs: Callable[[xr.Dataset], dict[str, xr.Dataset]] | None = None
    """Runs among the arrays, by what tells them apart; None where the arrays are themselves one run, or hold none."""
    needs: str = ""
    """Extra that must be installed; without it the figure is skipped with a message."""
    fixed: tuple[str, ...] = ()
    """Settings that make the figure what its title says, such as d = 2; they are no parameters."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Parameters that a user has changed, with their values."""

    @property
    def function_name(self) -> str:
        """Name of the figure's function in `attnflow.figures`."""
        return self.id.replace("-", "_")

    @property
    def has_model(self) -> bool:
        """Whether the figure is made with a trained model."""
        return "model" in self.settings

    def on_model(self, name: str) -> Figure:
        """The same figure with another trained model; a figure without a model is returned as it is."""
        return self.with_changes({"model": name}) if self.has_model else self

    def with_changes(self, changes: dict[str, Any]) -> Figure:
        """The figure with other values of some parameters, full or quick; values as in the catalogue change nothing."""
        changed = {name: value for name, value in changes.items() if value != self.settings[name]}
        quick = {name: value for name, value in self.quick.items() if name not in changes}
        needs = "models" if "model" in changes else self.needs  # the extra of the catalogue's model is another one
        settings, changed = self.settings | changes, self.changes | changed
        return replace(self, settings=settings, quick=quick, changes=changed, needs=needs)

    def settings_of(self, is_quick: bool) -> dict[str, Any]:
        """The settings of the full or the quick figure."""
        return self.settings | self.quick if is_quick else dict(self.settings)

    def parameters_of(self, is_quick: bool) -> dict[str, Any]:
        """The settings that a user can change, of the full or the quick figure."""
        return {name: value for name, value in self.settings_of(is_quick).items() if name not in self.fixed}

    def stem(self, is_quick: bool) -> str:
        """Name of the files of the figure, without suffix; changed parameters and quick figures have other names."""
        named = sorted(name for name in self.changes if name != "model")
        parts = [self.id, *(f"{name}-{_short(self.changes[name])}" for name in named)]
        return "-".join([*parts, "quick"] if is_quick else parts)

    def command(self, is_quick: bool) -> str:
        """The command that makes the figure with its parameters."""
        words = ["attnflow", "reproduce", self.id, *(["--quick"] if is_quick else [])]
        for name, value in sorted(self.changes.items()):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            words += ["--model", text] if name == "model" else ["--set", f"{name}={text}"]
        return shlex.join(words)


def _short(value: Any) -> str:
    """A value in a file name: its letters and digits, or a digest where they are many.

    Examples
    --------
    >>> _short(80), _short(0.5), _short([1, 2, 4]), len(_short(list(range(40))))
    ('80', '0.5', '1-2-4', 8)
    """
    text = json.dumps(value)
    plain = "-".join(re.findall(r"[\w.+]+|-(?=\d)", text))
    return plain if len(plain) <= 20 else hashlib.sha256(text.encode()).hexdigest()[:8]
