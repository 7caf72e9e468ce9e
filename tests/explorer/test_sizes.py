"""Texts are whole at the sizes of a phone and of a small computer screen."""

import pytest
from tests.helpers.browser_page import needs_chromium, pause, value, wait_for

pytestmark = needs_chromium
PHONE, SCREEN = {"width": 390, "height": 844}, {"width": 1280, "height": 800}

# Texts on the stage with the places of their ends and of the line that they stand on, drawn with a pen that only notes them.
TEXTS = """(() => {
  const { stage } = explorer, texts = [];
  const write = (text, x, y) => { const half = stage.pen.measureText(text).width / 2; texts.push([text, x - half, x + half, y]); };
  stage.pen.font = "14px system-ui, sans-serif"; // the largest of the stage's labels
  stage.draw(new Proxy({}, { get: (pen, name) => (name === "fillText" ? write : pen[name] ?? (() => {})), set: Reflect.set }));
  return texts;
})()"""


def assert_whole(page, wanted):
    texts = {text: places for text, *places in value(page, TEXTS)}
    for text in wanted:
        left, right, baseline = texts[text]
        assert 0 <= left < right <= PHONE["width"], text
        assert 10 <= baseline <= value(page, "explorer.stage.height"), text


def test_the_ends_of_the_leading_eigenvector_are_named_on_a_phone(page, explorer):
    page.set_viewport_size(PHONE)
    page.goto(explorer.address + "#scenario=conjecture1&t=0.01")
    wait_for(page, "window.explorer?.frame?.index >= 1")
    assert_whole(page, ["ξ", "−ξ"])


def test_the_number_of_a_cluster_at_the_edge_is_moved_inside(page, explorer):
    page.set_viewport_size(PHONE)
    page.goto(explorer.address + "#scenario=sphere&d=2&start=angles:" + ",".join("0" * 12))
    wait_for(page, "window.explorer?.frame?.index >= 1 && explorer.frame.labels")
    pause(page)
    value(page, "((s) => s.drag(s.width - 8 - s.seenAt(0)[0], 2 - s.seenAt(0)[1]))(explorer.stage)")
    wait_for(page, "((s) => Math.abs(s.seenAt(0)[0] - s.width + 8) + Math.abs(s.seenAt(0)[1] - 2) < 1)(explorer.stage)")
    assert_whole(page, ["12"])


@pytest.mark.parametrize("scenario", ["polytope", "mixed", "codim2", "sphere"])
def test_the_texts_of_theory_are_whole_on_a_small_screen(page, explorer, scenario):
    page.set_viewport_size(SCREEN)
    page.goto(f"{explorer.address}#scenario={scenario}")
    wait_for(page, "window.explorer?.frame?.index > 20 && document.getElementById('prediction').textContent")
    hidden = "[...document.querySelectorAll('#explain section')].map((one) => one.scrollHeight - one.clientHeight)"
    assert value(page, hidden) == [0, 0]


def test_all_choices_of_the_question_are_seen(page, explorer):
    page.set_viewport_size(SCREEN)
    page.goto(explorer.address + "#scenario=hyperplanes")
    wait_for(page, "window.explorer?.frame?.index > 1")
    page.click("#ask")
    wait_for(page, "document.querySelectorAll('#choices button').length > 3")
    assert value(page, "((one) => one.scrollHeight - one.clientHeight)(document.getElementById('verdict-panel'))") == 0


def test_the_names_of_both_curves_and_their_numbers_have_room(page, explorer):
    page.set_viewport_size(SCREEN)
    page.goto(explorer.address + "#scenario=steer-sphere")
    wait_for(page, "window.explorer?.frame && document.getElementById('height-now').textContent")
    hidden = "[...document.querySelectorAll('article h2')].map((one) => one.scrollWidth - one.clientWidth)"
    assert max(value(page, hidden)) == 0
