"""`Table`: rows of text as a panel of a figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.axes import Axes

from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.style import letters_in, size_in_inches
from attnflow.show.parts.symbols import wrapped


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
    is_text: ClassVar[bool] = True
    """It takes the whole width of a line, also that beside the axes of other panels."""

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes: lines between rows, text aligned left, the header broken where it is wide."""
        inches, text_size = size_in_inches(axes)[0], 0.9 * current_page().text
        shares = [width / sum(self.widths) for width in self.widths]
        lefts = [sum(shares[:column]) for column in range(len(shares))]
        indent = max(0.04, 0.22 / inches) if self.colours else 0.0  # the line of a row is 0.2 inches or more
        room = [share - (indent if column == 0 else 0.0) for column, share in enumerate(shares)]
        # Bold text is about an eighth wider.
        pairs = zip(self.header, room, strict=True)
        header = [wrapped(name, letters_in(inches * share, 1.12 * text_size)) for name, share in pairs]
        lines = max(name.count("\n") + 1 for name in header)
        height, bottom = 1 / (len(self.rows) + lines), 1.0
        for row, texts in enumerate([header, *self.rows]):
            top, bottom = bottom, bottom - height * (lines if row == 0 else 1)
            middle = (top + bottom) / 2
            if row > 0 and self.colours:
                axes.plot([0.005, 0.85 * indent], [middle, middle], color=self.colours[row - 1], linewidth=2.4)
            style: dict[str, Any] = {"va": "center", "fontsize": text_size, "color": theme().ink}
            for left, text in zip(lefts, texts, strict=True):
                across = left + 0.005 + (indent if left == 0 else 0.0)
                axes.text(across, middle, text, weight="normal" if row else "bold", **style)
            line = theme().grey if row == 0 else theme().pale
            axes.plot([0, 1], [bottom, bottom], color=line, linewidth=1.0 if row == 0 else 0.7)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set_axis_off()
