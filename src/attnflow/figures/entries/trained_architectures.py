"""The figure of all installed models beside controls: the table over architectures."""

import xarray as xr

from attnflow import trained
from attnflow._common.checks import InputError
from attnflow._common.progress import Progress
from attnflow.figures.entries.trained_questions import in_words
from attnflow.models import load
from attnflow.models.registry import PACKAGED
from attnflow.models.transformer import Model
from attnflow.show.parts.interval_dots import IntervalDots
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.trained.studies.bootstrap import MeanInterval, mean_interval
from attnflow.trained.studies.prompt_sets import own_ids

Numbers = dict[str, float | int | str]

MEASURES = {
    "mean_cosine": "mean cosine",
    "centred_cosine": "mean cosine about the mean direction",
    "rank_share": "effective rank / number of tokens",
    "sink_share": "share of heads with a sink",
}


def compute(progress: Progress, *, model: str, others: list[str], prompts: int, seed: int) -> xr.Dataset:
    """Measures of the last layer of every installed model, trained and controls, on prompts in its own language."""
    names = list(dict.fromkeys([model, *others]))
    found = {name: one for name in names if (one := _installed(name, is_needed=name == model)) is not None}
    parts = []
    for one in found.values():
        given = [ids.tolist() for ids in own_ids(one, prompts, seed)]
        study = trained.study(one, given, controls=("untrained", "equal attention"), seed=seed, progress=progress).isel(
            model=0, drop=True
        )
        last = study.isel(layer=one.config.layers)
        values = {name: last[name] for name in MEASURES if name in last}
        values["rank_share"] = last.effective_rank / study.length
        of_one = xr.Dataset(values).drop_vars("layer").transpose("variant", "prompt")
        summary = f"{one.config.summary()}, on {_language(one)}"
        parts.append(of_one.assign(summary=summary))
    joined = xr.concat(parts, "model").assign_coords(model=[one.name for one in found.values()])
    missing = [name for name in names if name not in found]
    return joined.assign_attrs(missing=", ".join(missing))


def draw(dataset: xr.Dataset) -> Picture:
    """Draw the measures of the last layer, a row a model, trained beside controls."""
    short = [str(name) for name in dataset.model.values]
    panels = []
    for name, words in MEASURES.items():
        found = {str(v): _over_prompts(dataset[name].sel(variant=v), "model") for v in dataset.variant.values}
        series = {variant: (one.mean, one.low, one.high) for variant, one in found.items()}
        panels.append(IntervalDots(short, series, words, columns=3))
    sizes = "; ".join(f"{name}: {summary}" for name, summary in zip(short, dataset.summary.values, strict=True))
    lacking = f" Not installed: {dataset.attrs['missing']}." if dataset.attrs["missing"] else ""
    caption = (
        f"{sizes}. Last layer; means over {dataset.sizes['prompt']} prompts, 95 % bootstrap intervals; tokens "
        f"in random directions have the cosine -1/(n - 1) about their mean.{lacking}"
    )
    height = 1.6 + 0.55 * len(short)
    rows = [panels[:2], panels[2:]]
    return panel_picture(
        rows, "The last layer of trained models beside controls", caption, width=4.6, heights=[height] * 2
    )


def numbers(dataset: xr.Dataset) -> Numbers:
    """Every measure of every model and variant, with its interval: the table over models."""
    table: Numbers = {"models": dataset.sizes["model"]}
    for name, words in MEASURES.items():
        for variant in dataset.variant.values:
            found = _over_prompts(dataset[name].sel(variant=variant), "model")
            for place, model in enumerate(dataset.model.values):
                table[f"{words}, {model}, {variant}"] = in_words(found, place)
    return table


def _language(model: Model) -> str:
    """What the prompts of a model are, in words."""
    return PACKAGED[model.origin].language if model.origin in PACKAGED else "text" if model.reads_text else "random ids"


def _installed(name: str, *, is_needed: bool) -> Model | None:
    try:
        return load(name)
    except InputError:
        if is_needed:
            raise
        return None


def _over_prompts(values: xr.DataArray, axis: str) -> MeanInterval:
    """Mean over prompts with its bootstrap interval, over one axis, within the range that the measure can have."""
    bounds = (0.0, 1.0) if str(values.name).endswith("share") else (-1.0, 1.0)
    return mean_interval(values.transpose("prompt", axis).values, within=bounds)
