"""Frames that were sent to a page and not yet painted."""

import threading

LIMIT = 3  # unpainted frames above which a run waits: one painted, one on the network, one in preparation


class UnpaintedFrames:
    """Pairs (run, frame) in the order in which they were sent.

    Examples
    --------
    >>> frames = UnpaintedFrames()
    >>> for index in range(LIMIT):
    ...     frames.add(1, index)
    >>> frames.is_full
    True
    >>> frames.confirm(1, 1)  # the page may have left out frame 0
    >>> frames.is_full, len(frames)
    (False, 1)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def is_full(self) -> bool:
        """Whether no further frame should be sent."""
        return len(self._sent) >= LIMIT

    def add(self, run: int, frame: int) -> None:
        """Note that a frame was sent."""
        with self._lock:
            self._sent = [*self._sent[-LIMIT:], (run, frame)]

    def confirm(self, run: int, frame: int) -> None:
        """Note that a frame was painted; frames sent before it were painted or left out."""
        with self._lock:
            if (run, frame) in self._sent:
                last = len(self._sent) - 1 - self._sent[::-1].index((run, frame))
                self._sent = self._sent[last + 1 :]

    def clear(self) -> None:
        """Forget all frames."""
        with self._lock:
            self._sent = []
