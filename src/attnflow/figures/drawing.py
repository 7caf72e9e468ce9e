"""Drawing the picture that an entry of the catalogue describes, on a page of a size and style."""

import inspect
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib.figure
import xarray as xr

from attnflow.figures.figure import Figure
from attnflow.show.parts.composition import compose
from attnflow.show.parts.page import drawing_on, page_of
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import typeset_labels
from attnflow.show.parts.symbols import typeset


def drawn(
    figure: Figure,
    data: xr.Dataset,
    *,
    size: Any = None,
    style: str | None = None,
    palette: Any = None,
    title: Title = HEADLINE,
) -> matplotlib.figure.Figure:
    """Draw a figure from its data; the arguments are those of the functions of `show`."""
    with drawing_on(page_of(tuple(size) if isinstance(size, list) else size, style, palette)):
        described = figure.draw(data)
        headed = replace(described, title=typeset(described.title), caption=typeset(described.caption))
        picture = compose(headed.titled(title))
        for axes in picture.axes:
            typeset_labels(axes)
        return picture


def described(function: Callable[..., Any], *arguments: Any, title: Title = HEADLINE, **options: Any) -> Picture:
    """The picture that a function of `show` would draw, as a description."""
    return inspect.unwrap(function)(*arguments, **options).titled(title)


def drawing_options(drawing: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `drawn` that differ from the defaults, as JSON values.

    Examples
    --------
    >>> drawing_options({"size": ("5", "4"), "style": None, "title": None})
    {'size': [5.0, 4.0], 'title': None}
    """
    chosen = {name: value for name, value in drawing.items() if name == "title" or value is not None}
    if not isinstance(chosen.get("size", ""), str):
        chosen["size"] = [float(side) for side in chosen["size"]]
    return json.loads(json.dumps(chosen))


def command_options(drawing: dict[str, Any]) -> str:
    """The options of a command for arguments of `drawn`.

    Examples
    --------
    >>> command_options({"size": [5.0, 4.0], "style": "paper", "palette": ["red", "#0072b2"], "title": None})
    " --size 5x4 --style paper --palette 'red,#0072b2' --no-title"
    """
    separators = {"size": "x", "style": "", "palette": ","}
    texts = {name: _joined(drawing[name], separators[name]) for name in separators if name in drawing}
    named = [f" --{name} {shlex.quote(text)}" for name, text in texts.items()]
    return "".join(named) + (" --no-title" if "title" in drawing else "")


def _joined(value: Any, separator: str) -> str:
    """A text, or the entries of a list, as an option of a command."""
    return (
        value
        if isinstance(value, str)
        else separator.join(f"{entry:g}" if isinstance(entry, float) else entry for entry in value)
    )
