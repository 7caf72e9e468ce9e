"""The page asks where the tokens will go before it shows prediction and verdict."""

import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for

from attnflow.explorer.limit_choices import CHOICES
from attnflow.theorems.prediction.limits import WORDS


@pytest.fixture
def asked(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8&ask=1&speed=-1")
    wait_for(page, "window.explorer?.frame && !explorer.state.plays")
    return page


def test_every_limit_of_the_theorems_belongs_to_one_answer():
    meant = [limit for choice in CHOICES for limit in choice.limits]
    assert sorted(meant) == sorted(set(WORDS) - {"undecided", "unknown"})


@needs_chromium
def test_prediction_verdict_and_description_wait_for_an_answer(asked):
    page = asked
    assert value(page, "explorer.frame.index") == 0
    for part in ("#verdict", "#prediction", "#words p"):
        assert not page.locator(part).first.is_visible(), part
    assert page.is_visible("#ask")
    assert not page.is_visible("#reveal")
    assert "polytope" not in page.inner_text("#choices")  # these tokens are on a sphere

    page.click("#choices button:has-text('one point')")
    wait_for(page, "explorer.state.plays")
    assert page.inner_text("#question-words") == "You chose “to one point”. The answer follows at the end of the run."
    assert not page.is_visible("#prediction")
    page.click("#reveal")
    assert page.is_visible("#prediction")
    assert page.inner_text("#question-words").startswith("You chose “to one point”, as theory predicts.")


@needs_chromium
def test_another_answer_is_told_what_theory_predicts_and_the_end_reveals_it(asked):
    page = asked
    page.click("#choices button:has-text('round and round')")
    page.evaluate(
        "() => { const s = document.getElementById('speed'); s.value = 2; s.dispatchEvent(new Event('input')); }"
    )
    wait_for(page, "explorer.state.atEnd && !document.body.classList.contains('asking')")
    wait_for(page, "document.getElementById('verdict').dataset.answer === 'agrees'")
    words = page.inner_text("#question-words")
    assert words == "You chose “round and round”. Theory predicts: one point."

    page.click("#restart")  # the same run: its answer is known
    wait_for(page, "explorer.model.run === 2")
    assert page.is_visible("#prediction")
    page.select_option("#scenario", "polytope")
    wait_for(page, "explorer.model.scenario === 'polytope' && document.body.classList.contains('asking')")
    assert "corners of a polytope" in page.inner_text("#choices")
    page.uncheck("#ask")
    assert page.is_visible("#prediction")


@needs_chromium
def test_an_undecided_run_claims_nothing(asked):
    page = asked
    page.click("#choices button:has-text('several points')")
    page.click("#reveal")
    wait_for(page, "document.getElementById('question-words').textContent.includes('not decided yet')")
    assert "The run shows it" not in page.inner_text("#question-words")
