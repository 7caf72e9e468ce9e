"""Parts that all commands share: the options `--json` and `--overwrite`, output files, and printed tables."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables; show no progress bar.")]
Overwrite = Annotated[bool, typer.Option(help="Replace existing files.")]
ResultPath = Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc.")]
PicturePath = Annotated[Path | None, typer.Option(help="Picture, .png, .pdf or .svg.")]


KINDS_OF_FILES = {
    "csv": ("A table", (".csv",)),
    "movie": ("A movie", (".gif", ".mp4")),
    "settings_file": ("A file of settings", (".toml",)),
}


def progress_of(as_json: bool) -> bool | None:
    """The argument `progress` of a command: none with `--json`, else a bar where there is a terminal."""
    return False if as_json else None


def picture_beside(out: Path, picture: Path | None, no_picture: bool) -> Path | None:
    """The path of the picture: as given, else beside the result; None if none is wanted."""
    from attnflow._common.checks import InputError
    from attnflow._common.files import with_suffix

    if no_picture and picture is not None:
        raise InputError("`--picture` names a picture, but `--no-picture` wants none. Leave one of them out.")
    return None if no_picture else picture or with_suffix(out, ".png")


def free_files(paths: dict[str, Path | None], overwrite: bool) -> dict[str, Path]:
    """The paths that are given, each checked before anything is computed.

    The name says what is written there: "result", a name that ends with "picture", or one of `KINDS_OF_FILES`.
    """
    from attnflow._common.files import PICTURES, RESULTS, require_free, require_suffix

    given = {name: path for name, path in paths.items() if path is not None}
    for name, path in given.items():  # of all files, before the first is said to be there already
        own = {"result": ("A result", RESULTS)} | KINDS_OF_FILES
        kind, suffixes = ("A picture", PICTURES) if name.endswith("picture") else own[name]
        require_suffix(path, kind, suffixes)
    for name, path in given.items():
        if name == "result":
            from attnflow.results.files import require_free_result

            require_free_result(path, overwrite=overwrite)
        else:
            require_free(path, overwrite=overwrite)
    return given


def save_result(result: Any, path: Path, overwrite: bool) -> None:
    """Write a result with the command that made it among its attributes."""
    import shlex
    import sys

    from attnflow.results.files import save

    save(result.assign_attrs(command=shlex.join(["attnflow", *sys.argv[1:]])), path, overwrite=overwrite)


def end_with_code_of(result: Any) -> None:
    """End with exit code 1 if a run has failed, with 130 if Ctrl-C ended one."""
    from attnflow.solvers.status import Status

    if result.failed.values.any():
        raise typer.Exit(1)
    if (result.status.values == Status.INTERRUPTED).any():
        raise typer.Exit(130)


def as_text(files: dict[str, Path]) -> dict[str, str]:
    """The paths of written files by name, as they are printed."""
    return {name: str(path) for name, path in files.items()}


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows with the same names as a table with one heading."""
    import csv

    from attnflow._common.files import written_beside

    with written_beside(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def print_json(value: Any) -> None:
    """Print indented JSON."""
    print(json.dumps(value, indent=2), flush=True)  # `explore` goes on after it, and its reader may be a pipe


def print_json_or(as_json: bool, facts: Any, print_table: Callable[[], None]) -> None:
    """Print `facts` as JSON, or call the function that prints them as a table."""
    if as_json:
        print_json(facts)
    else:
        print_table()


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Print names and values as a table of two columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, fact in facts.items():
        table.add_row(name, Text(str(fact)))  # Text, since brackets are not markup here
    print_table(table, title)


def print_columns(title: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Print columns of equal length under their headings: the first to the left, the others, of numbers, to the right.

    A column without any text is left out. Headings are wrapped, cells never.
    """
    from rich.table import Table
    from rich.text import Text

    shown = {name: texts for name, texts in columns.items() if any(texts)}
    table = Table(box=None, header_style="bold")
    for place, (name, texts) in enumerate(shown.items()):
        widest = max(len(line) for text in (*texts, *name.split()) for line in text.splitlines())
        table.add_column(textwrap.fill(name, widest), justify="right" if place else "left", min_width=widest)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(Text, row))
    print_table(table, title)


def print_table(table: Any, title: str = "") -> None:
    """Print a table in the width of the terminal, or in the least width that holds every cell whole if that is more."""
    from rich.console import Console
    from rich.measure import Measurement

    if title:
        print_sentences(title, style="bold cyan")
    console = Console()
    unlimited = console.options.update(max_width=10**6)  # else the measured width would be at most that of the terminal
    console.width = max(console.width, Measurement.get(console, unlimited, table).minimum)
    _print_whole(console, table)


def print_sentences(*sentences: str, style: str = "") -> None:
    """Print each sentence as a paragraph in the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    for sentence in sentences:
        _print_whole(Console(), Text(sentence, style=style))


def _print_whole(console: Any, content: Any) -> None:
    """Print without the spaces that would fill lines up to the width of the console."""
    with console.capture() as captured:
        console.print(content)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
