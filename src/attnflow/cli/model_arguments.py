"""What the commands about trained models take: lists of numbers, and prompts that are texts or ids."""

import re
from typing import Any

WHOLE_NUMBERS = r"\s*-?[0-9]+\s*(,\s*-?[0-9]+\s*)*"


def prompt_of(model: Any, text: str, ids: bool) -> Any:
    """Ids where they are asked for, or where nothing else can be meant: numbers, and no tokenizer to read them."""
    if ids or (re.fullmatch(WHOLE_NUMBERS, text) and not model.reads_text):
        return whole_numbers(text, "ids")
    return text


def whole_numbers(text: str, name: str) -> list[int]:
    """Of an argument, commas between."""
    from attnflow._common.checks import InputError

    if not re.fullmatch(WHOLE_NUMBERS, text):
        raise InputError(f"`{name}` must be whole numbers with commas between, such as 1,4, but it is {text!r}.")
    return [int(piece) for piece in text.split(",")]


def numbers(text: str, name: str) -> list[float]:
    """Of an argument, commas between."""
    from attnflow._common.checks import InputError

    try:
        return [float(piece) for piece in text.split(",")]
    except ValueError:
        raise InputError(f"`{name}` must be numbers with commas between, such as 1,4, but it is {text!r}.") from None
