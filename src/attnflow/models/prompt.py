"""A prompt's way through the layers, as a dataset like that of a simulation: time is the layer."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr

from attnflow._arrays import AnyArray
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.tokenizer import Tokens
from attnflow.trajectory import PROMPT

Blocks = Iterator[tuple[int, Block]]


def follow(blocks: Blocks, start: Any, layers: int, attention: bool, report: Callable | None) -> dict[str, list]:
    """The residual stream before and after each block, after each attention half, and the weights if asked for."""
    kept: dict[str, list] = {"tokens": [np.asarray(start)], "after_attention": [], "attention": []}
    tokens = start
    for layer, block in blocks:
        tokens, halfway, weights = _step(block, tokens, attention)
        kept["tokens"].append(np.asarray(tokens))
        kept["after_attention"].append(np.asarray(halfway))
        if attention:
            kept["attention"].append(np.asarray(weights))
        if report is not None:
            report((layer + 1) / layers, f"layer {layer + 1} of {layers}")
    return kept


@eqx.filter_jit
def _step(block: Block, tokens: AnyArray, attention: bool) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    halfway = block.after_attention(tokens)
    weights = block.attention_weights(tokens) if attention else None
    return block.after_mlp(halfway), halfway, weights


def dataset(kept: dict[str, list], final: np.ndarray, prompt: Tokens, config: Config, **names: str) -> xr.Dataset:
    """What `follow` kept, labelled; `final` is the last state after the model's last norm.

    `names` say which model it was and what to load to have it again.
    """
    stream = np.stack(kept["tokens"])
    per_token = ("token", "coordinate")
    variables: dict[str, Any] = {
        "tokens": (("time", *per_token), stream),
        "initial_tokens": (per_token, stream[0]),
        "final_tokens": (per_token, stream[-1]),
        "normed_tokens": (per_token, final),
    }
    if kept["after_attention"]:
        variables["after_attention"] = (("layer", *per_token), np.stack(kept["after_attention"]))
    if kept["attention"]:
        variables["attention"] = (("layer", "head", "token", "source"), np.stack(kept["attention"]))
    coordinates = {
        "time": np.arange(len(stream), dtype=float),
        "id": ("token", prompt.ids),
        "word": ("token", np.array(prompt.words, dtype=object)),
    }
    return xr.Dataset(variables, coordinates, _attributes(stream, prompt, config, names))


def _attributes(stream: np.ndarray, prompt: Tokens, config: Config, names: dict[str, str]) -> dict[str, Any]:
    layers = len(stream) - 1
    outcome = f"{len(prompt)} tokens through {layers} layer{'' if layers == 1 else 's'} of {names['model']}."
    broken = np.flatnonzero(~np.isfinite(stream).all(axis=(1, 2)))
    if len(broken):
        outcome = f"Failed: from layer {broken[0]} on there are NaN or infinite numbers. Load with dtype='float64'."
    described = {key: value for key, value in dataclasses.asdict(config).items() if key != "raw"}
    return {
        "kind": PROMPT,
        "attnflow_version": version("attnflow"),
        "outcome": outcome,
        **names,
        "config": json.dumps(described),
        "dtype": stream.dtype.name,
    }
