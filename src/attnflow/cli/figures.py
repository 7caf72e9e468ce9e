"""The command `attnflow reproduce`, and the table of `attnflow list figures`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow._common.progress import reporting
from attnflow.cli import completion
from attnflow.cli.console import AsJson, print_json, progress_of
from attnflow.cli.picture_options import with_picture_options

DEFAULT_FOLDER = Path("attnflow-figures")
MIN_WIDTH_WITH_SOURCES = 110  # columns of a terminal; a narrower one has no room for the sources
STATES = ("made", "kept", "skipped", "failed")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    example = "attnflow reproduce polytope-2d boolean-1d --quick --out figures"
    app.command(epilog=f"Example: {example}", rich_help_panel="Figures, page, installation")(
        with_picture_options(reproduce)
    )


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Figures, see 'attnflow list figures'. Default all.", autocompletion=completion.figures),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller ensembles and movies: minutes for all.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report and its files.")] = DEFAULT_FOLDER,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value of a parameter; may be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed for all chosen figures that have one.")] = None,
    model: Annotated[str | None, typer.Option(help="Directory or hub name for figures of trained weights.")] = None,
    parameters: Annotated[bool, typer.Option("--parameters", help="Show the parameters, make nothing.")] = False,
    as_json: AsJson = False,
    drawing: dict[str, Any] | None = None,
) -> None:
    """Make published figures, and one self-contained HTML report of all figures in the folder.

    Beside every picture are its data (NAME.nc) and a script that draws it from them (NAME.py). A figure that is in the
    folder already, with the same parameters and made by the same code, is kept: after Ctrl-C the same command continues
    with the next figure.
    """
    from attnflow._common.files import require_folder
    from attnflow.figures.catalogue import catalogue, find
    from attnflow.figures.drawing import drawing_options
    from attnflow.figures.html_report import write_report

    chosen = [find(name) for name in dict.fromkeys(ids)] if ids else list(catalogue().values())
    if parameters:
        _show_parameters(chosen, quick, as_json)
        return
    chosen = _changed(chosen, changes or [], seed)
    chosen = chosen if model is None else _on_model(chosen, model)
    folder = require_folder(out)
    began = time.monotonic()
    say = (lambda *words: None) if as_json else (lambda *words: print(*words, file=sys.stderr))
    say(_announcement(chosen, quick))
    entries = _make_all(chosen, folder, quick, drawing_options(drawing or {}), say, as_json)
    report = write_report(_in_folder(entries, folder, quick), folder, is_quick=quick)
    facts = _facts(entries, report, round(time.monotonic() - began, 1))
    if as_json:
        print_json(facts)
    else:
        counts = ", ".join(f"{facts[state]} {state}" for state in STATES if facts[state] or state != "failed")
        say(f"{counts}, in {_span(facts['seconds'])}.")
        print(report)
    if facts["failed"]:
        raise typer.Exit(1)


def list_figures(as_json: bool) -> None:
    """Print every figure by chapter: id, title, source if the terminal is wide enough, duration."""
    from attnflow.figures.catalogue import catalogue, chapter_of

    if as_json:
        names = ("id", "source", "title", "shows", "deviates", "settings", "quick", "seconds", "needs")
        print_json([{name: getattr(figure, name) for name in names} for figure in catalogue().values()])
        return
    from rich.console import Console
    from rich.table import Table

    console, table, chapter = Console(), Table(box=None, header_style="bold"), ""
    is_wide = console.width >= MIN_WIDTH_WITH_SOURCES
    for name in ("figure", "what it shows", *(["source"] if is_wide else []), "full", "quick"):
        table.add_column(name, no_wrap=name == "figure", overflow="fold")  # an id must be there to the last letter
    for figure in catalogue().values():
        if chapter_of(figure.id) != chapter:
            chapter = chapter_of(figure.id)
            table.add_row("")
            table.add_row("", f"[bold]{chapter}[/]")
        full, quick = (_span(seconds) for seconds in figure.seconds)
        table.add_row(f"[cyan]{figure.id}[/]", figure.title, *([figure.source] if is_wide else []), full, quick)
    console.print(table)


def _changed(chosen: Sequence[Any], texts: Sequence[str], seed: int | None) -> list:
    """The figures with the parameters of `--set` and `--seed`; a wrong one fails before anything is made."""
    from attnflow._common.checks import InputError
    from attnflow.figures.parameters import changed_figure, from_texts

    if seed is not None and not any("seed" in figure.settings for figure in chosen):
        raise InputError(f"`seed` is {seed}, but none of the chosen figures has random numbers. Leave it out.")
    changed = []
    for figure in chosen:
        given = from_texts(figure, texts)
        if seed is not None and "seed" in figure.settings:
            given |= {"seed": seed}
        changed.append(changed_figure(figure, given))
    return changed


def _show_parameters(chosen: Sequence[Any], quick: bool, as_json: bool) -> None:
    """Print the parameters of figures with their values."""
    if as_json:
        print_json({figure.id: figure.parameters_of(quick) for figure in chosen})
        return
    import json

    for figure in chosen:
        print(f"{figure.id}: {figure.title}")
        for name, value in figure.parameters_of(quick).items():
            print(f"    --set {name}={json.dumps(value, ensure_ascii=False)}")


def _on_model(chosen: Sequence[Any], model: str) -> list:
    """The figures with `model` in place of their own; it is opened at once, so that a wrong name fails first."""
    from attnflow._common import extras
    from attnflow._common.checks import InputError

    if not any(figure.has_model for figure in chosen):
        raise InputError(
            f"`model` is {model}, but none of the chosen figures is made with a trained model. Leave it out."
        )
    if extras.is_installed("models"):
        from attnflow.models import load

        load(model)
    return [figure.on_model(model) for figure in chosen]


def _announcement(chosen: Sequence[Any], quick: bool) -> str:
    seconds = sum(figure.seconds[1 if quick else 0] for figure in chosen)
    kind = "quick" if quick else "full"
    count = "1 figure" if len(chosen) == 1 else f"{len(chosen)} figures"
    return f"{count}, {kind}: about {_span(seconds)} on two idle cores (an estimate), less where figures are kept."


def _make_all(
    chosen: Sequence[Any], folder: Path, quick: bool, drawing: dict[str, Any], say: Any, as_json: bool
) -> list:
    from attnflow.figures.make import make
    from attnflow.figures.records import Made

    entries = []
    for place, figure in enumerate(chosen):
        try:
            with reporting(progress_of(as_json)) as report:
                named = lambda share, words, name=figure.id, show=report: show(share, f"{name}: {words}")
                made = make(figure, folder, is_quick=quick, drawing=drawing, progress=named)
        except KeyboardInterrupt:
            say(f"Interrupted at {figure.id}. {place} of {len(chosen)} are made; the same command continues.")
            raise
        except Exception as problem:  # one that fails costs none of the others
            note = f"Failed: {type(problem).__name__}: {problem}{_asked_for(figure)}"
            made = Made(figure.id, "failed", figure.settings_of(quick), quick, changes=figure.changes, note=note)
        entries.append((figure, made))
        took = f" in {_span(made.seconds)}" if made.state == "made" else ""
        say(f"[{place + 1}/{len(chosen)}] {figure.id}: {made.note or made.state + took}")
    return entries


def _asked_for(figure: Any) -> str:
    """Sentence on the parameters of a figure that failed with changed ones."""
    from attnflow.figures.catalogue import catalogue
    from attnflow.figures.parameters import parameter_list

    if not figure.changes:
        return ""
    changed = ", ".join(f"{name} = {value}" for name, value in figure.changes.items())
    return f" Changed were {changed}; in the catalogue the parameters are {parameter_list(catalogue()[figure.id])}."


def _in_folder(entries: Sequence[Any], folder: Path, quick: bool) -> list:
    """The figures of this command and the others in the folder, in the order of the catalogue."""
    from attnflow.figures.catalogue import catalogue
    from attnflow.figures.records import figures_in

    asked = {figure.stem(quick) for figure, _ in entries}
    others = [(figure, made) for figure, made in figures_in(folder, is_quick=quick) if figure.stem(quick) not in asked]
    order = list(catalogue())
    return sorted([*entries, *others], key=lambda entry: (order.index(entry[0].id), entry[0].stem(quick)))


def _facts(entries: Sequence[Any], report: Path, seconds: float) -> dict[str, Any]:
    states = [made.state for _, made in entries]
    names = ("id", "state", "seconds", "numbers", "verdicts", "files", "settings", "changes", "note")
    figures = [{name: getattr(made, name) for name in names} for _, made in entries]
    counts = {state: states.count(state) for state in STATES}
    return {"report": str(report), **counts, "seconds": seconds, "figures": figures}


def _span(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
