"""Drawing a picture on the current page: places of panels, legend, title and caption."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from attnflow.show.parts.layout import Extent, GridPlaces, PanelRow, arranged, grid_places
from attnflow.show.parts.legends import common_handles, legend_height, legend_in, outer_legend
from attnflow.show.parts.mark_sizes import scale_marks
from attnflow.show.parts.page import HOUSE_TEXT, Page, current_page, drawing_on
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import CAPTION_LETTER, letters_in, new_figure, size_in_inches, write_heading
from attnflow.show.parts.symbols import wrapped

LEAST_ASPECT, LEAST_HEIGHT = 0.7, 2.5  # of a panel over its width; in inches, with text of 10 points, if it is wide
BETWEEN = 0.25  # inches, with text of 10 points, that the layout engine leaves between lines of panels
WORD_ROW = 0.92  # height of a row of words beside a panel over the size of text: words have 0.8 of it
LEAST_SHARE = 0.6  # of its natural width, with text of 10 points, at which a picture keeps its own places


def compose(picture: Picture) -> Figure:
    """Draw a picture on the current page, as a figure that belongs to no window."""
    with drawing_on(_with_fitting_text(current_page(), picture)) as page:
        return _composed(picture, page)


def _with_fitting_text(page: Page, picture: Picture) -> Page:
    """The page with smaller text where a picture of many panels leaves no room for that of the page.

    At the text `fitting` the page would be the natural picture, enlarged; a fifth more still has room.
    """
    if page.width is None or page.height is None:
        return page
    fitting = HOUSE_TEXT * min(page.width / picture.width, page.height / picture.natural_height)
    least = max(0.5 * page.text, 6.0)  # points: smaller text is not legible in print
    return replace(page, text=float(np.clip(1.2 * fitting, min(least, page.text), page.text)))


def _composed(picture: Picture, page: Page) -> Figure:
    is_placed = picture.placing is not None and _has_room(picture, page)
    figure, axes, strip = (_placed if is_placed else _in_rows)(picture, page)
    if picture.complete is not None:
        picture.complete(axes)
    handles = list(picture.legend(axes)) if picture.legend is not None else []
    room: dict[str, float] = {}
    if handles:
        room = outer_legend(figure, handles, picture) if strip is None else legend_in(strip, handles, figure)
    _fit_titles(axes, page)
    if page.width is not None:
        share = float(np.clip(page.width / page.scale / picture.width, 0.5, 1.0)) if len(axes) > 1 else 1.0
        scale_marks(axes, page.scale, share)
    if picture.title or picture.caption:
        write_heading(figure, picture.title, picture.caption, **room)
    if page.width is not None and page.height is None:
        _make_room_for_words(figure, axes, picture.panels)
    return figure


def _make_room_for_words(figure: Figure, axes: Sequence[Axes], panels: Sequence[Any]) -> None:
    """Make a line of panels higher in which words beside a panel would touch, once the layout has placed everything.

    Lines with common columns share what the margins leave, by their ratios; what that is only the layout tells.
    """
    beside = [(one, getattr(panel, "words_beside", 0)) for one, panel in zip(axes, panels, strict=True)]
    words = [(one, count) for one, count in beside if count and _lines_of(one).nrows > 1]
    if not words:
        return
    figure.draw_without_rendering()
    one, needed = max(((one, _height_of_words(one, count)) for one, count in words), key=lambda found: found[1])
    present = size_in_inches(one)[1]
    if present < needed:
        spec: Any = one.get_subplotspec()
        lines, place = _lines_of(one), spec.rowspan.start
        heights = list(lines.get_height_ratios())
        heights[place] *= needed / present
        lines.set_height_ratios(heights)
        figure.set_figheight(figure.get_figheight() + needed - present)


def _lines_of(axes: Axes) -> Any:
    place: Any = axes.get_subplotspec()
    return place.get_gridspec()


def _height_of_words(axes: Axes, count: int) -> float:
    """Inches that words along the vertical axis need so that ascenders and descenders do not touch."""
    return count * 1.2 * float(axes.get_yticklabels()[0].get_fontsize()) / 72


def _has_room(picture: Picture, page: Page) -> bool:
    return page.width is None or page.width / page.scale >= LEAST_SHARE * picture.width


def _placed(picture: Picture, page: Page) -> tuple[Figure, list[Any], Any]:
    """Figure with the panels in the picture's own places."""
    width, height = picture.width, picture.natural_height
    strip = _strip_height(picture, page)
    if page.width is not None:
        share = page.width / page.scale / picture.width
        height = page.height or page.scale * height * min(max(share, 0.7), 1.0) + strip
        width = page.width
    figure = new_figure(width, height)
    outer = figure.add_gridspec(2 if strip else 1, 1, height_ratios=[height - strip, strip] if strip else None)
    assert picture.placing is not None
    places = picture.placing(outer[0])
    return figure, _draw_panels(figure, picture.panels, places), figure.add_subplot(outer[1]) if strip else None


def _in_rows(picture: Picture, page: Page) -> tuple[Figure, list[Any], Any]:
    """Figure with the panels in rows, broken to the width of the page."""
    strip = _strip_height(picture, page)
    around = picture.natural_height - sum(row.height for row in picture.rows)
    around = around if page.width is None else strip + _heading_height(picture, page)
    natural = Extent(picture.width, sum(row.height for row in picture.rows), around)
    arrangement = arranged(picture.rows, natural, page)
    figure = new_figure(arrangement.width, arrangement.height)
    places = grid_places(figure, arrangement, strip)
    axes = _draw_panels(figure, picture.panels, places.panels)
    common = [] if strip else common_handles(axes, is_kept=page.width is None)
    if page.width is not None:
        _make_room(figure, axes, arrangement.lines, places, page)
    first = 0
    for line, is_last in _with_last(arrangement.lines):
        in_line = axes[first : first + len(line.panels)]
        if line.is_shared:
            # Square panels keep all numbers, so that all lines have the same size.
            _hide_inner_labels(in_line, not is_last and not line.is_square)
        _hide_repeated_names(in_line)
        first += len(line.panels)
    if common:
        legend_in(figure.add_subplot(places.legend), common, figure)
    return figure, axes, figure.add_subplot(places.legend) if strip else None


def _draw_panels(figure: Figure, panels: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    axes = []
    for panel, place in zip(panels, places, strict=True):
        axes.append(figure.add_subplot(place, projection=panel.projection))
        panel.draw(axes[-1])
    return axes


def _make_room(figure: Figure, axes: Sequence[Axes], lines: Sequence[PanelRow], places: GridPlaces, page: Page) -> None:
    """Make room for what stands around and under panels: the figure is higher, unless its height is fixed."""
    added, for_words, first = [], [], 0
    for line in lines:
        in_line = axes[first : first + len(line.panels)]
        words = max(getattr(panel, "words_beside", 0) for panel in line.panels)
        plain, needed = (
            max(_needed_height(one, count, page) for one in in_line) if line.is_high else 0.0 for count in (0, words)
        )
        for_words.append(max(needed - max(plain, line.height), 0.0))
        legends = max(legend_height(one) for one in in_line)
        # One line of text has room as it is.
        added.append(max(legends - page.text * 1.3 / 72, needed - line.height, 0.0))
        first += len(line.panels)
    further = for_words if places.has_common_columns else added
    heights = places.lines.get_height_ratios()
    places.lines.set_height_ratios([height + more for height, more in zip(heights, further, strict=True)])
    if page.height is None:
        figure.set_figheight(figure.get_figheight() + sum(added))
    panels, strip = places.outer.get_height_ratios()
    places.outer.set_height_ratios([panels + sum(added), strip])


def _needed_height(axes: Axes, words_beside: int, page: Page) -> float:
    """Height in inches of a panel that is not flat, with heading, labels of its axis, legend, and words beside."""
    if page.width is None or page.height is not None or axes.name != "rectilinear" or not axes.axison:
        return 0.0
    figure: Any = axes.get_figure(root=True)
    place: Any = axes.get_subplotspec()
    inside = axes.get_window_extent()
    outside = axes.get_tightbbox() or inside
    beside, above = (outside.width - inside.width) / figure.dpi, (outside.height - inside.height) / figure.dpi
    width = page.width * len(place.colspan) / place.get_gridspec().ncols - beside
    is_equal = axes.get_aspect() != "auto" and axes.get_adjustable() == "box"
    wanted = 0.95 * width if is_equal else min(LEAST_ASPECT * width, LEAST_HEIGHT * page.scale)
    return above + BETWEEN * page.scale + max(wanted, words_beside * WORD_ROW * page.text / 72)


def _with_last(lines: Sequence[PanelRow]) -> list[tuple[PanelRow, bool]]:
    """Lines, and whether each is the last of panels with the same axes."""
    following = [*lines[1:], None]
    return [(line, after is None or not after.is_shared) for line, after in zip(lines, following, strict=True)]


def _hide_inner_labels(axes: Sequence[Axes], has_others_below: bool) -> None:
    """Leave labels of common axes to the panel on the left and to the last line."""
    for place, one in enumerate(axes):
        if place > 0:
            one.set_ylabel("")
            one.tick_params(labelleft=False)
        if has_others_below:
            one.set_xlabel("")
            one.tick_params(labelbottom=False)


def _hide_repeated_names(axes: Sequence[Axes]) -> None:
    """Leave the name of the vertical axis, and categories along it, to the first of neighbours that have the same."""
    flat = [one for one in axes if one.name == "rectilinear"]
    names, categories = [one.get_ylabel() for one in flat], [_categories(one) for one in flat]
    for place in range(1, len(flat)):
        if names[place] == names[place - 1]:
            flat[place].set_ylabel("")
        if categories[place] and categories[place] == categories[place - 1]:
            flat[place].tick_params(labelleft=False)


def _categories(axes: Axes) -> list[str]:
    """The words at the ticks of the vertical axis; none where they are numbers."""
    if not isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        return []
    texts = [one.get_text() for one in axes.get_yticklabels()]
    return texts if any(text.isalpha() for text in "".join(texts)) else []


def _heading_height(picture: Picture, page: Page) -> float:
    """Inches for title and caption on a page of known width."""
    assert page.width is not None
    title = wrapped(picture.title, letters_in(page.width, 1.28 * page.text)).count("\n") + 1 if picture.title else 0
    caption = wrapped(picture.caption, letters_in(page.width, CAPTION_LETTER * page.text))
    note = caption.count("\n") + 1 if caption else 0
    return (1.1 * title + 0.9 * note) * page.text * 1.3 / 72 + 0.1


def _strip_height(picture: Picture, page: Page) -> float:
    """Inches for a legend under all panels; at the natural size it stands beside the caption."""
    return 0.0 if page.width is None or picture.legend is None else 3 * page.text * 1.4 / 72


def _fit_titles(axes: Sequence[Axes], page: Page) -> None:
    """Break the headings of panels where they are wider than their panels.

    At the natural size a centred heading may be as wide as the place of its panel, of which a panel with equal axes
    fills a part.
    """
    for one in axes:
        figure: Any = one.get_figure(root=True)
        drawn, place = size_in_inches(one)[0], one.get_position(original=True).width * figure.get_figwidth()
        for side in ("left", "center"):
            inches = place if side == "center" and page.width is None else drawn
            heading = one.get_title(loc=side)
            if heading:
                one.set_title(wrapped(heading, letters_in(1.08 * inches, page.text)), loc=side)
