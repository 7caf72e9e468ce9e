"""The division of missing runs into batches of a few seconds, from the seconds that former batches took."""

from collections import deque
from collections.abc import Callable, Sequence

from attnflow.sweeps.batches import Batch, Segment

SECONDS_PER_BATCH = 2.0  # a file is written and a process asked for each batch: a few milliseconds
LARGEST_GROWTH = 4  # from one batch to the next of a program: the first one is slow, since it compiles
BYTES_PER_BATCH = 2e8  # of saved values, so that several workers fit into memory


class Planner:
    """Gives one batch after the other; cells that share a compiled program are neighbours."""

    def __init__(
        self,
        gaps: Sequence[Segment],
        spec_text: str,
        bytes_per_run: float,
        with_state: Callable[[Segment], Segment] = lambda segment: segment,
    ):
        self._with_state = with_state
        self._gaps = deque(sorted(gaps, key=_together))
        self._spec_text = spec_text
        self._most = max(1, int(BYTES_PER_BATCH / max(bytes_per_run, 1)))
        self._sizes: dict[str, int] = {}
        self._last = 1

    def next(self) -> Batch | None:
        """The next batch, or None if all runs are given out."""
        if not self._gaps:
            return None
        program = self._gaps[0].cell.program()
        room = self._sizes.get(program, min(self._last, LARGEST_GROWTH))
        segments = []
        wanted = _together(self._gaps[0])
        while room > 0 and self._gaps and _together(self._gaps[0]) == wanted:
            segment, rest = self._gaps.popleft().divided(room)
            segments.append(self._with_state(segment))
            if rest is not None:
                self._gaps.appendleft(rest)
            room -= segment.count
        return Batch(self._spec_text, tuple(segments))

    def measured(self, batch: Batch, seconds: float) -> None:
        """Choose the size of the next batches of a program, after a batch took some seconds."""
        wanted = int(SECONDS_PER_BATCH * batch.runs / max(seconds, 1e-6))
        self._last = max(1, min(wanted, LARGEST_GROWTH * batch.runs, self._most))
        self._sizes[batch.segments[0].cell.program()] = self._last


def _together(segment: Segment) -> tuple[str, float]:
    """The key by which segments form batches: their program, and the time from which they are continued."""
    return segment.cell.program(), -1.0 if segment.since is None else segment.since
