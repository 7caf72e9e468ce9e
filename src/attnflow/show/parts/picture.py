"""`Picture`: panels with a title, a caption and a legend, as a description that is drawn elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol

from attnflow.show.parts.layout import PanelRow, Placing


class Heading(Enum):
    """Value of `title` where none is given."""

    COMPUTED = "the headline that is computed from what is drawn"

    def __repr__(self) -> str:
        return "HEADLINE"


HEADLINE: Final = Heading.COMPUTED
Title = str | None | Heading


class Panel(Protocol):
    """One place of a picture of several panels."""

    @property
    def projection(self) -> str:
        """Projection of its axes in matplotlib: "rectilinear" or "3d"."""
        ...

    def draw(self, axes: Any) -> None:
        """Draw the panel into empty axes."""
        ...


@dataclass(frozen=True)
class FunctionPanel:
    """Panel that a function draws."""

    draw: Callable[[Any], None]
    projection: str = "rectilinear"


@dataclass(frozen=True)
class Picture:
    """Rows of panels under a title, with a caption and a legend of the whole picture."""

    rows: Sequence[PanelRow]
    title: str
    caption: str = ""
    width: float = 9.0
    """Inches, at the natural size."""
    height: float | None = None
    """Inches, at the natural size; by default the heights of the rows and 0.75 for title and caption."""
    complete: Callable[[Sequence[Any]], None] | None = None
    """Completes the axes of all panels, such as by a common scale."""
    legend: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Entries of the legend of the whole picture, given the axes of all panels."""
    is_legend_beside: bool = False
    """Whether the legend stands on the right, at the natural size."""
    placing: Placing | None = None
    """Places of the panels where the page has room for them; None: in rows."""

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row.panels]

    @property
    def natural_height(self) -> float:
        """Inches, at the natural size."""
        return self.height or 0.75 + sum(row.height for row in self.rows)

    def titled(self, title: Title) -> "Picture":
        """The picture under the title given; None leaves title and caption out."""
        if isinstance(title, Heading):
            return self
        return replace(self, title="", caption="") if title is None else replace(self, title=title)
