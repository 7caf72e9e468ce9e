"""Cells of a sweep: their settings, their seeds, and the runs of `simulate` behind them."""

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.experiments import specs
from attnflow.experiments.configs.prepared_run import PreparedRun, prepare
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.sweeps.measures import require_serves
from attnflow.sweeps.sweep_spec import SweepSpec

OF_START, OF_NOISE = 0, 1  # what a seed of a cell is for, in its spawn key
OF_LAW = ("n", "d", "start", "scenario")  # settings that decide the law of the first tokens
MOST_CELLS_CHECKED = 1000  # a check takes a few milliseconds
# Numbers that a compiled program takes as arguments: cells that differ in these alone share it.
ARGUMENTS_OF_PROGRAMS = {"beta", "kappa", "rtol", "atol", "seed", "clustered", "settled", "diverged"}


def digest(pairs: Iterable[tuple[str, Any]]) -> str:
    """A digest of names and values, whatever their order."""
    return hashlib.sha256(json.dumps(sorted(pairs)).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class SweepCell:
    """One combination of the values of all axes."""

    index: tuple[int, ...]
    """The place along each axis."""
    pairs: tuple[tuple[str, Any], ...]
    """Names and values of the settings that the axes give."""

    @property
    def values(self) -> dict[str, Any]:
        """The settings that the axes give, by name."""
        return dict(self.pairs)

    @functools.cached_property
    def key(self) -> str:
        """A digest of the values, which stays the same when values are added to an axis."""
        return digest(self.pairs)

    def program(self) -> str:
        """The values that decide which compiled program serves the cell, as text."""
        return json.dumps(sorted(pair for pair in self.pairs if pair[0] not in ARGUMENTS_OF_PROGRAMS))

    def words(self) -> str:
        """The values for messages, such as "beta = 4.0, n = 50"."""
        return ", ".join(f"{name} = {value}" for name, value in self.pairs) or "the only cell"


def cells_of(spec: SweepSpec) -> list[SweepCell]:
    """All cells, in the order of the axes, the last axis varying fastest."""
    places = [axis.places() for axis in spec.axes]
    return [
        SweepCell(index, tuple(pair for axis, place in zip(places, index, strict=True) for pair in axis[place].items()))
        for index in itertools.product(*(range(axis.size) for axis in spec.axes))
    ]


def prepared(spec: SweepSpec, cell: SweepCell) -> PreparedRun:
    """The arguments of `simulate` of a cell; InputError names the cell.

    Weights that are drawn have the seed of the sweep, the same in all cells, unless `seed` is an axis.
    """
    values = {"method": "simulate", "seed": spec.seed, "keep_tokens": spec.needs_tokens()}
    values |= dict(spec.settings) | cell.values
    try:
        found = prepare(RunConfig(values))
        if found.arguments["tokens"].ndim != 2:
            raise InputError("`start` must hold the tokens of one run, since `runs` repeats it.")
        for word in spec.observables.values():
            require_serves(word, found.arguments["flow"])
        return found
    except InputError as error:
        raise InputError(f"Cell {cell.words()}: {error}" if cell.pairs else str(error)) from error


def cells_to_check(cells: list[SweepCell]) -> list[SweepCell]:
    """The cells whose settings are checked before anything is computed: all, if they are few.

    Of many, each combination of settings that decide the compiled program, with the least and the largest value of
    every number that the program takes as an argument: what is wrong with a number is wrong with one of these.
    """
    if len(cells) <= MOST_CELLS_CHECKED:
        return cells
    numbers = {name for name, value in cells[0].pairs if name in ARGUMENTS_OF_PROGRAMS and not isinstance(value, str)}
    chosen: dict[tuple[str, str, bool], SweepCell] = {}
    for cell in cells:
        program, values = cell.program(), cell.values
        chosen.setdefault((program, "", False), cell)
        for name in numbers:
            for is_largest in (False, True):
                known = chosen.setdefault((program, name, is_largest), cell)
                if (values[name] > known.values[name]) == is_largest and values[name] != known.values[name]:
                    chosen[program, name, is_largest] = cell
    return list(dict.fromkeys(chosen.values()))


def times_of(spec: SweepSpec, cells: list[SweepCell]) -> np.ndarray:
    """The times of all cells, after a check of every cell; InputError where cells differ in their times."""
    times = None
    for cell in cells:
        run = prepared(spec, cell)
        request = run.simulating_request()
        if times is not None and not np.array_equal(times, request.times):
            raise InputError(
                f"Cell {cell.words()} has other times than the first one. Give `end`, `saves` and `spacing`."
            )
        times = request.times
    assert times is not None
    return times


def seed_of(spec: SweepSpec, cell: SweepCell, purpose: int, *run: int) -> np.random.SeedSequence:
    """The seed of a cell, or of one of its runs, for the first tokens or for the noise.

    It depends on the seed of the sweep, the values of the cell and the number of the run, and on nothing else: other
    cells, the number of runs, batches and workers change no seed. With common starts the first tokens depend on those
    values only that decide their law.
    """
    is_common = spec.common_starts and purpose == OF_START
    key = digest(pair for pair in cell.pairs if pair[0] in OF_LAW) if is_common else cell.key
    words = [int(key[place : place + 8], 16) for place in range(0, len(key), 8)]
    return np.random.SeedSequence(spec.seed, spawn_key=(*words, purpose, *run))


def first_tokens(spec: SweepSpec, cell: SweepCell, run: PreparedRun, numbers: range) -> np.ndarray:
    """The first tokens of some runs of a cell, shape (runs, n, d)."""
    settings = run.settings
    if isinstance(run.config.values.get("start"), np.ndarray):
        return np.repeat(run.arguments["tokens"][None], len(numbers), axis=0)
    # Run k has the seed of the cell with k appended, as `seed_of` gives it for a single run.
    drawn = specs.start(settings.start, settings.n, settings.d, numbers, seed_of(spec, cell, OF_START))
    return drawn if drawn.ndim == 3 else np.repeat(drawn[None], len(numbers), axis=0)
