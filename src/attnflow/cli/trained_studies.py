"""The command study: many prompts through trained models, with controls and intervals."""

import sys
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
from attnflow.cli.trained_options import PANEL, Angle, Depth, Seed, Tower, numbers

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
            help="Models: minilm, smollm2, ...; directories of models or of checkpoints, .gguf files; hub names.",
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
    tower: Tower = None,
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
    from attnflow._common.checks import InputError, require_known
    from attnflow.trained.studies.assembly import known_steps
    from attnflow.trained.studies.layer_measures import WORDS

    require_picture(drawing, has_picture=picture is not None or training is not None, asked_by="--picture")
    shown = [name.strip() for name in measures.split(",")]
    for name in shown:
        require_known(name, WORDS, "measures")
    asked = [] if controls.strip() == "none" else [name.strip() for name in controls.split(",")]
    files = free_files({"csv": csv, "picture": picture, "training picture": training}, overwrite)
    opened = _asked_models(models, revisions, tower)
    for one in opened:
        one.require_depth(layers, "--depth")
    if training is not None and not known_steps([one.name for one in opened]):
        raise InputError(
            "--training needs two or more checkpoints with different steps in their names, such as checkpoint-500 or "
            f"step1000, but the models are {', '.join(one.name for one in opened)}."
        )
    try:
        found = trained.study(
            opened,
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
    except KeyboardInterrupt:
        print(f"attnflow: interrupted. {_kept(out)}", file=sys.stderr)
        raise typer.Exit(130) from None
    rows = trained.study_rows(found)
    if "csv" in files:
        write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import study as draw

        draw(found, files["picture"], measures=shown, **drawing)
    if "training picture" in files:
        from attnflow.show import training as draw_steps

        draw_steps(found, files["training picture"], measures=shown, **drawing)
    written = as_text({**({} if out is None else {"result": out}), **files})
    facts = {"prompts": found.sizes["prompt"], "rows": [row for row in rows if row["measure"] in shown]}
    print_json_or(as_json, facts | written, lambda: _print_study(found, rows, shown, written))


def _kept(out: Path | None) -> str:
    """What an interrupted study has left."""
    from attnflow.trained.studies.parts import parts_folder

    if out is None:
        return "Nothing is kept without --out."
    count = len(list(parts_folder(out).glob("*.nc")))
    return f"Finished parts: {count}, kept in {parts_folder(out)}; the same command continues."


def _asked_models(models: list[str], revisions: str | None, tower: str | None) -> list[Any]:
    """The models of the command, or the revisions of the only one."""
    from attnflow._common.checks import InputError
    from attnflow.models import load, load_checkpoints
    from attnflow.trained.studies.study import opened_models

    if revisions is None:
        return [one for name in models for one in ([load(name, tower=tower)] if tower else opened_models(name))]
    if tower:
        raise InputError("--tower is for CLIP, and --revisions load models without towers. Leave one of them out.")
    if len(models) > 1:
        raise InputError(f"--revisions are those of one repository, but {len(models)} models are given. Pass one.")
    return list(load_checkpoints(models[0], [one.strip() for one in revisions.split(",")]))


def _print_study(found: Any, rows: list[dict[str, Any]], shown: list[str], written: dict[str, str]) -> None:
    """Print, for each model and measure, the means of all variants by layer, and where the model differs from them."""
    from attnflow.trained.studies.bootstrap import LEAST_PROMPTS, intervals_in_words
    from attnflow.trained.studies.layer_measures import WORDS
    from attnflow.trained.studies.rows import baseline_sentence

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
    facts["intervals"] = intervals_in_words(found.sizes["prompt"])
    if "centred_cosine" in shown:
        facts["centred cosine"] = baseline_sentence(found)
    if found.sizes["variant"] > 1 and found.sizes["prompt"] >= LEAST_PROMPTS:
        facts["intervals"] += "; * where the paired difference from the trained model excludes 0"
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
    """The mean with its interval; of a control, with a star where the paired difference from the model excludes 0.

    Examples
    --------
    >>> row = {"measure": "cka", "mean": 0.98, "low": 0.97, "high": 0.99}
    >>> row |= {"trained_minus_low": None, "trained_minus_high": None}
    >>> _cell(row), _cell(row | {"mean": 1.0, "low": 1 - 2e-13, "high": 1.0})
    ('0.98 [0.97, 0.99]', '1')
    """
    from attnflow.trained.studies.layer_measures import COUNTS

    if row["mean"] is None:
        return ""
    low, high = row["low"], row["high"]
    error = 0.0 if row["measure"] in COUNTS else SINGLE_ROUNDING
    is_resolved = abs(row["mean"]) > error
    # An interval narrower than the rounding error has the digits of rounding.
    interval = interval_text(low, high) if is_resolved and low is not None and high - low > error else ""
    least, most = row["trained_minus_low"], row["trained_minus_high"]
    is_apart = least is not None and most is not None and (least > 0 or most < 0)
    return " ".join(part for part in (number(row["mean"], error), interval, "*" if is_apart else "") if part)
