"""The commands about result files: rerun, describe, show, config."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import coalesce
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    end_with_code_of,
    free_files,
    print_facts,
    print_json_or,
    progress_of,
    save_result,
)
from attnflow.cli.picture_options import with_picture_options
from attnflow.cli.run import PANEL, finish


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    examples = {
        rerun: "attnflow rerun polytope.zarr --out again.zarr",
        extend: "attnflow extend polytope.zarr --end 40",
        config: "attnflow config polytope.zarr --out polytope.toml",
        describe: "attnflow describe polytope.zarr",
        show: "attnflow show polytope.zarr --out polytope.pdf --size column",
    }
    for command, example in examples.items():
        app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(command)


def rerun(
    path: Annotated[Path, typer.Argument(help="A result file, or the store of a sweep.")],
    cell: Annotated[
        str | None, typer.Option(help="Of a sweep: its run, by the values of all axes, such as beta=4.0,run=17.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Result file of the repeated run, .zarr or .nc.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the run that a result file records, or one run of a sweep, and compare the two bit for bit.

    They are equal with the same version, the same path of computation (native or XLA) and the same kind of processor.
    """
    from attnflow.sweeps.store import is_sweep

    if cell is not None or is_sweep(path):
        _rerun_of_sweep(path, cell or "", out, overwrite, as_json)
        return
    from attnflow.experiments.rerun import rerun as repeat
    from attnflow.results.files import load
    from attnflow.results.provenance import ResultKind, flow_of, kind_of

    recorded = load(path)
    if kind_of(recorded) is not ResultKind.PROMPT:
        flow_of(recorded)  # a record that cannot be read is said at once
    files = free_files({"result": out}, overwrite)
    began = time.monotonic()
    result = repeat(recorded, progress=progress_of(as_json))
    seconds = time.monotonic() - began
    # A file of 0.1.0 lacks the variables that were added since.
    is_equal = bool(recorded.equals(result.drop_vars(set(result.variables) - set(recorded.variables))))
    heading = {"repeated": str(path), "bit_for_bit": is_equal}
    if kind_of(recorded) is ResultKind.DENSITY:
        from attnflow.cli.laws import finish_law

        finish_law(str(path), result, files, overwrite, as_json, {}, heading)
    elif kind_of(recorded) is ResultKind.COALESCENCE:
        if "result" in files:
            save_result(result, files["result"], overwrite)
        facts = heading | coalesce.coalescing_facts(result)
        print_json_or(as_json, facts, lambda: print_facts("repeated", coalesce.readable_facts(facts)))
    else:
        finish(str(path), flow_of(recorded), result, files, overwrite, heading, seconds, as_json)
    if not is_equal:
        raise typer.Exit(1)
    end_with_code_of(result)


def extend(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    end: Annotated[float, typer.Option(help="Last time.")],
    saves: Annotated[
        int | None, typer.Option(help="Number of new times that are kept. Default: spaced as before.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc. Default FILE-extended.zarr.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Continue a finished run to a later time, and write the whole run."""
    from attnflow._common.checks import require_count, require_finite_number
    from attnflow.experiments.extend import extend as continued
    from attnflow.experiments.extend import require_finished, require_later
    from attnflow.results.files import load
    from attnflow.results.provenance import flow_of

    require_finite_number(end, "end")
    if saves is not None:
        require_count(saves, "saves")
    recorded = load(path)
    require_finished(recorded)
    times = _later_times(recorded, end, saves)
    require_later(times, float(recorded.time.values[-1]))
    files = free_files({"result": out or path.with_name(f"{path.stem}-extended.zarr")}, overwrite)
    began = time.monotonic()
    result = continued(recorded, times, progress=progress_of(as_json))
    seconds = time.monotonic() - began
    finish(str(path), flow_of(result), result, files, overwrite, {"extended": str(path)}, seconds, as_json)
    end_with_code_of(result)


def _later_times(run: Any, end: float, saves: int | None) -> Any:
    """Times after the last one of a run, evenly spaced, or in their logarithm where the last ones are."""
    import numpy as np

    times = run.time.values
    last, step = float(times[-1]), float(times[-1] - times[-2])
    is_log = len(times) > 3 and times[-3] > 0 and np.isclose(times[-1] / times[-2], times[-2] / times[-3], rtol=1e-6)
    distance = np.log(end / last) / np.log(last / times[-2]) if is_log and end > 0 else (end - last) / step
    count = saves or max(1, round(distance))
    return (np.geomspace(last, end, count + 1) if is_log and end > last else np.linspace(last, end, count + 1))[1:]


def _rerun_of_sweep(path: Path, cell: str, out: Path | None, overwrite: bool, as_json: bool) -> None:
    """Repeat one run of a sweep with its trajectory."""
    from attnflow.results.provenance import flow_of
    from attnflow.sweeps.replay import replay

    # A value may hold commas: text without an equals sign belongs to the value before it.
    parts: list[str] = []
    for text in cell.split(",") if cell else []:
        parts = [*parts, text] if "=" in text or not parts else [*parts[:-1], f"{parts[-1]},{text}"]
    values = _values(parts, "--cell")
    number = values.pop("run", "0")
    files = free_files({"result": out}, overwrite)
    began = time.monotonic()
    result = replay(path, values, int(number) if number.isdigit() else number, progress=progress_of(as_json))
    seconds = time.monotonic() - began
    compared = result.attrs["equals_sweep"]
    where = ", ".join(f"{name} = {value}" for name, value in (values | {"run": number}).items())
    heading = {"repeated": f"{path}, {where}"} | ({"bit_for_bit": compared == 1} if compared >= 0 else {})
    finish(str(path), flow_of(result), result, files, overwrite, heading, seconds, as_json)
    if compared == 0:
        raise typer.Exit(1)


def describe(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    as_json: AsJson = False,
) -> None:
    """Print what a result shows: its limit, clusters and rate, what theory predicts, the statements that hold."""
    from attnflow.experiments.describe import describe as described

    description = described(path)
    print_json_or(as_json, description.as_dict(), lambda: print_facts(description.headline, description.facts))


@with_picture_options
def show(
    path: Annotated[Path, typer.Argument(help="A result file written by 'attnflow run' or af.save.")],
    drawing: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")] = None,
    member: Annotated[int | None, typer.Option(help="Of an ensemble: one run by its number, from 0.")] = None,
    times: Annotated[
        str | None, typer.Option(help="Times at which the tokens are drawn, one panel each, such as 0,2,8.")
    ] = None,
    observable: Annotated[str | None, typer.Option(help="Of a sweep: the observable. Default the first.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="Of a sweep: NAME=VALUE of an axis; may repeat.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw the picture of a result file or of the store of a sweep."""
    from attnflow._common.checks import InputError
    from attnflow._common.files import with_suffix
    from attnflow.sweeps.store import is_sweep

    if is_sweep(path):
        from attnflow.show.sweeps.sweep import sweep as draw
        from attnflow.sweeps.store import load_sweep as load

        if member is not None or times is not None:
            raise InputError(
                f"`--member` and `--times` apply to runs, but {path} is a sweep. Choose values of axes with `--at`."
            )
        drawing |= {"observable": observable, "at": _values(at, "--at")}
    else:
        from attnflow.results.files import load
        from attnflow.show.runs.display import result_picture as draw

        if observable is not None or at:
            raise InputError(f"`--observable` and `--at` are of sweeps, but {path} is no sweep.")
        drawing |= {"member": member, "times": None if times is None else _numbers(times, "--times")}
    result = load(path)
    picture = free_files({"picture": out or with_suffix(path, ".png")}, overwrite)["picture"]
    draw(result, picture, **drawing)
    print_json_or(as_json, {"picture": str(picture)}, lambda: print(picture))


def _numbers(text: str, option: str) -> list[float]:
    """Numbers separated by commas."""
    from attnflow._common.checks import InputError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"`{option}` must be numbers separated by commas, such as 0,2,8, but it is {text!r}."
        ) from None


def _values(texts: list[str] | None, option: str) -> dict[str, str]:
    """The values of NAME=VALUE by name."""
    from attnflow._common.checks import InputError

    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            raise InputError(f"`{option}` must be NAME=VALUE, each name once, but it is {text!r}.")
        found[name] = value
    return found


def config(
    name: Annotated[str, typer.Argument(help="A result file, a scenario, or a file of settings, .toml.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write, .toml; arrays of more than 64 numbers are written beside it.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Print or write the settings from which 'attnflow run' computes a result again."""
    from attnflow.cli.scenario_options import config_named
    from attnflow.experiments.catalogue import CATALOGUE
    from attnflow.experiments.configs.config_files import save_config
    from attnflow.experiments.configs.config_of import config_of
    from attnflow.experiments.configs.config_text import config_text
    from attnflow.experiments.configs.prepared_run import expanded, plain
    from attnflow.results.files import load

    is_named = name in CATALOGUE or Path(name).suffix.lower() == ".toml"
    found = expanded(config_named(name, {}) if is_named else config_of(load(name)))
    written = {} if out is None else {"settings_file": str(save_config(found, out, overwrite=overwrite))}
    text = config_text(found) if out is None else f"{out}\n"
    facts = {"settings": plain(dict(found.values))} | written
    print_json_or(as_json, facts, lambda: print(text, end=""))
