"""The chronicle of a coalescing run: states kept on the way, merges, and the dataset made of them."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from attnflow.analyse.clusters import angle as angle_of_chord
from attnflow.coalescence.cluster_state import FEW, HeavyTokens, Pull, Sums
from attnflow.coalescence.merge_forecast import Forecast, forecast, log_wait
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import ResultKind, stamp

MOST_NUMBERS = 20_000_000  # of all states together, in the dataset: more are thinned out


@dataclasses.dataclass(frozen=True)
class Merge:
    """Two heavy tokens that became one."""

    log_time: float
    first: int
    second: int
    angle: float
    """Between them as the plateau before began."""
    masses: tuple[float, float]
    energies: tuple[float, float]
    levels: tuple[float, float]
    log_duration: float
    predicted_log_duration: float
    foreseen: Forecast
    """As the plateau began."""


@dataclasses.dataclass(frozen=True)
class State:
    """What is kept of one moment."""

    log_time: float
    heavy: HeavyTokens
    energy: float


class Chronicle:
    """Grows as a run goes on."""

    def __init__(self, flow: AbstractDynamics, pull: Pull, merge: float):
        self.flow, self.pull, self.merge = flow, pull, merge
        self.beta = np.nan if flow.beta is None else flow.beta
        self.states: list[State] = []
        self.numbers = 0
        self.merges: list[Merge] = []

    def keep(self, log_time: float, heavy: HeavyTokens, sums: Sums | None = None) -> State:
        """Remember this moment; `sums` is what rows receive there."""
        self.states.append(State(log_time, heavy, self._energy(heavy, sums)))
        self.numbers += heavy.places.size
        if self.numbers > 2 * MOST_NUMBERS:  # every other one goes, but the first and the last
            self.states = self.states[:1] + self.states[:0:-2][::-1]
            self.numbers = sum(state.heavy.places.size for state in self.states)
        return self.states[-1]

    def _energy(self, heavy: HeavyTokens, sums: Sums | None) -> float:
        shares = heavy.masses / self.pull.total_mass
        if len(heavy) > FEW and sums is not None and self.pull.beta == self.beta:  # the velocity has added it all up
            received = np.exp(sums.best - self.beta) * sums.weights / self.pull.total_mass
            return float(shares @ (shares + received))
        return float(shares @ np.exp(self.beta * (heavy.places @ heavy.places.T - 1)) @ shares)

    def record(self, before: HeavyTokens, met: list[tuple[float, int, int]], last: State, now: State) -> None:
        """At some log t one token of `before` was joined by another; the plateau before began with `last`."""
        level, masses = self._level(before), before.masses.copy()
        for log_time, one, other in met:  # of several in one step each raises the level in turn
            pair = (float(masses[one]), float(masses[other]))
            self.merges.append(self._event(before, log_time, one, other, pair, level, last, now))
            masses[one], level = sum(pair), self.merges[-1].levels[1]

    def _event(
        self,
        before: HeavyTokens,
        log_time: float,
        one: int,
        other: int,
        masses: tuple[float, float],
        level: float,
        last: State,
        now: State,
    ) -> Merge:
        """`other` joins `one`; their masses are what they have gathered by then."""
        angle = angle_of_chord(np.linalg.norm(last.heavy.places[one] - last.heavy.places[other]))
        return Merge(
            log_time,
            int(before.members[one][0]),
            int(before.members[other][0]),
            float(angle),
            masses,
            (last.energy, now.energy),
            (level, level + 2 * masses[0] * masses[1] / self.pull.total_mass**2),
            _log_difference(log_time, last.log_time),
            np.nan if np.isnan(self.pull.beta) else float(log_wait(self.pull, angle, *masses)),
            forecast(self.pull, last.heavy, self.merge),
        )

    def _level(self, heavy: HeavyTokens) -> float:
        return float(np.sum((heavy.masses / self.pull.total_mass) ** 2))

    def dataset(self, first_tokens: np.ndarray, attributes: dict[str, Any], counts: dict[str, Any]) -> xr.Dataset:
        """Everything that was kept."""
        states = self._thinned(first_tokens.size)
        variables: dict[str, Any] = {name: (("merge",), values) for name, values in self._of_merges().items()}
        variables |= {
            "tokens": (("state", "token", "coordinate"), np.stack([one.heavy.tokens() for one in states])),
            "clusters": (("state",), np.array([len(one.heavy) for one in states])),
            "energy": (("state",), np.array([one.energy for one in states])),
            "level": (("state",), np.array([self._level(one.heavy) for one in states])),
            "initial_tokens": (("token", "coordinate"), first_tokens),
        }
        variables |= {name: ((), value) for name, value in counts.items()}
        attributes = stamp(ResultKind.COALESCENCE, flow=self.flow, **attributes)
        coordinates = {"log_time": (("state",), np.array([one.log_time for one in states]))}
        return xr.Dataset(variables, coordinates, attributes)

    def _thinned(self, numbers: int) -> list[State]:
        """All states but the first, which only tells tokens in one place apart; every so many where they are many."""
        states = self.states[1:]
        kept = max(min(len(states), MOST_NUMBERS // numbers), 2)
        return [states[index] for index in np.unique(np.linspace(0, len(states) - 1, kept).astype(int))]

    def _of_merges(self) -> dict[str, np.ndarray]:
        merges = self.merges
        found: dict[str, Any] = {
            "merge_log_time": [one.log_time for one in merges],
            "first": np.array([one.first for one in merges], int),
            "second": np.array([one.second for one in merges], int),
            "angle": [one.angle for one in merges],
            "log_duration": [one.log_duration for one in merges],
            "predicted_log_duration": [one.predicted_log_duration for one in merges],
            "forecast_log_duration": [one.foreseen.log_duration for one in merges],
            "runner_up_log_duration": [one.foreseen.runner_up for one in merges],
            "forecast_error": [one.foreseen.error for one in merges],
        }
        for place, end in enumerate(("before", "after")):
            found[f"energy_{end}"] = [one.energies[place] for one in merges]
            found[f"level_{end}"] = [one.levels[place] for one in merges]
        for place, end in enumerate(("first", "second")):
            found[f"mass_of_{end}"] = [one.masses[place] for one in merges]
        return {name: np.asarray(values) for name, values in found.items()}


def _log_difference(later: float, earlier: float) -> float:
    """log(e^later - e^earlier)."""
    return later if np.isneginf(earlier) else later + float(np.log(-np.expm1(min(earlier - later, -1e-16))))
