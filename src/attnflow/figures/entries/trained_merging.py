"""The figure of attention over merged keys: error of the hidden states of a long prompt against cost."""

import numpy as np
import xarray as xr

from attnflow import trained
from attnflow._common.checks import InputError
from attnflow._common.progress import Progress
from attnflow.models import load
from attnflow.models.transformer import Model
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.trained.merged_layers import CONTROL, MERGED

ACCEPTED = 0.05  # mean relative error of the last hidden states up to which the caption looks for the least cost
CHARACTERS_PER_TOKEN = 8  # at most, on average, of the text below


def compute(
    progress: Progress, *, model: str, n: int, score_changes: list[float], layers: int, seed: int
) -> xr.Dataset:
    """Errors and costs of merged attention on a prompt of n tokens, or as many as the model has positions."""
    loaded = load(model)
    count = min(n, loaded.config.positions)
    ids, words = _long_prompt(loaded, count, seed)
    found = trained.merged_attention(
        loaded, ids, score_changes, layers=min(layers, loaded.config.layers), seed=seed, progress=progress
    )
    return found.assign_attrs(words=words)


def draw(dataset: xr.Dataset) -> Picture:
    """Draw the error against the share of pairs, the error by layer, and the processor time."""
    last, ticks = dataset.error.isel(layer=-1), dataset.score_change.values.tolist()
    pairs = dataset.pair_share.mean(["layer", "head"])
    time = dataset.seconds.sum("layer") / dataset.dense_seconds.sum("layer")
    against_cost, by_time = [], []
    for place, groups in enumerate((MERGED, CONTROL)):
        colour, one = line_colour(place), {"groups": groups}
        against_cost.append(Line(pairs.sel(one), last.sel(one), groups, colour, marker="o"))
        by_time.append(Line(dataset.score_change, time.sel(one), groups, colour, marker="o"))
    by_layer = [
        Line(dataset.layer, dataset.error.sel(groups=MERGED).isel(score_change=k), f"{change:g}", marker=".")
        for k, change in enumerate(ticks)
    ]
    panels = [
        Lines(against_cost, "share of pairs summed", "relative error, last layer", "Error against cost", yscale="log"),
        Lines(by_layer, "layer", "relative error", "Close keys, by change of scores", yscale="log", columns=3),
        Lines(
            by_time, "change of scores", "time / time of all pairs", "Processor time", xscale="log",
            levels={"all pairs": 1.0}, xticks=ticks, ylim=(0.0, None),
        ),
    ]  # fmt: skip
    title = f"Attention over merged keys: {dataset.attrs['tokens']} tokens through {dataset.attrs['model']}"
    caption = (
        f"Prompt: {dataset.attrs['words']}. In every head of every layer, keys whose scores differ by at most the "
        "given root mean square over queries are one key of their mass. Errors are means over tokens of |x' − x| / "
        f"|x|, all layers so far merged. {cost_sentence(dataset)}"
    )
    return panel_picture([panels], title, caption, width=3.9, heights=[4.1])


def cost_sentence(dataset: xr.Dataset) -> str:
    """The least share of pairs with an error of the last layer of at most 5 %, and its time, for both kinds of groups.

    A coarser grouping that has a smaller error than a finer one counts too.
    """
    return " ".join(_cost_of(dataset.sel(groups=groups), groups) for groups in (MERGED, CONTROL))


def numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Error of the last layer, share of pairs, share of groups and time, for every change and kind of groups."""
    found: dict[str, float | int | str] = {"tokens": int(dataset.attrs["tokens"])}
    dense = float(dataset.dense_seconds.sum())
    for groups in (MERGED, CONTROL):
        for change in dataset.score_change.values:
            one, words = dataset.sel(groups=groups, score_change=change), f"{groups}, {change:g}"
            found[f"relative error of the last layer, {words}"] = float(one.error[-1])
            found[f"share of pairs, {words}"] = float(one.pair_share.mean())
            found[f"groups over tokens, {words}"] = float(one.group_share.mean())
            found[f"time over that of all pairs, {words}"] = float(one.seconds.sum()) / dense
    return found


def _cost_of(dataset: xr.Dataset, groups: str) -> str:
    is_accepted = dataset.error.isel(layer=-1).values <= ACCEPTED
    if not np.any(is_accepted):
        return f"With {groups} no setting has a last error of at most {ACCEPTED:.0%}."
    shares = dataset.pair_share.mean(["layer", "head"]).values
    best = int(np.argmin(np.where(is_accepted, shares, np.inf)))
    one = dataset.isel(score_change=best)
    time = float(one.seconds.sum() / dataset.dense_seconds.sum())
    return (
        f"With {groups} a last error of at most {ACCEPTED:.0%} takes {shares[best]:.0%} of the pairs and {time:.2g} "
        "times the processor time of all pairs, grouping included."
    )


def _long_prompt(model: Model, count: int, seed: int) -> tuple[list[int], str]:
    """The ids of a prompt of that many tokens, and what it is."""
    if not model.reads_text:
        return np.random.default_rng(seed).integers(model.config.vocabulary, size=count).tolist(), "random ids"
    ids: list[int] = []
    for part in _paragraphs(count * CHARACTERS_PER_TOKEN):
        ids += model.encode(part).ids.tolist()
        if len(ids) >= count:
            return ids[:count], "the reference of the Python language"
    raise InputError(f"`n` must be at most {len(ids)}, the tokens of the text, but it is {count}. Take fewer.")


def _paragraphs(characters: int) -> list[str]:
    """Paragraphs of the Python reference, which comes with Python, of at least that many characters if it has them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise InputError(
            "The prompt of this figure is the text of `pydoc_data.topics`, which this Python lacks. Use "
            "`trained.merged_attention` with a prompt of your own."
        ) from None
    found, length = [], 0
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            found.append(paragraph)
            length += len(paragraph)
        if length >= characters:
            break
    return found
