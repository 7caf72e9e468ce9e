"""The commands about theorems: predict, verify."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow._common.progress import reporting
from attnflow.cli import completion
from attnflow.cli.console import (
    AsJson,
    print_facts,
    print_json,
    print_json_or,
    print_sentences,
    print_table,
    progress_of,
)
from attnflow.cli.numbers import counted
from attnflow.cli.scenario_options import NameOrFile, config_named, with_scenario_options

PANEL = "Theory"
COLOURS = {"holds": "green", "fails": "bold red", "not_applicable": "dim", "undecided": "yellow"}
ORDER = ("fails", "undecided", "holds", "not_applicable")  # of the rows


def verify(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Statements; all if none is named.", autocompletion=completion.statements)
    ] = None,
    run: Annotated[Path | None, typer.Option(help="A result file to check instead of the examples.")] = None,
    member: Annotated[
        int | None, typer.Option(help="Only this run of an ensemble in the result file: its index, 0 for the first.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also print why statements do not apply.")] = False,
    steps: Annotated[
        str | None,
        typer.Option(help="Steps of layers, such as 0.1,1,2, with which to check the statements about layers."),
    ] = None,
    list_ids: Annotated[bool, typer.Option("--list", help="Only list the statements.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check theorems, lemmas and conjectures, on an example of each or on a result file."""
    from attnflow._common.checks import InputError
    from attnflow.theorems.catalogue import catalogue, find

    statements = [find(name) for name in ids] if ids else list(catalogue().values())
    if list_ids:
        _print_statements(statements, as_json)
        return
    if steps is not None:
        _print_survival(statements, steps, as_json)
        return
    if member is not None and run is None:
        raise InputError("`--member` is the index of a run in a file, but there is no file. Pass `--run`.")
    checked = _verify_run(run, ids or [], member) if run is not None else _verify_examples(statements, as_json)
    if as_json:
        print_json([one.verdict.as_dict() | {"proved": one.proved, "seconds": one.seconds} for one in checked])
    else:
        print_verdicts(checked, folded=run is not None and not show_all and not ids)
    should_hold = ("holds",) if run is None else ("holds", "not_applicable", "undecided")
    if any(one.proved and one.verdict.verdict not in should_hold for one in checked):
        raise typer.Exit(1)


def _verify_run(path: Path, ids: list[str], member: int | None) -> list[Any]:
    """The verdicts on a file: on its run, on one run of its ensemble, or on all of them."""
    from attnflow._common.checks import InputError, require_count
    from attnflow.results.files import load
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    run = load(path)
    if kind_of(run) is not ResultKind.PROMPT:
        flow_of(run)  # a record that cannot be read is said at once
    if member is None:
        return verdicts_on(run, ids)
    if "run" not in run.dims:
        raise InputError(f"`--member` is the index of a run of an ensemble, but {path} holds one run. Leave it out.")
    require_count(member, "member", least=0)
    if member >= run.sizes["run"]:
        raise InputError(
            f"`--member` must be an index below {run.sizes['run']}, the number of runs, but it is {member}."
        )
    return verdicts_on(run.isel(run=member), ids)


def verdicts_on(run: Any, ids: Sequence[str] = ()) -> list[Any]:
    """The verdicts of statements on a run, or on all runs of an ensemble; failures first."""
    from attnflow.theorems.catalogue import find
    from attnflow.theorems.verify import Checked, verify

    verdicts = sorted(verify(run, only=ids), key=lambda verdict: ORDER.index(verdict.verdict))
    return [Checked(verdict, 0.0, find(verdict.id).proved) for verdict in verdicts]


def _verify_examples(statements: list[Any], as_json: bool) -> list[Any]:
    from attnflow.theorems.verify import verify_examples

    with reporting(progress_of(as_json)) as progress:
        heard = lambda done, name: progress(done / len(statements), f"verified {name}")
        return verify_examples([statement.id for statement in statements], heard)


def _print_survival(statements: list[Any], steps: str, as_json: bool) -> None:
    """Print the verdicts on discrete layers, with one column for each size of step."""
    from attnflow._common.checks import InputError
    from attnflow.theorems.statements.layers import STATEMENTS, surviving_steps

    try:
        sizes = [float(size) for size in steps.split(",")]
    except ValueError:
        raise InputError(
            f"`steps` must be numbers with commas between, such as 0.1,1,2, but it is {steps!r}."
        ) from None
    about_layers = [one for one in statements if one in STATEMENTS]
    if not about_layers:
        known = ", ".join(one.id for one in STATEMENTS)
        raise InputError(f"`--steps` is of the statements about layers, {known}, but none of them is named.")
    found = {one.id: surviving_steps(one, sizes) for one in about_layers}
    if as_json:
        print_json({name: {str(step): one.as_dict() for step, one in row.items()} for name, row in found.items()})
        return
    from rich.table import Table

    table = Table("statement", *(f"step {size:g}" for size in sizes), box=None, header_style="bold")
    for name, row in found.items():
        answers = [f"[{COLOURS[one.verdict]}]{one.verdict.replace('_', ' ')}[/]" for one in row.values()]
        table.add_row(f"[cyan]{name}[/]", *answers)
    table.columns[0].no_wrap = True
    print_table(table)


def _print_statements(statements: list[Any], as_json: bool) -> None:
    facts = [{"id": one.id, "paper": one.paper, "says": one.says, "proved": one.proved} for one in statements]
    if as_json:
        print_json(facts)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("statement", "what it says", box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for fact in facts:
        paper = fact["paper"] + ("" if fact["proved"] else ", a conjecture")
        table.add_row(f"[cyan]{fact['id']}[/]", f"{escape(fact['says'])}\n[dim]{escape(paper)}[/]")
    print_table(table)


def print_verdicts(checked: list[Any], folded: bool) -> None:
    """Print verdicts as a table; `folded` only counts the statements that do not apply."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("statement", "verdict", "why", box=None, header_style="bold")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in checked:
        verdict = one.verdict
        if folded and verdict.verdict == "not_applicable":
            continue
        answer = f"[{COLOURS[verdict.verdict]}]{verdict.verdict.replace('_', ' ')}[/]"
        paper = verdict.paper + ("" if one.proved else ", a conjecture")
        table.add_row(f"[cyan]{verdict.id}[/]", answer, f"{escape(verdict.explanation())}\n[dim]{escape(paper)}[/]")
    print_table(table)
    print_sentences(_tally(checked, folded))


def _tally(checked: list[Any], folded: bool) -> str:
    """The number of statements with each answer, as a sentence."""
    words = {
        "holds": ("holds", "hold"),
        "fails": ("fails", "fail"),
        "undecided": ("is undecided", "are undecided"),
        "not_applicable": ("does not apply", "do not apply"),
    }
    counts = {answer: sum(one.verdict.verdict == answer for one in checked) for answer in words}
    shown = ", ".join(counted(count, *words[answer]) for answer, count in counts.items() if count)
    more = " --all prints why." if folded and counts["not_applicable"] else ""
    return f"{counted(len(checked), 'statement')}: {shown}.{more}"


@with_scenario_options
def predict(
    name: NameOrFile,
    changes: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Print the limit of a scenario and the theorem or conjecture that states it, without a run."""
    from attnflow.experiments.effects import require_effect

    require_effect(changes, method="predict")  # before jax is imported, which takes seconds
    from attnflow.experiments.configs.prepared_run import prepare
    from attnflow.theorems.prediction.predict import predict as limit_of

    prepared = prepare(config_named(name, changes))
    arguments = prepared.arguments
    tokens = arguments["tokens"][0] if arguments["tokens"].ndim == 3 else arguments["tokens"]
    prediction = limit_of(arguments["flow"], tokens, arguments.get("solver"))
    title = prepared.scenario.name if prepared.scenario is not None else Path(name).stem
    facts = {"scenario": title} | prediction.as_dict()
    print_json_or(as_json, facts, lambda: print_facts(f"prediction for {title}", prediction.facts))


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    examples = {
        predict: "attnflow predict hyperplanes --value pair:0.5,2",
        verify: "attnflow verify polytope hyperplanes, or attnflow verify --steps 0.1,1,2",
    }
    for command, example in examples.items():
        app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(command)
