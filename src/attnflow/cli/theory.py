"""The commands about theorems: verify, predict, atlas, robustness."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow._common.progress import reporting
from attnflow.cli.console import print_json
from attnflow.cli.model_options import with_model_options

COLOURS = {"holds": "green", "fails": "bold red", "not_applicable": "dim", "undecided": "yellow"}
ORDER = ("fails", "undecided", "holds", "not_applicable")  # what readers look for first
Overwrite = Annotated[bool, typer.Option(help="Replace existing files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Statements; all of them when none is named.")] = None,
    run: Annotated[Path | None, typer.Option(help="A result file to hold them against, instead of examples.")] = None,
    member: Annotated[int, typer.Option(help="Which run of an ensemble in the result file.")] = 0,
    show_all: Annotated[bool, typer.Option("--all", help="Also show why statements do not apply to a result.")] = False,
    steps: Annotated[
        str | None, typer.Option(help="Sizes of a layer's step, such as 0.1,1,2: which conclusions survive them.")
    ] = None,
    list_ids: Annotated[bool, typer.Option("--list", help="Only say what there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check theorems, lemmas and conjectures: on examples of their own, or on a result of yours."""
    from attnflow.theorems.catalogue import catalogue, find

    statements = [find(name) for name in ids] if ids else list(catalogue().values())
    if list_ids:
        _print_statements(statements, as_json)
        return
    if steps is not None:
        _print_survival(statements, steps, as_json)
        return
    checked = _verify_run(run, ids or [], member) if run is not None else _verify_examples(statements, as_json)
    if as_json:
        print_json([one.verdict.as_dict() | {"proved": one.proved, "seconds": one.seconds} for one in checked])
    else:
        print_verdicts(checked, folded=run is not None and not show_all and not ids)
    should_hold = ("holds",) if run is None else ("holds", "not_applicable", "undecided")
    if any(one.proved and one.verdict.verdict not in should_hold for one in checked):
        raise typer.Exit(1)


def _verify_run(path: Path, ids: list[str], member: int) -> list[Any]:
    from attnflow._common.checks import InputError, require_count
    from attnflow.results.files import load

    run = load(path)
    if "run" in run.dims:
        require_count(member, "member", least=0)
        if member >= run.sizes["run"]:
            raise InputError(f"`member` must be below {run.sizes['run']}, the number of runs, but it is {member}.")
        run = run.isel(run=member)
    return verdicts_on(run, ids)


def verdicts_on(run: Any, ids: Sequence[str] = ()) -> list[Any]:
    """What statements say of a run, what readers look for first."""
    from attnflow.theorems.catalogue import find
    from attnflow.theorems.verify import Checked, verify

    verdicts = sorted(verify(run, only=ids), key=lambda verdict: ORDER.index(verdict.verdict))
    return [Checked(verdict, 0.0, find(verdict.id).proved) for verdict in verdicts]


def _verify_examples(statements: list[Any], as_json: bool) -> list[Any]:
    from attnflow.theorems.verify import verify_examples

    with reporting(False if as_json else None) as progress:
        heard = lambda done, name: progress(done / len(statements), f"verified {name}")
        return verify_examples([statement.id for statement in statements], heard)


def _print_survival(statements: list[Any], steps: str, as_json: bool) -> None:
    """Verdicts on discrete layers, a column for every size of step."""
    from attnflow._common.checks import InputError
    from attnflow.theorems.statements.layers import STATEMENTS, surviving_steps

    try:
        sizes = [float(size) for size in steps.split(",")]
    except ValueError:
        raise InputError(
            f"`steps` must be numbers with commas between, such as 0.1,1,2, but it is {steps!r}."
        ) from None
    about_layers = [one for one in statements if one in STATEMENTS]
    found = {one.id: surviving_steps(one, sizes) for one in about_layers}
    if as_json:
        print_json({name: {str(step): one.as_dict() for step, one in row.items()} for name, row in found.items()})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("statement", *(f"step {size:g}" for size in sizes), box=None, header_style="bold")
    for name, row in found.items():
        answers = [f"[{COLOURS[one.verdict]}]{one.verdict.replace('_', ' ')}[/]" for one in row.values()]
        table.add_row(f"[cyan]{name}[/]", *answers)
    Console().print(table)


def _print_statements(statements: list[Any], as_json: bool) -> None:
    facts = [{"id": one.id, "paper": one.paper, "says": one.says, "proved": one.proved} for one in statements]
    if as_json:
        print_json(facts)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("statement", "what it says", box=None, header_style="bold")
    for fact in facts:
        paper = fact["paper"] + ("" if fact["proved"] else ", a conjecture")
        table.add_row(f"[cyan]{fact['id']}[/]", f"{escape(fact['says'])}\n[dim]{escape(paper)}[/]")
    Console().print(table)


def print_verdicts(checked: list[Any], folded: bool) -> None:
    """As a table; `folded` tells those that do not apply in one line."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("statement", "verdict", "why", box=None, header_style="bold")
    table.columns[0].overflow = "fold"
    for one in checked:
        verdict = one.verdict
        if folded and verdict.verdict == "not_applicable":
            continue
        answer = f"[{COLOURS[verdict.verdict]}]{verdict.verdict.replace('_', ' ')}[/]"
        paper = verdict.paper + ("" if one.proved else ", a conjecture")
        table.add_row(f"[cyan]{verdict.id}[/]", answer, f"{escape(verdict.explanation())}\n[dim]{escape(paper)}[/]")
    Console().print(table)
    counts = {answer: sum(one.verdict.verdict == answer for one in checked) for answer in COLOURS}
    shown = ", ".join(f"{count} {answer.replace('_', ' ')}" for answer, count in counts.items() if count)
    more = " --all shows why those do not apply." if folded and counts["not_applicable"] else ""
    Console().print(f"{len(checked)} statement{'s' if len(checked) != 1 else ''}: {shown}.{more}")


@with_model_options
def predict(
    name: Annotated[str, typer.Argument(help="A scenario; 'attnflow list' shows them.")],
    changes: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Say where the tokens of a scenario will go and which theorem says so, without running it."""
    from attnflow.experiments import scenarios
    from attnflow.theorems.prediction.predict import predict as foretell

    setup = scenarios.build(scenarios.change(scenarios.get(name).settings, changes))
    tokens = setup.tokens[0] if setup.tokens.ndim == 3 else setup.tokens
    prediction = foretell(setup.flow, tokens, setup.solver)
    print_json({"scenario": name} | prediction.as_dict()) if as_json else print(prediction)


def atlas(
    kind: Annotated[str, typer.Option(help="Axes of the grid: eigenvalues or trace-determinant.")] = "eigenvalues",
    space: Annotated[str, typer.Option(help="rescaled, sphere-causal or sphere.")] = "rescaled",
    d: Annotated[int, typer.Option(help="Dimension.")] = 2,
    low: Annotated[float, typer.Option(help="Least value along both axes.")] = -2.0,
    high: Annotated[float, typer.Option(help="Largest value along both axes.")] = 2.0,
    size: Annotated[int, typer.Option(help="Values along each axis.")] = 15,
    n: Annotated[int, typer.Option(help="Number of tokens.")] = 12,
    runs: Annotated[int, typer.Option(help="Starts a cell.")] = 4,
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture, .png, .pdf or .svg.")] = Path("atlas.png"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw predicted and simulated limits over a grid of value matrices, and say how far they agree."""
    import numpy as np

    from attnflow._common.checks import require_count
    from attnflow.show.parts.style import require_free_picture
    from attnflow.show.theory.atlas import atlas as draw
    from attnflow.theorems.studies.atlas import atlas as survey

    require_count(size, "size", least=2)
    picture = require_free_picture(out, overwrite=overwrite)
    with reporting(False if as_json else None) as progress:
        found = survey(
            np.linspace(low, high, size),
            kind,
            d=d,
            space=space,
            n=n,
            runs=runs,
            beta=beta,
            seed=seed,
            progress=progress,
        )
    draw(found, picture)
    agreement = float(found.attrs["agreement"])
    if as_json:
        words = {name: found[name].values.tolist() for name in ("predicted", "proved", "simulated")}
        axes = {"x": found.x.values.tolist(), "y": found.y.values.tolist()}
        print_json({"agreement": agreement, "picture": str(picture)} | axes | words)
    else:
        print(f"Where a limit is promised and the simulation decided, {100 * agreement:.1f} % of the runs agree.")
        print(picture)


def robustness(
    laws: Annotated[list[str] | None, typer.Option("--law", help="gaussian, box, ball or shell; may repeat.")] = None,
    n: Annotated[list[int] | None, typer.Option(help="Numbers of tokens; may repeat.")] = None,
    d: Annotated[list[int] | None, typer.Option(help="Dimensions; may repeat.")] = None,
    seeds: Annotated[int, typer.Option(help="Starts of each kind.")] = 12,
    end: Annotated[float, typer.Option(help="Time at which things are counted.")] = 12.0,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture, .png, .pdf or .svg.")] = Path("robustness.png"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say how vertices, clusters, leaders and the rate depend on the start's law, n and d, with intervals."""
    from attnflow.show.parts.style import require_free_picture
    from attnflow.show.theory.robustness import robustness as draw
    from attnflow.theorems.studies.robustness import robustness as study

    picture = require_free_picture(out, overwrite=overwrite)
    chosen = (laws or ["gaussian", "box", "ball"], n or [10, 20, 40], d or [2, 3])
    with reporting(False if as_json else None) as progress:
        found = study(*chosen, seeds=seeds, end=end, seed=seed, progress=progress)
    draw(found, picture)
    rows = _rows_of_intervals(found)
    if as_json:
        print_json({"rows": rows, "picture": str(picture)})
    else:
        _print_intervals(rows)
        print(picture)


def _rows_of_intervals(found: Any) -> list[dict[str, Any]]:
    """One row a law, n and d, with [low, mean, high] of every quantity."""
    from attnflow.theorems.studies.robustness import QUANTITIES

    return [
        {"law": str(law), "n": int(n), "d": int(d)}
        | {name: found[f"{name}_interval"].sel(law=law, n=n, d=d).values.tolist() for name in QUANTITIES}
        for law in found.law.values
        for n in found.n.values
        for d in found.d.values
    ]


def _print_intervals(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None, header_style="bold", padding=(0, 2))
    for row in rows:
        table.add_row(*(_interval(one) if isinstance(one, list) else str(one) for one in row.values()))
    Console().print(table)


def _interval(bounds: list[float]) -> str:
    low, mean, high = bounds
    return f"{mean:.2f} ± {(high - low) / 2:.2f}"


def conjecture1(flow: Any, runs: int, end: float, seed: int, picture: Path | None) -> dict[str, Any]:
    """What the counterexample experiment found, as facts; draws it where a picture is wanted."""
    from attnflow._common.checks import InputError
    from attnflow.theorems.studies.conjecture1 import investigate, scan_diagonal, scan_gaussian

    value, query_key = flow.heads[0].value_matrix, flow.heads[0].query_key
    if value.shape != (2, 2) or abs(value[0, 1]) + abs(value[1, 0]) > 0:
        raise InputError("`value` of conjecture1 must be 'diagonal:FIRST,SECOND' in dimension 2.")
    beta, eigenvalues = float(flow.attention.beta), (float(value[0, 0]), float(value[1, 1]))
    found = investigate(eigenvalues, query_key, beta, runs=runs, end=end, rng=seed)
    scan = scan_diagonal(eigenvalues=eigenvalues, beta=beta)
    if picture is not None:
        from attnflow.show.theory.conjecture1 import conjecture1 as draw

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
    app.command(epilog="Example: attnflow verify polytope hyperplanes, or attnflow verify --steps 0.1,1,2")(verify)
    app.command(epilog="Example: attnflow predict hyperplanes --value pair:0.5,2")(predict)
    app.command(epilog="Example: attnflow atlas --kind trace-determinant --out atlas.pdf")(atlas)
    app.command(epilog="Example: attnflow robustness --law box --n 10 --n 100 --d 2")(robustness)
