"""The trajectory of a prompt through the layers, as a dataset like that of a simulation, with the layer as time."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.memory import require_memory
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.tokenizer import Tokens
from attnflow.results.outcome import CAUSES, early_ending, status_variables
from attnflow.results.provenance import ResultKind, stamp
from attnflow.solvers.status import Status

PER_TOKEN = ("token", "coordinate")
DIMENSIONS = {
    "tokens": ("time", *PER_TOKEN),
    "after_attention": ("layer", *PER_TOKEN),
    "attention": ("layer", "head", "token", "source"),
}
Kept = dict[str, list[np.ndarray]]


def follow(
    blocks: Iterable[tuple[int, Block]],
    start: AnyArray,
    layers: int,
    attention: bool,
    report: Callable[[float, str], None] | None = None,
    *,
    may_end_early: bool = False,
) -> Kept:
    """The tokens before and after each numbered block, after each attention half, and attention if requested.

    With `may_end_early`, Ctrl-C keeps the layers that were done.
    """
    steps: list[dict[str, np.ndarray]] = []
    tokens = start
    with suppress(KeyboardInterrupt) if may_end_early else nullcontext():
        for layer, block in blocks:
            states = _step(block, tokens, attention)
            tokens = states["tokens"]
            steps.append({name: np.asarray(values) for name, values in states.items()})
            if report is not None:
                report((layer + 1) / layers, f"layer {layer + 1} of {layers}")
    kept = {name: [step[name] for step in steps if name in step] for name in DIMENSIONS}
    return kept | {"tokens": [np.asarray(start), *kept["tokens"]]}


def require_room_for_layers(config: Config, layers: int, n: int, attention: bool, bytes_each: int) -> None:
    """Raise if the states that `follow` keeps of n tokens, and their copy as a dataset, do not fit into memory."""
    numbers = (layers + 1) * (2 * n * config.width + (config.heads * n * n if attention else 0))
    what = f"The trajectory of {_counted(n, 'token')} through {_counted(layers, 'layer')}"
    require_memory(2 * numbers * bytes_each, what, "Use fewer layers or a shorter prompt.")


@eqx.filter_jit
def _step(block: Block, tokens: AnyArray, attention: bool) -> dict[str, AnyArray]:
    halfway = block.after_attention(tokens)
    states = {"tokens": block.after_mlp(halfway, tokens), "after_attention": halfway}
    return states | ({"attention": block.attention_weights(tokens)} if attention else {})


def dataset(kept: Kept, final: np.ndarray, prompt: Tokens, status: Status, attributes: dict[str, Any]) -> xr.Dataset:
    """The dataset of the states that `follow` kept; `final` is the last state after the model's last norm."""
    variables = {name: (DIMENSIONS[name], np.stack(values)) for name, values in kept.items() if values}
    variables |= {
        "initial_tokens": (PER_TOKEN, kept["tokens"][0]),
        "final_tokens": (PER_TOKEN, kept["tokens"][-1]),
        "normed_tokens": (PER_TOKEN, final),
    } | status_variables(np.array(status))
    coordinates = {
        "time": np.arange(len(kept["tokens"]), dtype=float),
        "id": ("token", prompt.ids),
        "word": ("token", np.array(prompt.words, dtype=object)),
    }
    return xr.Dataset(variables, coordinates, stamp(ResultKind.PROMPT, **attributes))


def ending(kept: Kept, layers: int, prompt: Tokens, model: str) -> tuple[Status, str]:
    """The status of the run, and its outcome as a sentence."""
    broken = [layer for layer, tokens in enumerate(kept["tokens"]) if not np.isfinite(tokens).all()]
    if broken:
        place = f"at layer {broken[0]} of {model}"
        return Status.NOT_FINITE, early_ending(ResultKind.PROMPT, Status.NOT_FINITE, place)
    done = len(kept["tokens"]) - 1
    progress = f"{_counted(len(prompt), 'token')} through {_counted(done, 'layer')} of {model}"
    if done == layers:
        return Status.REACHED, f"{progress}."
    cause = CAUSES[ResultKind.PROMPT][Status.INTERRUPTED]
    return Status.INTERRUPTED, f"{progress}: {cause} before the other {layers - done}."


def described(config: Config) -> str:
    """A config as JSON."""
    return json.dumps({key: value for key, value in dataclasses.asdict(config).items() if key != "raw"})


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
