"""The prompts of a study: 64 of this package, the lines of a file, or a list of texts or ids."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.models.images import Patches
from attnflow.models.registry import PACKAGED
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model

StudyPrompt = np.ndarray | Patches  # ids, or an image
BUILT_IN = "built-in"
RANDOM_LENGTH = 24  # tokens of a prompt of random ids, for a model without a tokenizer
FILES = {"text": "prompts.txt", "reactions": "reactions.txt", "proteins": "proteins.txt"}


@dataclass(frozen=True)
class PromptSet:
    """Prompts and the name of the set in tables and titles."""

    name: str
    prompts: tuple[Prompt, ...]


def built_in_prompts(language: str = "text") -> list[str]:
    """The prompts of this package, of which a model of one language cannot read those of another.

    "text": 64 prompts, sentences, long and short, code, lists, dialogue, repeated words, ten languages. "reactions": 16
    chemical reactions as SMILES. "proteins": 16 variable domains of antibodies, amino acids as letters.

    Examples
    --------
    >>> len(built_in_prompts())
    64
    """
    require_known(language, FILES, "language")
    return files("attnflow.trained.studies").joinpath(FILES[language]).read_text("utf-8").splitlines()


def prompts_for(model: Model) -> list[str]:
    """The prompts of this package in the language of a model: of reactions or proteins where it is a model of those."""
    packaged = PACKAGED.get(model.origin)
    return built_in_prompts("text" if packaged is None else packaged.language)


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


def token_ids(prompt: StudyPrompt) -> np.ndarray:
    """The ids of a prompt; all patches of an image have different ones."""
    return prompt.ids if isinstance(prompt, Patches) else prompt


def encoded(model: Model, prompts: Sequence[Prompt]) -> list[np.ndarray]:
    """The ids of every prompt of a model of words."""
    if model.config.patch:
        raise InputError(
            f"{model.name} is a model of images, and this measures prompts of words. `trained.study` and "
            "`trained.prompt_report` take images."
        )
    return [token_ids(prompt) for prompt in study_prompts(model, prompts)]


def study_prompts(model: Model, prompts: Sequence[Prompt]) -> list[StudyPrompt]:
    """The ids of every prompt, or its image; InputError names the prompt that the model cannot read.

    For a model without a tokenizer a text may be whole numbers with commas between, which are ids.
    """
    found: list[StudyPrompt] = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            tokens = model.encode(_with_ids(model, prompt))
            found.append(tokens if isinstance(tokens, Patches) else tokens.ids)
        except InputError as error:
            raise InputError(f"Prompt {number} of {len(prompts)} cannot be used with {model.name}: {error}") from error
    return found


def name_of_set(asked: PromptSet, models: Sequence[Model], *, is_own: bool) -> str:
    """The name of the prompts, which also says where models get other prompts than it tells.

    Of this package's own prompts (`is_own`) a model without a tokenizer gets none but random ids, and a model with one
    reads numbers with commas as text.
    """
    readers, others = (
        [model.name for model in models if model.reads_text is reads_text] for reads_text in (True, False)
    )
    if is_own and others:
        return f"{asked.name}; random ids in {' and '.join(others)}" if readers else "random ids"
    is_doubtful = readers and all(_is_ids(prompt) and "," in str(prompt) for prompt in asked.prompts)
    return (
        f"{asked.name}, whose numbers {' and '.join(readers)} read as text, not as ids" if is_doubtful else asked.name
    )


def _with_ids(model: Model, prompt: Prompt) -> Prompt:
    is_read = _is_ids(prompt) and not model.reads_text
    return [int(piece) for piece in str(prompt).split(",")] if is_read else prompt


def _is_ids(prompt: Prompt) -> bool:
    """Whether a text is whole numbers with commas between."""
    return isinstance(prompt, str) and re.fullmatch(r"[0-9]+(\s*,\s*[0-9]+)*", prompt) is not None


def random_ids(model: Model, count: int, length: int, seed: int) -> list[np.ndarray]:
    """Prompts of random ids, for models without a tokenizer."""
    rng = np.random.default_rng([seed, 1])
    size = (count, min(length, model.config.positions))
    return list(rng.integers(model.config.vocabulary, size=size))


def own_ids(model: Model, count: int, seed: int) -> list[np.ndarray]:
    """The ids of the first prompts in the language of a model; random ids where it has no tokenizer."""
    if model.config.patch:
        raise InputError(
            f"{model.name} is a model of images, of which this package has none. Pass `prompts`: paths of images, or a "
            "text file with one path a line."
        )
    if model.reads_text:
        return encoded(model, prompts_for(model)[:count])
    return random_ids(model, count, RANDOM_LENGTH, seed)


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
