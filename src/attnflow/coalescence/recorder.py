"""The recorder of a coalescing run: states, merges, and the dataset with its provenance."""

import dataclasses
import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import evenly_spaced
from attnflow.analyse.clusters import angle as angle_of
from attnflow.coalescence.cluster_state import MAX_DENSE_CLUSTERS, Clusters
from attnflow.coalescence.log_field import AttentionSums, LogField
from attnflow.coalescence.merge_events import MergeEvent
from attnflow.coalescence.merge_forecast import Forecast, forecast, log_merge_duration
from attnflow.coalescence.request import Accelerations, CoalescingRequest
from attnflow.coalescence.time_change import log_difference
from attnflow.results.outcome import status_variables
from attnflow.results.provenance import ResultKind, stamp
from attnflow.solvers.status import Status

MAX_NUMBERS = 20_000_000  # coordinates of all states in the dataset, 160 MB: more states are thinned out


@dataclasses.dataclass(frozen=True)
class Counters:
    """Counts of steps and of merges by quadrature, and the largest error of these."""

    steps: int = 0
    rejected_steps: int = 0
    quadrature_merges: int = 0
    quadrature_error: float = 0.0
    subcycled_steps: int = 0


@dataclasses.dataclass(frozen=True)
class RecordedState:
    """Clusters at one time, and their energy."""

    log_time: float
    clusters: Clusters
    energy: float


@dataclasses.dataclass(frozen=True)
class MergeRecord:
    """Two clusters that merged, with the variables of the dataset over `merge`."""

    merge_log_time: float
    first: int
    second: int
    angle: float
    """The angle between the two clusters as the plateau before the merge began."""
    log_duration: float
    predicted_log_duration: float
    forecast: Forecast
    """The forecast that was made as the plateau began."""
    masses: tuple[float, float]
    energies: tuple[float, float]
    energy_levels: tuple[float, float]


class Recorder:
    """Collects the states and merges of a run."""

    def __init__(self, request: CoalescingRequest, field: LogField):
        self.request, self.field = request, field
        assert request.flow.beta is not None  # softmax and unnormalised attention have one
        self.beta = request.flow.beta
        self.states: list[RecordedState] = []
        self.numbers = 0  # coordinates of all states
        self.merges: list[MergeRecord] = []

    def add_state(self, log_time: float, clusters: Clusters, sums: AttentionSums | None) -> RecordedState:
        """Record the clusters at one time; `sums` are their attention sums, None for one cluster."""
        self.states.append(RecordedState(log_time, clusters, self._energy(clusters, sums)))
        self.numbers += clusters.positions.size
        if self.numbers > 2 * MAX_NUMBERS:
            self.states = self.states[:1] + self.states[:0:-2][::-1]  # every other one, with the first and the last
            self.numbers = sum(state.clusters.positions.size for state in self.states)
        return self.states[-1]

    def _energy(self, clusters: Clusters, sums: AttentionSums | None) -> float:
        """sum_ij m_i m_j e^{beta (<x_i, x_j> - 1)} over the square of the total mass."""
        fractions = clusters.masses / self.field.total_mass
        if len(clusters) > MAX_DENSE_CLUSTERS and sums is not None and self.field.beta == self.beta:
            # The sums of the velocity are those of the energy.
            from_others = np.exp(sums.max_exponent - self.beta) * sums.weights / self.field.total_mass
            return float(fractions @ (fractions + from_others))
        return float(fractions @ np.exp(self.beta * (clusters.positions @ clusters.positions.T - 1)) @ fractions)

    def _energy_level(self, clusters: Clusters) -> float:
        """The sum of squared mass fractions: the energy of clusters that are far from each other."""
        return float(np.sum((clusters.masses / self.field.total_mass) ** 2))

    def add_merges(
        self,
        before: Clusters,
        events: list[MergeEvent],
        log_times: np.ndarray,
        plateau: RecordedState,
        now: RecordedState,
    ) -> None:
        """Record the merge events of one step of the clusters `before`; the plateau before began with `plateau`."""
        level, masses = self._energy_level(before), before.masses.copy()
        for event, log_time in zip(events, log_times, strict=True):  # of several merges each raises the level in turn
            pair = (float(masses[event.first]), float(masses[event.second]))
            next_level = level + 2 * pair[0] * pair[1] / self.field.total_mass**2
            levels, energies = (level, next_level), (plateau.energy, now.energy)
            self.merges.append(self._merge_record(before, event, float(log_time), pair, energies, levels, plateau))
            masses[event.first], level = sum(pair), next_level

    def _merge_record(
        self,
        before: Clusters,
        event: MergeEvent,
        log_time: float,
        masses: tuple[float, float],
        energies: tuple[float, float],
        levels: tuple[float, float],
        plateau: RecordedState,
    ) -> MergeRecord:
        positions, field = plateau.clusters.positions, self.field
        angle = angle_of(np.linalg.norm(positions[event.first] - positions[event.second]))
        predicted = float(log_merge_duration(field, angle, *masses)) if field.is_plain_attraction else np.nan
        return MergeRecord(
            log_time,
            int(before.members[event.first][0]),
            int(before.members[event.second][0]),
            float(angle),
            log_difference(log_time, plateau.log_time),
            predicted,
            forecast(field, plateau.clusters, self.request.merge),
            masses,
            energies,
            levels,
        )

    def dataset(self, status: Status, outcome: str, counters: Counters, available: Accelerations) -> xr.Dataset:
        """The dataset of the run: states, merges, counters, and everything needed to repeat it."""
        tokens = self.request.tokens
        states = [self.states[index] for index in evenly_spaced(len(self.states), max(MAX_NUMBERS // tokens.size, 2))]
        variables: dict[str, Any] = {name: (("merge",), values) for name, values in self._merge_variables().items()}
        variables |= {
            "tokens": (("state", "token", "coordinate"), np.stack([state.clusters.tokens() for state in states])),
            "clusters": (("state",), np.array([len(state.clusters) for state in states])),
            "energy": (("state",), np.array([state.energy for state in states])),
            "level": (("state",), np.array([self._energy_level(state.clusters) for state in states])),
            "initial_tokens": (("token", "coordinate"), tokens),
        }
        variables |= {name: ((), value) for name, value in dataclasses.asdict(counters).items()}
        variables |= status_variables(np.array(status))
        coordinates = {"log_time": (("state",), np.array([state.log_time for state in states]))}
        return xr.Dataset(variables, coordinates, self._provenance(outcome, available))

    def _provenance(self, outcome: str, available: Accelerations) -> dict[str, Any]:
        """Version, model, and all settings that acted; the seed is in `perturbed`, which alone is random."""
        request = self.request
        limits = {
            "log_end": request.log_end,
            "shortcuts": request.accelerations != Accelerations.none(),
            "max_steps": request.max_steps,
        }
        if np.isfinite(request.log_start):
            limits["log_start"] = request.log_start
        settings = {"merge": request.merge, "rtol": request.rtol, "limits": json.dumps(limits)}
        settings["accelerations"] = json.dumps(dataclasses.asdict(available))
        if request.perturbation is not None:
            settings["perturbed"] = json.dumps(dataclasses.asdict(request.perturbation))
        return stamp(ResultKind.COALESCENCE, outcome, flow=request.flow, **settings)

    def _merge_variables(self) -> dict[str, np.ndarray]:
        merges = self.merges
        plain = ("merge_log_time", "first", "second", "angle", "log_duration", "predicted_log_duration")
        variables: dict[str, Any] = {name: [getattr(merge, name) for merge in merges] for name in plain}
        variables |= {
            "forecast_log_duration": [merge.forecast.log_duration for merge in merges],
            "runner_up_log_duration": [merge.forecast.runner_up for merge in merges],
            "forecast_error": [merge.forecast.error for merge in merges],
        }
        for index, end in enumerate(("before", "after")):
            variables[f"energy_{end}"] = [merge.energies[index] for merge in merges]
            variables[f"level_{end}"] = [merge.energy_levels[index] for merge in merges]
        for index, member in enumerate(("first", "second")):
            variables[f"mass_of_{member}"] = [merge.masses[index] for merge in merges]
        whole = ("first", "second")
        return {name: np.asarray(values, int if name in whole else float) for name, values in variables.items()}
