"""The commands about a prompt in a trained model: prompt, ladder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    PicturePath,
    ResultPath,
    as_text,
    free_files,
    print_json_or,
    progress_of,
    write_csv,
)
from attnflow.cli.picture_options import require_picture, with_picture_options
from attnflow.cli.trained_options import (
    PANEL,
    Angle,
    Control,
    Depth,
    Ids,
    ModelName,
    Seed,
    Text,
    Tower,
    numbers,
    prompt_of,
)
from attnflow.cli.trained_summaries import print_prompt
from attnflow.cli.trained_tables import print_ladder


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    sentence = '"The cat sat on the mat while the dog slept."'
    for command in (prompt, ladder):
        name = command.__name__
        example = f"attnflow {name} minilm {sentence} --picture {name}.png"
        app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(command)


@with_picture_options
def prompt(
    model: ModelName,
    text: Text,
    drawing: dict[str, Any],
    ids: Ids = False,
    layers: Depth = None,
    angle: Angle = 0.5,
    betas: Annotated[str, typer.Option(help="Inverse temperatures of the interaction energy.")] = "1,4,16",
    classes: Annotated[
        str,
        typer.Option(
            help="Classes of neural collapse: token (equal ids), first or last (clusters of that layer).",
            autocompletion=completion.one_of("token", "first", "last"),
        ),
    ] = "token",
    control: Control = "none",
    coupling: Annotated[
        bool, typer.Option("--coupling", help="Also measure the coupling of blocks by their Jacobians.")
    ] = False,
    token: Annotated[
        int | None,
        typer.Option(help="For --coupling: the token whose update is measured. Default the last."),
    ] = None,
    top: Annotated[int | None, typer.Option(help="For --coupling: number of singular vectors. Default 10.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Also measure how the parts of V move tokens: symmetry or spectrum.",
            autocompletion=completion.one_of("symmetry", "spectrum"),
        ),
    ] = None,
    frames: Annotated[bool, typer.Option("--frames", help="Also measure cosines in the frames of V, S and A.")] = False,
    lens: Annotated[
        bool,
        typer.Option("--lens", help="Also print the words that each layer predicts through the unembedding."),
    ] = False,
    tower: Tower = None,
    seed: Seed = 0,
    out: ResultPath = None,
    picture: PicturePath = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Print cosines, clusters with their words, ranks and energy of a prompt in each layer.

    With --picture a.png, the measurements of --split, --frames and --coupling are drawn in a-frames.png and so on, and
    the clusters and the attention of an image, on the image, in a-patches.png.
    """
    from attnflow import trained
    from attnflow._common.checks import InputError, require_count, require_known
    from attnflow.models import load
    from attnflow.trained.coupling import require_coupling_arguments
    from attnflow.trained.displacement import SPLITS
    from attnflow.trained.prompt_reports import require_report_arguments

    asked_of_coupling = {name: value for name, value in {"token": token, "top": top}.items() if value is not None}
    if asked_of_coupling and not coupling:
        raise InputError(f"--{next(iter(asked_of_coupling))} belongs to --coupling. Add --coupling, or leave it out.")
    wanted = {"displacement": split is not None, "frames": frames, "coupling": coupling}
    further = [name for name, is_wanted in wanted.items() if is_wanted]
    require_picture(drawing, has_picture=picture is not None, asked_by="--picture")
    require_count(seed, "seed", least=0)
    require_report_arguments(angle, numbers(betas, "betas"), classes)
    if split is not None:
        require_known(split, SPLITS, "split")
    opened = load(model, tower=tower)
    asked = trained.controlled(opened, prompt_of(opened, text, ids), control, layers, rng=seed)
    length = len(opened.encode(asked[1]))
    opened.require_depth(asked[2], "layers" if layers is None else "--depth")
    if lens:
        opened.require_unembedding()
    if coupling:
        require_coupling_arguments(opened, length, **asked_of_coupling)
    drawn = [*further, *(["patches"] if opened.config.patch else [])]
    beside = {} if picture is None else {f"{name} picture": _beside(picture, name) for name in drawn}
    files = free_files({"result": out, "picture": picture, **beside}, overwrite)
    report = trained.prompt_report(
        *asked, angle=angle, betas=numbers(betas, "betas"), classes=classes, progress=progress_of(as_json)
    )
    more = {name: _further(name, asked[0], report, split, asked_of_coupling) for name in further}
    found = trained.prompt_summary(report) | trained.extra_summary(more)
    if lens:
        found["logit_lens"] = trained.lens_rows(trained.logit_lens(asked[0], report, top=1))
    if "result" in files:
        from attnflow.results.files import save

        save(report, files["result"], overwrite=overwrite)
    if "picture" in files:
        from attnflow.show import prompt as draw

        draw(report, files["picture"], **drawing)
        for name in drawn:
            _draw_further(name, more.get(name, report), beside[f"{name} picture"], drawing)
    print_json_or(as_json, found | as_text(files), lambda: print_prompt(found, as_text(files), report.attrs["dtype"]))


@with_picture_options
def ladder(
    model: ModelName,
    text: Text,
    drawing: dict[str, Any],
    ids: Ids = False,
    layers: Depth = None,
    head: Annotated[int, typer.Option(help="Head of the rungs that have one head.")] = 0,
    mask: Annotated[
        str,
        typer.Option(
            help="Mask of all rungs but the last: full or causal.", autocompletion=completion.one_of("full", "causal")
        ),
    ] = "full",
    angle: Angle = 0.5,
    control: Control = "none",
    tower: Tower = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Table, .csv.")] = None,
    picture: PicturePath = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Add the parts of a block to attention one by one; print cosines, clusters and ranks with each of them."""
    from attnflow import trained
    from attnflow._common.checks import require_count
    from attnflow.models import load
    from attnflow.trained.ladders import require_ladder_arguments

    require_picture(drawing, has_picture=picture is not None, asked_by="--picture")
    require_count(seed, "seed", least=0)
    opened = load(model, tower=tower)
    asked = trained.controlled(opened, prompt_of(opened, text, ids), control, layers, rng=seed)
    opened.encode(asked[1])
    opened.require_depth(asked[2], "layers" if layers is None else "--depth")
    require_ladder_arguments(opened, head, mask, angle)
    files = free_files({"csv": out, "picture": picture}, overwrite)
    climbed = trained.ladder(*asked, head=head, mask=mask, angle=angle, progress=progress_of(as_json))
    rows = trained.ladder_rows(climbed)
    if "csv" in files:
        write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import ladder as draw

        draw(climbed, files["picture"], **drawing)
    facts = {"model": climbed.attrs["model"], "distance_to_model": climbed.attrs["distance_to_model"], "rows": rows}
    print_json_or(
        as_json,
        facts | as_text(files),
        lambda: print_ladder(rows, climbed.attrs["model"], climbed.sizes["token"], as_text(files)),
    )


def _further(name: str, model: Any, report: Any, split: str | None, of_coupling: dict[str, int]) -> Any:
    """A measurement that is made only where its option is given, on the trajectory of the report."""
    from attnflow import trained

    if name == "displacement":
        return trained.displacements(model, report, split=split or "symmetry")
    return trained.frames(model, report) if name == "frames" else trained.block_coupling(model, report, **of_coupling)


def _draw_further(name: str, measured: Any, path: Path, drawing: dict[str, Any]) -> None:
    from attnflow import show

    drawings = {"displacement": show.displacements, "frames": show.frames, "coupling": show.coupling}
    if name == "patches":
        show.patches(measured, path, angle=measured.attrs["angle"], **drawing)
    else:
        drawings[name](measured, path, **drawing)


def _beside(picture: Path, name: str) -> Path:
    return picture.with_stem(f"{picture.stem}-{name}")
