"""The explorer's server in a thread, as `attnflow explore` runs it."""

import threading
import time

from attnflow.explorer import server

TIMEOUT = 300  # seconds: a busy machine may compile for a long time, and a test that passes does not wait


class Served:
    """A running server; `app.state.viewers` are its viewers."""

    def __init__(self, port=None):
        listener = server.listening_socket("127.0.0.1", port or 0)
        self.port = listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self.origin = self.address.rstrip("/")
        self.app = server.application()
        self.server = server.new_server(self.app, lambda: None)
        self._thread = threading.Thread(target=self.server.run, args=([listener],), daemon=True)
        self._thread.start()
        wait_until(lambda: self.server.started)

    @property
    def viewers(self):
        return self.app.state.viewers

    def stop(self):
        self.server.should_exit = True
        self._thread.join(20)
        for one in threading.enumerate():  # a process that ends inside compiled code aborts
            if one.name in ("attnflow viewer", "attnflow computation"):
                one.join(20)


def wait_until(condition, timeout=TIMEOUT):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")
