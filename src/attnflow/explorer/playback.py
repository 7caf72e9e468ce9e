"""The playback of one viewer: whether and how fast its run plays, and when its next frame is due."""

from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND
from attnflow.explorer.unpainted_frames import UnpaintedFrames

COLOUR_INTERVAL = 0.1  # seconds; clusters of many tokens are found anew ten times a second, which looks continuous
MAX_RECOLOURED_TOKENS = 1_000  # up to so many, clusters are computed in every frame
SECONDS_BETWEEN_LOOKS = 0.5  # at a page that has not painted its frames


class Playback:
    """What the page requests of the motion of its run."""

    def __init__(self) -> None:
        self.unpainted = UnpaintedFrames()
        self.plays = False
        self.until: float | None = None
        """The time up to which a restored run is computed without pauses; None for others."""
        self.speed = 1.0
        self.is_stepping = False
        """Whether one further frame is to be shown while the run is paused."""
        self.played_from_start = False
        self._plays_if_refused = False  # whether the present run plays if the next one is refused
        self._next_frame = self._next_colours = 0.0

    @property
    def is_moving(self) -> bool:
        """Whether further frames are wanted one after the other."""
        return self.plays or self.until is not None

    def prepare(self, plays: bool) -> None:
        """Note whether the run that is being prepared will play."""
        self._plays_if_refused, self.plays = self.plays, plays

    def refuse(self) -> None:
        """Play as before: the run that was prepared is refused."""
        self.plays = self._plays_if_refused

    def start(self, until: float | None) -> None:
        """Begin a run that has been prepared, and compute it up to `until`; the first frame needs no computation."""
        self.unpainted.clear()
        until = until if until is not None and until > 0 else None
        self.played_from_start, self.until, self.is_stepping, self._next_frame = self.plays, until, False, 0.0

    def play(self, plays: bool) -> None:
        """Play or pause, now and after a preparation."""
        self._plays_if_refused = self.plays = plays
        self.until, self.is_stepping = None, False

    def show_soon(self) -> None:
        """Make the next frame due, so that a change is seen at once."""
        self._next_frame = 0.0

    def is_due(self, now: float) -> bool:
        """Whether the next frame should be shown or computed."""
        is_wanted = self.is_moving and not self.unpainted.is_full
        return self.is_stepping or (is_wanted and (self.until is not None or now >= self._next_frame))

    def wants_frame(self, run: LiveRun, now: float) -> bool:
        """Whether a further frame should be computed: for the page at once, or ahead of it while the run plays."""
        is_ahead = self.plays and self.until is None and run.wants_frame_ahead
        return is_ahead or (self.is_due(now) and not run.has_recorded_next)

    def seconds_until_due(self, now: float) -> float | None:
        """Seconds until a frame is due; None if no frame is wanted."""
        if self.is_due(now):
            return 0.0
        if not self.is_moving:
            return None
        return SECONDS_BETWEEN_LOOKS if self.unpainted.is_full else self._next_frame - now

    def recolours(self, now: float, tokens: int) -> bool:
        """Whether the clusters of the next frame are computed, or the colours of the frame before are kept."""
        if now < self._next_colours and tokens > MAX_RECOLOURED_TOKENS:
            return False
        self._next_colours = now + COLOUR_INTERVAL
        return True

    def note_frame(self, now: float, time: float) -> None:
        """Plan the frame after one that is shown at `now`."""
        self.is_stepping = False
        self._next_frame = max(self._next_frame + 1 / FRAMES_PER_SECOND, now)
        if self.until is not None and time >= self.until:
            self.until = None
