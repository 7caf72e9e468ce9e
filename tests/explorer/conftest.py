"""The explorer's server and a browser, for all tests of the page."""

import pytest
from tests.helpers.browser_page import CHROMIUM, is_fault
from tests.helpers.served_explorer import Served, wait_until


@pytest.fixture(scope="module")
def explorer():
    served = Served()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
    )
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser, explorer):
    """Pages that must log no error and send no request except to the explorer."""
    faults, contexts = [], []
    allowed = (explorer.address, explorer.address.replace("http", "ws"), "data:", "blob:", "file:///", "about:")

    def opened():
        contexts.append(browser.new_context(viewport={"width": 1024, "height": 640}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(allowed) else faults.append(request.url))
        return page

    yield opened
    for context in contexts:
        context.close()
    wait_until(lambda: not getattr(explorer, "viewers", None))  # a test may ask the server for its one viewer
    assert not faults


@pytest.fixture
def page(new_page):
    return new_page()
