"""Firefox without a window, driven through WebDriver BiDi, the protocol that it speaks itself."""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import threading
import time

from tests.helpers.served_explorer import TIMEOUT

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """A browser with one page. `faults` are errors and warnings that pages logged."""

    def __init__(self):
        from websockets.sync.client import connect

        with contextlib.ExitStack() as opened:
            profile = opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            self._process = subprocess.Popen(
                [FIREFOX, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            opened.callback(self._end)
            self.faults, self._count = [], 0
            connected = connect(self._address() + "/session", max_size=None, open_timeout=TIMEOUT)
            self._socket = opened.enter_context(connected)
            self._send("session.new", capabilities={})
            self._send("session.subscribe", events=["log.entryAdded"])
            self._page = self._send("browsingContext.getTree")["contexts"][0]["context"]
            self._opened = opened.pop_all()

    def _end(self):
        self._process.terminate()
        self._process.wait(TIMEOUT)
        self._reader.join(20)
        self._process.stderr.close()

    def _address(self):
        """The address that Firefox prints when it listens; reading goes on, so that its output does not block it."""
        for line in self._process.stderr:
            if found := re.search(r"ws://[\w.:]+", line):
                self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
                self._reader.start()
                return found[0]
        raise AssertionError("Firefox did not listen for WebDriver BiDi")

    def _send(self, method, **parameters):
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(TIMEOUT))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] in ("error", "warn"):
                self.faults.append(message["params"]["text"])
            if message.get("id") == self._count:
                assert message["type"] == "success", message
                return message["result"]

    def resize(self, width, height):
        self._send("browsingContext.setViewport", context=self._page, viewport={"width": width, "height": height})

    def goto(self, address):
        self._send("browsingContext.navigate", context=self._page, url=address, wait="complete")

    def value(self, expression):
        """A JSON value that the page computes."""
        found = self._send(
            "script.evaluate", expression=f"JSON.stringify({expression}) ?? 'null'", target={"context": self._page},
            awaitPromise=True,
        )  # fmt: skip
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    def wait_for(self, expression):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if found := self.value(expression):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{expression} did not become true")

    def picture(self):
        """The page as PNG."""
        return base64.b64decode(self._send("browsingContext.captureScreenshot", context=self._page)["data"])

    def close(self):
        self._opened.close()
