"""The page sets formulas as mathematics, shows the equation of the model, and keeps the stage in sight on a phone."""

import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for

pytestmark = needs_chromium

TYPESET = """(text) => import('./mathematics.js').then(({ typeset }) => {
  const place = document.createElement('p');
  place.append(typeset(text));
  return place.innerHTML;
})"""
EQUATION = "(settings) => import('./equation.js').then(({ equation }) => equation(settings).join(''))"


@pytest.fixture
def opened(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=8")
    wait_for(page, "window.explorer?.frame?.index > 1")
    return page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("phi_1^*(z)", "<var>φ</var><sub>1</sub><sup>∗</sup>(<var>z</var>)"),
        ("of order e^{-2t}, not 10^-3", "of order <var>e</var><sup>−2t</sup>, not 10<sup>−3</sup>"),
        ("exp(c sqrt(beta))", 'exp(<var>c</var> √<span class="root"><var>β</var></span>)'),
        ("With V = I and Q^T K >= 0", "With <var>V</var> = <var>I</var> and <var>Q</var><sup>⊤</sup> <var>K</var> ≥ 0"),
        ("With V = -I, diag(1, -1/2)", "With <var>V</var> = −<var>I</var>, diag(1, −1/2)"),
        ("towards +xi and -xi, x-xi", "towards +<var>ξ</var> and −<var>ξ</var>, x-xi"),
        ("pre-layer (sub-steps), 1-2 of A-I", "pre-layer (sub-steps), 1-2 of A-I"),
        ("n <= e^(beta k).", "<var>n</var> ≤ <var>e</var><sup><var>β</var> <var>k</var></sup>."),
        ("(beta V)^-1", "(<var>β</var> <var>V</var>)<sup>−1</sup>"),
        ("e^(-4 sqrt(t + 1))", '<var>e</var><sup>−4 √<span class="root"><var>t</var> + 1</span></sup>'),
        ("a run of alphabetic x-rays", "a run of alphabetic x-rays"),
        ("with Rényi centres", "with Rényi centres"),
        ("beta_1 < n", "<var>β</var><sub>1</sub> &lt; <var>n</var>"),
        ("`attnflow verify --steps` says", "<code>attnflow verify --steps</code> says"),
        ("<img src=x>", "&lt;img src=<var>x</var>&gt;"),
    ],
)
def test_formulas_in_sentences_are_set(opened, text, shown):
    assert opened.evaluate(TYPESET, text) == shown


def test_the_equation_is_that_of_the_settings(opened):
    settings = value(opened, "explorer.model.settings")
    plain = opened.evaluate(EQUATION, settings)
    assert 'data-setting="beta"' in plain
    assert 'data-setting="kappa"' not in plain
    changed = {"kappa": 3.0, "mask": "causal+window:8", "heads": 4, "normalisation": "peri", "attention": "sinkhorn:7"}
    rich = opened.evaluate(EQUATION, settings | changed)
    for part in ("κ", "≤", "<mn>8</mn>", 'data-setting="heads"', "7 divisions", "<mover><mi>r</mi>"):
        assert part in rich, part
    assert "β" not in opened.evaluate(EQUATION, settings | {"attention": "hardmax"})
    rescaled = opened.evaluate(EQUATION, settings | {"space": "rescaled"})
    assert "<mi>z</mi>" in rescaled
    assert "<msup><mi>e</mi><mrow><mi>t</mi><mi>V</mi></mrow></msup>" in rescaled


@pytest.mark.parametrize("rule", ["softmax", "sinkhorn", "hardmax"])
def test_weights_are_normalised_over_the_tokens_that_the_mask_shows(opened, rule):
    settings = value(opened, "explorer.model.settings") | {"attention": rule}
    condition = "<mrow><mi>{}</mi><mo>≤</mo><mi>i</mi></mrow>"
    causal, full = (opened.evaluate(EQUATION, settings | {"mask": mask}) for mask in ("causal", "full"))

    assert [causal.count(condition.format(index)) for index in "jk"] == [1, 1]
    assert [full.count(condition.format(index)) for index in "jk"] == [0, 0]


def test_the_term_that_a_control_changes_is_lit_while_it_is_used(opened):
    lit = "[...document.querySelectorAll('#equation .lit')].map((part) => part.dataset.setting)"
    opened.focus("input[name=beta]")
    assert set(value(opened, lit)) == {"beta"}
    opened.focus("select[name=mask]")
    assert set(value(opened, lit)) == {"mask n"}
    opened.focus("#play")
    assert value(opened, lit) == []


def test_on_a_phone_stage_play_and_beta_stay_in_sight(opened):
    opened.set_viewport_size({"width": 390, "height": 844})
    for place in ("0", "document.documentElement.scrollHeight"):
        opened.evaluate(f"() => scrollTo(0, {place})")
        opened.wait_for_timeout(100)
        boxes = value(
            opened, "['stage', 'play', 'quick-beta'].map((id) => document.getElementById(id).getBoundingClientRect())"
        )
        assert all(box["top"] >= 0 and box["bottom"] <= 844 and box["right"] <= 390 for box in boxes), boxes
    assert value(opened, "document.documentElement.scrollWidth") <= 390
    opened.evaluate(
        "() => { const slider = document.getElementById('quick-beta'); slider.value = 50; slider.dispatchEvent(new Event('input')); }"
    )
    wait_for(opened, "explorer.model.settings.beta === 25")
    assert value(opened, "document.querySelector('input[name=beta]').value") == "25"


@pytest.mark.parametrize("width", [360, 390, 430])
def test_the_buttons_of_a_phone_stand_in_one_row(opened, width):
    """With the guided tour, which most main scenarios have."""
    opened.set_viewport_size({"width": width, "height": 844})
    tops = "[...document.querySelectorAll('header > button, #export')].filter((b) => !b.hidden).map((b) => b.offsetTop)"
    assert value(opened, "!document.querySelector('#tour-button').hidden")
    assert max(value(opened, tops)) - min(value(opened, tops)) <= 4
    assert value(opened, "document.documentElement.scrollWidth <= innerWidth")
