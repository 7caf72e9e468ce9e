"""`SweepSpec`: what a sweep varies, computes and keeps, and how two of them differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count
from attnflow.experiments.configs.prepared_run import plain
from attnflow.sweeps.axes import Axis, require_axes
from attnflow.sweeps.measures import Reduction, needs_all_times, require_measure

DEFAULT_REDUCTIONS = ("mean", "quantiles:0.1,0.5,0.9")
MOST_CELLS = 10_000_000  # each takes about a kilobyte of memory
KEYS_OF_TIMES = ("end", "saves", "spacing", "times")
# Variables of every store and its journal.
OWN_NAMES = {"run", "time", "quantile", "status", "final_time", "steps", "outcome", "last_tokens"}


@dataclass(frozen=True)
class SweepSpec:
    """The settings that all cells share, the axes, the number of runs of a cell, and what is measured.

    Examples
    --------
    >>> spec = SweepSpec({"scenario": "sphere", "end": 5.0}, (Axis.of("beta", [1.0, 4.0]),), runs=8)
    >>> spec.shape, spec.cell_count
    ((2,), 2)
    """

    settings: Mapping[str, Any]
    """Values of a file of settings, `experiments.configs`."""
    axes: tuple[Axis, ...] = ()
    runs: int = 1
    """Runs of each cell."""
    seed: int = 0
    observables: Mapping[str, str] = field(default_factory=dict)
    """Words of measures, by the name of the variable."""
    reductions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words of reductions over runs, by the name of the variable."""
    common_starts: bool = False
    """Whether run k starts from the same tokens in all cells with the same n, d and law of the first tokens."""

    def __post_init__(self) -> None:
        require_count(self.runs, "runs")
        require_count(self.seed, "seed", least=0)
        if not isinstance(self.common_starts, bool):
            raise InputError(f"`common_starts` must be true or false, but it is {self.common_starts!r}.")
        require_axes(self.axes)
        if self.cell_count > MOST_CELLS:
            raise InputError(
                f"A sweep has at most {MOST_CELLS} cells, but this has {self.cell_count}. Use fewer values."
            )
        taken = OWN_NAMES | {axis.name for axis in self.axes} | {name for axis in self.axes for name in axis.columns}
        for name, word in self.observables.items():
            require_measure(name, word)
            if name in taken or not name.isidentifier():
                raise InputError(f"`observables` cannot use the name {name!r}: it is taken, or not a name.")
            self.reductions_of(name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of places along each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def cell_count(self) -> int:
        """The number of cells."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def reductions_of(self, name: str) -> tuple[Reduction, ...]:
        """The reductions of an observable."""
        words = self.reductions.get(name, DEFAULT_REDUCTIONS)
        return tuple(Reduction.of(word, self.observables[name]) for word in words)

    def needs_tokens(self) -> bool:
        """Whether a measure needs the tokens at all times."""
        return any(needs_all_times(word) for word in self.observables.values())

    def record(self) -> dict[str, Any]:
        """The spec as JSON knows it; `of_record` gives it back."""
        return {
            "settings": plain(dict(self.settings)),
            "axes": [
                {"name": axis.name, "columns": {name: list(values) for name, values in axis.columns.items()}}
                for axis in self.axes
            ],
            "runs": self.runs,
            "seed": self.seed,
            "observables": dict(self.observables),
            "reductions": {name: list(words) for name, words in self.reductions.items()},
            "common_starts": self.common_starts,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "SweepSpec":
        """The spec that `record` describes."""
        axes = [Axis(one["name"], {name: tuple(values) for name, values in one["columns"].items()})
                for one in record["axes"]]  # fmt: skip
        reductions = {name: tuple(words) for name, words in record["reductions"].items()}
        return cls(**{**record, "axes": tuple(axes), "reductions": reductions})


def differences(old: SweepSpec, new: SweepSpec) -> list[str]:
    """What differs between two specs, as parts of a sentence; empty if they are equal."""
    found = []
    for name in sorted({*old.settings, *new.settings}):
        before, after = plain(old.settings.get(name)), plain(new.settings.get(name))
        if before != after:
            found.append(f"`{name}` is {_shown(before)} in the store and {_shown(after)} here")
    if [axis.name for axis in old.axes] != [axis.name for axis in new.axes]:
        before, after = (", ".join(axis.name for axis in spec.axes) or "none" for spec in (old, new))
        found.append(f"the axes are {before} in the store and {after} here")
    else:
        for one, other in zip(old.axes, new.axes, strict=True):
            if dict(one.columns) != dict(other.columns):
                found.append(f"axis `{one.name}` has {one.size} values in the store and {_changed(one, other)} here")
    for name in ("runs", "seed", "observables", "reductions", "common_starts"):
        before, after = old.record()[name], new.record()[name]
        if before != after:
            found.append(f"`{name}` is {_shown(before)} in the store and {_shown(after)} here")
    return found


def require_later_times(old: np.ndarray, new: np.ndarray) -> None:
    """Raise InputError unless the new times begin with all of the old ones."""
    common = min(len(old), len(new))
    differ = np.flatnonzero(old[:common] != new[:common])
    if len(differ) == 0 and len(new) >= len(old):
        return
    place = int(differ[0]) if len(differ) else common
    found = f"{new[place]:.17g}" if place < len(new) else "none"
    raise InputError(
        f"`extend` can only append times, but time {place + 1} is {old[place]:.17g} in the store and {found} in the "
        "new spec. Keep the interval between times, or list them with `times`."
    )


def _changed(one: Axis, other: Axis) -> str:
    return f"{other.size}" if one.size != other.size else "others"


def _shown(value: Any) -> str:
    text = "not given" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def require_extension(old: SweepSpec, new: SweepSpec) -> None:
    """Raise InputError unless `new` is `old` with more runs, more values along its axes, or other times."""
    times = {name: value for name, value in new.settings.items() if name in KEYS_OF_TIMES}
    settings = {name: value for name, value in old.settings.items() if name not in KEYS_OF_TIMES}
    grown = SweepSpec.of_record({**old.record(), "runs": new.runs, "settings": plain(settings | times)})
    if [axis.name for axis in old.axes] == [axis.name for axis in new.axes]:
        grown = SweepSpec.of_record({**grown.record(), "axes": new.record()["axes"]})
        for one, other in zip(old.axes, new.axes, strict=True):
            lost = [place for place in one.places() if place not in other.places()]
            if lost or set(one.columns) != set(other.columns):
                raise InputError(
                    f"An extension keeps all values of axis `{one.name}`, but {_shown((lost or one.places())[0])} is "
                    "in the store and not here. Add it."
                )
    if found := differences(grown, new):
        raise InputError(f"Only runs, values of axes and times can be added to a sweep, but {'; '.join(found)}.")
    if new.runs < old.runs:
        raise InputError(f"The store has {old.runs} runs of each cell, but `runs` is {new.runs}. Give as many or more.")
