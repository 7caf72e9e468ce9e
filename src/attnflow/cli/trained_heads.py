"""The commands about the heads of a trained model: heads, flow."""

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
from attnflow.cli.trained_options import PANEL, Ids, ModelName, Seed, Tower, prompt_of, whole_numbers
from attnflow.cli.trained_tables import heads_named, print_by_heads, print_by_kind, print_flow, print_heads


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    examples = {
        heads: "attnflow heads minilm --picture heads.png --out heads.csv",
        flow: "attnflow flow minilm --heads real-positive --start circle --picture flow.png",
    }
    for command, example in examples.items():
        app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(command)


@with_picture_options
def heads(
    drawing: dict[str, Any],
    model: ModelName = "minilm",
    layers: Annotated[str | None, typer.Option(help="Numbers of layers, from 0, such as 0,3. Default all.")] = None,
    runs: Annotated[int, typer.Option(help="Simulations for each head; 0 for spectra only.")] = 1,
    controls: Annotated[
        int,
        typer.Option(help="Heads that are also simulated with other Q and K, four simulations each; 0 for none."),
    ] = 24,
    untrained: Annotated[bool, typer.Option("--untrained", help="Use freshly initialised weights instead.")] = False,
    tower: Tower = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Table, .csv.")] = None,
    picture: PicturePath = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Print spectrum, predicted limit and simulated limit of each head.

    beta is the effective one, sqrt(d) |sym B|_F with B = W_Q^T W_K / sqrt(k); the column whole has sqrt(d) |B|_F,
    which includes the antisymmetric part. In GPT-2 and Llama the gain and centring of the norm before attention are
    part of W_Q, W_K and W_V. Below the table stand the controls: how often simulations have the predicted limit with
    Q = K = 0, with random Q and K, with those of the next head, and in an untrained head.
    """
    from attnflow import trained
    from attnflow._common.checks import require_count
    from attnflow.models import load
    from attnflow.trained.head_tables import require_table_arguments

    require_count(seed, "seed", least=0)
    require_picture(drawing, has_picture=picture is not None, asked_by="--picture")
    opened = load(model, tower=tower)
    chosen = None if layers is None else whole_numbers(layers, "layers")
    require_table_arguments(opened, chosen, runs, controls)
    files = free_files({"csv": out, "picture": picture}, overwrite)
    asked = opened.reinitialised(seed) if untrained else opened
    table = trained.head_table(asked, chosen, runs=runs, seed=seed, controls=controls, progress=progress_of(as_json))
    rows = trained.head_rows(table)
    if "csv" in files:
        write_csv(rows, files["csv"])
    if "picture" in files:
        from attnflow.show import head_spectra

        twin = None if untrained else trained.eigenvalues_of_heads(opened.reinitialised(seed), chosen)
        head_spectra(table, files["picture"], untrained=twin, **drawing)
    print_json_or(
        as_json,
        {"model": table.attrs["model"], "rows": rows, "controls": trained.control_rows(table)} | as_text(files),
        lambda: print_heads(table, rows, as_text(files)),
    )


@with_picture_options
def flow(
    drawing: dict[str, Any],
    model: ModelName = "minilm",
    layer: Annotated[
        int | None, typer.Option(help="Layer of the heads. Default 0, or all layers for the strongest head of a kind.")
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="Heads, such as 0,5; all; or the strongest real-positive, real-negative or complex one.",
            autocompletion=completion.one_of("all", "real-positive", "real-negative", "complex"),
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            help="sphere, circle, gaussian, or prompt with --text.",
            autocompletion=completion.one_of("sphere", "circle", "gaussian", "prompt"),
        ),
    ] = "sphere",
    text: Annotated[str | None, typer.Option(help="The prompt whose embeddings are the first tokens.")] = None,
    ids: Ids = False,
    space: Annotated[
        str, typer.Option(help="sphere or euclidean.", autocompletion=completion.one_of("sphere", "euclidean"))
    ] = "sphere",
    n: Annotated[int | None, typer.Option(help="Number of random tokens. Default 24.")] = None,
    end: Annotated[float, typer.Option(help="Last time.")] = 30.0,
    saves: Annotated[
        int, typer.Option(help="Number of times that are kept; a movie has a frame for each, at most 90.")
    ] = 60,
    by_heads: Annotated[
        bool, typer.Option("--by-heads", help="Compare random subsets of 1, 2, 4, ... heads of the layer.")
    ] = False,
    subsets: Annotated[int, typer.Option(help="For --by-heads: subsets of each number of heads, a run each.")] = 6,
    by_kind: Annotated[
        bool,
        typer.Option("--by-kind", help="Compare the strongest real-positive, real-negative and complex head."),
    ] = False,
    tower: Tower = None,
    seed: Seed = 0,
    out: ResultPath = None,
    picture: PicturePath = None,
    movie: Annotated[Path | None, typer.Option(help="Movie of the principal components: .gif or .mp4.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate the idealised flow with trained heads; print clusters, alignment and its rate."""
    from attnflow import trained
    from attnflow._common.checks import require_count
    from attnflow.models import load
    from attnflow.trained.head_flows import chosen_heads, require_flow_arguments

    if by_heads:
        _refuse_with("--by-heads", {"--by-kind": by_kind or None})
    if by_heads or by_kind:
        name = "--by-heads" if by_heads else "--by-kind"
        _refuse_with(f"{name}, which is many runs", {"--heads": heads, "--out": out, "--movie": movie})
    if start == "prompt":
        _refuse_with("--start prompt, which has the tokens of --text", {"--n": n})
    else:
        _refuse_with(f"--start {start}; for a prompt use --start prompt", {"--text": text, "--ids": ids or None})
    require_count(seed, "seed", least=0)
    require_count(subsets, "subsets")
    require_picture(drawing, has_picture=picture is not None or movie is not None, asked_by="--picture or --movie")
    opened = load(model, tower=tower)
    prompt = None if text is None else prompt_of(opened, text, ids)
    if prompt is not None:
        opened.encode(prompt)
    settings = {
        "space": space,
        "start": start,
        "prompt": prompt,
        "end": end,
        "saves": saves,
        "n": 24 if n is None else n,
    }
    require_flow_arguments(**settings)
    opened.require_layer(layer or 0)
    where = (layer or 0, None) if by_heads or by_kind else _which_heads(opened, layer, heads or "all")
    chosen_heads(opened, *where)
    files = free_files({"result": out, "picture": picture, "movie": movie}, overwrite)
    settings |= {"seed": seed}
    if by_heads or by_kind:
        settings |= {"subsets": subsets} if by_heads else {}
        compare, tell = (_by_heads, print_by_heads) if by_heads else (_by_kind, print_by_kind)
        rows = compare(opened, layer, files, drawing, progress=progress_of(as_json), **settings)
        print_json_or(
            as_json, {"model": opened.name, "rows": rows} | as_text(files), lambda: tell(rows, as_text(files))
        )
        return
    run = trained.head_flow(opened, *where, progress=progress_of(as_json), **settings)
    if "result" in files:
        from attnflow.results.files import save

        save(run, files["result"], overwrite=overwrite)
    _draw_flow(run, files, drawing)
    summary = trained.flow_summary(run)
    print_json_or(as_json, summary | as_text(files), lambda: print_flow(summary, as_text(files)))


def _by_heads(
    model: Any, layer: int | None, files: dict[str, Path], drawing: dict[str, Any], **settings: Any
) -> list[dict[str, Any]]:
    """One row for each subset of heads, drawn if a picture is wanted."""
    from attnflow import show, trained

    rows = trained.by_number_of_heads(model, layer or 0, **settings)
    if "picture" in files:
        show.head_counts(rows, files["picture"], **drawing)
    return rows


def _by_kind(
    model: Any, layer: int | None, files: dict[str, Path], drawing: dict[str, Any], **settings: Any
) -> list[dict[str, Any]]:
    """One row for the strongest head of each kind, drawn if a picture is wanted."""
    from attnflow import show, trained

    runs = trained.flows_by_kind(model, None if layer is None else [layer], **settings)
    if "picture" in files:
        show.head_kinds(runs, files["picture"], **drawing)
    return trained.kind_rows(runs)


def _refuse_with(what: str, options: dict[str, Any]) -> None:
    """Raise InputError if an option is given that `what` would ignore."""
    from attnflow._common.checks import InputError

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{' and '.join(given)} cannot be used with {what}. Leave {given[0]} out.")


def _which_heads(model: Any, layer: int | None, heads: str) -> tuple[int, list[int] | None]:
    """Layer and heads: by number, all heads of a layer, or the strongest head of a kind in one layer or in all."""
    from attnflow import trained
    from attnflow._common.checks import InputError
    from attnflow.trained.head_limits import KINDS

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


def _draw_flow(run: Any, files: dict[str, Path], drawing: dict[str, Any]) -> None:
    named: dict[str, Any] = {"title": _flow_title(run)} | drawing
    if "picture" in files:
        from attnflow.show import trajectories

        trajectories(run, files["picture"], **named)
    if "movie" in files:
        from attnflow.show import movie

        movie(run, files["movie"], **named)


def _flow_title(run: Any) -> str:
    return f"{run.attrs['model']}, layer {run.attrs['layer']}, {heads_named(run.attrs['heads'])}"
