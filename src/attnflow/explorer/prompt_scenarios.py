"""Scenarios of a trained transformer and a prompt, whose words are tokens on the sphere.

In `LAYERS` the tokens pass through the layers of the model; in `HEADS` they follow the flow of one layer's heads.
"""

from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common import extras
from attnflow._common.checks import InputError
from attnflow._common.jit_cache import drop_old_programs
from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer.measure.layer_measurements import LayerMeasurements
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head

MAX_CHARACTERS = 400  # of a prompt
MAX_TOKENS = 256  # of a prompt: one row of the attention image each
SET_BY_MODEL = ("d", "heads", "space", "start", "value", "query_key", "redraw", "mlp", "normalisation", "kappa")


@dataclass(frozen=True)
class PromptSettings(Settings):
    """Settings of a scenario whose tokens are the words of a prompt."""

    prompt: str = "The cat sat on the mat, and the dog sat by the door."


@dataclass(frozen=True)
class LayersSettings(PromptSettings):
    """Settings of a prompt in the layers of a trained model, which can be changed in its prompt only."""


@dataclass(frozen=True)
class HeadsSettings(PromptSettings):
    """Settings of a flow with the heads of one layer."""

    layer: int = 0


LAYERS = Scenario(
    "minilm-layers",
    "The words of a sentence pass through the six layers of the trained MiniLM: attention, MLP, norms and biases.",
    "2312.10794",
    LayersSettings(space="sphere", d=384, heads=12, end=6.0),
)
HEADS = Scenario(
    "minilm-heads",
    "The words of a sentence are tokens on the sphere, moved by the heads of one layer of the trained MiniLM.",
    "2312.10794",
    HeadsSettings(space="sphere", d=384, heads=12, end=12.0),
)


@cache
def is_installed() -> bool:
    """Whether the model can be loaded."""
    return extras.is_installed("minilm")


def change(settings: PromptSettings, changes: dict[str, Any]) -> PromptSettings:
    """Settings with some replaced; settings given by the model or the prompt cannot be changed."""
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
    """Names of the settings that cannot be changed."""
    if not isinstance(settings, LayersSettings):
        return SET_BY_MODEL
    return tuple(entry.name for entry in fields(settings) if entry.name not in ("prompt", "n", "runs"))


def _require_prompt(prompt: str) -> None:
    if not prompt.strip() or len(prompt) > MAX_CHARACTERS:
        raise InputError(f"`prompt` must be a text of 1 to {MAX_CHARACTERS} characters, but it has {len(prompt)}.")
    if not prompt.isascii() and any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise InputError("`prompt` must be a text, but some characters are unpaired halves of others. Type it again.")
    if (count := len(_model().encode(prompt))) > MAX_TOKENS:
        raise InputError(f"`prompt` must have at most {MAX_TOKENS} tokens, but it has {count}. Shorten it.")


def _require_layer(layer: int) -> None:
    layers = _model().config.layers
    if not 0 <= layer < layers:
        raise InputError(f"`layer` must be one of the layers, 0 to {layers - 1}, but it is {layer}.")


def layer_measurements(settings: LayersSettings) -> LayerMeasurements:
    """The prompt in the layers of the model."""
    drop_old_programs()
    heads = tuple(_heads(layer) for layer in range(_model().config.layers))
    return LayerMeasurements(_trajectory(settings.prompt), heads)


def labels(settings: PromptSettings) -> tuple[str, ...]:
    """The words, or parts of words, of the tokens."""
    return tuple(_model().encode(settings.prompt).words)


def build(settings: HeadsSettings) -> Setup:
    """The layer's heads on the sphere, and the tokens that enter the layer, divided by their lengths.

    MiniLM normalises after every layer, which keeps tokens at about one length r. On the unit sphere scores are
    r^2 smaller, so that the heads are multiplied by r^2: beta = 1 is the model's own temperature.
    """
    standard = scenarios.build(plain_settings(settings))
    tokens = _tokens(settings.prompt, settings.layer)
    lengths = np.linalg.norm(tokens, axis=-1)
    scale = float(np.mean(lengths**2))
    heads = [Head(scale * np.asarray(h.query), h.key, h.value, h.output) for h in _heads(settings.layer)]
    flow = SphereAttention(heads, attention=standard.flow.attention, mask=standard.flow.mask)
    return replace(standard, flow=flow, tokens=tokens / lengths[:, None])


def plain_settings(settings: HeadsSettings) -> Settings:
    """Settings of a small model with the same attention, mask, times, solver and seed."""
    plain: dict[str, Any] = {entry.name: getattr(settings, entry.name) for entry in fields(Settings)}
    return Settings(**{**plain, "d": 3, "heads": 1})


@cache
def _model() -> Any:
    from attnflow.models import load

    return load("minilm")


@lru_cache(6)
def _heads(layer: int) -> list[Head]:
    return _model().heads(layer)


@lru_cache(8)
def _tokens(prompt: str, layer: int) -> np.ndarray:
    """Tokens that enter a layer."""
    if layer == 0:
        return np.asarray(_model().embed(prompt), float)
    return _model().trajectory(prompt, layers=layer, progress=False).tokens.values[-1].astype(float)


@lru_cache(8)
def _trajectory(prompt: str) -> xr.Dataset:
    return _model().trajectory(prompt, attention=True, progress=False)
