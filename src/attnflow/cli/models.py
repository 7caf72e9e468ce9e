"""The commands about trained models: heads, flow, prompt, ladder."""

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli.console import print_facts, print_json
from attnflow.cli.model_arguments import numbers, prompt_of, whole_numbers
from attnflow.cli.model_tables import (
    heads_named,
    print_by_heads,
    print_by_kind,
    print_flow,
    print_heads,
    print_rows,
    readable,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Overwrite = Annotated[bool, typer.Option(help="Replace existing files.")]
ModelName = Annotated[str, typer.Argument(help="minilm, a directory with config.json, or a name of the hub.")]
Text = Annotated[str, typer.Argument(help="The prompt. Where the model has no tokenizer: ids, such as 101,2023,102.")]
Ids = Annotated[bool, typer.Option("--ids", help="The prompt is ids of tokens with commas between, not a text.")]
Depth = Annotated[
    int | None, typer.Option("--depth", help="How many layers; more than there are only where one is shared.")
]
Angle = Annotated[float, typer.Option(help="Directions closer than this, in radians, are one cluster.")]
Picture = Annotated[Path | None, typer.Option(help="Where to draw it: .png, .pdf or .svg.")]
Control = Annotated[
    str, typer.Option(help="none, untrained (a fresh twin), repeated (one token over and over), iterated (128 layers).")
]
Seed = Annotated[int, typer.Option(help="Of random tokens and of a fresh twin.")]


def heads(
    model: ModelName = "minilm",
    layers: Annotated[str | None, typer.Option(help="Which, such as 0,3; all when not given.")] = None,
    runs: Annotated[int, typer.Option(help="Simulations a head; 0: only spectra.")] = 1,
    untrained: Annotated[bool, typer.Option("--untrained", help="The freshly initialised twin instead.")] = False,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the table as .csv.")] = None,
    picture: Picture = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """What geometry does each head induce? One row a head: spectrum, prediction, simulation.

    beta is the effective one, sqrt(d) |sym B|_F with B = W_Q^T W_K / sqrt(k); the column whole has |B|_F instead, with
    the antisymmetric part.
    """
    from attnflow import trained
    from attnflow.models import load

    files = _free({"csv": out, "picture": picture}, overwrite)
    opened = load(model)
    asked = opened.reinitialised(seed) if untrained else opened
    chosen = None if layers is None else whole_numbers(layers, "layers")
    table = trained.head_table(asked, chosen, runs=runs, seed=seed, progress=False if as_json else None)
    rows = trained.head_rows(table)
    if "csv" in files:
        _write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import head_spectra

        twin = None if untrained else trained.eigenvalues_of_heads(opened.reinitialised(seed), chosen)
        head_spectra(table, files["picture"], untrained=twin)
    _print_json_or(
        as_json, {"model": table.attrs["model"], "rows": rows} | _named(files), lambda: print_heads(table, rows)
    )


def flow(
    model: ModelName = "minilm",
    layer: Annotated[
        int | None, typer.Option(help="Which layer the heads are of: 0, or any for the strongest head of a kind.")
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(help="Such as 0,5; all; or real-positive, real-negative, complex: the strongest such head."),
    ] = None,
    start: Annotated[str, typer.Option(help="sphere, circle, gaussian, or prompt with --text.")] = "sphere",
    text: Annotated[str | None, typer.Option(help="The prompt whose embedding is the start.")] = None,
    ids: Ids = False,
    space: Annotated[str, typer.Option(help="sphere or euclidean.")] = "sphere",
    n: Annotated[int | None, typer.Option(help="Random tokens: 24.")] = None,
    end: Annotated[float, typer.Option(help="Time to reach.")] = 30.0,
    saves: Annotated[int, typer.Option(help="How many times to keep, and frames of the movie.")] = 60,
    by_heads: Annotated[
        bool, typer.Option("--by-heads", help="With 1, 2, 4, ... heads: do more align faster? A table and a picture.")
    ] = False,
    by_kind: Annotated[
        bool,
        typer.Option("--by-kind", help="The strongest real-positive, real-negative and complex head, compared."),
    ] = False,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc.")] = None,
    picture: Picture = None,
    movie: Annotated[Path | None, typer.Option(help="Movie of the principal components: .gif or .mp4.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Run the idealised flow with trained heads: where do they take tokens, and how fast?"""
    from attnflow import trained
    from attnflow.models import load

    if by_heads:
        _refuse_with("--by-heads", {"--by-kind": by_kind or None})
    if by_heads or by_kind:
        name = "--by-heads" if by_heads else "--by-kind"
        _refuse_with(f"{name}, which is many runs", {"--heads": heads, "--out": out, "--movie": movie})
    if start == "prompt":
        _refuse_with("--start prompt, which has the tokens of --text", {"--n": n})
    else:
        _refuse_with(f"--start {start}; for a prompt use --start prompt", {"--text": text, "--ids": ids or None})
    files = _free({"result": out, "picture": picture, "movie": movie}, overwrite)
    opened = load(model)
    prompt = None if text is None else prompt_of(opened, text, ids)
    settings = {"space": space, "start": start, "prompt": prompt, "end": end, "saves": saves, "seed": seed}
    settings |= {} if n is None else {"n": n}
    if by_heads or by_kind:
        compare, tell = (_by_heads, print_by_heads) if by_heads else (_by_kind, print_by_kind)
        rows = compare(opened, layer, files, progress=False if as_json else None, **settings)
        _print_json_or(as_json, {"model": opened.name, "rows": rows} | _named(files), lambda: tell(rows))
        return
    run = trained.head_flow(
        opened, *_which_heads(opened, layer, heads or "all"), progress=False if as_json else None, **settings
    )
    if "result" in files:
        from attnflow.results.files import save

        save(run, files["result"], overwrite=overwrite)
    _draw_flow(run, files)
    summary = trained.flow_summary(run)
    _print_json_or(as_json, summary | _named(files), lambda: print_flow(summary, _named(files)))


def prompt(
    model: ModelName,
    text: Text,
    ids: Ids = False,
    layers: Depth = None,
    angle: Angle = 0.5,
    betas: Annotated[str, typer.Option(help="Inverse temperatures of the interaction energy.")] = "1,4,16",
    control: Control = "none",
    coupling: Annotated[
        bool, typer.Option("--coupling", help="Also the coupling of blocks, by their Jacobians; a picture of its own.")
    ] = False,
    token: Annotated[
        int | None, typer.Option(help="Of --coupling: whose update, counted from 0; the last when not given.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Of --coupling: how many singular vectors; 10 when not given.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Also what V's parts do to the tokens: symmetry or spectrum; with a picture.")
    ] = None,
    frames: Annotated[bool, typer.Option("--frames", help="Also the way seen in the frames of V, S, A.")] = False,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Result file, .zarr or .nc.")] = None,
    picture: Picture = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Follow a prompt through a trained model: cosines, clusters and their words, ranks, energy.

    With --picture, what --split, --frames and --coupling add is drawn beside it: way.png, way-frames.png, and so on.
    """
    from attnflow import trained
    from attnflow._common.checks import InputError
    from attnflow.models import load

    asked_of_coupling = {name: value for name, value in {"token": token, "top": top}.items() if value is not None}
    if asked_of_coupling and not coupling:
        raise InputError(f"--{next(iter(asked_of_coupling))} is of --coupling. Add --coupling, or leave it out.")
    wanted = {"displacement": split is not None, "frames": frames, "coupling": coupling}
    further = [name for name, is_wanted in wanted.items() if is_wanted]
    beside = {} if picture is None else {f"{name} picture": _beside(picture, name) for name in further}
    files = _free({"result": out, "picture": picture, **beside}, overwrite)
    opened = load(model)
    asked = trained.controlled(opened, prompt_of(opened, text, ids), control, layers, rng=seed)
    more = {name: _further(name, asked, split, asked_of_coupling) for name in further}
    progress = False if as_json else None
    report = trained.prompt_report(*asked, angle=angle, betas=numbers(betas, "betas"), progress=progress)
    found = trained.prompt_summary(report) | trained.extra_summary(more)
    if "result" in files:
        from attnflow.results.files import save

        save(report, files["result"], overwrite=overwrite)
    if "picture" in files:
        from attnflow.show import prompt as draw

        draw(report, files["picture"])
        for name, measured in more.items():
            _draw_further(name, measured, beside[f"{name} picture"])
    _print_json_or(
        as_json,
        found | _named(files),
        lambda: print_facts(f"prompt in {found['model']}", readable(found) | _named(files)),
    )


def ladder(
    model: ModelName,
    text: Text,
    ids: Ids = False,
    layers: Depth = None,
    head: Annotated[int, typer.Option(help="The head that the first rungs have.")] = 0,
    mask: Annotated[str, typer.Option(help="Of all rungs but the last: full or causal.")] = "full",
    angle: Angle = 0.5,
    control: Control = "none",
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the table as .csv.")] = None,
    picture: Picture = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """From attention alone to the true block, part by part: which part keeps tokens from collapsing?"""
    from attnflow import trained
    from attnflow.models import load

    files = _free({"csv": out, "picture": picture}, overwrite)
    opened = load(model)
    asked = trained.controlled(opened, prompt_of(opened, text, ids), control, layers, rng=seed)
    climbed = trained.ladder(*asked, head=head, mask=mask, angle=angle, progress=False if as_json else None)
    rows = trained.ladder_rows(climbed)
    if "csv" in files:
        _write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import ladder as draw

        draw(climbed, files["picture"])
    facts = {"model": climbed.attrs["model"], "distance_to_model": climbed.attrs["distance_to_model"], "rows": rows}
    _print_json_or(as_json, facts | _named(files), lambda: print_rows(rows, climbed.attrs["model"]))


EXAMPLES = {
    heads: "attnflow heads minilm --picture heads.png --out heads.csv",
    flow: "attnflow flow minilm --heads real-positive --start circle --picture flow.png",
    prompt: 'attnflow prompt minilm "The cat sat on the mat while the dog slept." --picture prompt.png',
    ladder: 'attnflow ladder minilm "The cat sat on the mat while the dog slept." --picture ladder.png',
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command, example in EXAMPLES.items():
        app.command(epilog=f"Example: {example}")(command)


def _by_heads(model: Any, layer: int | None, files: dict[str, Path], **settings: Any) -> list[dict[str, Any]]:
    """Runs with more and more heads: drawn where a picture is wanted, and a row each."""
    from attnflow import show, trained

    rows = trained.by_number_of_heads(model, layer or 0, **settings)
    if "picture" in files:
        show.head_counts(rows, files["picture"])
    return rows


def _by_kind(model: Any, layer: int | None, files: dict[str, Path], **settings: Any) -> list[dict[str, Any]]:
    """The same with the strongest head of each kind."""
    from attnflow import show, trained

    runs = trained.flows_by_kind(model, None if layer is None else [layer], **settings)
    if "picture" in files:
        show.head_kinds(runs, files["picture"])
    return trained.kind_rows(runs)


def _further(name: str, asked: tuple, split: str | None, of_coupling: dict[str, int]) -> Any:
    """One of the measures that cost more."""
    from attnflow import trained

    if name == "displacement":
        return trained.displacements(*asked, split=split or "symmetry")
    return trained.frames(*asked) if name == "frames" else trained.block_coupling(*asked, **of_coupling)


def _draw_further(name: str, measured: Any, path: Path) -> None:
    from attnflow import show

    {"displacement": show.displacements, "frames": show.frames, "coupling": show.coupling}[name](measured, path)


def _beside(picture: Path, name: str) -> Path:
    return picture.with_stem(f"{picture.stem}-{name}")


def _refuse_with(what: str, options: dict[str, Any]) -> None:
    """Options that would do nothing are refused, not dropped."""
    from attnflow._common.checks import InputError

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{' and '.join(given)} cannot be used with {what}. Leave {given[0]} out.")


def _which_heads(model: Any, layer: int | None, heads: str) -> tuple[int, list[int] | None]:
    """Layer and heads: named by numbers, all of a layer, or the strongest head of a kind in a layer or anywhere."""
    from attnflow import trained
    from attnflow._common.checks import InputError
    from attnflow.trained.head_tables import KINDS

    if heads == "all":
        return layer or 0, None
    if heads not in KINDS:
        return layer or 0, whole_numbers(heads, "heads")
    asked = None if layer is None else [layer]
    found = trained.strongest(trained.head_table(model, asked, runs=0, progress=False), heads)
    if found is None:
        where = model.name if layer is None else f"layer {layer} of {model.name}"
        raise InputError(f"No head of {where} is {heads}. Choose heads by number, or all.")
    return found[0], [found[1]]


def _draw_flow(run: Any, files: dict[str, Path]) -> None:
    title = f"{run.attrs['model']}, layer {run.attrs['layer']}, {heads_named(run.attrs['heads'])}"
    if "picture" in files:
        from attnflow.show import trajectories

        trajectories(run, files["picture"], title=title)
    if "movie" in files:
        from attnflow.show.parts.animation import save_movie
        from attnflow.show.parts.principal_components import principal_movie

        save_movie(principal_movie(run, title), files["movie"])


def _free(paths: dict[str, Path | None], overwrite: bool) -> dict[str, Path]:
    """The files that are wanted, checked before anything is computed."""
    from attnflow._common.checks import InputError
    from attnflow._common.files import require_free

    wanted = {name: path for name, path in paths.items() if path is not None}
    for name, path in wanted.items():
        if name.endswith("picture"):
            from attnflow.show.parts.style import require_free_picture

            require_free_picture(path, overwrite=overwrite)
        elif name == "result":
            from attnflow.results.files import require_free_result

            require_free_result(path, overwrite=overwrite)
        elif name == "csv" and path.suffix != ".csv":
            raise InputError(f"A table is written as `.csv`, but the path is {path}. Use {path.with_suffix('.csv')}.")
        else:
            require_free(path, overwrite=overwrite)
    return wanted


def _named(files: dict[str, Path]) -> dict[str, str]:
    return {name: str(path) for name, path in files.items()}


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    from attnflow._common.files import written_beside

    with written_beside(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _print_json_or(as_json: bool, facts: Any, otherwise: Any) -> None:
    if as_json:
        print_json(facts)
    else:
        otherwise()
