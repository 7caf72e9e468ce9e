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
    print_json_or(as_json, facts, lambda: print_facts(name, _readable(facts)))


def _facts(run: Any) -> dict[str, Any]:
    """The facts that are printed of a run of `stream`."""
    import numpy as np

    from attnflow.experiments import run_summary
    from attnflow.results import provenance

    flow = provenance.flow_of(run)
    found = run_summary.summarise(flow, run)
    steps = f"{found['steps']} ({found['rejected_steps']} rejected), {run.pieces.values.max()} of one token at most"
    away = np.linalg.norm(run.final_tokens.values - run.initial_tokens.values[0], axis=1).max()
    return {
        "model": found["model"],
        "tokens": found["tokens"],
        "time": found["time"],
        "steps": steps,
        "clusters": found["clusters"],
        "farthest_from_first": float(away),
        "outcome": found["outcome"],
    }


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with names in words and numbers of four digits."""
    names = {"farthest_from_first": "largest distance from the first token's start"}
    shown = {name: fact for name, fact in facts.items() if name != "scenario"}
    return {names.get(name, name): f"{fact:.4g}" if isinstance(fact, float) else fact for name, fact in shown.items()}


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
