"""Requests of a page that wait for its viewer's thread."""

import threading
from collections.abc import Callable

from attnflow.explorer.page_requests import ChangeSettings, PageRequest, Play, SetSpeed, Start

OVERTAKING = (Start, Play, SetSpeed)  # requests that may be answered before others that wait


class Mailbox:
    """The latest request of each type, in order of arrival. A `Start` replaces all; changes of settings are merged."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._requests: dict[type, PageRequest] = {}
        self._is_woken = False  # while no thread waited
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, kind: type) -> bool:
        return kind in self._requests

    def post(self, request: PageRequest) -> None:
        """Add a request without waiting, from any thread."""
        with self._condition:
            earlier = self._requests.pop(type(request), None)
            if isinstance(request, Start):
                self._requests = {}
            elif isinstance(request, ChangeSettings) and isinstance(earlier, ChangeSettings):
                request = ChangeSettings({**earlier.changes, **request.changes})
            self._requests[type(request)] = request
            self._condition.notify()

    def wake(self) -> None:
        """End a waiting `take`, or the next one."""
        with self._condition:
            self._is_woken = True
            self._condition.notify()

    def close(self) -> None:
        """Mark the mailbox as closed and end a waiting `take`."""
        with self._condition:
            self.is_closed = True
            self._condition.notify()

    def take(
        self, timeout: float | None, can_answer: Callable[[PageRequest], bool] = lambda request: True
    ) -> list[PageRequest]:
        """Remove and return the requests that can be answered; with none, wait for one, for `wake` or for `timeout`.

        A request that cannot be answered yet stays, and with it those that came later, except a `Start`, `Play` or
        `SetSpeed`, which do not depend on it.
        """
        with self._condition:
            if not self._answerable(can_answer) and not self.is_closed and not self._is_woken:
                self._condition.wait(timeout)
            self._is_woken = False
            taken = self._answerable(can_answer)
            self._requests = {kind: request for kind, request in self._requests.items() if request not in taken}
            return taken

    def _answerable(self, can_answer: Callable[[PageRequest], bool]) -> list[PageRequest]:
        taken, is_blocked = [], False
        for request in self._requests.values():
            if can_answer(request) and (not is_blocked or isinstance(request, OVERTAKING)):
                taken.append(request)
            else:
                is_blocked = True
        return taken
