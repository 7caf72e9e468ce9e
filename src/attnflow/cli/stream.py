"""The command `attnflow stream`: a causal scenario, token by token, to arbitrarily long times."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli.console import (
    AsJson,
    Overwrite,
    as_text,
    free_files,
    picture_beside,
    print_facts,
    print_json_or,
    progress_of,
)
from attnflow.cli.numbers import number
from attnflow.cli.run import PANEL
from attnflow.cli.scenario_options import with_scenario_options

FIRST_SAVED_TIME = 0.01  # the times from here on are evenly spaced in their logarithm


@with_scenario_options
def stream(
    name: Annotated[str, typer.Argument(help="A scenario with a causal mask, such as renyi or causal.")],
    changes: dict[str, Any],
    tolerance: Annotated[
        float, typer.Option(help="Error allowed in each polynomial piece of the path of a token.")
    ] = 1e-9,
    budget: Annotated[float | None, typer.Option(help="Seconds after which to stop.")] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME-long.zarr.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Solve a causal scenario token by token, to arbitrarily long times; write the result and a picture."""
    began = time.monotonic()
    from attnflow.experiments.effects import require_effect

    require_effect(changes, method="stream")  # before jax is imported, which takes seconds
    import numpy as np

    from attnflow.experiments import scenarios
    from attnflow.results.files import save
    from attnflow.streaming import stream as streaming

    settings = scenarios.change(scenarios.get(name).settings, changes)
    setup = scenarios.build(settings)
    streaming.require_supported(setup.flow, setup.tokens)
    out = out or Path(f"{name}-long.zarr")
    files = free_files({"result": out, "picture": picture_beside(out, picture, no_picture)}, overwrite)
    times = np.r_[0.0, np.geomspace(min(FIRST_SAVED_TIME, settings.end / 2), settings.end, settings.saves - 1)]
    run = streaming.stream(
        setup.flow, setup.tokens, times, tolerance=tolerance, budget=budget, progress=progress_of(as_json)
    )
    save(run, files["result"], overwrite=overwrite)
    if "picture" in files:
        _draw(run, files["picture"])
    facts = {"scenario": name} | _facts(run) | {"seconds": round(time.monotonic() - began, 2)} | as_text(files)
    print_json_or(as_json, facts, lambda: print_facts(name, _readable(facts, tolerance)))


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


def _draw(run: Any, path: Path) -> None:
    """Draw the Rényi centres where they are defined, else the paths of the tokens."""
    from attnflow import show
    from attnflow.results import provenance
    from attnflow.show.theory.centres import centres

    flow = provenance.flow_of(run)
    has_centres = flow.is_on_sphere and flow.beta > 0
    (centres if has_centres else show.trajectories)(run, path)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: attnflow stream renyi --n 100 --end 1e60", rich_help_panel=PANEL)(stream)
