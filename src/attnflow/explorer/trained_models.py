"""The trained models of the explorer: MiniLM, if installed, and checkpoints named on the command line.

A page names a model by its short name only, so that it cannot open files of this computer.
"""

import re
from functools import cache, lru_cache
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common import extras
from attnflow._common.checks import InputError, require_known
from attnflow.explorer import pictures
from attnflow.model.heads import Head
from attnflow.trained.head_flows import tokens_read

MINILM = "minilm"
MAX_NAME = 60  # characters of a model's short name
MAX_CHARACTERS = 400  # of a prompt
MAX_TOKENS = 256  # of all prompts of a run: one row of the attention image each
MAX_PATCHES = 1100  # tokens of an image: 448 x 448 pixels in patches of 14, and some that are no patches
_given: dict[str, Any] = {}  # models named on the command line, by short name


@cache
def is_minilm_installed() -> bool:
    """Whether MiniLM can be loaded."""
    return extras.is_installed(MINILM)


def add(source: str, tower: str | None = None) -> str:
    """Load a checkpoint directory, or a model that `models.load` knows by name; returns its short name.

    `tower` is that of a CLIP, as in `models.load`.

    The tensors of its embedding and of its first heads are read, so that a damaged checkpoint is refused at once.
    """
    from attnflow.models import load

    if source == MINILM:
        extras.require_extra(MINILM, "MiniLM")
        return MINILM
    model = load(source, tower=tower)
    model.embed(parsed(model, pictures.DRAWN) if takes_images(model) else first_prompt(model))
    model.heads(0)
    name = re.sub(r"[^\w.-]+", "-", model.name)[:MAX_NAME] or "model"
    _given[name] = model
    return name


def forget(name: str) -> None:
    """Forget a model that was added."""
    _given.pop(name, None)


def given() -> dict[str, Any]:
    """The models named on the command line, by short name."""
    return dict(_given)


def get(name: str) -> Any:
    """The model of that short name."""
    require_known(name, [*_given, MINILM], "model")
    return _given[name] if name in _given else _minilm()


@cache
def _minilm() -> Any:
    from attnflow.models import load

    return load(MINILM)


def first_prompt(model: Any) -> list[int]:
    """Ids of a prompt for a model without tokenizer, spread over its vocabulary; the first one is repeated."""
    count = min(12, model.config.positions)
    ids = [(k * model.config.vocabulary) // count for k in range(count)]
    return [*ids[:-1], ids[0]]


def takes_images(model: Any) -> bool:
    """Whether the prompts of a model are images."""
    return bool(model.config.patch)


def parsed(model: Any, prompt: str) -> Any:
    """A prompt as the model takes it: a text, ids of tokens for a model without tokenizer, or an image by its name."""
    if takes_images(model):
        return _prepared(model, prompt)
    if model.reads_text:
        return prompt
    parts = prompt.replace(",", " ").split()
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        last = model.config.vocabulary - 1
        raise InputError(
            f"{model.name} has no tokenizer, so that `prompt` must be ids of tokens from 0 to {last}, such as 5 17 3."
        )
    return [int(part) for part in parts]


@lru_cache(8)
def _prepared(model: Any, name: str) -> Any:
    """The pixels of an image as the model takes them."""
    return model.encode(pictures.get(name))


def picture(name: str, prompt: str) -> dict[str, Any] | None:
    """The image that a model takes as its prompt, for the page; None for a model of texts."""
    model = get(name)
    if not takes_images(model):
        return None
    patches = _prepared(model, prompt)
    first = len(patches) - patches.grid[0] * patches.grid[1]
    return pictures.picture_field(patches.picture, patches.grid, first) | {"names": pictures.names()}


def words(name: str, prompt: str, argument: str = "prompt") -> tuple[str, ...]:
    """The words, or parts of words, of a prompt; raises InputError for a prompt that the page does not take."""
    if not prompt.strip() or len(prompt) > MAX_CHARACTERS:
        raise InputError(f"`{argument}` must be a text of 1 to {MAX_CHARACTERS} characters, but it has {len(prompt)}.")
    if not prompt.isascii() and any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise InputError(
            f"`{argument}` must be a text, but some characters are unpaired halves of others. Type it again."
        )
    model = get(name)
    return tuple(model.encode(parsed(model, prompt)).words)


@lru_cache(8)
def heads(name: str, layer: int) -> list[Head]:
    """The heads of a layer."""
    return get(name).heads(layer)


@lru_cache(8)
def entering(name: str, prompt: str, layer: int) -> np.ndarray:
    """The tokens that the heads of a layer act on; normalised first in a model whose norm precedes attention."""
    model = get(name)
    given = parsed(model, prompt)
    if layer == 0:
        tokens = model.embed(given)
    else:
        tokens = model.trajectory(given, layers=layer, progress=False).tokens.values[-1]
    return tokens_read(model, layer, np.asarray(tokens, float))


@lru_cache(8)
def trajectory(name: str, prompt: str) -> xr.Dataset:
    """A prompt through the layers, with attention."""
    model = get(name)
    return model.trajectory(parsed(model, prompt), attention=True, progress=False)
