"""Limits of one connection: the rate of its messages, and the time in which a request must arrive."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MESSAGES_PER_SECOND = 200  # a page sends at most 60 of a type: one for every picture that it paints
BURST = 200  # messages that may come at once, after a rest
HEADER_SECONDS = 5.0  # from the first byte of a connection to the end of its request


class MessageRate:
    """The pauses that keep the messages of a connection within `MESSAGES_PER_SECOND` after a burst.

    Examples
    --------
    >>> rate = MessageRate()
    >>> pauses = [rate.pause(now=0.0) for _ in range(BURST + 2)]
    >>> pauses[:BURST] == [0.0] * BURST, pauses[BURST:]
    (True, [0.005, 0.01])
    """

    def __init__(self) -> None:
        self._due = -1e9  # time at which the messages so far would have come at the highest rate

    def pause(self, now: float) -> float:
        """Seconds to wait before the next message is read."""
        self._due = max(self._due, now - BURST / MESSAGES_PER_SECOND) + 1 / MESSAGES_PER_SECOND
        return round(max(self._due - now, 0.0), 9)


class TimedProtocol(H11Protocol):
    """HTTP connections that are closed if their request does not arrive in `HEADER_SECONDS`."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the first request."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Read requests; one of which only a part has come must be whole in time."""
        super().handle_events()
        is_waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if is_waiting and self.conn.trailing_data[0]:
            self._expect_request()
        elif not is_waiting:
            self._cancel_deadline()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the connection to the WebSocket."""
        self._cancel_deadline()
        super().handle_websocket_upgrade(event)

    def _expect_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
