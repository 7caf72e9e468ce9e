"""The live page, built once for all tests of a process, and served by a plain file server."""

import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "docs" / "live" / "build.py"
needs_emcc = pytest.mark.skipif(
    shutil.which("emcc") is None, reason="there is no compiler to WebAssembly here: apt-get install emscripten"
)


@functools.cache
def built() -> Path:
    """A folder with the live page."""
    folder = Path(tempfile.mkdtemp(prefix="attnflow-live-"))
    subprocess.run([sys.executable, str(BUILD), str(folder)], check=True)
    return folder


class FileServer:
    """A plain file server of a folder."""

    def __init__(self, folder: Path):
        handler = functools.partial(_QuietHandler, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Log nothing."""
