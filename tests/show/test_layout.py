"""Rows of panels on a narrow page: full lines, and no higher than a page of a journal."""

from dataclasses import replace

import numpy as np
import pytest

from attnflow.show.parts.composition import compose
from attnflow.show.parts.heatmaps import HeatMap
from attnflow.show.parts.interval_dots import IntervalDots
from attnflow.show.parts.layout import PAPER_HEIGHT, Extent, PanelRow, arranged
from attnflow.show.parts.page import drawing_on, page_of
from attnflow.show.parts.panels import Line, Lines, panel_picture
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


def drawn_on(size, *rows, width=9.0):
    with drawing_on(page_of(size, None, None)):
        figure = compose(panel_picture(rows, "title", "caption", width=width / max(len(row) for row in rows)))
        figure.draw_without_rendering()
    return figure


def lines(**options):
    return Lines([Line([0, 1], [0, 1], "one"), Line([0, 1], [1, 0], "two")], **options)


def boxes(figure):
    panels = [axes for axes in figure.axes if axes.axison and axes.get_subplotspec() is not None]
    return np.array([axes.get_position().bounds for axes in panels])


def test_panels_below_each_other_are_as_wide_also_beside_a_colour_bar():
    heat = HeatMap(np.arange(3.0), np.arange(3.0), np.eye(3), ylabel="y")
    for rows in ([heat, replace(heat, bar="share")],), ([heat], [replace(heat, bar="share")]):
        found = boxes(drawn_on("column", *rows))[:2]
        np.testing.assert_allclose(found[0, [0, 2]], found[1, [0, 2]], atol=1e-6)
        np.testing.assert_allclose(found[0, 3], found[1, 3], rtol=0.02)


def test_a_legend_under_one_panel_leaves_all_panels_equal():
    plain = Lines([Line([0, 1], [0, 1])])
    for size in ("page", "slide"):
        found = boxes(drawn_on(size, [plain, plain], [plain, lines()]))
        np.testing.assert_allclose(found[:, 2:], np.tile(found[0, 2:], (4, 1)), rtol=1e-6)


def test_panels_of_a_page_are_not_flat():
    figure = drawn_on("page", [lines(title=name) for name in "abc"])
    width, height = figure.get_size_inches()
    for box in boxes(figure):
        assert box[3] * height > 0.55 * box[2] * width


def test_the_name_of_an_axis_stands_at_the_first_of_neighbours_that_share_it():
    panels = [lines(ylabel="rank"), lines(ylabel="rank"), lines(ylabel="rate")]
    assert [axes.get_ylabel() for axes in drawn_on("slide", panels).axes[:3]] == ["rank", "", "rate"]
    assert [axes.get_ylabel() for axes in drawn_on("column", panels).axes[:3]] == ["rank", "rank", "rate"]


def test_equal_legends_are_one_and_others_stay():
    having = lambda figure: [axes for axes in figure.axes if axes.get_legend() is not None]
    assert len(having(drawn_on("slide", [lines(), lines()]))) == 1
    assert not having(drawn_on("slide", [lines(), lines()]))[0].axison
    assert len(having(drawn_on("slide", [lines(), Lines([Line([0, 1], [0, 1], "other")])]))) == 2


def test_entries_of_a_legend_are_not_wider_than_a_narrow_panel():
    long = Lines([Line([0, 1], [0, 1], "the weight of the last token on itself, by time")])
    figure = drawn_on("column", [long, Lines([])], [Lines([]), Lines([])], width=5.0)
    found = boxes(figure)
    assert found[:, 2].min() > 0.3  # of the column, for two panels side by side
    (text,) = figure.axes[0].get_legend().get_texts()
    assert "\n" in text.get_text()


def test_numbers_of_logarithmic_axes_have_room():
    for high, count in ((20.0, 2), (3.5, 3), (900.0, 3)):
        figure = drawn_on("column", [Lines([Line([1, 2], [1.0, high])], yscale="log", ylim=(0.9, high))])
        texts = [one for one in figure.axes[0].get_yticklabels(which="both") if one.get_text()]
        inside = [one for one in texts if 0.9 <= one.get_position()[1] <= high]
        assert len(inside) <= count + 1, high


def test_categories_stand_at_the_first_of_neighbours_that_share_them():
    panel = IntervalDots(["BERT", "GPT-2"], {"trained": ([1.0, 2.0], [0.5, 1.5], [1.5, 2.5])})
    for size, count in (("slide", 1), ("column", 2)):
        figure = drawn_on(size, [panel, panel])
        shown = [axes.yaxis.get_tick_params()["labelleft"] for axes in figure.axes[:2]]
        assert sum(shown) == count
