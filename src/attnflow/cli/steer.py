"""The command `attnflow steer`: weights that take tokens to targets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
from attnflow.cli.console import (
    AsJson,
    Overwrite,
    as_text,
    free_files,
    picture_beside,
    print_facts,
    print_json_or,
    save_result,
)
from attnflow.cli.picture_options import require_picture, with_picture_options
from attnflow.cli.run import PANEL

STARTS = completion.words_of("start")


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "attnflow steer --from sphere --to sphere --n 12 --d 3 --out steered.zarr"
    app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(steer)


@with_picture_options
def steer(
    drawing: dict[str, Any],
    start: Annotated[
        str,
        typer.Option("--from", help="First tokens: a law such as sphere, or a file of numbers.", autocompletion=STARTS),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to", help="Targets: a law, drawn with another seed, or a file of numbers.", autocompletion=STARTS
        ),
    ],
    space: Annotated[
        str,
        typer.Option(
            help="sphere, or euclidean for a neural ODE in R^d.",
            autocompletion=completion.one_of("sphere", "euclidean"),
        ),
    ] = "sphere",
    n: Annotated[int, typer.Option(help="Number of tokens of a law.")] = 8,
    d: Annotated[int, typer.Option(help="Dimension of a law.")] = 3,
    time: Annotated[float | None, typer.Option(help="Time that is allowed.", show_default=False)] = None,
    norm: Annotated[
        float | None,
        typer.Option(
            help="Operator norm that is allowed, of W or with --pieces of V: it bounds the speed of a token.",
            show_default=False,
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            help="For targets that belong to no token, or fewer than tokens: stay (each is taken by one token, the "
            "others stay) or nearest (each token has its nearest target, with --objective label).",
            autocompletion=completion.one_of("stay", "nearest"),
        ),
    ] = None,
    pieces: Annotated[
        int | None,
        typer.Option(help="Number of pieces of attention alone that move all tokens at once, found by a search."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="With --pieces: soonest (default), energy (the least in the given time), arrive, or label (within "
            "--radius of targets that tokens may share).",
            autocompletion=completion.one_of("soonest", "energy", "arrive", "label"),
        ),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="With --objective label: largest distance from a target.", show_default=False)
    ] = None,
    apart: Annotated[
        float | None,
        typer.Option(help="With --pieces: least distance of two tokens all the way.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of laws and of directions that are tried.")] = 0,
    out: Annotated[Path, typer.Option(help="Result file, .zarr or .nc.")] = Path("steered.zarr"),
    picture: Annotated[
        Path | None, typer.Option(help="Picture, .png, .pdf or .svg. Default beside the result.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Find a control that takes every token to its target, replay it by a tight solve, and draw it."""
    require_picture(drawing, has_picture=not no_picture)
    files = free_files({"result": out, "picture": picture_beside(out, picture, no_picture)}, overwrite)
    tokens = _points(start, n, d, seed, 0)
    targets = _targets(target, tokens, seed, rule, space)
    search = {"objective": objective, "radius": radius, "apart": apart}
    if pieces is not None:
        found = _optimised(tokens, targets, space, pieces, search | {"time": time, "norm": norm}, seed)
    else:
        found = _constructed(tokens, targets, space, {"time": time, "norm": norm}, search, seed)
    save_result(found.run, files["result"], overwrite)
    if "picture" in files:
        from attnflow.show.runs.steering import steering as draw

        draw(found.run, files["picture"], **drawing)
    facts = {
        "tokens": len(targets),
        "dimension": targets.shape[-1],
        "pieces": len(found.control.pieces),
        "time": found.time,
        "shortest time of these operator norms": found.limit.time,
        "gap": found.gap,
        "largest error": found.terminal_error,
    }
    if found.search is not None:
        facts |= {"objective": found.search.objective, "cost": found.search.cost, "arrived": found.has_arrived}
        check = found.search.pontryagin
        facts |= {"stationarity": found.search.stationarity, "mean dH/du": check and check.mean_residual}
        facts |= {"least distance": found.least_distance} if apart is not None else {}
    print_json_or(as_json, facts | as_text(files), lambda: print_facts("steer", _readable(facts) | as_text(files)))


def _constructed(
    tokens: Any, targets: Any, space: str, budget: dict[str, Any], search: dict[str, Any], seed: int
) -> Any:
    from attnflow._common.checks import InputError
    from attnflow.control.circle_caps import steer_circle
    from attnflow.control.steering import steer as find

    for name, value in search.items():
        if value is not None:
            raise InputError(f"`--{name}` is of a search. Give the number of `--pieces`, or leave it out.")
    if space != "sphere" or tokens.shape[-1] != 2:
        return find(tokens, targets, space=space, **budget, rng=seed)
    for name, value in budget.items():
        if value is not None:
            raise InputError(f"`--{name}` has no effect on the circle, where caps have their own speed. Leave it out.")
    return steer_circle(tokens, targets)


def _optimised(tokens: Any, targets: Any, space: str, pieces: int, given: dict[str, Any], seed: int) -> Any:
    from attnflow._common.checks import InputError
    from attnflow.control.optimiser import optimise

    if space != "sphere":
        raise InputError("`--pieces` is possible on the sphere only. Leave `--space` or `--pieces` out.")
    given["objective"] = given["objective"] or "soonest"
    return optimise(tokens, targets, pieces, **given, rng=seed)


def _targets(word: str, tokens: Any, seed: int, rule: str | None, space: str) -> Any:
    """The target of every token; those of a law are as many as tokens."""
    targets = _points(word, tokens.shape[-2], tokens.shape[-1], seed, 1)
    if rule is None:
        return targets
    from attnflow.control.assignments import assign

    return assign(tokens, targets, rule, space)


def _points(word: str, n: int, d: int, seed: int, place: int) -> Any:
    import numpy as np

    from attnflow.experiments import specs

    return specs.start(word, n, d, None, np.random.SeedSequence(seed, spawn_key=(place,)))


def _readable(facts: dict[str, Any]) -> dict[str, str]:
    count = facts["tokens"]
    rows = {
        "tokens": f"{count} to {count} targets in dimension {facts['dimension']}",
        "pieces": str(facts["pieces"]),
        "time": f"{facts['time']:.6g}, {facts['gap']:.3g} times the least that the operator norms of the weights allow",
        "error": f"{facts['largest error']:.1e}, the largest distance from a target by a tight solve",
    }
    if "cost" in facts:
        rows["cost"] = f"{facts['cost']:.6g} ({facts['objective']})"
        if facts["stationarity"] is not None:
            rows["cost"] += f"; {facts['stationarity']:.1g} of its gradient is not balanced"
        if "least distance" in facts:
            rows["apart"] = f"{facts['least distance']:.4g} at least on the way"
        rows["arrived"] = "yes" if facts["arrived"] else "no: this is what was reached"
    return rows
