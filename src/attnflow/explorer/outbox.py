"""What waits to be sent to one page: the latest of every kind, so that a slow page never makes a queue."""

import asyncio
import json
import threading
from typing import Any

# In this order; a frame belongs to a run that was announced before it.
KINDS = ("hello", "busy", "started", "changed", "axes", "problem", "frame", "state", "panels", "attention", "row",
         "file")  # fmt: skip


class Outbox:
    """Filled by a viewer's threads, emptied by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._waiting: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._has_news = asyncio.Event()
        self.dropped = 0

    def put(self, kind: str, message: Any) -> None:
        """Leave a message in place of an older one of its kind; from any thread."""
        with self._lock:
            self.dropped += kind in self._waiting
            if kind == "started":  # whatever is about the run before has lost its meaning
                self._waiting = {name: one for name, one in self._waiting.items() if name in ("hello", "file")}
            self._waiting[kind] = message
        try:
            self._loop.call_soon_threadsafe(self._has_news.set)
        except RuntimeError:  # the server has stopped
            return

    async def take(self) -> list[str | bytes]:
        """All that waits, in order; waits for something."""
        await self._has_news.wait()
        self._has_news.clear()
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        found = [waiting[kind] for kind in KINDS if kind in waiting]
        return [one if isinstance(one, bytes) else json.dumps(one, allow_nan=False) for one in found]
