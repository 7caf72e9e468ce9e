"""The command line. Heavy libraries load inside the commands, so that `--help` is quick."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Self-attention dynamics: simulate, explain and show how tokens gather into clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Overwrite = Annotated[bool, typer.Option(help="Replace existing files.")]


@app.command(epilog="Example: attnflow run polytope --n 50 --seed 3 --out fifty.zarr")
def run(
    name: Annotated[str, typer.Argument(help="A scenario; 'attnflow list' shows them.")],
    n: Annotated[int | None, typer.Option(help="Number of tokens.")] = None,
    d: Annotated[int | None, typer.Option(help="Dimension.")] = None,
    beta: Annotated[float | None, typer.Option(help="Inverse temperature; may be negative.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, start and noise.")] = None,
    end: Annotated[float | None, typer.Option(help="Last time.")] = None,
    saves: Annotated[int | None, typer.Option(help="How many times are kept.")] = None,
    spacing: Annotated[str | None, typer.Option(help="Of the times: linear or log.")] = None,
    runs: Annotated[int | None, typer.Option(help="Size of an ensemble.")] = None,
    space: Annotated[str | None, typer.Option(help="euclidean, rescaled or sphere.")] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="V by spectrum: identity, minus-identity, perron-frobenius, gaussian, goe, jordan:1, pair:0.5,2, "
            "diagonal:2,1, eigenvalues:2,1, eigenvalues-random:2,1, or a .npy or .csv file."
        ),
    ] = None,
    query_key: Annotated[str | None, typer.Option(help="Q^T K, in the words of --value.")] = None,
    heads: Annotated[int | None, typer.Option(help="Number of heads.")] = None,
    redraw: Annotated[float | None, typer.Option(help="Draw the weights anew every so much time.")] = None,
    attention: Annotated[
        str | None, typer.Option(help="softmax, unnormalised, unnormalised:OFFSET, hardmax, sinkhorn:ITERATIONS.")
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            help="full, causal, strictly-causal, others, window:WIDTH, alibi:SLOPE, a .npy or .csv file; joined with +."
        ),
    ] = None,
    normalisation: Annotated[
        str | None, typer.Option(help="On the sphere: post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt.")
    ] = None,
    mlp: Annotated[str | None, typer.Option(help="Feed-forward layer: relu, tanh, gelu, identity.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Noise sqrt(2 / kappa) dW.")] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="box:LOW,HIGH, ball:RADIUS, gaussian:DEVIATION, sphere, hemisphere, circle, equiangular:COSINE, "
            "or a .npy or .csv file."
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="tsit5, dopri8, kvaerno5, euler:STEP, heun:STEP, rk4:STEP, layers:STEP,RESIDUAL, stochastic-heun:STEP."
        ),
    ] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of adaptive solvers.")] = None,
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance of adaptive solvers.")] = None,
    clustered: Annotated[float | None, typer.Option(help="Stop when all tokens are this close.")] = None,
    settled: Annotated[float | None, typer.Option(help="Stop when nothing moves faster.")] = None,
    diverged: Annotated[float | None, typer.Option(help="Stop when a token is farther from the origin.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds after which to stop.")] = None,
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
    changes = {
        "n": n, "d": d, "beta": beta, "seed": seed, "end": end, "saves": saves, "spacing": spacing, "runs": runs,
        "space": space, "value": value, "query_key": query_key, "heads": heads, "redraw": redraw,
        "attention": attention, "mask": mask, "normalisation": normalisation, "mlp": mlp, "kappa": kappa,
        "start": start, "solver": solver, "rtol": rtol, "atol": atol,
    }  # fmt: skip
    began = time.monotonic()
    from dataclasses import asdict, replace

    from attnflow import scenarios, stopping
    from attnflow.integrate import simulate

    scenario = scenarios.get(name)
    settings = scenarios.change(scenario.settings, changes)
    if float32 and rtol is None:
        settings = replace(settings, rtol=1e-5, atol=atol or 1e-6)
    setup = scenarios.build(settings)
    files = _free_files(out or Path(f"{name}.zarr"), picture, no_picture, overwrite)
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
    heading = {"scenario": name, "sentence": scenario.sentence, "paper": scenario.paper, "settings": asdict(settings)}
    _finish(setup.flow, result, files, overwrite, heading, began, as_json)


@app.command("list", epilog="Example: attnflow list --json")
def list_scenarios(as_json: AsJson = False) -> None:
    """Show the named scenarios."""
    from dataclasses import asdict

    from attnflow.scenarios import CATALOGUE

    if as_json:
        _print_json([asdict(scenario) for scenario in CATALOGUE.values()])
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
    from attnflow import trajectory
    from attnflow.integrate import rerun as repeat

    files = {} if out is None else _free_files(out, None, True, overwrite)
    recorded = trajectory.load(path)
    result = repeat(recorded, progress=False if as_json else None)
    is_equal = bool(recorded.equals(result))
    heading = {"repeated": str(path), "bit_for_bit": is_equal}
    _finish(trajectory.flow_of(recorded), result, files, overwrite, heading, began, as_json)
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
    from attnflow import trajectory

    picture = _free_picture(out or path.with_suffix(".png"), overwrite)
    result = trajectory.load(path)
    _draw(trajectory.flow_of(result), result, picture, "")
    _print_json({"picture": str(picture)}) if as_json else print(picture)


@app.command(epilog="Example: attnflow doctor")
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed and whether a small run comes out right."""
    from attnflow.doctor import diagnose

    facts = diagnose()
    if as_json:
        _print_json(facts)
    else:
        _print_table("attnflow doctor", facts)
    if not facts["healthy"]:
        raise typer.Exit(1)


def _free_files(out: Path, picture: Path | None, no_picture: bool, overwrite: bool) -> dict[str, Path]:
    """Result and picture, checked before anything is computed."""
    from attnflow.trajectory import require_free_result

    files = {"result": require_free_result(out, overwrite=overwrite)}
    if not no_picture:
        files["picture"] = _free_picture(picture or out.with_suffix(".png"), overwrite)
    return files


def _free_picture(path: Path, overwrite: bool) -> Path:
    from attnflow.show.style import require_free_picture

    return require_free_picture(path, overwrite=overwrite)


def _finish(
    flow: Any, result: Any, files: dict[str, Path], overwrite: bool, heading: dict, began: float, as_json: bool
) -> None:
    """Write what was asked for, then say how it went."""
    from attnflow.report import summarise
    from attnflow.trajectory import save

    summary = summarise(flow, result)
    if "result" in files:
        save(result, files["result"], overwrite=overwrite)
    if "picture" in files:
        _draw(flow, result, files["picture"], heading.get("sentence", ""))
    summary |= {"seconds": round(time.monotonic() - began, 2)}
    summary |= {name: str(path) for name, path in files.items()}
    if as_json:
        _print_json(heading | summary)
    else:
        _print_table(" ".join(str(part) for part in list(heading.values())[:1]), _readable(heading, summary))
    if summary["failed"] == summary["runs"]:
        raise typer.Exit(1)


def _draw(flow: Any, result: Any, path: Path, title: str) -> None:
    from attnflow import report
    from attnflow.show import summary as draw

    one = result.isel(run=0) if "run" in result.dims else result
    matrices = [report.first_matrix(flow, one), report.final_matrix(flow, one)]
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
    return shown | {name: summary[name] for name in ("result", "picture") if name in summary}


def _range(values: Any) -> str:
    if not isinstance(values, list):
        return "not formed" if values is None else f"{values:g}"
    if any(value is None or isinstance(value, list) for value in values):
        return ", ".join(_range(value) for value in values[:4])
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _print_table(title: str, facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, box=None, title_justify="left", title_style="bold cyan")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, str(fact))
    Console().print(table)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


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
        from attnflow._checks import InputError

        if not isinstance(error, InputError):
            raise
        print(f"attnflow: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("attnflow: interrupted.", file=sys.stderr)
        sys.exit(130)
