"""The commands about runs of named scenarios: run, list, rerun, show."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import coalesce, figures, studies
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    as_text,
    free_files,
    picture_beside,
    print_facts,
    print_json,
    print_json_or,
    print_table,
    progress_of,
)
from attnflow.cli.run_table import readable_run
from attnflow.cli.scenario_options import with_scenario_options

PANEL = "Run and repeat"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog="Example: attnflow run polytope --n 50 --seed 3 --out fifty.zarr", rich_help_panel=PANEL)(run)
    app.command("list", epilog="Example: attnflow list figures --json", rich_help_panel=PANEL)(list_names)
    app.command(epilog="Example: attnflow rerun polytope.zarr --out again.zarr", rich_help_panel=PANEL)(rerun)
    app.command(epilog="Example: attnflow describe polytope.zarr", rich_help_panel=PANEL)(describe)
    app.command(epilog="Example: attnflow show polytope.zarr --out polytope.pdf", rich_help_panel=PANEL)(show)


@with_scenario_options
def run(
    name: Annotated[str, typer.Argument(help="A scenario; 'attnflow list' shows them.")],
    changes: dict[str, Any],
    clustered: Annotated[
        float | None, typer.Option(help="Stop when all tokens are within this distance of each other.")
    ] = None,
    settled: Annotated[float | None, typer.Option(help="Stop when the speed of every token is below this.")] = None,
    diverged: Annotated[
        float | None, typer.Option(help="Stop when a token is farther from the origin than this.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds after which to stop.")] = None,
    merge: Annotated[
        float | None, typer.Option(help="For staircase and metastable: tokens within this distance merge.")
    ] = None,
    perturb: Annotated[
        float | None, typer.Option(help="For staircase and metastable: move the first tokens at random by this much.")
    ] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Compute in single precision.")] = False,
    memory: Annotated[
        float | None, typer.Option(help="Bytes that the computation may use; default 1e9, 1 GB.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME.zarr.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario, with any of its settings changed; write the result and a picture."""
    began = time.monotonic()
    from dataclasses import asdict

    from attnflow.experiments import scenarios
    from attnflow.experiments.effects import require_effect
    from attnflow.integrate.request import DEFAULT_MEMORY

    scenario = scenarios.get(name)
    settings = _in_precision(scenarios.change(scenario.settings, changes), changes, float32)
    setup = scenarios.build(settings)
    out = out or Path(f"{name}.zarr")
    drawn = picture_beside(out, picture, no_picture)
    files = free_files({"result": out, "picture": drawn}, overwrite)
    stops = {"clustered": clustered, "settled": settled, "diverged": diverged}
    merging = {"merge": merge, "perturb": perturb}
    method = "coalesce" if scenario.coalesces else "simulate"
    require_effect(changes | stops | merging | {"float32": float32 or None, "memory": memory}, method=method)
    if scenario.coalesces:
        limits = merging | {"budget": budget}
        coalesce.run_coalescing(scenario, changes, settings, setup, files, overwrite, limits, as_json)
        return
    limits = {"budget": budget, "memory": memory or DEFAULT_MEMORY, "dtype": "float32" if float32 else "float64"}
    result = _simulated(setup, stops, limits, as_json)
    heading = {"scenario": name, "paper": scenario.paper, "settings": asdict(settings)}
    if scenario.study:
        drawn = files.pop("picture", None)
        heading["experiment"] = studies.STUDIES[scenario.study](setup.flow, settings, drawn)
        heading |= {} if drawn is None else {"experiment_picture": str(drawn)}
    _finish(name, setup.flow, result, files, overwrite, heading, began, as_json)


def _in_precision(settings: Any, changes: dict[str, Any], is_float32: bool) -> Any:
    """Settings with the tolerances of single precision where it is asked for and no others are given."""
    from dataclasses import replace

    from attnflow.integrate.request import FLOAT32_TOLERANCES

    if not is_float32 or changes["rtol"] is not None:
        return settings
    given = {} if changes["atol"] is None else {"atol": changes["atol"]}
    return replace(settings, **(FLOAT32_TOLERANCES | given))


def _simulated(setup: Any, stops: dict[str, float | None], limits: dict[str, Any], as_json: bool) -> Any:
    from attnflow.integrate.simulate import simulate
    from attnflow.solvers.stopping import Clustered, Diverged, Settled

    kinds = {"clustered": Clustered, "settled": Settled, "diverged": Diverged}
    stop = [kinds[name](limit) for name, limit in stops.items() if limit is not None]
    how = {"solver": setup.solver, "rng": setup.rng, "stop": stop, "progress": progress_of(as_json)}
    return simulate(setup.flow, setup.tokens, setup.times, **how, **limits)


def list_names(
    what: Annotated[str, typer.Argument(help="scenarios or figures.")] = "scenarios", as_json: AsJson = False
) -> None:
    """List the scenarios, or the figures that 'attnflow reproduce' makes."""
    from dataclasses import asdict

    from attnflow._common.checks import require_known
    from attnflow.experiments.catalogue import CATALOGUE

    require_known(what, ("scenarios", "figures"), "list")
    if what == "figures":
        figures.list_figures(as_json)
        return
    if as_json:
        print_json([asdict(scenario) for scenario in CATALOGUE.values()])
        return
    from rich.table import Table

    table = Table("scenario", "what it shows", "paper", box=None, header_style="bold")
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    for scenario in CATALOGUE.values():
        table.add_row(f"[cyan]{scenario.name}[/]", scenario.sentence, f"arXiv:{scenario.paper}")
    print_table(table)


def rerun(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    out: Annotated[Path | None, typer.Option(help="Result file of the repeated run, .zarr or .nc.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the run that a result file records, and compare the two bit for bit."""
    began = time.monotonic()
    from attnflow.experiments.rerun import rerun as repeat
    from attnflow.results.files import load, save
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    files = free_files({"result": out}, overwrite)
    recorded = load(path)
    result = repeat(recorded, progress=progress_of(as_json))
    # A file of 0.1.0 lacks the variables that were added since.
    is_equal = bool(recorded.equals(result.drop_vars(set(result.variables) - set(recorded.variables))))
    heading = {"repeated": str(path), "bit_for_bit": is_equal}
    if kind_of(recorded) is ResultKind.COALESCENCE:
        if "result" in files:
            save(result, files["result"], overwrite=overwrite)
        facts = heading | coalesce.coalescing_facts(result)
        print_json_or(as_json, facts, lambda: print_facts("repeated", coalesce.readable_facts(facts)))
    else:
        _finish(str(path), flow_of(recorded), result, files, overwrite, heading, began, as_json)
    if not is_equal:
        raise typer.Exit(1)


def describe(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    as_json: AsJson = False,
) -> None:
    """Print what a result shows: its limit, clusters and rate, what theory predicts, the statements that hold."""
    from attnflow.experiments.describe import describe as described

    description = described(path)
    print_json_or(as_json, description.as_dict(), lambda: print_facts(description.headline, description.facts))


def show(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    out: Annotated[Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw the picture of a result file."""
    from attnflow._common.files import with_suffix
    from attnflow.experiments.run_summary import final_matrix
    from attnflow.results.files import load
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    picture = free_files({"picture": out or with_suffix(path, ".png")}, overwrite)["picture"]
    result = load(path)
    if kind_of(result) is ResultKind.COALESCENCE:
        from attnflow.show import staircase

        staircase(result, picture)
    elif kind_of(result) is ResultKind.PROMPT and "cosine_density" in result:
        from attnflow.show import prompt

        prompt(result, picture)
    else:
        flow = flow_of(result)
        _draw(flow, result, picture, final_matrix(flow, _first_run(result)))
    print_json_or(as_json, {"picture": str(picture)}, lambda: print(picture))


def _finish(
    title: str,
    flow: Any,
    result: Any,
    files: dict[str, Path],
    overwrite: bool,
    heading: dict[str, Any],
    began: float,
    as_json: bool,
) -> None:
    """Write the files that are asked for and print the summary of a run of `simulate`."""
    from attnflow.experiments.headline import headline
    from attnflow.experiments.run_summary import final_matrix, summarise
    from attnflow.results.files import save

    last = final_matrix(flow, _first_run(result))
    summary = summarise(flow, result, last)
    if "result" in files:
        save(result, files["result"], overwrite=overwrite)
    if "picture" in files:
        _draw(flow, result, files["picture"], last)
    heading |= {"headline": headline(flow, result)}
    summary |= {"seconds": round(time.monotonic() - began, 2)} | as_text(files)
    print_json_or(as_json, heading | summary, lambda: print_facts(title, readable_run(heading, summary)))
    if summary["failed"] == summary["runs"]:
        raise typer.Exit(1)


def _first_run(result: Any) -> Any:
    return result.isel(run=0) if "run" in result.dims else result


def _draw(flow: Any, result: Any, path: Path, last: Any) -> None:
    """Draw a run, with its attention matrices at the start and at the end (`last`) if they are small enough."""
    from attnflow.experiments.run_summary import first_matrix
    from attnflow.show import summary as draw

    first = first_matrix(flow, _first_run(result))
    draw(result, matrices=None if first is None else [first, last], path=path)
