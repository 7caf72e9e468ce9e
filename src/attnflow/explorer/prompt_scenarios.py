"""Scenarios of a trained transformer and a prompt, whose words are tokens on the sphere.

In a scenario of layers the tokens pass through the layers of the model; in one of heads they follow the flow of one
layer's heads. A second prompt is drawn beside the first; no token of one prompt attends to the other.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.jit_cache import drop_old_programs
from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer import pictures, trained_models
from attnflow.explorer.measure.layer_measurements import LayerMeasurements
from attnflow.explorer.measure.model_facts import eigenvalues_of
from attnflow.model import masks
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.models.registry import PACKAGED
from attnflow.trained.studies.prompt_sets import built_in_prompts

PAPER = "2312.10794"
SET_BY_MODEL = ("d", "heads", "space", "start", "value", "query_key", "redraw", "mlp", "normalisation", "kappa",
                "model", "layers")  # fmt: skip


@dataclass(frozen=True)
class PromptSettings(Settings):
    """Settings of a scenario whose tokens are the words of a prompt, or of two."""

    prompt: str = "The cat sat on the mat, and the dog sat by the door."
    second: str = ""
    """A second prompt; empty for none."""
    head: int | None = None
    """Number of one head, from 0; None for all heads, whose attention is averaged on the page."""
    model: str = trained_models.MINILM
    layers: int = 6
    """Number of layers of the model."""

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts, one or two."""
        return (self.prompt, self.second) if self.second.strip() else (self.prompt,)


@dataclass(frozen=True)
class LayersSettings(PromptSettings):
    """Settings of a prompt in the layers of a trained model: its prompts, and the head whose attention is shown."""


@dataclass(frozen=True)
class HeadsSettings(PromptSettings):
    """Settings of a flow with the heads of one layer, or with one of them."""

    layer: int = 0


LAYERS = Scenario(
    "minilm-layers",
    "The words of a sentence pass through the six layers of the trained MiniLM: attention, MLP, norms and biases.",
    PAPER,
    LayersSettings(space="sphere", d=384, heads=12, end=6.0),
)
HEADS = Scenario(
    "minilm-heads",
    "The words of a sentence are tokens on the sphere, moved by the heads of one layer of the trained MiniLM.",
    PAPER,
    HeadsSettings(space="sphere", d=384, heads=12, end=12.0),
)


def is_installed() -> bool:
    """Whether MiniLM can be loaded."""
    return trained_models.is_minilm_installed()


def offered() -> list[Scenario]:
    """The scenarios of all models: MiniLM, if installed, and those named on the command line."""
    own = [LAYERS, HEADS] if is_installed() else []
    return own + [one for name, model in trained_models.given().items() for one in _scenarios_of(name, model)]


def _scenarios_of(name: str, model: Any) -> tuple[Scenario, Scenario]:
    """The two scenarios of a model, named after it."""
    config = model.config
    common: dict[str, Any] = {"model": name, "space": "sphere", "d": config.width, "heads": config.heads}
    common |= {"layers": config.layers, "mask": "causal" if config.is_causal else "full"}
    of = "words of a sentence" if model.reads_text else "tokens of a prompt"
    if trained_models.takes_images(model):
        common["prompt"], of = pictures.names()[0], "patches of an image"
    elif not model.reads_text:
        common["prompt"] = " ".join(map(str, trained_models.first_prompt(model)))
    elif (packaged := PACKAGED.get(model.origin)) is not None and packaged.language != "text":
        common["prompt"], of = built_in_prompts(packaged.language)[0], "tokens of a prompt"
    parts = f"The {of} pass through the {config.layers} layers of the trained {name}: attention, MLP, norms and biases."
    flow = f"The {of} are points on the sphere, moved by the heads of one layer of the trained {name}."
    return (
        Scenario(f"{name}-layers", parts, PAPER, LayersSettings(**common, end=float(config.layers))),
        Scenario(f"{name}-heads", flow, PAPER, HeadsSettings(**common, end=12.0)),
    )


def change(settings: PromptSettings, changes: dict[str, Any]) -> PromptSettings:
    """Settings with some replaced; settings given by the model or the prompt cannot be changed."""
    for name in _fixed(settings):
        if changes.get(name) is not None and changes[name] != getattr(settings, name):
            raise InputError(f"`{name}` comes with the trained model and the prompt. Change the prompt.")
    changed = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    counted = replace(changed, n=len(labels(changed)))
    if changes.get("n") is not None and changes["n"] != counted.n:
        raise InputError("`n` comes with the trained model and the prompt. Change the prompt.")
    if isinstance(changed, HeadsSettings):
        _require_index(changed.layer, changed.layers, "layer")
    if changed.head is not None:
        _require_index(changed.head, changed.heads, "head")
    return counted


def _fixed(settings: PromptSettings) -> tuple[str, ...]:
    """Names of the settings that cannot be changed."""
    if not isinstance(settings, LayersSettings):
        return SET_BY_MODEL
    return tuple(
        entry.name for entry in fields(settings) if entry.name not in ("prompt", "second", "head", "n", "runs")
    )


def _require_index(index: int, count: int, name: str) -> None:
    if not 0 <= index < count:
        raise InputError(f"`{name}` must be one of the {name}s, 0 to {count - 1}, but it is {index}.")


def parts(settings: PromptSettings) -> tuple[int, ...]:
    """Number of tokens of each prompt; raises InputError for too many, and for a second image."""
    is_image = trained_models.takes_images(trained_models.get(settings.model))
    if is_image and len(settings.prompts) > 1:
        raise InputError("`second` belongs to models of texts: one image is shown at a time. Leave it empty.")
    named = zip(("prompt", "second"), settings.prompts, strict=False)
    counts = [len(trained_models.words(settings.model, prompt, name)) for name, prompt in named]
    most = trained_models.MAX_PATCHES if is_image else trained_models.MAX_TOKENS
    if (total := sum(counts)) > most:
        if len(counts) == 1:
            raise InputError(f"`prompt` must have at most {most} tokens, but it has {total}. Shorten it.")
        raise InputError(f"The prompts must have at most {most} tokens together, but they have {total}. Shorten them.")
    return tuple(counts)


def labels(settings: PromptSettings) -> tuple[str, ...]:
    """The words, or parts of words, of the tokens of all prompts."""
    parts(settings)
    return tuple(word for prompt in settings.prompts for word in trained_models.words(settings.model, prompt))


def picture(settings: PromptSettings) -> dict[str, Any] | None:
    """The image whose patches are the tokens; None for a prompt of words."""
    return trained_models.picture(settings.model, settings.prompt)


def layer_measurements(settings: LayersSettings) -> LayerMeasurements:
    """The prompts in the layers of the model."""
    drop_old_programs()
    runs = [trained_models.trajectory(settings.model, prompt) for prompt in settings.prompts]

    def spectra(layer: int) -> list[list[list[float]]]:
        heads = trained_models.heads(settings.model, layer)
        return [eigenvalues_of(head) for head in (heads if settings.head is None else [heads[settings.head]])]

    return LayerMeasurements(runs[0] if len(runs) == 1 else _joined(runs), spectra, settings.head)


def _joined(runs: list[xr.Dataset]) -> xr.Dataset:
    """Prompts side by side: tokens after each other, attention in blocks, and `prompt`, the number of the prompt."""
    counts = [run.sizes["token"] for run in runs]
    tokens = xr.concat([run.drop_dims("source") for run in runs], "token", data_vars="minimal")
    first = runs[0].attention
    weights = np.zeros((*first.shape[:2], sum(counts), sum(counts)), first.dtype)
    start = 0
    for run, count in zip(runs, counts, strict=True):
        weights[:, :, start : start + count, start : start + count] = run.attention.values
        start += count
    through = f"{first.sizes['layer']} layers of {runs[0].attrs['model']}"
    outcome = f"Two prompts of {counts[0]} and {counts[1]} tokens through {through}."
    numbers = np.repeat(np.arange(len(runs)), counts)
    return (
        tokens.assign(attention=(first.dims, weights))
        .assign_coords(prompt=("token", numbers))
        .assign_attrs({**runs[0].attrs, "outcome": outcome})
    )


def build(settings: HeadsSettings) -> Setup:
    """The layer's heads on the sphere, and the tokens that the heads act on, divided by their lengths.

    A model with norms keeps these tokens at about one length r. On the unit sphere scores are r^2 smaller, so that
    the heads are multiplied by r^2: beta = 1 is the model's own temperature.
    """
    standard = scenarios.build(plain_settings(settings))
    tokens = np.concatenate([trained_models.entering(settings.model, one, settings.layer) for one in settings.prompts])
    lengths = np.linalg.norm(tokens, axis=-1)
    scale = float(np.mean(lengths**2))
    stored = trained_models.heads(settings.model, settings.layer)
    chosen = stored if settings.head is None else [stored[settings.head]]
    heads = [Head(scale * np.asarray(h.query), h.key, h.value, h.output) for h in chosen]
    flow = SphereAttention(heads, attention=standard.flow.attention, mask=_mask(settings, standard.flow.mask))
    return replace(standard, flow=flow, tokens=tokens / lengths[:, None])


def _mask(settings: HeadsSettings, mask: Any) -> Any:
    """The mask of the settings; with two prompts, each sees only itself."""
    if len(settings.prompts) == 1:
        return mask
    number = np.repeat([0, 1], parts(settings))
    return mask & masks.boolean(number[:, None] == number)


def plain_settings(settings: HeadsSettings) -> Settings:
    """Settings of a small model with the same attention, mask, times, solver and seed."""
    plain: dict[str, Any] = {entry.name: getattr(settings, entry.name) for entry in fields(Settings)}
    return Settings(**{**plain, "d": 3, "heads": 1})
