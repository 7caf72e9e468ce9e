"""One run of one viewer: its recorded frames, the frame on display, and the computation of further frames."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import xarray as xr

from attnflow._common.checks import InputError
from attnflow.coalescence.coalesce import coalesce
from attnflow.experiments.scenarios import Scenario, Settings
from attnflow.explorer import catalogue, page_requests, request_limits
from attnflow.explorer.descriptions import sentences_of
from attnflow.explorer.measure.cluster_colours import ClusterColours
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.measure.measurements import AbstractMeasurements
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND, PLAYBACK_SECONDS, PlaybackClock
from attnflow.explorer.prompt_scenarios import LayersSettings
from attnflow.explorer.recording import Frame, Recording, frames_of
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.stepper import Stepper

RESTARTING = frozenset({"space", "n", "d", "start", "seed", "heads", "runs", "redraw", "prompt", "second", "layer"})
PLAYBACK_SETTINGS = frozenset({"end", "spacing", "saves"})  # settings that do not change the model
LONGEST_FRAME = 0.2  # seconds of computing after which the time of a frame is put forward
NEXT_LOOK = 0.05  # seconds of computing that the frame put forward may still take
MAX_FRAMES_AHEAD = 40  # computed and not shown, so that the picture goes on while a step of a second is computed


class LiveRun:
    """A run that is watched. `forward` shows the next frame; `seek` and `step` show recorded ones.

    Its methods belong to one thread, except `compute`.

    A run of `coalesce` and a prompt in the layers of a trained model are computed at once: they have a `dataset` and
    no `stepper`. All other runs are computed while they are watched.
    """

    def __init__(self, number: int, request: page_requests.Start, report: Callable[[float, str], None]):
        self.number = number
        self.scenario: Scenario = catalogue.get(request.scenario)
        self.first_changes = request.changes
        self.placed = request.tokens
        """First tokens placed by hand; None for those of the settings."""
        self.settings = changed_settings(self.scenario.settings, request.changes)
        self.later: list[tuple[float, dict[str, Any]]] = []
        """Changes made while the run played, with their times."""
        self._planned = sorted(request.later, key=lambda entry: entry[0])
        self.is_coalescing = self.scenario.coalesces
        request_limits.require_allowed(self.settings, self.is_coalescing)
        self.recording = Recording()
        self.position = 0
        """Position of the frame on display in the recording."""
        self._part_of_frame = 0.0
        self._newest_shown = 0.0  # time of the latest frame that was on display
        self._target: float | None = None
        self._seconds = 0.0  # of computing on the way to the target
        self.stepper: Stepper | None = None
        self.dataset: xr.Dataset | None = None
        if request.later and (self.is_coalescing or isinstance(self.settings, LayersSettings)):
            raise InputError("`later` changes a run while it plays, but this one is computed at once. Leave it out.")
        if request.tokens and (self.is_coalescing or isinstance(self.settings, LayersSettings)):
            raise InputError("`tokens` are the first tokens of a run that is computed while it plays. Leave them out.")
        if measured := catalogue.measured_at_once(self.settings, self.placed):
            self._record_all(measured, measured.run, measured.frames())
        elif self.is_coalescing:
            self._coalesce(report)
        else:
            self._start_stepper()
        if self.stepper is None and request.until is not None:
            self.position = self.recording.position_at(request.until)

    @property
    def sentences(self) -> list[str]:
        """The sentences about this run as it was changed; they claim nothing of the scenario's own outcome."""
        first = changed_settings(self.scenario.settings, self.first_changes)
        played = {name: getattr(self.settings, name) for name in PLAYBACK_SETTINGS if hasattr(first, name)}
        return sentences_of(self.scenario, replace(first, **played), self.later, is_placed=self.placed is not None)

    @property
    def is_precomputed(self) -> bool:
        """Whether all frames were computed at once."""
        return self.stepper is None

    @property
    def frame(self) -> Frame:
        """The frame on display."""
        return self.recording.frames[self.position]

    @property
    def clock(self) -> PlaybackClock:
        """The clock of the time slider, which reaches to the settings' end or to the last frame."""
        last = 0.0 if self.is_precomputed else self.recording.last.time
        return PlaybackClock(max(self.settings.end, last), self.settings.spacing == "log")

    @property
    def share(self) -> float:
        """Share of the time slider at which the frame on display stands."""
        return self._share(self.position)

    @property
    def computed(self) -> float:
        """Share of the time slider that has been computed."""
        return self._share(self.recording.last_position)

    @property
    def is_at_end(self) -> bool:
        """Whether the last recorded frame is on display and the settings' end is reached."""
        is_last = self.position == self.recording.last_position
        return is_last and (self.is_precomputed or self.frame.time >= self.settings.end * (1 - 1e-12))

    def forward(self, factor: float, until: float | None = None, recolour: bool = True) -> bool:
        """Show the next frame, recorded or new; False if its computation needs another call."""
        if self.has_recorded_next:
            self.replay(factor)
            return True
        while (changes := self.due_change()) is not None:
            self.change(changes)
        frame = self.compute(factor, until, recolour)
        if frame is None:
            return False
        self.accept(frame)
        return True

    @property
    def has_recorded_next(self) -> bool:
        """Whether the frame after the one on display is recorded, or nothing more will be computed."""
        return self.is_precomputed or self.position < self.recording.last_position

    def compute(self, factor: float, until: float | None = None, recolour: bool = True) -> Frame | None:
        """The frame after the last recorded one, or None if its computation needs another call.

        It may run in another thread than all other methods, and changes neither the recording nor its position. A
        frame that takes long to compute is replaced by an earlier one, so that the picture goes on in slow motion.
        """
        if self.stepper is None:
            raise InputError("All of this run is computed already.")
        if self._target is None:
            self._target = self.stepper.next_time(self._next_target(factor, until))
            self._seconds = 0.0
        frame = self.stepper.advance(self._target)
        if frame is None:
            self._seconds += self.stepper.last_seconds
            reached, last = self.stepper.reached, self.recording.last.time
            if self._seconds > LONGEST_FRAME and reached > last:
                ahead = (reached - last) * NEXT_LOOK / self._seconds
                self._target = min(self._target, self.stepper.next_time(reached + ahead))
            return None
        self._target = None
        return self._coloured(frame, recolour)

    def accept(self, frame: Frame, shows: bool = True) -> bool:
        """Record a computed frame; returns whether it comes on display: if it should, and the frame before it is."""
        is_followed, shown = self.position == self.recording.last_position, self.frame.time
        self.recording.add(frame, shown=-1 if is_followed else self.position)
        is_shown = shows and is_followed
        self.position = self.recording.last_position if is_shown else self.recording.position_at(shown)
        self._newest_shown = max(self._newest_shown, self.frame.time)
        return is_shown

    @property
    def wants_frame_ahead(self) -> bool:
        """Whether another frame may be computed before those that are computed have been shown."""
        last = self.recording.last.time
        latest = min([self.settings.end, *(time for time, _ in self._planned[:1])]) * (1 - 1e-12)
        return last < latest and self.recording.last_position - self.position < MAX_FRAMES_AHEAD

    def seek(self, share: float) -> None:
        """Show the last recorded frame that is not after a share of the time slider."""
        last = self.recording.last_position
        time = self.clock.time_of(share) * (1 + 1e-12)  # the share of a frame is rounded, and must lead to that frame
        self.position = round(share * last) if self.is_precomputed else self.recording.position_at(time)
        self._part_of_frame = 0.0

    def step(self, by: int) -> None:
        """Show the recorded frame that is `by` positions later."""
        self.position = min(max(self.position + by, 0), self.recording.last_position)

    def needs_restart(self, settings: Settings, changes: dict[str, Any]) -> bool:
        """Whether changed settings need other first tokens, so that they cannot act on the tokens on display."""
        if isinstance(settings, LayersSettings) and set(changes) == {"head"}:
            return False  # another head is shown of the same states
        # Rescaled tokens are z = e^{-tV} x: another V means other coordinates.
        has_other_coordinates = self.settings.space == "rescaled" and "value" in changes
        is_unchanged_start = self.position == 0 and not self.later
        return (
            bool(RESTARTING & set(changes))
            or has_other_coordinates
            or self.is_precomputed
            or is_unchanged_start
            or settings.end < self.frame.time
            or self._changes_lengths(settings, changes)
        )

    def _changes_lengths(self, settings: Settings, changes: dict[str, Any]) -> bool:
        """Whether another normalisation gives lengths to tokens without them, or the reverse."""
        has_lengths = self.first.radii is not None
        return "normalisation" in changes and catalogue.build(settings).flow.has_radii != has_lengths

    def change(self, changes: dict[str, Any]) -> None:
        """Continue from the frame on display with another model; frames computed after it are dropped."""
        settings = changed_settings(self.settings, changes)
        if (layers := catalogue.layer_measurements(settings)) and not self.needs_restart(settings, changes):
            self.settings, self.measurements = settings, layers
            return
        if self.stepper is None:
            raise InputError("All of this run is computed already. Restart it with other settings.")
        if set(changes) <= PLAYBACK_SETTINGS:
            self.settings = settings
            if self._target is not None:  # a frame is being computed: show how far it has come
                self._target = self.stepper.next_time(self.stepper.reached)
            return
        frame = self.frame
        self.stepper.set_model(catalogue.build(settings), frame)
        self.measurements = self._flow_measurements(self.stepper)
        self.settings = settings
        self.recording.drop_after(self.position)
        together = {name: value for time, made in self.later if time == frame.time for name, value in made.items()}
        earlier = [entry for entry in self.later if entry[0] < frame.time]
        self.later = [*earlier, (frame.time, {**together, **changes})]
        self._colours.start_from(frame.colours)
        self._target, self._newest_shown = None, frame.time

    def _next_target(self, factor: float, until: float | None) -> float:
        """The time of the next frame: by the clock, but no later than the end, `until` or a planned change.

        Where computing is too slow for the clock, a frame becomes several: slow motion.
        """
        now, ends = self.recording.last.time, [self.settings.end]
        ends += [until] if until is not None else []
        ends += [time for time, _ in self._planned[:1]]
        nearest = min((end for end in ends if end > now), default=math.inf)
        spacing = self.clock.after(now, factor) - now
        parts = 1 if until is not None or self.stepper is None else self.stepper.pace.parts(spacing)
        return min(self.clock.after(now, factor, parts), nearest)

    def due_change(self) -> dict[str, Any] | None:
        """Remove and return the next change that a link has for the time on display."""
        is_due = self._planned and not self.has_recorded_next
        if is_due and self._planned[0][0] <= self.recording.last.time * (1 + 1e-12):
            return self._planned.pop(0)[1]
        return None

    def replay(self, factor: float) -> None:
        """Show the next recorded frame."""
        last = self.recording.last_position
        if self.is_precomputed:
            self._part_of_frame += factor * last / (PLAYBACK_SECONDS * FRAMES_PER_SECOND)
            by, self._part_of_frame = int(self._part_of_frame), self._part_of_frame % 1
            self.position = min(self.position + by, last)
            return
        by_clock = self.recording.position_at(self.clock.after(self.frame.time, factor))
        wanted = by_clock if self.frame.time < self._newest_shown else 0  # new frames are shown one by one
        self.position = min(max(wanted, self.position + 1), last)
        self._newest_shown = max(self._newest_shown, self.frame.time)

    def _coloured(self, frame: Frame, recolour: bool = True) -> Frame:
        """The frame with the colours of its clusters, or with those of the frame before if not to be recoloured."""
        previous = self.recording.last.colours if self.recording.frames else None
        if not recolour and previous is not None:
            return frame._replace(colours=previous)
        coloured = self._colours.update(frame.tokens)
        return frame._replace(colours=coloured.colours, clusters=coloured.count)

    def _start_stepper(self) -> None:
        self.stepper = stepper = Stepper(catalogue.build_from(self.settings, self.placed))
        self.first = stepper.first
        self.measurements: AbstractMeasurements = self._flow_measurements(stepper)
        self._colours = ClusterColours(self.measurements.distance)
        self.recording.add(self._coloured(self.first))

    def _flow_measurements(self, stepper: Stepper) -> FlowMeasurements:
        return FlowMeasurements(
            stepper.flow,
            stepper.solver,
            self.first,
            statement=self.scenario.statement,
            parts=catalogue.parts(self.settings),
        )

    def _coalesce(self, report: Callable[[float, str], None]) -> None:
        """Record all states of `coalesce`, whose time is log t."""
        setup = catalogue.build(self.settings)
        first = Stepper(setup).first
        run = coalesce(setup.flow, first.tokens, progress=report)
        self._record_all(FlowMeasurements(setup.flow, None, first, is_log=True), run, frames_of(run))

    def _record_all(self, measurements: AbstractMeasurements, dataset: xr.Dataset | None, frames: list[Frame]) -> None:
        self.measurements, self.dataset, self.first = measurements, dataset, frames[0]
        self._colours = ClusterColours(measurements.distance)
        for frame in frames:
            self.recording.add(self._coloured(frame) if frame.colours is None else frame)

    def _share(self, position: int) -> float:
        frames = self.recording.frames
        if self.is_precomputed:
            return position / max(len(frames) - 1, 1)
        return min(self.clock.share_of(frames[position].time), 1.0)
