"""The command line. Heavy libraries load inside the commands, so that `--help` is quick."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import coalesce, explore, figures, models, stream, theory
from attnflow.cli.console import print_facts, print_json
from attnflow.cli.model_options import with_model_options

app = typer.Typer(
    help="Self-attention dynamics: simulate, explain and show how tokens gather into clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
# Options that may make a scenario show something else than its sentence says.
MEANINGFUL = (
    "d", "beta", "space", "value", "query_key", "heads", "redraw", "attention", "mask", "normalisation", "mlp", "kappa",
    "start", "solver",
)  # fmt: skip
Overwrite = Annotated[bool, typer.Option(help="Replace existing files.")]


@app.command(epilog="Example: attnflow run polytope --n 50 --seed 3 --out fifty.zarr")
@with_model_options
def run(
    name: Annotated[str, typer.Argument(help="A scenario; 'attnflow list' shows them.")],
    changes: dict[str, Any],
    clustered: Annotated[float | None, typer.Option(help="Stop when all tokens are this close.")] = None,
    settled: Annotated[float | None, typer.Option(help="Stop when nothing moves faster.")] = None,
    diverged: Annotated[float | None, typer.Option(help="Stop when a token is farther from the origin.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds after which to stop.")] = None,
    merge: Annotated[float | None, typer.Option(help="Of staircase, metastable: tokens so close become one.")] = None,
    perturb: Annotated[
        float | None, typer.Option(help="Of staircase, metastable: move the first tokens at random by so much.")
    ] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Compute in single precision.")] = False,
    memory: Annotated[float, typer.Option(help="Bytes the computation may use.")] = 1e9,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME.zarr.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Make no picture.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Run a named scenario, with any of its settings changed; write the result and a picture."""
    began = time.monotonic()
    from dataclasses import asdict, replace

    from attnflow.experiments import scenarios
    from attnflow.integrate.simulate import simulate
    from attnflow.solvers import stopping

    scenario = scenarios.get(name)
    settings = scenarios.change(scenario.settings, changes)
    if float32 and changes["rtol"] is None:
        settings = replace(settings, rtol=1e-5, atol=changes["atol"] or 1e-6)
    setup = scenarios.build(settings)
    files = _free_files(out or Path(f"{name}.zarr"), picture, no_picture, overwrite)
    coalescing = {"merge": merge, "perturb": perturb}
    if scenario.coalesces:
        idle = {"clustered": clustered, "settled": settled, "diverged": diverged, "float32": float32 or None}
        coalesce.require_none_idle(changes | idle)
        limits = coalescing | {"budget": budget}
        coalesce.run_coalescing(scenario, changes, settings, setup, files, overwrite, limits, as_json)
        return
    coalesce.require_coalescing(coalescing)
    wanted = {stopping.Clustered: clustered, stopping.Settled: settled, stopping.Diverged: diverged}
    result = simulate(
        setup.flow,
        setup.tokens,
        setup.times,
        solver=setup.solver,
        stop=[kind(limit) for kind, limit in wanted.items() if limit is not None],
        budget=budget,
        rng=setup.rng,
        dtype="float32" if float32 else "float64",
        memory=memory,
        progress=False if as_json else None,
    )
    changed = [option for option in MEANINGFUL if changes[option] is not None]
    sentence = scenario.sentence + (f" (Changed here: {', '.join(changed)}.)" if changed else "")
    heading = {"scenario": name, "sentence": sentence, "paper": scenario.paper, "settings": asdict(settings)}
    if name == "conjecture1":
        drawn = files.pop("picture", None)
        found = theory.conjecture1(setup.flow, settings.runs or 1, settings.end, settings.seed, drawn)
        heading |= {"experiment": found} | ({} if drawn is None else {"experiment_picture": str(drawn)})
    _finish(setup.flow, result, files, overwrite, heading, began, as_json)


@app.command("list", epilog="Example: attnflow list figures --json")
def list_names(
    what: Annotated[str, typer.Argument(help="scenarios or figures.")] = "scenarios", as_json: AsJson = False
) -> None:
    """Show the named scenarios, or the figures that 'attnflow reproduce' makes."""
    from dataclasses import asdict

    from attnflow._common.checks import require_known
    from attnflow.experiments.scenarios import CATALOGUE

    require_known(what, ("scenarios", "figures"), "list")
    if what == "figures":
        figures.list_figures(as_json)
        return
    if as_json:
        print_json([asdict(scenario) for scenario in CATALOGUE.values()])
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("scenario", "what it shows", "paper", box=None, header_style="bold")
    for scenario in CATALOGUE.values():
        table.add_row(f"[cyan]{scenario.name}[/]", scenario.sentence, f"arXiv:{scenario.paper}")
    Console().print(table)


@app.command(epilog="Example: attnflow rerun polytope.zarr --out again.zarr")
def rerun(
    path: Annotated[Path, typer.Argument(help="A result written by 'attnflow run' or af.save.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the repeated result.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the run that a result file records, and compare with it bit for bit."""
    began = time.monotonic()
    from attnflow.experiments.rerun import rerun as repeat
    from attnflow.results.files import load, save
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    files = {} if out is None else _free_files(out, None, True, overwrite)
    recorded = load(path)
    result = repeat(recorded, progress=False if as_json else None)
    is_equal = bool(recorded.equals(result))
    heading = {"repeated": str(path), "bit_for_bit": is_equal}
    if kind_of(recorded) is ResultKind.COALESCENCE:
        if "result" in files:
            save(result, files["result"], overwrite=overwrite)
        facts = heading | coalesce.coalescing_facts(result)
        print_json(facts) if as_json else print_facts("repeated", facts)
    else:
        _finish(flow_of(recorded), result, files, overwrite, heading, began, as_json)
    if not is_equal:
        raise typer.Exit(1)


@app.command(epilog="Example: attnflow show polytope.zarr --out polytope.pdf")
def show(
    path: Annotated[Path, typer.Argument(help="A result written by 'attnflow run' or af.save.")],
    out: Annotated[Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw a result again."""
    from attnflow.results.files import load
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    picture = _free_picture(out or path.with_suffix(".png"), overwrite)
    result = load(path)
    if kind_of(result) is ResultKind.COALESCENCE:
        from attnflow.show import staircase

        staircase(result, picture)
    elif kind_of(result) is ResultKind.PROMPT and "cosine_density" in result:
        from attnflow.show import prompt

        prompt(result, picture)
    else:
        _draw(flow_of(result), result, picture, "")
    print_json({"picture": str(picture)}) if as_json else print(picture)


@app.command(epilog="Example: attnflow doctor")
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed and whether a small run comes out right."""
    from attnflow.cli.doctor import diagnose

    facts = diagnose()
    if as_json:
        print_json(facts)
    else:
        print_facts("attnflow doctor", facts)
    if not facts["healthy"]:
        raise typer.Exit(1)


theory.register(app)
stream.register(app)
models.register(app)
figures.register(app)
explore.register(app)


def _free_files(out: Path, picture: Path | None, no_picture: bool, overwrite: bool) -> dict[str, Path]:
    """Result and picture, checked before anything is computed."""
    from attnflow.results.files import require_free_result

    files = {"result": require_free_result(out, overwrite=overwrite)}
    if not no_picture:
        files["picture"] = _free_picture(picture or out.with_suffix(".png"), overwrite)
    return files


def _free_picture(path: Path, overwrite: bool) -> Path:
    from attnflow.show.parts.style import require_free_picture

    return require_free_picture(path, overwrite=overwrite)


def _finish(
    flow: Any, result: Any, files: dict[str, Path], overwrite: bool, heading: dict, began: float, as_json: bool
) -> None:
    """Write what was asked for, then say how it went."""
    from attnflow.experiments.run_summary import summarise
    from attnflow.results.files import save

    summary = summarise(flow, result)
    if "result" in files:
        save(result, files["result"], overwrite=overwrite)
    if "picture" in files:
        _draw(flow, result, files["picture"], heading.get("sentence", ""))
    summary |= {"seconds": round(time.monotonic() - began, 2)}
    summary |= {name: str(path) for name, path in files.items()}
    if as_json:
        print_json(heading | summary)
    else:
        print_facts(" ".join(str(part) for part in list(heading.values())[:1]), _readable(heading, summary))
    if summary["failed"] == summary["runs"]:
        raise typer.Exit(1)


def _draw(flow: Any, result: Any, path: Path, title: str) -> None:
    from attnflow.experiments import run_summary
    from attnflow.show import summary as draw

    one = result.isel(run=0) if "run" in result.dims else result
    matrices = [run_summary.first_matrix(flow, one), run_summary.final_matrix(flow, one)]
    draw(result, matrices=None if matrices[0] is None else matrices, path=path, title=title)


def _readable(heading: dict, summary: dict) -> dict[str, str]:
    """The summary for people: ensembles as ranges, distances beside what they belong to."""
    shown = {"what": heading["sentence"]} if "sentence" in heading else {"bit for bit": heading["bit_for_bit"]}
    shown |= {"model": summary["model"], "tokens": f"{summary['tokens']} in dimension {summary['dimension']}"}
    shown["V"] = summary["value"]
    if summary["runs"] > 1:
        shown["runs"] = str(summary["runs"])
    shown["solver"] = f"{summary['solver']}, {summary['dtype']}"
    if "settings" in heading:
        shown["seed"] = str(heading["settings"]["seed"])
    shown["steps"] = f"{_range(summary['steps'])} ({_range(summary['rejected_steps'])} rejected)"
    shown["time"] = f"t = {_range(summary['time'])}, in {summary['seconds']} s"
    shown["clusters"] = f"{_range(summary['clusters'])} (within {summary['cluster_distance']:.3g})"
    shown["attention rank"] = (
        f"{_range(summary['attention_rank'])} (above {summary['rank_threshold']:g} of the largest)"
    )
    shown["outcome"] = summary["outcome"]
    if "experiment" in heading:
        shown |= _experiment(heading)
    return shown | {name: summary[name] for name in ("result", "picture") if name in summary}


def _experiment(heading: dict) -> dict[str, str]:
    found = heading["experiment"]
    shown = {"found": "\n".join(found["report"])}
    shown["random Q, K"] = f"a stable resting place for a share of {found['share_of_gaussian']}"
    shown["random K = Q"] = f"a stable resting place for a share of {found['share_of_positive']}"
    return shown | ({"picture": heading["experiment_picture"]} if "experiment_picture" in heading else {})


def _range(values: Any) -> str:
    if not isinstance(values, list):
        return "not formed" if values is None else f"{values:g}"
    if any(value is None or isinstance(value, list) for value in values):
        return ", ".join(_range(value) for value in values[:4])
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _use_compilation_cache() -> None:
    """Keep compiled code between commands, unless the user has settings of their own."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(base / "attnflow" / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2."""
    _use_compilation_cache()
    try:
        app()
    except ValueError as error:
        from attnflow._common.checks import InputError

        if not isinstance(error, InputError):
            raise
        print(f"attnflow: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("attnflow: interrupted.", file=sys.stderr)
        sys.exit(130)
