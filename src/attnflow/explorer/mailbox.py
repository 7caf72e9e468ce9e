"""Requests of a page that wait for its viewer's thread."""

import threading

from attnflow.explorer.page_requests import ChangeSettings, PageRequest, Start


class Mailbox:
    """The latest request of each type, in order of arrival. A `Start` replaces all; changes of settings are merged."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._requests: dict[type, PageRequest] = {}
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
        """End a waiting `take`."""
        with self._condition:
            self._condition.notify()

    def close(self) -> None:
        """Mark the mailbox as closed and end a waiting `take`."""
        with self._condition:
            self.is_closed = True
            self._condition.notify()

    def take(self, timeout: float | None) -> list[PageRequest]:
        """Remove and return all requests; with none, wait for one, for `wake` or for `timeout` seconds."""
        with self._condition:
            if not self._requests and not self.is_closed:
                self._condition.wait(timeout)
            requests = list(self._requests.values())
            self._requests = {}
            return requests
