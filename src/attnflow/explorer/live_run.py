"""One run of one viewer: what is recorded of it, where the viewer stands in it, and how it goes on."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_known
from attnflow.coalescence.coalesce import coalesce
from attnflow.experiments.scenarios import Scenario, Settings
from attnflow.explorer import catalogue, protocol, request_limits
from attnflow.explorer.measure.cluster_colours import Slots
from attnflow.explorer.measure.subject import AbstractSubject, Flowing
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND, SECONDS, Pace
from attnflow.explorer.prompt_scenarios import LayersSettings
from attnflow.explorer.recording import Moment, Recording
from attnflow.explorer.stepper import Stepper

RESTARTING = frozenset({"space", "n", "d", "start", "seed", "heads", "runs", "redraw", "prompt", "layer"})
PACING = frozenset({"end", "spacing", "saves"})
OPTIONAL = frozenset({"redraw", "mlp", "kappa", "solver"})  # None is a value of these


def settings_of(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with changes; None takes an optional part away. One run, and nothing the page may not ask for."""
    without = {name: None for name, value in changes.items() if value is None and name in OPTIONAL}
    settings = replace(settings, runs=None, **without)
    given = {name: value for name, value in changes.items() if value is not None and name != "runs"}
    for name in given:
        require_known(name, [entry.name for entry in fields(settings)], "setting")
    request_limits.require_allowed(replace(settings, **given))  # before anything would open a file
    changed = catalogue.change(settings, given)
    request_limits.require_allowed(changed)
    return changed


class Run:
    """A run that is watched. `forward` brings the next frame; `seek` goes back to recorded ones."""

    def __init__(self, number: int, asked: protocol.Start, report: Callable[[float, str], None]):
        self.number = number
        self.scenario: Scenario = catalogue.get(asked.scenario)
        self.asked = asked.changes
        self.settings = settings_of(self.scenario.settings, asked.changes)
        self.later: list[tuple[float, dict[str, Any]]] = []
        self._planned = sorted(asked.later, key=lambda moment: moment[0])
        self.is_coalescing = self.scenario.coalesces
        request_limits.require_allowed(self.settings, self.is_coalescing)
        self.recording = Recording()
        self.place = 0
        self._part = 0.0
        self._target: float | None = None
        self.stepper: Stepper | None = None
        self.dataset: xr.Dataset | None = None
        """All of a run that is computed at once: it has no stepper."""
        if asked.later and (self.is_coalescing or isinstance(self.settings, LayersSettings)):
            raise InputError("`later` changes a run while it plays, but this one is computed at once. Leave it out.")
        if passage := catalogue.passage(self.settings):
            self._record_whole(passage, passage.run, passage.moments())
        elif self.is_coalescing:
            self._coalesce(report)
        else:
            self._begin()
        if self.stepper is None and asked.until is not None:
            self.place = self.recording.place(asked.until)

    @property
    def is_whole(self) -> bool:
        """Whether all of it was computed at once."""
        return self.stepper is None

    @property
    def moment(self) -> Moment:
        """What the viewer sees."""
        return self.recording.moments[self.place]

    @property
    def pace(self) -> Pace:
        """How time goes by."""
        edge = 0.0 if self.is_whole else self.recording.last.time
        return Pace(max(self.settings.end, edge), self.settings.spacing == "log")

    @property
    def share(self) -> float:
        """Where the viewer stands between the start and the end."""
        return self._share(self.place)

    @property
    def computed(self) -> float:
        """How much of it exists."""
        return self._share(len(self.recording.moments) - 1)

    @property
    def is_at_end(self) -> bool:
        """Whether the last recorded frame is shown and the scenario's end is reached."""
        is_last = self.place == len(self.recording.moments) - 1
        return is_last and (self.is_whole or self.moment.time >= self.settings.end * (1 - 1e-12))

    def forward(self, factor: float, until: float | None = None, recolour: bool = True) -> bool:
        """The next frame, recorded or new; False where the computation needs another call."""
        if self.stepper is None or self.place < len(self.recording.moments) - 1:
            self._replay(factor)
            return True
        if self._target is None:
            self._apply_planned()
            self._target = self.stepper.next_time(self._next_target(factor, until))
        found = self.stepper.advance(self._target)
        if found is None:
            return False
        self._target = None
        self.recording.add(self._coloured(found, recolour))
        self.place = len(self.recording.moments) - 1
        return True

    def seek(self, share: float) -> None:
        """To the recorded frame nearest before a share of the way."""
        last = len(self.recording.moments) - 1
        self.place = round(share * last) if self.is_whole else self.recording.place(self.pace.time_of(share))
        self._part = 0.0

    def step(self, by: int) -> None:
        """One recorded frame back or forward."""
        self.place = min(max(self.place + by, 0), len(self.recording.moments) - 1)

    def needs_restart(self, settings: Settings, changes: dict[str, Any]) -> bool:
        """Whether changed settings speak of other tokens than those on the stage."""
        is_other_frame = self.settings.space == "rescaled" and "value" in changes  # z = e^{-tV} x
        is_first = self.place == 0 and not self.later
        is_new = bool(RESTARTING & set(changes)) or is_other_frame or self.is_whole or is_first
        return is_new or settings.end < self.moment.time or self._gets_lengths(settings, changes)

    def _gets_lengths(self, settings: Settings, changes: dict[str, Any]) -> bool:
        """Whether another normalisation gives tokens lengths, or takes them away."""
        has_lengths = self.first.radii is not None
        return "normalisation" in changes and catalogue.build(settings).flow.has_radii != has_lengths

    def change(self, changes: dict[str, Any]) -> None:
        """Another model for the tokens as they are shown now; what was computed after them is forgotten."""
        if self.stepper is None:
            raise InputError("All of this run is computed already. Restart it with other settings.")
        settings = settings_of(self.settings, changes)
        if set(changes) <= PACING:
            self.settings = settings
            return
        moment = self.moment
        self.stepper.set_model(catalogue.build(settings), moment)
        self.subject = Flowing(self.stepper.flow, self.stepper.solver, self.first)
        self.settings = settings
        self.recording.forget_after(self.place)
        together = {name: value for time, made in self.later if time == moment.time for name, value in made.items()}
        self.later = [one for one in self.later if one[0] < moment.time] + [(moment.time, {**together, **changes})]
        self._slots.start_from(moment.labels)
        self._target = None

    def _next_target(self, factor: float, until: float | None) -> float:
        wanted = self.pace.after(self.moment.time, factor)
        ends = [self.settings.end] if self.moment.time < self.settings.end else []
        ends += [until] if until is not None else []
        ends += [time for time, _ in self._planned[:1]]
        nearest = min((end for end in ends if end > self.moment.time), default=math.inf)
        return min(wanted, nearest)

    def _apply_planned(self) -> None:
        """Changes that a link made at this time."""
        while self._planned and self._planned[0][0] <= self.moment.time * (1 + 1e-12):
            self.change(self._planned.pop(0)[1])

    def _replay(self, factor: float) -> None:
        last = len(self.recording.moments) - 1
        if self.is_whole:
            self._part += factor * last / (SECONDS * FRAMES_PER_SECOND)
            by, self._part = int(self._part), self._part % 1
            self.place = min(self.place + by, last)
            return
        wanted = self.recording.place(self.pace.after(self.moment.time, factor))
        self.place = min(max(wanted, self.place + 1), last)

    def _coloured(self, moment: Moment, recolour: bool = True) -> Moment:
        known = self.recording.moments[-1].labels if self.recording.moments else None
        return moment._replace(labels=self._slots.update(moment.tokens) if recolour or known is None else known)

    def _begin(self) -> None:
        """A run that is computed while it is watched."""
        self.stepper = stepper = Stepper(catalogue.build(self.settings))
        self.first = stepper.first
        self.subject: AbstractSubject = Flowing(stepper.flow, stepper.solver, self.first)
        self._slots = Slots(self.subject.distance)
        self.recording.add(self._coloured(self.first))

    def _coalesce(self, report: Callable[[float, str], None]) -> None:
        """All states of `coalesce`, whose time is the logarithm of t."""
        setup = catalogue.build(self.settings)
        first = Stepper(setup).first
        found = coalesce(setup.flow, first.tokens, progress=report)
        states = zip(found.log_time.values, found.tokens.values, strict=True)
        moments = [Moment(index, float(time), np.asarray(tokens, float)) for index, (time, tokens) in enumerate(states)]
        self._record_whole(Flowing(setup.flow, None, first, is_log=True), found, moments)

    def _record_whole(self, subject: AbstractSubject, dataset: xr.Dataset, moments: list[Moment]) -> None:
        self.subject, self.dataset, self.first = subject, dataset, moments[0]
        self._slots = Slots(subject.distance)
        for moment in moments:
            self.recording.add(self._coloured(moment))

    def _share(self, place: int) -> float:
        moments = self.recording.moments
        if self.is_whole:
            return place / max(len(moments) - 1, 1)
        return min(self.pace.share_of(moments[place].time), 1.0)
