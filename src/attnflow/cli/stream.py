"""The command `attnflow stream`: a causal scenario, token by token, to arbitrarily long times."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
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
from attnflow.cli.numbers import number
from attnflow.cli.picture_options import require_picture, with_picture_options
from attnflow.cli.run import PANEL
from attnflow.cli.scenario_options import config_named, default_result, with_scenario_options


@with_scenario_options
@with_picture_options
def stream(
    name: Annotated[
        str,
        typer.Argument(
            help="A scenario with a causal mask, such as renyi or causal, or a file of settings, .toml.",
            autocompletion=completion.scenarios_and_files,
        ),
    ],
    changes: dict[str, Any],
    drawing: dict[str, Any],
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Error allowed in each polynomial piece of the path of a token; default 1e-9.", show_default=False
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds after which to stop.")] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME-long.zarr.")] = None,
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
    """Solve a causal scenario token by token, to arbitrarily long times; write the result and a picture."""
    from attnflow.experiments.effects import require_effect

    require_effect(changes, method="stream")  # before jax is imported, which takes seconds
    from attnflow.experiments.configs.prepared_run import prepare

    given = changes | {"tolerance": tolerance, "budget": budget, "method": "stream"}
    prepared = prepare(config_named(name, given))
    prepared.require_valid()
    out = out or default_result(name, "-long")
    require_picture(drawing, has_picture=not no_picture)
    drawn = picture_beside(out, picture, no_picture)
    files = free_files({"result": out, "picture": drawn, "settings_file": save_config}, overwrite)
    if "settings_file" in files:
        from attnflow.experiments.configs.config_files import save_config as write

        write(prepared.config, files["settings_file"], overwrite=overwrite)
    title = prepared.scenario.name if prepared.scenario else Path(name).stem
    run_streaming(prepared, title, files, overwrite, as_json, drawing)


def run_streaming(
    prepared: Any,
    title: str,
    files: dict[str, Path],
    overwrite: bool,
    as_json: bool,
    drawing: dict[str, Any],
) -> None:
    """Compute a run of `stream`, write and draw it, and print its facts."""
    began = time.monotonic()
    run = prepared.run(progress_of(as_json))
    seconds = time.monotonic() - began
    save_result(run, files["result"], overwrite)
    if "picture" in files:
        _draw(run, files["picture"], drawing)
    facts = {"scenario": title} | _facts(run) | {"seconds": round(seconds, 3)} | as_text(files)
    print_json_or(as_json, facts, lambda: print_facts(title, _readable(facts, prepared.arguments["tolerance"])))
    end_with_code_of(run)


def _facts(run: Any) -> dict[str, Any]:
    """The facts of a run of `stream`, for JSON."""
    import numpy as np

    from attnflow.experiments import run_summary
    from attnflow.experiments.headline import headline
    from attnflow.results import provenance

    flow = provenance.flow_of(run)
    found = run_summary.summarise(flow, run)
    away = np.linalg.norm(run.final_tokens.values - run.initial_tokens.values[0], axis=1).max()
    kept = ("model", "tokens", "dimension", "time", "steps", "rejected_steps")
    return (
        {"headline": headline(flow, run)}
        | {name: found[name] for name in kept}
        | {
            "most_steps_of_a_token": int(run.pieces.values.max()),
            "clusters": found["clusters"],
            "cluster_distance": found["cluster_distance"],
            "farthest_from_first": float(away),
            "outcome": found["outcome"],
        }
    )


def _readable(facts: dict[str, Any], tolerance: float) -> dict[str, str]:
    """The facts in words; a distance that is not above the tolerance of the paths is zero with that error."""
    shown = {name: facts[name] for name in ("headline", "model")}
    shown["tokens"] = f"{facts['tokens']} in dimension {facts['dimension']}"
    most = f"at most {facts['most_steps_of_a_token']} for one token"
    shown["steps"] = f"{facts['steps']} ({facts['rejected_steps']} rejected), {most}"
    shown["time"] = f"t = {number(facts['time'])}, computed in {number(facts['seconds'])} s"
    shown["clusters"] = f"{facts['clusters']} (within {facts['cluster_distance']:.3g})"
    away = number(facts["farthest_from_first"], tolerance)
    shown["farthest token"] = f"at a distance of {away} from the start of the first token"
    shown["outcome"] = facts["outcome"]
    return shown | {name: facts[name] for name in ("result", "picture") if name in facts}


def _draw(run: Any, path: Path, drawing: dict[str, Any]) -> None:
    """Draw the Rényi centres where they are defined, else the paths of the tokens."""
    from attnflow import show
    from attnflow.results import provenance
    from attnflow.show.theory.centres import centres

    flow = provenance.flow_of(run)
    has_centres = flow.is_on_sphere and flow.beta > 0
    (centres if has_centres else show.trajectories)(run, path, **drawing)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: attnflow stream renyi --n 100 --end 1e60", rich_help_panel=PANEL)(stream)
