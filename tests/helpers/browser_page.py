"""The explorer's page in a real browser: pages to drive, and questions to them."""

import shutil
import time

import numpy as np
import pytest
from tests.helpers.served_explorer import TIMEOUT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
# Chromium without a GPU tells how slow its own copying of WebGL pictures is; it is no fault of the page.
BROWSERS_OWN = "GPU stall due to ReadPixels"


def is_fault(message):
    return message.type in ("error", "warning") and BROWSERS_OWN not in message.text


def value(page, expression):
    return page.evaluate(f"() => {expression}")


def wait_for(page, expression):
    """Polled from outside: the page's own rules forbid evaluating text in it."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found := value(page, expression):
            return found
        page.wait_for_timeout(50)
    raise AssertionError(
        f"{expression} did not become true; the page says: {page.inner_text('#status')} {page.inner_text('#problem')}"
    )


def pause(page):
    if value(page, "explorer.state.plays"):
        page.click("#play")
    wait_for(page, "!explorer.state.plays && explorer.frame.index === explorer.state.frame")


def shown_frame(page):
    found = value(page, "({time: explorer.frame.time, tokens: Array.from(explorer.frame.tokens), n: explorer.frame.n})")
    return found["time"], np.array(found["tokens"], np.float32).reshape(found["n"], -1)
