"""The command study: many prompts through trained models, with controls and intervals."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    PicturePath,
    as_text,
    free_files,
    print_columns,
    print_facts,
    print_json_or,
    progress_of,
    write_csv,
)
from attnflow.cli.numbers import interval_text, number
from attnflow.cli.picture_options import require_picture, with_picture_options
from attnflow.cli.trained_options import PANEL, Angle, Depth, Seed, numbers

SINGLE_ROUNDING = 5e-6  # of quantities of size one from checkpoints in float32, as `rounding_of` has it
SHOWN = ("mean_cosine", "centred_cosine", "clusters", "effective_rank", "second_eigenvalue", "sink_share")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    example = "attnflow study minilm --prompts prompts.txt --csv study.csv --picture study.png"
    app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(study)


@with_picture_options
def study(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Models: minilm, directories (of a model, or of checkpoints of one), names of the hub.",
            autocompletion=completion.one_of(*completion.MODELS),
        ),
    ],
    drawing: dict[str, Any],
    prompts: Annotated[
        Path | None, typer.Option(help="Text file, one prompt a line. Default: 64 prompts of this package.")
    ] = None,
    revisions: Annotated[
        str | None, typer.Option(help="States of one repository of the hub, such as step0,step1000.")
    ] = None,
    controls: Annotated[
        str, typer.Option(help="Some of: untrained, equal attention, swapped heads, shuffled tokens; or none.")
    ] = "untrained,equal attention,swapped heads,shuffled tokens",
    ladder: Annotated[bool, typer.Option("--ladder", help="Also measure the rungs of the ladder.")] = False,
    layers: Depth = None,
    angle: Angle = 0.5,
    betas: Annotated[str, typer.Option(help="Inverse temperatures of the interaction energy.")] = "1,4,16",
    measures: Annotated[str, typer.Option(help="Measures that are printed and drawn, with commas between.")] = ",".join(
        SHOWN
    ),
    seed: Seed = 0,
    memory: Annotated[float, typer.Option(help="Megabytes of hidden states kept at a time.")] = 512.0,
    out: Annotated[
        Path | None, typer.Option(help="Dataset of all measures, .nc; the same command goes on after a stop.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Table of means and intervals, .csv.")] = None,
    picture: PicturePath = None,
    training: Annotated[
        Path | None, typer.Option(help="Picture of the last layer against the training step, of checkpoints.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Measure many prompts in every layer of trained models, beside controls, with intervals over prompts."""
    from attnflow import trained
    from attnflow._common.checks import require_known
    from attnflow.trained.studies.layer_measures import WORDS

    require_picture(drawing, has_picture=picture is not None or training is not None, asked_by="--picture")
    shown = [name.strip() for name in measures.split(",")]
    for name in shown:
        require_known(name, WORDS, "measures")
    asked = [] if controls.strip() == "none" else [name.strip() for name in controls.split(",")]
    files = free_files({"csv": csv, "picture": picture, "training": training}, overwrite)
    found = trained.study(
        _asked_models(models, revisions),
        prompts,
        controls=asked,
        ladder=ladder,
        layers=layers,
        angle=angle,
        betas=numbers(betas, "betas"),
        seed=seed,
        memory=memory * 1e6,
        out=out,
        overwrite=overwrite,
        progress=progress_of(as_json),
    )
    rows = trained.study_rows(found)
    if "csv" in files:
        write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import study as draw

        draw(found, files["picture"], measures=shown, **drawing)
    if "training" in files:
        from attnflow.show import training as draw_steps

        draw_steps(found, files["training"], measures=shown, **drawing)
    written = as_text({**({} if out is None else {"result": out}), **files})
    facts = {"prompts": found.sizes["prompt"], "rows": [row for row in rows if row["measure"] in shown]}
    print_json_or(as_json, facts | written, lambda: _print_study(found, rows, shown, written))


def _asked_models(models: list[str], revisions: str | None) -> list[Any]:
    """The models of the command, or the revisions of the only one."""
    from attnflow._common.checks import InputError
    from attnflow.models import load_checkpoints

    if revisions is None:
        return list(models)
    if len(models) > 1:
        raise InputError(f"--revisions are those of one repository, but {len(models)} models are given. Pass one.")
    return list(load_checkpoints(models[0], [one.strip() for one in revisions.split(",")]))


def _print_study(found: Any, rows: list[dict[str, Any]], shown: list[str], written: dict[str, str]) -> None:
    """Print, for each model and measure, the means of all variants by layer, and where the model differs from them."""
    from attnflow.trained.studies.layer_measures import WORDS

    for model in found.model.values:
        for name in shown:
            own = [row for row in rows if row["model"] == model and row["measure"] == name]
            for beta in dict.fromkeys(row["beta"] for row in own):
                chosen = [row for row in own if row["beta"] == beta]
                title = f"{model}: {WORDS[name]}{'' if beta is None else f', beta = {beta:g}'}"
                _print_measure(title, chosen)
    facts = {"prompts": f"{found.sizes['prompt']} ({found.attrs['prompts']})"}
    if "repeated_weights" in found.attrs:
        facts["weights"] = found.attrs["repeated_weights"]
    facts["intervals"] = "95 %, bootstrap over prompts; * where the paired difference from the trained model excludes 0"
    print_facts("study", facts | written)


def _print_measure(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table with a row a layer and a column a variant."""
    layers = sorted({row["layer"] for row in rows if row["layer"] is not None})
    cells = {(row["variant"], row["layer"]): _cell(row) for row in rows}
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    if not layers:
        print_facts(title, {variant: cells[variant, None] for variant in variants})
    else:
        columns = {variant: [cells.get((variant, layer), "") for layer in layers] for variant in variants}
        print_columns(title, {"layer": [str(layer) for layer in layers]} | columns)
    print()


def _cell(row: dict[str, Any]) -> str:
    """The mean with its interval; of a control, with a star where the paired difference from the model excludes 0."""
    if row["mean"] is None:
        return ""
    low, high = row["low"], row["high"]
    is_resolved = abs(row["mean"]) > SINGLE_ROUNDING
    interval = f" {interval_text(low, high)}" if is_resolved and low is not None and low < high else ""
    least, most = row["trained_minus_low"], row["trained_minus_high"]
    is_apart = least is not None and most is not None and (least > 0 or most < 0)
    return f"{number(row['mean'], SINGLE_ROUNDING)}{interval}{' *' if is_apart else ''}"
