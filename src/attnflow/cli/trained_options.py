"""Arguments that the commands about trained models share, and the reading of prompts and lists of numbers."""

import re
from typing import Annotated, Any

import typer

from attnflow.cli import completion

PANEL = "Trained models"
ModelName = Annotated[
    str,
    typer.Argument(
        help="minilm, smollm2, ..., a directory with config.json, a .gguf file, or a name of the hub.",
        autocompletion=completion.one_of(*completion.MODELS),
    ),
]
Text = Annotated[str, typer.Argument(help="The prompt; ids such as 101,2023,102 if the model has no tokenizer.")]
Ids = Annotated[bool, typer.Option("--ids", help="The prompt is a list of token ids with commas between.")]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth",
        help="Number of layers that a prompt passes, from the first (`layers` in Python). Default those of the model; "
        "more of them only if all share weights.",
    ),
]
Angle = Annotated[float, typer.Option(help="Angle in radians below which two directions are in one cluster.")]
Control = Annotated[
    str,
    typer.Option(
        help="none, untrained (fresh weights), repeated (one token repeated), iterated (128 layers).",
        autocompletion=completion.one_of("none", "untrained", "repeated", "iterated"),
    ),
]
Tower = Annotated[
    str | None,
    typer.Option(help="The tower of a CLIP: text or vision.", autocompletion=completion.one_of("text", "vision")),
]
Seed = Annotated[int, typer.Option(help="Seed of random tokens and of fresh weights.")]

WHOLE_NUMBERS = r"\s*-?[0-9]+\s*(,\s*-?[0-9]+\s*)*"


def prompt_of(model: Any, text: str, ids: bool) -> Any:
    """The prompt as text or as ids: ids if asked for, or if it is numbers and the model has no tokenizer."""
    if ids or (re.fullmatch(WHOLE_NUMBERS, text) and not model.reads_text):
        return whole_numbers(text, "ids")
    return text


def whole_numbers(text: str, name: str) -> list[int]:
    """The whole numbers in an argument, with commas between."""
    from attnflow._common.checks import InputError

    if not re.fullmatch(WHOLE_NUMBERS, text):
        raise InputError(f"`{name}` must be whole numbers with commas between, such as 1,4, but it is {text!r}.")
    return [int(piece) for piece in text.split(",")]


def numbers(text: str, name: str) -> list[float]:
    """The numbers in an argument, with commas between."""
    from attnflow._common.checks import InputError

    try:
        return [float(piece) for piece in text.split(",")]
    except ValueError:
        raise InputError(f"`{name}` must be numbers with commas between, such as 1,4, but it is {text!r}.") from None
