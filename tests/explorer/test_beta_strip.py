"""The strip over beta: end states from one start, bounded work, cancelled when it is not wanted."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, wait_for
from tests.helpers.served_explorer import wait_until

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import beta_strip, catalogue, page_requests
from attnflow.explorer.computing_turns import ComputingTurns
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.viewer import Viewer

SMALL = {"n": 8}  # the shape of the other explorer tests: compiled once


def started(name="sphere", **changes):
    return LiveRun(1, page_requests.Start(name, changes), lambda *_: None)


def strip_of(run):
    messages = []
    worker = beta_strip.StripWorker(lambda kind, message: messages.append(message), ComputingTurns().for_viewer())
    worker.start(run)
    wait_until(lambda: messages and messages[-1]["isComplete"])
    return messages


@pytest.fixture
def patient(monkeypatch):
    """Seconds of computing that also a busy machine does not use up."""
    monkeypatch.setattr(beta_strip, "SECONDS_PER_CELL", 60.0)
    monkeypatch.setattr(beta_strip, "SECONDS", 600.0)


def test_cells_are_the_end_states_of_simulate(patient):
    run = started(**SMALL)
    messages = strip_of(run)
    cells = messages[-1]["cells"]

    assert [len(message["cells"]) for message in messages] == list(range(1, len(cells) + 1))
    assert [cell["beta"] for cell in cells] == [run.settings.beta * 2.0**k for k in range(-4, 4)]
    for cell in cells[::3]:
        setup = af.scenario("sphere", n=8, beta=cell["beta"])
        expected = af.simulate(setup.flow, setup.tokens, [0.0, run.settings.end], progress=False).tokens.values[-1]
        found = cell["size"] * np.reshape(cell["tokens"], (8, 3))
        np.testing.assert_allclose(found, expected, atol=1e-3)
        assert cell["clusters"] == int(af.clusters.labels(expected, run.measurements.distance).max()) + 1
    assert len({cell["clusters"] for cell in cells}) > 1  # beta matters


def test_many_tokens_and_dimensions_are_sent_small(monkeypatch):
    monkeypatch.setattr(beta_strip, "FACTORS", (1,))
    cell = strip_of(started(n=80, d=5))[-1]["cells"][0]

    assert len(cell["colours"]) == beta_strip.MAX_TOKENS
    assert len(cell["tokens"]) == 3 * beta_strip.MAX_TOKENS


def test_a_slow_cell_is_shown_as_far_as_it_came_and_the_strip_ends(monkeypatch):
    monkeypatch.setattr(beta_strip, "SECONDS_PER_CELL", 0.0)
    monkeypatch.setattr(beta_strip, "SECONDS", 0.0)
    (message,) = strip_of(started(**SMALL))

    assert len(message["cells"]) == 1
    assert message["cells"][0]["time"] == 0.0


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [("staircase", {}, "computed at once"), ("sphere", {"attention": "hardmax"}, "Hardmax attention has no beta")],
)
def test_runs_without_a_strip(name, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        beta_strip.betas(started(name, **changes))


def test_another_run_and_a_closed_page_end_a_strip(monkeypatch):
    calls = []

    def endless(setup, end, beta, pass_on):
        while True:
            calls.append(beta)
            pass_on()
            time.sleep(0.01)

    monkeypatch.setattr(beta_strip, "end_state", endless)
    messages = []
    viewer = Viewer(lambda kind, message: messages.append(kind), ThreadPoolExecutor(1))
    for end in (
        lambda: viewer.post(page_requests.Start("sphere", SMALL, plays=False)),
        lambda: viewer.post(page_requests.ShowStrip(False)),
        viewer.close,
    ):
        viewer.post(page_requests.Start("sphere", SMALL, plays=False))
        wait_until(lambda: messages.count("frame"))
        calls.clear()
        viewer.post(page_requests.ShowStrip(True))
        wait_until(lambda: calls)

        end()

        assert wait_until(lambda: not grows(calls))
        messages.clear()


def grows(calls):
    before = len(calls)
    time.sleep(0.3)
    return len(calls) > before


@needs_chromium
def test_the_page_draws_the_strip_and_opens_a_run(page, explorer, patient):
    page.goto(explorer.address + "#scenario=sphere&n=8&strip=beta")
    wait_for(page, "document.querySelectorAll('#strip button').length === 8")
    wait_for(page, "document.querySelector('#strip p').textContent === ''")
    assert page.locator("#strip button[aria-pressed=true]").count() == 1
    beta = catalogue.get("sphere").settings.beta
    drawn = page.evaluate("""() => {
      const { width, height } = document.querySelector('#strip canvas');
      const data = document.querySelector('#strip canvas').getContext('2d').getImageData(0, 0, width, height).data;
      return data.some((value, k) => k % 4 === 3 && value > 200);
    }""")
    assert drawn

    page.locator("#strip button").nth(7).click()

    wait_for(page, f"explorer.model.settings.beta === {8 * beta}")
    wait_for(page, "location.hash.includes('strip=beta')")
    page.click("#strip summary")
    wait_for(page, "!location.hash.includes('strip=beta')")
