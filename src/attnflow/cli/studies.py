"""The commands that study many runs, atlas and robustness, and the study behind the scenario conjecture1."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow._common.progress import reporting
from attnflow.cli import completion
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    free_files,
    print_columns,
    print_facts,
    print_json,
    print_sentences,
    progress_of,
)
from attnflow.cli.numbers import number
from attnflow.cli.picture_options import with_picture_options
from attnflow.cli.theory import PANEL


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    examples = {
        atlas: "attnflow atlas --kind trace-determinant --out atlas.pdf",
        robustness: "attnflow robustness --law box --n 10 --n 100 --d 2",
    }
    for command, example in examples.items():
        app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(command)


@with_picture_options
def atlas(
    drawing: dict[str, Any],
    kind: Annotated[
        str,
        typer.Option(
            help="Axes of the grid: eigenvalues or trace-determinant.",
            autocompletion=completion.one_of("eigenvalues", "trace-determinant"),
        ),
    ] = "eigenvalues",
    space: Annotated[
        str,
        typer.Option(
            help="rescaled, sphere-causal or sphere.",
            autocompletion=completion.one_of("rescaled", "sphere-causal", "sphere"),
        ),
    ] = "rescaled",
    d: Annotated[int, typer.Option(help="Dimension.")] = 2,
    low: Annotated[float, typer.Option(help="Least value along both axes.")] = -2.0,
    high: Annotated[float, typer.Option(help="Largest value along both axes.")] = 2.0,
    values: Annotated[int, typer.Option(help="Number of values along each axis.")] = 15,
    n: Annotated[int, typer.Option(help="Number of tokens.")] = 12,
    runs: Annotated[int, typer.Option(help="Starts for each value matrix.")] = 4,
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Local processes. Default: this one.")] = None,
    out: Annotated[Path, typer.Option(help="Picture, .png, .pdf or .svg.")] = Path("atlas.png"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw predicted and simulated limits over a grid of value matrices, and count how many agree."""
    import numpy as np

    from attnflow._common.checks import require_count, require_finite_number
    from attnflow._common.memory import require_array_memory
    from attnflow._common.plain import json_value
    from attnflow.show.theory.atlas import atlas as draw
    from attnflow.sweeps.studies.atlas import atlas as survey
    from attnflow.sweeps.studies.atlas import require_atlas_arguments

    require_count(values, "values", least=2)
    require_finite_number(low, "low")
    require_finite_number(high, "high")
    require_array_memory(values, values, runs, what=f"A grid of {values} x {values} value matrices")
    grid, settings = np.linspace(low, high, values), {"d": d, "space": space, "n": n, "runs": runs, "beta": beta}
    require_atlas_arguments(grid, kind, **settings)
    require_count(seed, "seed", least=0)
    picture = free_files({"picture": out}, overwrite)["picture"]
    with reporting(progress_of(as_json)) as progress:
        found = survey(grid, kind, **settings, seed=seed, workers=workers, progress=progress)
    draw(found, picture, **drawing)
    if as_json:
        words = {name: found[name].values.tolist() for name in ("predicted", "proved", "simulated")}
        axes = {"x": found.x.values.tolist(), "y": found.y.values.tolist()}
        names = ("agreement", "agreement_exchanged", "cells", "cells_with_promise", "cells_compared")
        counts = {name: json_value(found.attrs[name]) for name in names}
        print_json(counts | {"picture": str(picture)} | axes | words)
    else:
        print_facts(f"limits over the {kind} of V", _atlas_facts(found.attrs) | {"picture": str(picture)})


def _atlas_facts(counts: dict[str, Any]) -> dict[str, str]:
    """How many cells are compared, and the agreement beside its control."""
    cells = f"{counts['cells']}, of which {counts['cells_with_promise']} have a predicted limit"
    if not counts["cells_compared"]:
        return {"value matrices": cells, "agreement": "not known: no run of a matrix with a prediction is decided"}
    return {
        "value matrices": f"{cells} and {counts['cells_compared']} of these a decided run",
        "agreement": f"{100 * counts['agreement']:.1f} % of the decided runs show the predicted limit, "
        "a mean over matrices",
        "control": f"{100 * counts['agreement_exchanged']:.1f} % where predictions are exchanged at random among them",
    }


@with_picture_options
def robustness(
    drawing: dict[str, Any],
    laws: Annotated[
        list[str] | None,
        typer.Option(
            "--law",
            help="gaussian, box, ball or shell; may repeat.",
            autocompletion=completion.one_of("gaussian", "box", "ball", "shell"),
        ),
    ] = None,
    n: Annotated[list[int] | None, typer.Option(help="Numbers of tokens; may repeat.")] = None,
    d: Annotated[list[int] | None, typer.Option(help="Dimensions; may repeat.")] = None,
    seeds: Annotated[int, typer.Option(help="Starts for each law, n and d.")] = 12,
    end: Annotated[float, typer.Option(help="Time at which vertices, clusters and leaders are counted.")] = 12.0,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Local processes. Default: this one.")] = None,
    out: Annotated[Path, typer.Option(help="Picture, .png, .pdf or .svg.")] = Path("robustness.png"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Measure how vertices, clusters, leaders and rate depend on the law of the first tokens, n and d."""
    from attnflow._common.checks import require_count
    from attnflow.show.theory.robustness import robustness as draw
    from attnflow.sweeps.studies.robustness import require_robustness_arguments
    from attnflow.sweeps.studies.robustness import robustness as study

    chosen = (laws or ["gaussian", "box", "ball"], n or [10, 20, 40], d or [2, 3])
    require_robustness_arguments(*chosen, seeds=seeds, end=end)
    require_count(seed, "seed", least=0)
    picture = free_files({"picture": out}, overwrite)["picture"]
    with reporting(progress_of(as_json)) as progress:
        found = study(*chosen, seeds=seeds, end=end, seed=seed, workers=workers, progress=progress)
    draw(found, picture, **drawing)
    rows, unfinished = _rows_of_intervals(found), found.attrs["unfinished"]
    if as_json:
        print_json({"rows": rows, "unfinished": unfinished, "picture": str(picture)})
    else:
        _print_intervals(rows)
        if unfinished:
            print_sentences(
                f"{unfinished} of {found.vertices.size} runs did not reach t = {number(end)} and are left out of the "
                "means. Use a smaller --end."
            )
        print(picture)


def _rows_of_intervals(found: Any) -> list[dict[str, Any]]:
    """One row for each law, n and d, with [low, mean, high] of every quantity."""
    from attnflow.sweeps.studies.robustness import QUANTITIES

    return [
        {"law": str(law), "n": int(n), "d": int(d)}
        | {name: found[f"{name}_interval"].sel(law=law, n=n, d=d).values.tolist() for name in QUANTITIES}
        for law in found.law.values
        for n in found.n.values
        for d in found.d.values
    ]


def _print_intervals(rows: list[dict[str, Any]]) -> None:
    """Print means with half the widths of their intervals, and what the quantities are."""
    from attnflow.sweeps.studies.robustness import QUANTITIES

    columns = {name: [str(row[name]) for row in rows] for name in ("law", "n", "d")}
    columns |= {name: [_interval(row[name]) for row in rows] for name in QUANTITIES}
    print_columns("means over starts, with 95 % intervals", columns)
    print_sentences("; ".join(f"{name}: {text}" for name, text in QUANTITIES.items()) + ".")


def _interval(bounds: list[float]) -> str:
    """The mean and half the width of its interval, with the decimals that two digits of the width have.

    Examples
    --------
    >>> _interval([0.9, 2.3333, 3.7667]), _interval([0.995, 1.0, 1.005]), _interval([2.0, 2.0, 2.0])
    ('2.3 ± 1.4', '1.0000 ± 0.0050', '2')
    """
    low, mean, high = bounds
    half = (high - low) / 2
    if not half > 0:
        return number(mean)
    decimals = max(1 - math.floor(math.log10(half)), 0)
    return f"{mean:.{decimals}f} ± {half:.{decimals}f}"


def conjecture1(flow: Any, settings: Any, picture: Path | None, drawing: dict[str, Any]) -> dict[str, Any]:
    """The findings of the counterexample to Conjecture 1, as facts; drawn if a path is given."""
    from attnflow.theorems.studies.conjecture1 import investigate, scan_diagonal, scan_gaussian

    value, query_key = flow.heads[0].value_matrix, flow.heads[0].query_key
    beta, eigenvalues = float(flow.attention.beta), (float(value[0, 0]), float(value[1, 1]))
    runs, end, seed = settings.runs or 1, settings.end, settings.seed
    found = investigate(eigenvalues, query_key, beta, runs=runs, end=end, rng=seed)
    scan = scan_diagonal(eigenvalues=eigenvalues, beta=beta)
    if picture is not None:
        from attnflow.show.theory.conjecture1 import conjecture1 as draw

        draw(found, scan, picture, **drawing)
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


def require_suited(study: str, flow: Any) -> None:
    """Raise InputError if a study is not about the flow."""
    from attnflow._common.checks import InputError
    from attnflow.model.attention import Softmax
    from attnflow.model.heads import Head

    head = flow.heads[0]
    value = head.value_matrix if isinstance(head, Head) and len(flow.heads) == 1 else None
    if value is None or value.shape != (2, 2) or abs(value[0, 1]) + abs(value[1, 0]) > 0:
        raise InputError(f"`value` of {study} must be 'diagonal:FIRST,SECOND' in dimension 2, with one head.")
    if not isinstance(flow.attention, Softmax):
        raise InputError(f"`attention` of {study} must be softmax.")


STUDIES = {"conjecture1": conjecture1}
"""Studies by the name in a scenario's field `study`; each takes flow, settings, path and options of a picture."""


def study_facts(found: dict[str, Any]) -> dict[str, str]:
    """The findings of a study for a table."""
    return {
        "found": "\n".join(found["report"]),
        "random Q, K": f"a stable equilibrium off the eigenvector for a share of {found['share_of_gaussian']}",
        "random K = Q": f"a stable equilibrium off the eigenvector for a share of {found['share_of_positive']}",
    }
