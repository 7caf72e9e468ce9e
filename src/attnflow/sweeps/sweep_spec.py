"""`SweepSpec`: what a sweep varies, computes and keeps, and how two of them differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnflow._common.checks import InputError, require_count
from attnflow.experiments.configs.prepared_run import plain
from attnflow.sweeps.axes import Axis, require_axes
from attnflow.sweeps.measures import Reduction, is_over_time, require_measure

DEFAULT_REDUCTIONS = ("mean", "quantiles:0.1,0.5,0.9")
OWN_NAMES = {"run", "time", "quantile", "status", "final_time", "steps", "outcome"}  # variables of every store


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

    def __post_init__(self) -> None:
        require_count(self.runs, "runs")
        require_count(self.seed, "seed", least=0)
        require_axes(self.axes)
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
        return any(is_over_time(word) and word.partition(":")[0] == "clusters" for word in self.observables.values())

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
    for name in ("runs", "seed", "observables", "reductions"):
        before, after = old.record()[name], new.record()[name]
        if before != after:
            found.append(f"`{name}` is {_shown(before)} in the store and {_shown(after)} here")
    return found


def _changed(one: Axis, other: Axis) -> str:
    return f"{other.size}" if one.size != other.size else "others"


def _shown(value: Any) -> str:
    text = "not given" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def require_extension(old: SweepSpec, new: SweepSpec) -> None:
    """Raise InputError unless `new` is `old` with more runs or more values along its axes."""
    grown = SweepSpec.of_record({**old.record(), "runs": new.runs})
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
        raise InputError(f"Only runs and values of axes can be added to a sweep, but {'; '.join(found)}.")
    if new.runs < old.runs:
        raise InputError(f"The store has {old.runs} runs of each cell, but `runs` is {new.runs}. Give as many or more.")
