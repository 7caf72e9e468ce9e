"""`attnflow stream`: a causal scenario token by token, to times however long."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli.console import print_facts, print_json
from attnflow.cli.model_options import with_model_options

IDLE = ("solver", "rtol", "atol", "spacing", "runs", "kappa", "redraw", "mlp")
FIRST_SAVE = 0.01  # of time; from there on times are saved evenly in their logarithm


@with_model_options
def stream(
    name: Annotated[str, typer.Argument(help="A scenario with a causal mask, such as renyi or causal.")],
    changes: dict[str, Any],
    tolerance: Annotated[float, typer.Option(help="What a piece of a path leaves unresolved.")] = 1e-9,
    budget: Annotated[float | None, typer.Option(help="Seconds for tokens to come to the end.")] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default NAME-long.zarr.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside it.")] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Make no picture.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Follow a causal scenario token by token, to times however long; write the result and a picture of its centres."""
    began = time.monotonic()
    _require_effect(changes)
    import numpy as np

    from attnflow.experiments import scenarios
    from attnflow.results.files import require_free_result, save
    from attnflow.streaming import stream as streaming

    settings = scenarios.change(scenarios.get(name).settings, changes)
    setup = scenarios.build(settings)
    streaming.require_served(setup.flow, setup.tokens)
    result = require_free_result(out or Path(f"{name}-long.zarr"), overwrite=overwrite)
    drawn = None if no_picture else _free_picture(picture or result.with_suffix(".png"), overwrite)
    times = np.r_[0.0, np.geomspace(min(FIRST_SAVE, settings.end / 2), settings.end, settings.saves - 1)]
    run = streaming.stream(
        setup.flow, setup.tokens, times, tolerance=tolerance, budget=budget, progress=False if as_json else None
    )
    save(run, result, overwrite=overwrite)
    if drawn is not None:
        _draw(run, drawn)
    files = {"result": str(result)} | ({} if drawn is None else {"picture": str(drawn)})
    facts = {"scenario": name} | _facts(run) | {"seconds": round(time.monotonic() - began, 2)} | files
    print_json(facts) if as_json else print_facts(name, facts)


def _require_effect(changes: dict[str, Any]) -> None:
    from attnflow._common.checks import InputError

    for name in IDLE:
        if changes[name] is not None:
            raise InputError(f"`{name}` has no meaning token by token. Leave it out, or use 'attnflow run'.")


def _free_picture(path: Path, overwrite: bool) -> Path:
    from attnflow.show.parts.style import require_free_picture

    return require_free_picture(path, overwrite=overwrite)


def _facts(run: Any) -> dict[str, Any]:
    """The numbers that people want to see first."""
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


def _draw(run: Any, path: Path) -> None:
    """The centres, where there are such; else the tokens' ways."""
    from attnflow import show
    from attnflow.results import provenance
    from attnflow.show.theory.centres import centres

    flow = provenance.flow_of(run)
    has_centres = flow.is_on_sphere and flow.beta > 0
    (centres if has_centres else show.trajectories)(run, path)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: attnflow stream renyi --n 100 --end 1e60")(stream)
