"""The explorer in a real browser: it plays, and what it shows is what the library computes."""

import shutil
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import attnflow as af
from attnflow import scenarios
from attnflow.explorer import server

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")

PATIENCE = 90  # seconds: a busy machine may compile for a long time


class Served:
    """The explorer in a thread."""

    def __init__(self, port):
        import uvicorn

        config = uvicorn.Config(
            server.application(),
            port=port,
            log_level="warning",
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)
        self.port = port
        self.address = f"http://127.0.0.1:{port}/"
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self.server.started)

    def stop(self):
        self.server.should_exit = True
        self._thread.join(20)


def wait_until(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@pytest.fixture(scope="module")
def explorer():
    served = Served(server.free_port("127.0.0.1", None))
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, explorer):
    """A page that may neither complain nor talk to anybody but the explorer."""
    faults = []
    context = browser.new_context(viewport={"width": 1024, "height": 640})
    page = context.new_page()
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(explorer.address) else faults.append(request.url))
    yield page
    context.close()
    assert not faults


def value(page, expression):
    return page.evaluate(f"() => {expression}")


def wait_for(page, expression):
    """Polled from outside: the page's own rules forbid evaluating text in it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := value(page, expression):
            return found
        page.wait_for_timeout(50)
    raise AssertionError(
        f"{expression} did not become true; the page says: {page.inner_text('#status')} {page.inner_text('#problem')}"
    )


def shown_frame(page):
    found = value(page, "({time: explorer.frame.time, tokens: Array.from(explorer.frame.tokens), n: explorer.frame.n})")
    return found["time"], np.array(found["tokens"], np.float32).reshape(found["n"], -1)


def computed(changes, time):
    """The library's tokens at a time, by its own scenario."""
    setup = scenarios.build(replace(scenarios.get("sphere").settings, **changes))
    return af.simulate(setup.flow, setup.tokens, [0.0, time], solver=setup.solver).tokens.values[-1]


def test_the_page_shows_what_the_library_computes(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8&beta=2")
    wait_for(page, "window.explorer?.frame?.index > 5")
    page.keyboard.press("Space")
    wait_for(page, "!explorer.state.plays && explorer.frame.index === explorer.state.frame")

    at, tokens = shown_frame(page)

    # Frames are float32; interpolation between steps is as exact as the solver's 1e-8.
    np.testing.assert_allclose(tokens, computed({"n": 8, "beta": 2.0}, at), atol=2e-7)
    assert value(page, "explorer.panels.attention !== null") or wait_for(page, "explorer.panels.attention !== null")


def test_another_beta_acts_at_once_and_a_link_restores_the_state(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8")
    wait_for(page, "window.explorer?.frame?.index > 5")
    page.fill("input[name=beta]", "9")
    page.keyboard.press("Enter")
    wait_for(page, "explorer.model.settings.beta === 9")
    wait_for(page, "explorer.frame.time > explorer.model.later[0][0]")
    page.keyboard.press("Escape")
    page.click("#play")
    wait_for(page, "!explorer.state.plays && explorer.frame.index === explorer.state.frame")
    page.click("#share")
    at, tokens = shown_frame(page)
    link = page.url
    assert "later=" in link

    page.goto("about:blank")
    page.goto(link)
    wait_for(page, f"window.explorer?.frame?.time === {at!r}")

    np.testing.assert_array_equal(shown_frame(page)[1], tokens)


def test_a_server_that_comes_back_is_found_again(browser):
    served = Served(server.free_port("127.0.0.1", None))
    page = browser.new_page()
    page.goto(served.address + "#scenario=sphere&n=8")
    wait_for(page, "window.explorer?.frame?.index > 2")
    served.stop()
    wait_until(lambda: page.wait_for_timeout(50) or "server is gone" in page.inner_text("#status"))

    again = Served(served.port)
    wait_until(lambda: page.wait_for_timeout(50) or "server is gone" not in page.inner_text("#status"))
    wait_for(page, "explorer.model.run === 1 && explorer.frame.run === 1 && explorer.frame.index > 0")

    assert "SphereAttention" in page.inner_text("#status")
    page.close()
    again.stop()
