"""Messages that wait to be sent to one page: the latest of every type, so that a slow page makes no queue."""

import asyncio
import threading
from typing import Any

from attnflow.explorer.protocol import json_text

# Types of messages in the order of sending: a run is announced before its frames.
TYPES = ("hello", "busy", "started", "changed", "axes", "problem", "slow", "frame", "state", "panels", "attention",
         "row", "strip", "file")  # fmt: skip


class Outbox:
    """The latest message of every type, put by the threads of a viewer and taken by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._waiting: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._has_news = asyncio.Event()
        self.dropped = 0

    def put(self, kind: str, message: Any) -> None:
        """Add a message in place of an older one of its type, from any thread."""
        with self._lock:
            self.dropped += kind in self._waiting
            if kind == "started":  # messages about the run before are obsolete
                self._waiting = {name: waiting for name, waiting in self._waiting.items() if name in ("hello", "file")}
            self._waiting[kind] = message
        try:
            self._loop.call_soon_threadsafe(self._has_news.set)
        except RuntimeError:  # the server has stopped
            return

    async def take(self) -> list[str | bytes]:
        """Remove and return all messages in the order of `TYPES`; with none, wait for one."""
        await self._has_news.wait()
        self._has_news.clear()
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        messages = [waiting[kind] for kind in TYPES if kind in waiting]
        return [message if isinstance(message, bytes) else json_text(message) for message in messages]
