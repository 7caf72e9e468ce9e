"""Drawing the picture that an entry of the catalogue describes, on a page of a size and style."""

import inspect
import json
from collections.abc import Callable
from typing import Any

import matplotlib.figure
import xarray as xr

from attnflow.figures.figure import Figure
from attnflow.show.parts.composition import compose
from attnflow.show.parts.page import drawing_on, page_of
from attnflow.show.parts.picture import HEADLINE, Picture, Title


def drawn(
    figure: Figure, data: xr.Dataset, *, size: Any = None, style: str | None = None, title: Title = HEADLINE
) -> matplotlib.figure.Figure:
    """Draw a figure from its data; the arguments are those of the functions of `show`."""
    with drawing_on(page_of(tuple(size) if isinstance(size, list) else size, style, None)):
        return compose(figure.draw(data).titled(title))


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
    >>> command_options({"size": [5.0, 4.0], "style": "paper", "title": None})
    ' --size 5x4 --style paper --no-title'
    """
    size = drawing.get("size", "")
    size = size if isinstance(size, str) else "x".join(f"{side:g}" for side in size)
    named = [f"--size {size}" if size else "", f"--style {drawing['style']}" if "style" in drawing else ""]
    return "".join(f" {option}" for option in (*named, "--no-title" if "title" in drawing else "") if option)
