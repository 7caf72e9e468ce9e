"""Options of pictures, shared by all commands that draw one: --size, --style, --palette, --no-title."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from attnflow.cli import completion

PICTURE_OPTIONS = {
    "size": Annotated[
        str | None,
        typer.Option(
            help="Size of the picture: column (3.4 inches wide), page (7), slide, or WIDTHxHEIGHT in inches.",
            autocompletion=completion.one_of("column", "page", "slide"),
        ),
    ],
    "style": Annotated[
        str | None,
        typer.Option(
            help="Style of the picture: paper, slides or dark.",
            autocompletion=completion.one_of("paper", "slides", "dark"),
        ),
    ],
    "palette": Annotated[
        str | None,
        typer.Option(
            help="Colours: a colormap of matplotlib, such as viridis, or colours such as red,#0072b2.",
            autocompletion=completion.one_of(*completion.PALETTES),
        ),
    ],
    "no_title": Annotated[bool, typer.Option("--no-title", help="Write no title and no caption in the picture.")],
}


def with_picture_options(command: Callable) -> Callable:
    """A command that takes `PICTURE_OPTIONS` besides its own and gets them as the dict `drawing`, for `show`."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "drawing"]
    optional = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, optional, default=False if name == "no_title" else None, annotation=kind)
        for name, kind in PICTURE_OPTIONS.items()
    ]

    @functools.wraps(command)
    def taking_options(**given: Any) -> Any:
        chosen = {name: given.pop(name) for name in PICTURE_OPTIONS}
        return command(drawing=drawing_of(**chosen), **given)

    first, rest = own[0], [one.replace(kind=optional) for one in own[1:]]
    wrapped: Any = taking_options
    wrapped.__signature__ = inspect.Signature([first, *rest, *added])
    wrapped.__annotations__ = {one.name: one.annotation for one in (*own, *added)}
    return wrapped


def drawing_of(size: str | None, style: str | None, palette: str | None, no_title: bool) -> dict[str, Any]:
    """The options as arguments of `show`, checked before anything is computed.

    Examples
    --------
    >>> drawing_of("5x4", "paper", "red,#0072b2", True)
    {'size': '5x4', 'style': 'paper', 'palette': ['red', '#0072b2'], 'title': None}
    """
    colours: Any = palette.split(",") if palette is not None and "," in palette else palette
    if any(option is not None for option in (size, style, palette)):
        from attnflow.show.parts.page import page_of

        page_of(size, style, colours)
    return {"size": size, "style": style, "palette": colours} | ({"title": None} if no_title else {})


def require_picture(drawing: dict[str, Any], *, has_picture: bool, asked_by: str = "--no-picture") -> None:
    """Require that options of the picture are given only where one is drawn."""
    from attnflow._common.checks import InputError

    is_given = "title" in drawing or any(drawing[name] is not None for name in ("size", "style", "palette"))
    if not is_given or has_picture:
        return
    if asked_by == "--no-picture":
        raise InputError(
            "--size, --style, --palette and --no-title have no effect with --no-picture. Leave one of them out."
        )
    raise InputError(
        f"--size, --style, --palette and --no-title are of the picture, but none is asked for. Add {asked_by}."
    )
