"""Rows of panels on a narrow page: full lines, and no higher than a page of a journal."""

import pytest

from attnflow.show.parts.layout import PAPER_HEIGHT, Extent, PanelRow, arranged
from attnflow.show.parts.page import page_of
from attnflow.show.parts.picture import FunctionPanel


def panels(count, projection="rectilinear"):
    return [FunctionPanel(lambda axes: None, projection) for _ in range(count)]


def lines_in_a_column(*rows):
    natural = Extent(9.0, sum(row.height for row in rows), 1.0)
    found = arranged(rows, natural, page_of("column", None, None))
    return [len(line.panels) for line in found.lines], found.height


@pytest.mark.parametrize("projection", ["rectilinear", "3d"])
def test_two_rows_of_three_panels_fill_three_lines_of_two(projection):
    rows = [PanelRow(panels(3, projection), 3.1), PanelRow(panels(3, projection), 3.1)]
    lines, height = lines_in_a_column(*rows)
    assert lines == [2, 2, 2]
    assert height < PAPER_HEIGHT


def test_rows_that_differ_are_broken_apart():
    lines, _ = lines_in_a_column(PanelRow(panels(3), 3.1, 1.5), PanelRow(panels(3), 2.6, 1.5))
    assert lines == [2, 1, 2, 1]
    lines, _ = lines_in_a_column(PanelRow(panels(3), 3.1, 1.5), PanelRow(panels(3, "3d"), 3.1, 1.5))
    assert lines == [2, 1, 2, 1]


def test_rows_that_fit_stay():
    lines, _ = lines_in_a_column(PanelRow(panels(1), 2.0), PanelRow(panels(1), 2.0))
    assert lines == [1, 1]


def test_the_natural_size_keeps_all_rows():
    rows = [PanelRow(panels(3), 3.1), PanelRow(panels(3), 3.1)]
    found = arranged(rows, Extent(9.0, 6.2, 1.0), page_of(None, None, None))
    assert [len(line.panels) for line in found.lines] == [3, 3]
