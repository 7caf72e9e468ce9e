"""The command `attnflow run`: a scenario or a file of settings, computed, written, drawn and summarised."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import coalesce, studies
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    as_text,
    end_with_code_of,
    free_files,
    picture_beside,
    print_facts,
    print_json_or,
    progress_of,
    save_result,
)
from attnflow.cli.picture_options import require_picture, with_picture_options
from attnflow.cli.run_table import readable_run
from attnflow.cli.scenario_options import NameOrFile, config_named, default_result, with_scenario_options
from attnflow.experiments.options import COALESCING, COMPUTING, LIMITS

PANEL = "Run and repeat"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: attnflow run polytope --n 50 --seed 3 --out fifty.zarr", rich_help_panel=PANEL)(run)


def _option(name: str) -> Any:
    return typer.Option(help=(LIMITS | COALESCING | COMPUTING)[name].help(name), show_default=False)


@with_scenario_options
@with_picture_options
def run(
    name: NameOrFile,
    changes: dict[str, Any],
    drawing: dict[str, Any],
    clustered: Annotated[float | None, _option("clustered")] = None,
    settled: Annotated[float | None, _option("settled")] = None,
    diverged: Annotated[float | None, _option("diverged")] = None,
    budget: Annotated[float | None, _option("budget")] = None,
    merge: Annotated[float | None, _option("merge")] = None,
    perturb: Annotated[float | None, _option("perturb")] = None,
    float32: Annotated[bool, typer.Option("--float32", help=COMPUTING["float32"].help("float32"))] = False,
    memory: Annotated[float | None, _option("memory")] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME.zarr.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
    save_config: Annotated[
        Path | None, typer.Option(help="Write all settings to this file, .toml, which 'attnflow run' takes.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario or a file of settings, with any setting changed; write the result and a picture.

    Exit code 0: every run has reached its end or was stopped as asked. 1: a run has failed; the outcome says why.
    2: the input is wrong, and nothing was computed. 130: Ctrl-C ended the run. Unless it is 2, the result is written.
    """
    from attnflow.cli.laws import run_law
    from attnflow.experiments.configs.prepared_run import prepare
    from attnflow.experiments.control_scenarios import CONTROLS
    from attnflow.experiments.law_scenarios import law_scenario

    limits = {"clustered": clustered, "settled": settled, "diverged": diverged, "budget": budget, "merge": merge}
    limits |= {"perturb": perturb, "float32": float32 or None, "memory": memory}
    if name in CONTROLS:
        from attnflow.cli.controls import prepare_control, run_control

        setup = prepare_control(name, changes, limits, save_config)
        require_picture(drawing, has_picture=not no_picture)
        out = out or default_result(name)
        files = free_files({"result": out, "picture": picture_beside(out, picture, no_picture)}, overwrite)
        run_control(setup, files, overwrite, as_json, drawing)
        return
    if is_law_name(name):
        _require_law_options(limits, save_config)
        law_scenario(name, **changes)  # a wrong setting is said before files are looked at
        out = out or default_result(name)
        require_picture(drawing, has_picture=not no_picture)
        files = free_files({"result": out, "picture": picture_beside(out, picture, no_picture)}, overwrite)
        run_law(name, changes, limits, files, overwrite, as_json, drawing)
        return
    prepared = prepare(config_named(name, changes | limits))
    prepared.require_valid()
    if prepared.scenario is not None and prepared.scenario.study:
        studies.require_suited(prepared.scenario.study, prepared.arguments["flow"])
    out = out or default_result(name)
    require_picture(drawing, has_picture=not no_picture)
    drawn = picture_beside(out, picture, no_picture)
    files = free_files({"result": out, "picture": drawn, "settings_file": save_config}, overwrite)
    if "settings_file" in files:
        from attnflow.experiments.configs.config_files import save_config as write

        write(prepared.config, files["settings_file"], overwrite=overwrite)
    title = prepared.scenario.name if prepared.scenario is not None else Path(name).stem
    if prepared.method == "coalesce":
        coalesce.run_coalescing(prepared, title, files, overwrite, as_json, drawing)
    elif prepared.method == "stream":
        from attnflow.cli.stream import run_streaming

        run_streaming(prepared, title, files, overwrite, as_json, drawing)
    else:
        _run_simulation(prepared, title, files, overwrite, as_json, drawing)


def is_law_name(name: str) -> bool:
    """Whether a name is that of a scenario of the mean field."""
    from attnflow.experiments.law_scenarios import LAWS

    return name in LAWS


def _require_law_options(limits: dict[str, Any], save_config: Path | None) -> None:
    """Raise InputError for options that have no effect on a law."""
    from attnflow._common.checks import InputError

    given = [name for name, value in limits.items() if value is not None and name != "budget"]
    given += [] if save_config is None else ["save_config"]
    if given:
        raise InputError(f"`--{given[0].replace('_', '-')}` is of runs of tokens, but this is a law. Leave it out.")


def _run_simulation(
    prepared: Any,
    title: str,
    files: dict[str, Path],
    overwrite: bool,
    as_json: bool,
    drawing: dict[str, Any],
) -> None:
    """Compute a run of `simulate`, and the study that belongs to its scenario."""
    began = time.monotonic()
    result, scenario = prepared.run(progress_of(as_json)), prepared.scenario
    seconds = time.monotonic() - began
    heading = {"scenario": title, "paper": "" if scenario is None else scenario.paper}
    heading["settings"] = prepared.shown_settings()
    flow = prepared.arguments["flow"]
    if scenario is not None and scenario.study:
        drawn = files.pop("picture", None)
        heading["experiment"] = studies.STUDIES[scenario.study](flow, prepared.settings, drawn, drawing)
        heading |= {} if drawn is None else {"experiment_picture": str(drawn)}
    finish(title, flow, result, files, overwrite, heading, seconds, as_json, drawing)


def finish(
    title: str,
    flow: Any,
    result: Any,
    files: dict[str, Path],
    overwrite: bool,
    heading: dict[str, Any],
    seconds: float,
    as_json: bool,
    drawing: dict[str, Any] | None = None,
) -> None:
    """Write the files that are asked for and print the summary of a run of `simulate`, which took some seconds."""
    from attnflow.experiments.headline import headline
    from attnflow.experiments.run_summary import final_matrix, summarise

    last = final_matrix(flow, first_run(result))
    summary = summarise(flow, result, last)
    if "result" in files:
        save_result(result, files["result"], overwrite)
    if "picture" in files:
        draw_run(flow, result, files["picture"], last, drawing or {})
    heading |= {"headline": headline(flow, result)}
    summary |= {"seconds": round(seconds, 3)} | as_text(files)
    print_json_or(as_json, heading | summary, lambda: print_facts(title, readable_run(heading, summary)))
    end_with_code_of(result)


def first_run(result: Any) -> Any:
    """The first run of an ensemble, or the only run."""
    return result.isel(run=0) if "run" in result.dims else result


def draw_run(flow: Any, result: Any, path: Path, last: Any, drawing: dict[str, Any]) -> None:
    """Draw an ensemble, or a run with its attention matrices at the start and end (`last`) if they are small enough."""
    from attnflow.experiments.run_summary import first_matrix
    from attnflow.show import summary as draw

    if result.sizes.get("run", 1) > 1:
        draw(result, path=path, **drawing)
        return
    first = first_matrix(flow, first_run(result))
    draw(result, matrices=None if first is None else [first, last], path=path, **drawing)
