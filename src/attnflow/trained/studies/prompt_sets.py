"""The prompts of a study: 64 of this package, the lines of a file, or a list of texts or ids."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model

BUILT_IN = "built-in"


@dataclass(frozen=True)
class PromptSet:
    """Prompts and the name of the set in tables and titles."""

    name: str
    prompts: tuple[Prompt, ...]


def built_in_prompts() -> list[str]:
    """The 64 prompts of this package: sentences, long and short, code, lists, dialogue, repeated words, ten languages.

    Examples
    --------
    >>> len(built_in_prompts())
    64
    """
    return files("attnflow.trained.studies").joinpath("prompts.txt").read_text("utf-8").splitlines()


def prompt_set(prompts: str | os.PathLike | Sequence[Prompt] | None) -> PromptSet:
    """The prompts named by an argument: None for those of this package, a path of a text file, or a list.

    In a file every line that is not blank is a prompt.
    """
    if prompts is None:
        return PromptSet(BUILT_IN, tuple(built_in_prompts()))
    if isinstance(prompts, str | os.PathLike):
        return PromptSet(Path(prompts).name, tuple(_lines_of(Path(prompts))))
    if len(prompts) == 0:
        raise InputError("`prompts` must be at least one text or list of ids, but it is empty.")
    return PromptSet("given", tuple(prompts))


def encoded(model: Model, prompts: Sequence[Prompt]) -> list[np.ndarray]:
    """The ids of every prompt; InputError names the prompt that the model cannot read."""
    found = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            found.append(model.encode(prompt).ids)
        except InputError as error:
            raise InputError(f"Prompt {number} of {len(prompts)} cannot be used with {model.name}: {error}") from error
    return found


def random_ids(model: Model, count: int, length: int, seed: int) -> list[np.ndarray]:
    """Prompts of random ids, for models without a tokenizer."""
    rng = np.random.default_rng([seed, 1])
    size = (count, min(length, model.config.positions))
    return list(rng.integers(model.config.vocabulary, size=size))


def _lines_of(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a text in UTF-8 (byte {error.start}). Convert it, one prompt a line."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{path} cannot be read as a file of prompts: {reason}. Pass a text, one prompt a line."
        ) from error
    prompts = [line.strip() for line in lines if line.strip()]
    if not prompts:
        raise InputError(f"{path} has no prompts: every line is blank. Write one prompt a line.")
    return prompts
