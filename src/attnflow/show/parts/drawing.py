"""`draws`: the decorator of all public functions of `show`, which draws the picture that a function describes.

Here `ax`, `size`, `style`, `palette`, `path` and `title` get their one meaning for all pictures.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypedDict

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from attnflow._common.checks import InputError
from attnflow._common.files import require_free_picture
from attnflow.show.parts.composition import compose
from attnflow.show.parts.page import Page, drawing_on, page_of
from attnflow.show.parts.picture import HEADLINE, Heading, Picture, Title
from attnflow.show.parts.style import legend_below, save_figure

Parameters = ParamSpec("Parameters")


class PageOptions(TypedDict, total=False):
    """Arguments of every function that draws a picture."""

    ax: Any
    size: str | tuple[float, float] | None
    style: str | None
    palette: str | Sequence[Any] | None


OPTIONS_TEXT = """    ax
        Axes of yours to draw into, as many as the picture has panels; they are returned. The text has the size of
        your settings of matplotlib.
    size
        ``"column"`` (3.4 inches wide), ``"page"`` (7), ``"slide"`` (13.33 by 7.5), or (width, height) in inches.
    style
        ``"paper"``, ``"slides"`` or ``"dark"``; by default that of the size.
    palette
        A colormap of matplotlib by its name, or a list of colours.
"""


def draws(function: Callable[Parameters, Picture]) -> Callable[Parameters, Any]:
    """Decorator of a function that describes a picture: draws it by the arguments of `PageOptions`, and writes it.

    The arguments `path` and `title` are those of the function, which returns the picture under its headline.
    """
    signature = inspect.signature(function)
    kept = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    own = signature.replace(parameters=kept)  # in which an unknown argument is refused

    @wraps(function)
    def draw(*positional: Any, **named: Any) -> Any:
        options = {name: named.pop(name, None) for name in PageOptions.__annotations__}
        given = own.bind(*positional, **named).arguments
        path, title = given.get("path"), _require_title(given.get("title", HEADLINE))
        if path is not None:
            _require_name(path)
            require_free_picture(path)
        ax = options.pop("ax")
        with drawing_on(_page(ax, **options)):
            described = function(*positional, **named).titled(title)
            if ax is not None:
                return _drawn_into(ax, described, title, path)
            figure = compose(described)
            if path is not None:
                save_figure(figure, path)
            return figure

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in PageOptions.__annotations__
    ]
    setattr(draw, "__signature__", signature.replace(parameters=[*kept, *added], return_annotation=Any))  # noqa: B010
    draw.__doc__ = _with_options(function.__doc__ or "")
    return draw


def _require_name(path: Any) -> None:
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"`path` must be the name of a picture, but it is a value of type {type(path).__name__}. Pass other "
            "arguments by name."
        )


def _require_title(title: Any) -> Title:
    if title is None or isinstance(title, str | Heading):
        return title
    raise InputError(f"`title` must be a text, or None for no title and no caption, but it is {title!r}.")


def _page(ax: Any, size: Any, style: Any, palette: Any) -> Page:
    """The page of the arguments; into axes of a user, text is written in the size of the user's settings."""
    if ax is None or style is not None:
        page = page_of(size, style, palette)
    else:
        page = replace(page_of(None, None, palette), text=float(mpl.rcParams["font.size"]))
    if ax is not None and size is not None:
        raise InputError("`size` has no effect on `ax`, whose figure has its size. Leave one of them out.")
    return page


def _drawn_into(ax: Any, picture: Picture, title: Title, path: Any) -> Any:
    """Draw the panels of a picture into the axes of a user, write their figure if a path is given, return the axes."""
    axes = _require_axes(ax, picture)
    for one, panel in zip(axes, picture.panels, strict=True):
        panel.draw(one)
    if picture.complete is not None:
        picture.complete(axes)
    handles = list(picture.legend(axes)) if picture.legend is not None else []
    if handles:
        legend_below(axes[-1], 3, handles)
    if isinstance(title, str):
        axes[0].set_title(title, loc="left")
    if path is not None:
        save_figure(axes[0].get_figure(root=True), path)
    return ax


def _require_axes(ax: Any, picture: Picture) -> list[Any]:
    """The axes of a user as a list, one for each panel, flat or in space as each panel needs."""
    axes = list(np.asarray(ax, dtype=object).ravel())
    wrong = [one for one in axes if not isinstance(one, Axes)]
    if wrong:
        raise InputError(f"`ax` must be axes of matplotlib, but it holds an object of type {type(wrong[0]).__name__}.")
    count = len(picture.panels)
    if len(axes) != count:
        needed = "one axes" if count == 1 else f"{count} axes, one for each panel,"
        raise InputError(f"`ax` must be {needed} for this picture, but it holds {len(axes)}.")
    for place, (one, panel) in enumerate(zip(axes, picture.panels, strict=True)):
        if (one.name == "3d") != (panel.projection == "3d"):
            needed = "'3d'" if panel.projection == "3d" else "None"
            raise InputError(
                f"`ax` must have axes made with projection={needed} for panel {place + 1} of {count}, "
                f"but these have the projection '{one.name}'."
            )
    return axes


def _with_options(text: str) -> str:
    """A docstring with the arguments of `PageOptions` after its own."""
    for heading in ("\n    Returns\n", "\n    Raises\n", "\n    Examples\n"):
        before, found, after = text.partition(heading)
        if found:
            return f"{before}{OPTIONS_TEXT}{found}{after}"
    return f"{text.rstrip()}\n{OPTIONS_TEXT}    "
