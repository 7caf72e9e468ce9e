"""The explorer's page in a real browser: pages to drive, and questions to them."""

import shutil
import time

import numpy as np
import pytest
from tests.helpers.served_explorer import TIMEOUT, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
# Chromium without a GPU tells how slow its own copying of WebGL pictures is; it is no fault of the page.
BROWSERS_OWN = "GPU stall due to ReadPixels"
OF_ONE_RUN = "explorer.state.run === explorer.model.run && explorer.frame?.run === explorer.model.run"


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
    """Pause the run on display, whose last state may have come before the end of the one before it.

    The button is asked and pressed in one task of the page: a run that ended in between would be played by it.
    """
    wait_for(page, OF_ONE_RUN)
    page.evaluate("() => { if (explorer.state.plays) document.getElementById('play').click(); }")
    wait_for(page, f"!explorer.state.plays && {OF_ONE_RUN} && explorer.frame.index === explorer.state.frame")


def seek(page, share):
    """Move the time slider."""
    value(
        page,
        f"""(() => {{ const time = document.getElementById('time');
        time.value = {share}; time.dispatchEvent(new Event('input')); return true; }})()""",
    )


def show_last_frame(page, explorer):
    """Show the last frame of a paused run, also if it was being computed at the time of the pause."""
    wait_until(lambda: not any(viewer.player._computation for viewer in list(explorer.viewers)))
    seek(page, 1)
    wait_for(page, "explorer.state.share === explorer.state.computed && explorer.frame.index === explorer.state.frame")


def shown_frame(page):
    found = value(page, "({time: explorer.frame.time, tokens: Array.from(explorer.frame.tokens), n: explorer.frame.n})")
    return found["time"], np.array(found["tokens"], np.float32).reshape(found["n"], -1)
