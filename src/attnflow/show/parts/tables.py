"""`Table`: rows of text as a panel of a figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from attnflow.show.parts.page import current_page, theme


@dataclass(frozen=True)
class Table:
    """Panel of rows of text under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    widths: Sequence[float]
    """Relative width of each column."""
    colours: Sequence[str] = ()
    """Colour of the line of each row in other panels, drawn before its text; the table is then their legend."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes: lines between rows, text aligned left."""
        total, height = sum(self.widths), 1 / (len(self.rows) + 1)
        lefts = [sum(self.widths[:column]) / total for column in range(len(self.widths))]
        text_size = 0.9 * current_page().text
        for row, texts in enumerate([self.header, *self.rows]):
            weight, colour = ("bold", theme().ink) if row == 0 else ("normal", theme().ink)
            middle = 1 - (row + 0.5) * height
            indent = 0.04 if self.colours else 0.0
            if row > 0 and self.colours:
                axes.plot([0.005, 0.035], [middle, middle], color=self.colours[row - 1], linewidth=2.4)
            for left, text in zip(lefts, texts, strict=True):
                across = left + 0.005 + (indent if left == 0 else 0.0)
                axes.text(across, middle, text, va="center", fontsize=text_size, weight=weight, color=colour)
            line = theme().grey if row == 0 else theme().pale
            axes.plot([0, 1], [1 - (row + 1) * height] * 2, color=line, linewidth=1.0 if row == 0 else 0.7)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set_axis_off()
