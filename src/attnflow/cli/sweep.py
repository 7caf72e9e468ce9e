"""The command `attnflow sweep`: runs over axes of settings, into one store."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
from attnflow.cli.console import AsJson, print_facts, print_json_or, progress_of
from attnflow.cli.run import PANEL
from attnflow.cli.scenario_options import with_scenario_options

MOST_ENDINGS = 5  # sentences on runs that are printed, the most frequent ones


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "attnflow sweep --from renyi --over beta=4:256:7log --over n=50,100,200 --runs 64 --out renyi.zarr"
    app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(sweep)


@with_scenario_options
def sweep(
    changes: dict[str, Any],
    spec: Annotated[Path | None, typer.Argument(help="A spec, .toml; or give --from.")] = None,
    scenario: Annotated[
        str | None, typer.Option("--from", help="Scenario to vary.", autocompletion=completion.scenarios)
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            help="Axis NAME=VALUES: 50,100,200, a range LOW:HIGH:COUNT or LOW:HIGH:COUNTlog, or words, with semicolons "
            "between where they hold commas; may repeat."
        ),
    ] = None,
    table: Annotated[Path | None, typer.Option(help="CSV file whose rows are the places of one axis.")] = None,
    observe: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure, WORD or NAME=WORD: mean-cosine, close-pairs:COSINE, diameter, order-parameter, "
            "largest-norm, energy:BETA, clusters:DISTANCE, final-clusters:DISTANCE, scaled-clusters:RADIUS, vertices, "
            "leaders, rank, captured:SEPARATION,RADIUS, strongly-captured:SEPARATION,RADIUS, unaligned:TOLERANCE, "
            "end-time, step-count; may repeat.",
            autocompletion=completion.one_of(*completion.MEASURES),
        ),
    ] = None,
    reduce: Annotated[
        list[str] | None,
        typer.Option(
            help="Reduction over runs: mean, quantiles:0.1,0.5,0.9, counts or all; may repeat.",
            autocompletion=completion.one_of("mean", "quantiles", "counts", "all"),
        ),
    ] = None,
    common_starts: Annotated[
        bool, typer.Option("--common-starts", help="The same first tokens in all cells with the same n, d and law.")
    ] = False,
    clustered: Annotated[float | None, typer.Option(help="Stop a run when all tokens are this close.")] = None,
    out: Annotated[Path | None, typer.Option(help="Store, .zarr. Default NAME-sweep.zarr.")] = None,
    extend: Annotated[bool, typer.Option("--extend", help="Add runs, values of axes or later times.")] = False,
    workers: Annotated[int | None, typer.Option(help="Local processes. Default: this one, on all cores.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")] = None,
    status: Annotated[Path | None, typer.Option(help="Print the state of this store and compute nothing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run all combinations of some settings, many runs of each, into one store that can be resumed and extended.

    The same command continues a sweep that was interrupted. Exit code 0: all runs are computed. 1: some could not be;
    their status says why. 2: the input is wrong. 130: Ctrl-C ended the sweep; what was finished is kept.
    """
    from attnflow._common.checks import InputError

    if status is not None:
        _print_status(status, as_json)
        return
    if (spec is None) == (scenario is None):
        found = "neither" if spec is None else "both"
        raise InputError(f"Give a spec (.toml) or a scenario with `--from`, but {found} is given.")
    if spec is not None and spec.suffix.lower() != ".toml":
        raise InputError(f"A spec ends in .toml, but it is {spec}. For a scenario, write --from {spec}.")
    source = str(spec) if spec is not None else str(scenario)
    store = out or Path(f"{Path(source).stem}-sweep.zarr")
    own = {name: changes.pop(name, None) for name in ("runs", "seed")}
    settings = changes | ({} if clustered is None else {"clustered": clustered})
    given = own | {"over": _axes(over), "table": table, "observables": _measures(observe), "reduce": reduce or None}
    given |= {"common_starts": True if common_starts else None}
    _sweep(source, store, settings, given | {"extend": extend, "workers": workers, "dask": dask}, as_json)


def _sweep(source: str, store: Path, settings: dict[str, Any], given: dict[str, Any], as_json: bool) -> None:
    import shlex

    from attnflow.sweeps.status import sweep_status
    from attnflow.sweeps.store import has_spec
    from attnflow.sweeps.sweep import sweep as run_sweep

    command = shlex.join(["attnflow", *sys.argv[1:]])
    try:
        found = run_sweep(source, store, settings=settings, command=command, progress=progress_of(as_json), **given)
    except KeyboardInterrupt:
        kept = "Nothing was computed."
        if has_spec(store):
            facts = sweep_status(store)
            kept = f"{facts['computed']} of {facts['runs']} runs are kept in {store}; the same command continues."
        print(f"attnflow: interrupted. {kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    _print_status(store, as_json)
    if found.attrs["runs_failed"]:
        raise typer.Exit(1)


def _axes(texts: list[str] | None) -> dict[str, str] | None:
    """The texts of axes by name."""
    from attnflow._common.checks import InputError

    axes: dict[str, str] = {}
    for text in texts or []:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InputError(f"`--over` must be NAME=VALUES, such as beta=1,4,16, but it is {text!r}.")
        if name in axes:
            raise InputError(f"`--over` gives the axis {name!r} twice. Give it once.")
        axes[name] = values
    return axes or None


def _measures(texts: list[str] | None) -> dict[str, str] | None:
    """The words of measures by name; the name is the word where none is given."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, word = text.rpartition("=")
        found[name if equals else word.partition(":")[0].replace("-", "_")] = word
    return found or None


def _print_status(store: Path, as_json: bool) -> None:
    from attnflow.sweeps.status import sweep_status

    facts = sweep_status(store)
    print_json_or(as_json, {"store": str(store)} | facts, lambda: print_facts(str(store), _readable(facts)))


def _readable(facts: dict[str, Any]) -> dict[str, str]:
    axes = [f"{name} ({len(next(iter(columns.values())))})" for name, columns in facts["axes"].items()]
    endings = [f"{count}: {text}" for text, count in list(facts["endings"].items())[:MOST_ENDINGS]]
    later = facts["computed"] - sum(facts["endings"].values())
    if later > 0:
        endings.append(f"{later}: computed, not in the arrays of the store yet")
    return {
        "runs": f"{facts['computed']} of {facts['runs']} computed, {facts['missing']} missing",
        "cells": f"{facts['finished_cells']} of {facts['cells']} finished; axes {', '.join(axes) or 'none'}",
        "endings": "\n".join(endings) or "none",
        "state": "being written by a process" if facts["is_being_written"] else "not being written",
        "begun": f"{facts['begun']}, attnflow {', '.join(facts['versions'])}",
    }
