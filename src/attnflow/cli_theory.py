"""The commands about theorems: verify, predict, atlas, robustness."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.options import with_model_options
from attnflow.terminal import print_json

COLOURS = {"holds": "green", "fails": "bold red", "not_applicable": "dim", "undecided": "yellow"}
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Statements; all of them when none is named.")] = None,
    run: Annotated[Path | None, typer.Option(help="A result file to hold them against, instead of examples.")] = None,
    list_ids: Annotated[bool, typer.Option("--list", help="Only say what there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check theorems, lemmas and conjectures: on examples of their own, or on a result of yours."""
    from attnflow.theorems.catalogue import catalogue, find

    statements = [find(name) for name in ids] if ids else list(catalogue().values())
    if list_ids:
        _print_statements(statements, as_json)
        return
    checked = _verify_run(run, ids or []) if run is not None else _verify_examples(statements, as_json)
    if as_json:
        print_json([one.verdict.as_dict() | {"proved": one.proved, "seconds": one.seconds} for one in checked])
    else:
        _print_verdicts(checked)
    should_hold = ("holds",) if run is None else ("holds", "not_applicable", "undecided")
    if any(one.proved and one.verdict.verdict not in should_hold for one in checked):
        raise typer.Exit(1)


def _verify_run(path: Path, ids: list[str]) -> list[Any]:
    from attnflow.theorems.catalogue import find
    from attnflow.theorems.verify import Checked, verify
    from attnflow.trajectory import load

    return [Checked(verdict, 0.0, find(verdict.id).proved) for verdict in verify(load(path), only=ids)]


def _verify_examples(statements: list[Any], as_json: bool) -> list[Any]:
    from rich.console import Console
    from rich.progress import Progress

    from attnflow.theorems.verify import verify_examples

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=as_json or not console.is_terminal) as bar:
        task = bar.add_task("verifying", total=len(statements))
        heard = lambda done, name: bar.update(task, completed=done, description=f"verified {name}")
        return verify_examples([statement.id for statement in statements], heard)


def _print_statements(statements: list[Any], as_json: bool) -> None:
    facts = [{"id": one.id, "paper": one.paper, "says": one.says, "proved": one.proved} for one in statements]
    if as_json:
        print_json(facts)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("statement", "what it says", "paper", box=None, header_style="bold")
    for fact in facts:
        conjecture = "" if fact["proved"] else " [dim](conjecture)[/]"
        table.add_row(f"[cyan]{fact['id']}[/]", fact["says"] + conjecture, fact["paper"])
    Console().print(table)


def _print_verdicts(checked: list[Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("statement", "verdict", "why", "paper", box=None, header_style="bold", padding=(0, 1))
    for one in checked:
        verdict = one.verdict
        answer = f"[{COLOURS[verdict.verdict]}]{verdict.verdict.replace('_', ' ')}[/]"
        paper = verdict.paper + ("" if one.proved else " (conjecture)")
        table.add_row(f"[cyan]{verdict.id}[/]", answer, escape(verdict.explanation()), f"[dim]{escape(paper)}[/]")
    Console().print(table)
    counts = {answer: sum(one.verdict.verdict == answer for one in checked) for answer in COLOURS}
    shown = ", ".join(f"{count} {answer.replace('_', ' ')}" for answer, count in counts.items() if count)
    Console().print(f"{len(checked)} statements: {shown}.")


@with_model_options
def predict(
    name: Annotated[str, typer.Argument(help="A scenario; 'attnflow list' shows them.")],
    changes: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Say where the tokens of a scenario will go and which theorem says so, without running it."""
    from attnflow import scenarios
    from attnflow.theorems.predict import predict as foretell

    setup = scenarios.build(scenarios.change(scenarios.get(name).settings, changes))
    tokens = setup.tokens[0] if setup.tokens.ndim == 3 else setup.tokens
    prediction = foretell(setup.flow, tokens)
    print_json({"scenario": name} | prediction.as_dict()) if as_json else print(prediction)


def conjecture1(flow: Any, runs: int, end: float, seed: int, picture: Path | None) -> dict[str, Any]:
    """What the counterexample experiment found, as facts; draws it where a picture is wanted."""
    from attnflow._checks import InputError
    from attnflow.theorems.conjecture1 import investigate, scan_diagonal, scan_gaussian

    value, query_key = flow.heads[0].value_matrix, flow.heads[0].query_key
    if value.shape != (2, 2) or abs(value[0, 1]) + abs(value[1, 0]) > 0:
        raise InputError("`value` of conjecture1 must be 'diagonal:FIRST,SECOND' in dimension 2.")
    beta, eigenvalues = float(flow.attention.beta), (float(value[0, 0]), float(value[1, 1]))
    found = investigate(eigenvalues, query_key, beta, runs=runs, end=end, rng=seed)
    scan = scan_diagonal(eigenvalues=eigenvalues, beta=beta)
    if picture is not None:
        from attnflow.show.conjecture1 import conjecture1 as draw

        draw(found, scan, picture)
    return {
        "report": found.report(),
        "refutes": found.refutes,
        "angles": [one.angle for one in found.equilibria if one.is_stable],
        "share": found.interior.fraction,
        "share_interval": found.interior.interval,
        "share_of_diagonal": float(scan.mean()),
        "share_of_gaussian": str(scan_gaussian(eigenvalues=eigenvalues, beta=beta)),
        "share_of_positive": str(scan_gaussian(eigenvalues=eigenvalues, beta=beta, positive=True)),
    }


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: attnflow verify polytope hyperplanes")(verify)
    app.command(epilog="Example: attnflow predict hyperplanes --value pair:0.5,2")(predict)
