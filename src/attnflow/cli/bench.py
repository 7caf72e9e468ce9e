"""The command `attnflow bench`: the speed of attnflow beside other ways to compute the same numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli.console import Overwrite, print_columns, print_facts, print_sentences

REPEATS, QUICK_REPEATS = 7, 3  # of every timing; the table shows median and range
Rows = Annotated[list[str] | None, typer.Option("--rows", help="Name of a row; may be repeated. All rows otherwise.")]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    example = "attnflow bench --quick --rows full-200 --rows polytope"
    app.command(epilog=f"Example: {example}", rich_help_panel="Figures, page, installation")(bench)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller rows and fewer repeats: about a minute.")] = False,
    rows: Rows = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for all timings, .json.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure speed beside NumPy, SciPy, plain JAX, diffrax, published schemes and a bare loop in C."""
    from attnflow._common.checks import require_known
    from attnflow._common.files import require_free, require_suffix
    from attnflow._common.precision import double
    from attnflow.experiments.bench.rows import ROWS
    from attnflow.experiments.bench.timing import machine, timings

    for name in rows or ():
        require_known(name, tuple(ROWS), "--rows")
    if json_file is not None:
        require_suffix(json_file, "A file of timings", (".json",))
        require_free(json_file, overwrite=overwrite)
    facts = machine()
    print_facts("attnflow bench", {name: _as_text(fact) for name, fact in facts.items() if name != "is_busy"})
    if facts["is_busy"]:
        print_sentences("The machine is busy: other programs slow the timings down. Ratios suffer less than seconds.")
    table: list[dict[str, Any]] = []
    with double():
        for name in rows or ROWS:
            row = ROWS[name](quick)
            found = timings(row, QUICK_REPEATS if quick else REPEATS)
            table += [_record(row, timing) for timing in found]
            _print_row(row, found)
    if json_file is not None:
        _write_json({"machine": facts, "quick": quick, "timings": table}, json_file)


def _as_text(fact: Any) -> str:
    return f"{fact:.2f}" if isinstance(fact, float) else str(fact)


def _print_row(row: Any, found: list[Any]) -> None:
    """Print for each contender the time of a unit, ratios to attnflow with their ranges, and the difference from it."""
    import numpy as np

    from attnflow.experiments.bench.timing import ratios

    over_ours = [ratios(one, found[0]) for one in found]
    columns = {
        row.name: [one.name for one in found],
        f"time a {row.unit}": [_in_units(np.median(one.seconds)) for one in found],
        "over attnflow (range)": [_with_range(wall) for wall, _ in over_ours],
        "processor time over attnflow (range)": [_with_range(processor) for _, processor in over_ours],
        "difference": ["" if one.difference is None else f"{one.difference:.0e}" for one in found],
    }
    print_columns(row.title, columns)


def _with_range(ratios: Any) -> str:
    import numpy as np

    return f"{np.median(ratios):.3g} ({ratios.min():.3g} - {ratios.max():.3g})"


def _in_units(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _record(row: Any, timing: Any) -> dict[str, Any]:
    return {
        "row": row.name,
        "title": row.title,
        "unit": row.unit,
        "contender": timing.name,
        "seconds": timing.seconds.tolist(),
        "processor_seconds": timing.processor_seconds.tolist(),
        "difference": timing.difference,
    }


def _write_json(content: dict[str, Any], path: Path) -> None:
    import json

    from attnflow._common.files import written_beside

    with written_beside(path) as beside:
        beside.write_text(json.dumps(content, indent=2), encoding="utf-8")
