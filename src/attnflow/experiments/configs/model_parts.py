"""Parts of a model that a file of settings gives as arrays or tables: heads, masks, masses, stopping conditions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.experiments import specs
from attnflow.experiments.number_files import read_numbers
from attnflow.experiments.settings import Settings
from attnflow.experiments.vocabulary import is_file
from attnflow.model.heads import Head, PiecewiseHead, RedrawnHead
from attnflow.model.mlp import MLP
from attnflow.model.noise import Noise
from attnflow.model.perceptron import AnyPerceptron, Perceptron, PiecewisePerceptron
from attnflow.solvers.stopping import AbstractStop, Clustered, Diverged, Settled

STOPS: dict[str, tuple[type[AbstractStop], str]] = {
    "clustered": (Clustered, "tolerance"),
    "settled": (Settled, "speed"),
    "diverged": (Diverged, "distance"),
}
"""The class of each stopping condition, and its attribute that the key of its name gives."""


def numbers_of(values: Mapping[str, Any], name: str) -> np.ndarray | None:
    """The array that a key gives as numbers or as the name of a file; None where it is a word or missing."""
    value = values.get(name)
    if isinstance(value, str):
        return read_numbers(value, name) if is_file(value) else None
    return value if isinstance(value, np.ndarray) else None


def parts_of(values: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The parts that replace those of the settings, by the names that `scenarios.build` knows."""
    parts: dict[str, Any] = {
        name: numbers for name in ("query_key", "value", "masses") if (numbers := numbers_of(values, name)) is not None
    }
    if "frozen" in values:
        parts["frozen"] = np.asarray(numbers_of(values, "frozen")) != 0
    if not isinstance(values.get("mask", ""), str):
        parts["mask"] = specs.mask(values["mask"])
    if "rescaling" in values:
        if settings.space != "rescaled":
            raise InputError(f"`rescaling` belongs to the space 'rescaled', but the space is {settings.space!r}.")
        parts["rescaling"] = specs.matrix(values["rescaling"], settings.d, _seed(settings, 3), "rescaling")
    if "mlp_weight" in values or "mlp_bias" in values:
        weight = specs.matrix(values.get("mlp_weight", "identity"), settings.d, _seed(settings, 4), "mlp_weight")
        parts["mlp"] = MLP(weight, str(settings.mlp), numbers_of(values, "mlp_bias"))
    if "common_noise" in values:
        parts["noise"] = Noise(settings.kappa, values["common_noise"])
    if "head" in values:
        seeds = np.random.SeedSequence(settings.seed).spawn(1)[0].spawn(len(values["head"]))
        parts["heads"] = [_head(table, settings.d, seed) for table, seed in zip(values["head"], seeds, strict=True)]
    if values.get("no_attention"):
        parts["heads"] = []
    if "perceptron" in values:
        parts["perceptron"] = _perceptron(values["perceptron"], settings)
    if isinstance(values.get("start"), np.ndarray):
        parts["tokens"] = values["start"]
    if "times" in values:
        parts["times"] = np.asarray(numbers_of(values, "times")).ravel()
    if "noise_seed" in values:
        seed = values["noise_seed"]
        parts["rng"] = np.random.SeedSequence(seed["entropy"], spawn_key=tuple(seed["spawn_key"]))
    return parts


def _seed(settings: Settings, place: int) -> np.random.SeedSequence:
    """A seed of its own for a matrix that is drawn; the first three belong to weights, start and noise."""
    return np.random.SeedSequence(settings.seed, spawn_key=(place,))


def _head(table: Mapping[str, Any], d: int, seed: np.random.SeedSequence) -> Head | PiecewiseHead | RedrawnHead:
    """The head of one table [[head]]: constant, in pieces, or drawn again after every period."""
    if "redraw" in table:
        _require_only(table, ("redraw", "seed", "query_key", "value"), "head", "redraw")
        laws = {name: table[name] for name in ("query_key", "value") if name in table}
        for name, law in laws.items():
            if not isinstance(law, str):
                raise InputError(f"`head.{name}` must be a law where weights are drawn again, but it is a matrix.")
        return RedrawnHead(d, table["redraw"], table.get("seed", 0), **laws)
    if "piece" in table or "switches" in table:
        _require_pieces(table, "head")
        seeds = seed.spawn(len(table["piece"]))
        pieces = [_constant(piece, d, own) for piece, own in zip(table["piece"], seeds, strict=True)]
        return PiecewiseHead(np.asarray(numbers_of(table, "switches")).ravel(), pieces)
    if "seed" in table:
        raise InputError("`head.seed` belongs to weights that are drawn again, but there is no `head.redraw`.")
    return _constant(table, d, seed)


def _constant(table: Mapping[str, Any], d: int, seed: np.random.SeedSequence) -> Head:
    """A head with constant weights; words that draw a matrix have the seeds of heads of a scenario."""
    for_scores, for_value = seed.spawn(2)
    for_query, for_key = for_scores.spawn(2)
    seeds = {"query_key": for_scores, "query": for_query, "key": for_key, "value": for_value}
    seeds["output"] = for_value.spawn(1)[0]
    given = {name: specs.matrix(table[name], d, seeds[name], f"head.{name}") for name in seeds if name in table}
    if "query_key" not in given:
        return Head(**given)
    _require_only(table, ("query_key", "value"), "head", "query_key")
    return Head.bilinear(given["query_key"], given.get("value", np.eye(d)))


def _perceptron(tables: list[Mapping[str, Any]], settings: Settings) -> AnyPerceptron:
    """The perceptron of the only table [[perceptron]]: constant, or in pieces."""
    if len(tables) > 1:
        raise InputError(f"`perceptron` must be one table, but there are {len(tables)}. Give one larger `inner`.")
    table, seed = tables[0], _seed(settings, 5)
    if "piece" not in table and "switches" not in table:
        return _constant_perceptron(table, settings.d, seed)
    _require_pieces(table, "perceptron")
    seeds = seed.spawn(len(table["piece"]))
    pieces = [_constant_perceptron(one, settings.d, own) for one, own in zip(table["piece"], seeds, strict=True)]
    return PiecewisePerceptron(np.asarray(numbers_of(table, "switches")).ravel(), pieces)


def _constant_perceptron(table: Mapping[str, Any], d: int, seed: np.random.SeedSequence) -> Perceptron:
    for name in ("outer", "inner"):
        if name not in table:
            raise InputError(f"`perceptron.{name}` is missing: a perceptron W sigma(U x + b) needs W and U.")
    seeds = zip(("outer", "inner"), seed.spawn(2), strict=True)
    matrices = {name: specs.matrix(table[name], d, own, f"perceptron.{name}") for name, own in seeds}
    return Perceptron(**matrices, bias=numbers_of(table, "bias"), activation=table.get("activation", "relu"))


def _require_pieces(table: Mapping[str, Any], owner: str) -> None:
    _require_only(table, ("switches", "piece"), owner, "switches")
    if "piece" not in table or "switches" not in table:
        raise InputError(
            f"`{owner}` needs `switches` and tables [[{owner}.piece]] together, but one of them is missing."
        )


def _require_only(table: Mapping[str, Any], names: tuple[str, ...], owner: str, beside: str) -> None:
    for name in table:
        if name not in names:
            raise InputError(f"`{owner}.{name}` has no meaning beside `{owner}.{beside}`. Leave one of them out.")


def stops_of(values: Mapping[str, Any]) -> list[AbstractStop]:
    """The stopping conditions: those of the tables `stop`, or of the options."""
    if "stop" in values:
        return [_stop(table) for table in values["stop"]]
    return [kind(**{number: values[name]}) for name, (kind, number) in STOPS.items() if name in values]


def _stop(table: Mapping[str, Any]) -> AbstractStop:
    named = [name for name in STOPS if name in table]
    if len(named) != 1:
        raise InputError(f"`stop` must name one of {', '.join(STOPS)} in each table, but one names {len(named)}.")
    if "count" in table:
        if named != ["clustered"]:
            raise InputError("`stop.count` belongs to `stop.clustered`, which is missing.")
        return Clustered(table["clustered"], table["count"])
    kind, number = STOPS[named[0]]
    return kind(**{number: table[named[0]]})


def dimension_of(values: Mapping[str, Any]) -> int | None:
    """The number of coordinates that an array in the settings has; None where all settings are words."""
    owners = [*values.get("head", []), *values.get("perceptron", [])]
    tables = [table for owner in owners for table in (owner, *owner.get("piece", []))]
    places = [(values, name) for name in ("start", "value", "query_key", "rescaling", "mlp_weight")]
    places += [(table, name) for table in tables for name in ("value", "query", "key", "query_key", "inner")]
    for place, name in places:
        array = numbers_of(place, name)
        if array is not None and array.ndim >= 2:
            return array.shape[-1]
    return None


def count_of(values: Mapping[str, Any]) -> int | None:
    """The number of tokens that an array in the settings is made for; None where there is none."""
    start, mask = numbers_of(values, "start"), values.get("mask")
    if start is not None and start.ndim >= 2:
        return start.shape[-2]
    lists = [numbers_of(values, name) for name in ("masses", "frozen")] + [mask]
    return next((len(one) for one in lists if isinstance(one, np.ndarray)), None)
