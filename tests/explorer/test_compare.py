"""Two runs side by side: one start, one clock, one difference, in a real browser."""

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, pause, value, wait_for

pytestmark = needs_chromium

BOTH_SHOWN = "explorer.comparison.model && explorer.comparison.stage.frame?.index > 1 && explorer.frame?.index > 1"
ANSWERED = """(first) => import('./compare.js').then(({ Comparison }) => {
  const requests = [], ignored = () => {}, { settings } = explorer.model;
  const source = { on: ignored, open: ignored, close: ignored, send: (request) => requests.push([1, request.type]) };
  const actions = { show: ignored, select: ignored, seek: (half, { type, share }) => requests.push([half, type, share]) };
  const pair = new Comparison({ newSource: () => source, theme: {}, first: explorer.stage, actions });
  const answer = (half, index, time, answered) => {
    pair.tie(half, { run: 1, index, time });
    pair.note(half, { run: 1, plays: false, frame: index, share: time / 40, answered });
  };
  pair.open({ name: 'beta', value: 9 }, settings, { beta: [] });
  const begin = pair.forward({ type: 'seek', share: 0 });
  for (const half of [0, 1]) answer(half, 0, 0, begin.number);
  const { number } = pair.forward({ type: 'step', by: 1 });
  answer(first, 1, 0.5, number);
  answer(1 - first, 0, 0, begin.number); // a state of before the step, which the page receives after it
  const before = requests.splice(0);
  answer(1 - first, 1, 0.25, number);
  return [before, requests];
})"""
TIMES = "[explorer.stage.frame.time, explorer.comparison.stage.frame.time]"
PAUSED_TOGETHER = f"!explorer.state.plays && (([a, b]) => a === b && a > 0)({TIMES})"
TIED = """(steps) => import('./shared_clock.js').then(({ TiedFrames }) => {
  const tied = new TiedFrames();
  return steps.map(([half, run, index, time]) => tied.add(half, { run, index, time })?.map((frame) => frame.time) ?? null);
})"""


@pytest.fixture
def compared(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8&end=40")
    wait_for(page, "window.explorer?.frame?.index > 1")
    page.click("#compare")
    wait_for(page, BOTH_SHOWN)
    return page


def both_tokens(page):
    found = value(page, "[explorer.stage, explorer.comparison.stage].map((one) => Array.from(one.frame.tokens))")
    return [np.array(one).reshape(8, -1) for one in found]


def test_the_runs_differ_in_one_setting_and_show_one_time(compared):
    page = compared
    pause(page)
    wait_for(page, PAUSED_TOGETHER)
    first, second = value(page, "[explorer.model.settings, explorer.comparison.model.settings]")
    assert {name for name in first if first[name] != second[name]} == {"beta"}
    assert (first["beta"], second["beta"]) == (1, 9)
    assert value(page, "document.getElementById('clock').textContent") == page.inner_text("#second-clock")
    assert [page.inner_text("#first-caption"), page.inner_text("#second-caption")] == ["β = 1", "β = 9"]
    assert np.abs(np.subtract(*both_tokens(page))).max() > 1e-6

    page.evaluate(
        "() => { const time = document.getElementById('time'); time.value = 0; time.dispatchEvent(new Event('input')); }"
    )
    wait_for(page, f"{TIMES}.every((time) => time === 0)")
    np.testing.assert_array_equal(*both_tokens(page))
    page.click("#forward")
    wait_for(page, PAUSED_TOGETHER)
    page.wait_for_timeout(300)
    assert value(page, PAUSED_TOGETHER)


@pytest.mark.parametrize("first", [0, 1])
def test_a_run_goes_back_to_the_other_only_once_both_have_answered(page, explorer, first):
    page.goto(explorer.address + "#scenario=sphere&n=8&end=40")
    wait_for(page, "window.explorer?.frame?.index > 1")
    before, after = page.evaluate(ANSWERED, first)
    assert before == [[1, "seek"], [1, "step"]]
    assert after == [[first, "seek", 0.25 / 40]]


def test_panels_belong_to_the_half_that_is_selected(compared):
    page = compared
    assert value(page, "explorer.panels.model.settings.beta") == 1
    page.click("#second-stage", position={"x": 30, "y": 100})
    assert value(page, "explorer.panels.model.settings.beta") == 9
    assert page.get_attribute("#second-caption", "aria-pressed") == "true"
    assert page.input_value("input[name=beta]") == "9"
    page.fill("input[name=beta]", "4")  # of the selected half: the second
    page.press("input[name=beta]", "Tab")
    wait_for(page, "explorer.comparison.model.settings.beta === 4 && explorer.model.settings.beta === 1")
    page.click("#first-caption")
    assert value(page, "explorer.panels.model.settings.beta") == 1


def test_another_setting_is_compared_and_a_link_restores_both(compared, new_page):
    page = compared
    page.select_option("#compare-setting", "mask")
    wait_for(page, "explorer.comparison.model.settings.mask === 'causal' && explorer.comparison.stage.frame?.index > 1")
    assert value(page, "[explorer.comparison.model.settings.beta, explorer.model.settings.mask]") == [1, "full"]
    pause(page)
    wait_for(page, PAUSED_TOGETHER)
    page.click("#second-caption")
    page.click("#share")
    address, shown, times = page.url, both_tokens(page), value(page, TIMES)
    assert "compare=mask:causal" in address

    again = new_page()
    again.goto(address)
    wait_for(again, f"window.explorer?.comparison.model && window.explorer.stage.frame && {PAUSED_TOGETHER}")
    wait_for(again, f"{TIMES}[0] === {times[0]}")
    for found, expected in zip(both_tokens(again), shown, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert value(again, "explorer.panels.model.settings.mask") == "causal"
    again.click("#compare")
    assert not again.is_visible("#second-stage")
    assert value(again, "explorer.panels.model.settings.mask") == "full"


@pytest.mark.parametrize("name", ["attention", "normalisation"])
def test_every_setting_has_a_first_difference_that_is_known(compared, name):
    page = compared
    page.select_option("#compare-setting", name)
    wait_for(page, f"explorer.comparison.model.settings.{name} !== explorer.model.settings.{name}")
    assert value(page, "document.getElementById('problem').hidden")


def test_a_refused_difference_returns_to_the_one_before(compared):
    page = compared
    page.select_option("#compare-setting", "mask")
    wait_for(page, "explorer.comparison.model.settings.mask === 'causal'")
    page.select_option("select[name=compare-word]", "window")
    wait_for(page, "explorer.comparison.model.settings.mask.startsWith('window')")
    page.fill("[name=compare-numbers]", "-3")
    page.press("[name=compare-numbers]", "Tab")
    wait_for(page, "!document.getElementById('problem').hidden")
    assert page.inner_text("#problem").startswith("mask = window:-3: ")
    wait_for(page, "document.getElementById('second-caption').textContent === 'mask = window'")
    wait_for(page, BOTH_SHOWN)


def test_a_link_with_an_impossible_difference_shows_one_run(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8&compare=mask:causel")
    wait_for(page, "window.explorer?.frame?.index > 1 && !document.getElementById('problem').hidden")
    assert not page.is_visible("#second-stage")
    assert "'causel' is not known" in page.inner_text("#problem")


LATE_SECOND = """
const Socket = window.WebSocket;
let count = 0;
window.WebSocket = class extends Socket {
  constructor(...given) { super(...given); this.isLate = count++ === 1; }
  set onmessage(take) { super.onmessage = this.isLate ? (event) => setTimeout(() => take(event), 1500) : take; }
};
"""


def test_frames_that_wait_for_a_refused_second_run_are_shown(page, explorer):
    """They were not, where the refusal came late: the first run then stood still."""
    page.add_init_script(LATE_SECOND)
    page.goto(explorer.address + "#scenario=sphere&n=8&compare=mask:causel")
    wait_for(page, "window.explorer?.frame?.index > 1 && !document.getElementById('problem').hidden")
    assert "'causel' is not known" in page.inner_text("#problem")


def test_the_run_that_is_ahead_waits(page, explorer):
    page.goto(explorer.address)
    steps = [(0, 1, 0, 0.0), (0, 1, 1, 1.0), (1, 1, 0, 0.0), (1, 1, 1, 0.5), (1, 1, 2, 1.0), (0, 1, 0, 0.0)]

    pairs = page.evaluate(TIED, steps)

    assert pairs == [None, None, [0, 0], [0, 0.5], [1, 1], [0, 1]]


def test_on_a_phone_the_halves_stand_one_above_the_other(compared):
    compared.set_viewport_size({"width": 390, "height": 844})
    first, second = (compared.locator(name).bounding_box() for name in ("#stage", "#second-stage"))
    assert second["y"] >= first["y"] + first["height"] - 1
    assert min(first["height"], second["height"]) > 180
    assert value(compared, "document.documentElement.scrollWidth") <= 390


def test_a_run_that_is_computed_at_once_cannot_be_compared(page, explorer):
    page.goto(explorer.address + "#scenario=staircase&compare=beta:9")
    wait_for(page, "window.explorer?.frame")
    assert page.is_disabled("#compare")
    assert not page.is_visible("#second-stage")
