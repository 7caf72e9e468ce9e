"""A trained model on the page: its head and layer are chosen, words are joined by lines, two prompts are compared."""

import numpy as np
import pytest
from tests.helpers import tiny_models
from tests.helpers.browser_page import needs_chromium, pause, value, wait_for

from attnflow.explorer import trained_models

pytestmark = needs_chromium
IDS = [5, 17, 3, 39, 17, 0, 22]


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    added = trained_models.add(str(tiny_models.write("bert", tmp_path_factory.mktemp("models") / "tiny")))
    yield added
    trained_models.forget(added)


def shown_attention(page):
    found = value(
        page, "({side: explorer.stage.attention.side, weights: Array.from(explorer.stage.attention.weights)})"
    )
    return np.array(found["weights"]).reshape(found["side"], -1)


def lines_drawn(page):
    """Lines that the switch of the attention between words adds to the picture."""
    return page.evaluate("""async () => {
      const { svgOf } = await import('./export.js'), { stage } = explorer, count = () => svgOf(stage).split('<path').length;
      const all = count();
      stage.view.lines = false;
      const without = count();
      stage.view.lines = true;
      return all - without;
    }""")


def test_a_head_is_chosen_words_are_joined_and_prompts_are_compared(page, explorer, name):
    page.goto(f"{explorer.address}#scenario={name}-layers&prompt=5 17 3 39 17 0 22&t=2")
    wait_for(page, "window.explorer?.frame?.time === 2 && explorer.stage.attention")
    expected = trained_models.get(name).trajectory(IDS, attention=True, progress=False).attention.values[1]

    page.select_option("select[name=head]", "2")

    wait_for(page, "document.getElementById('attention-facts').textContent === 'head 2'")
    wait_for(page, f"Math.abs(explorer.stage.attention.weights[1] - {expected[2, 0, 1]}) < 1e-5")
    np.testing.assert_allclose(shown_attention(page), expected[2], atol=1e-5)
    # The description of a change may come after the attention that it describes.
    page.evaluate("() => explorer.panels.change({ ...explorer.model, settings: { head: 1 } }, Infinity)")
    assert value(page, "document.getElementById('attention-facts').textContent") == "head 1"
    page.evaluate("() => explorer.panels.change(explorer.model, Infinity)")
    assert value(page, "explorer.frame.time") == 2  # the layer on display stays
    off_diagonal = expected[2][~np.eye(7, dtype=bool)]
    assert lines_drawn(page) == np.count_nonzero(off_diagonal >= 1.5 / 7) > 0
    wait_for(page, "location.hash.includes('head=2')")

    page.fill("textarea[name=second]", "1 2 3 4")
    page.keyboard.press("Tab")
    wait_for(page, "explorer.model.parts?.length === 2 && explorer.stage.frame?.n === 11")
    pause(page)
    wait_for(page, "/● \\d+ clusters?: 5 17/.test(document.getElementById('prompts').textContent)")
    assert value(page, "[6, 7].map((i) => explorer.stage.partOf(i))") == [0, 1]
    wait_for(page, "location.hash.includes('second=')")
    address = page.url
    page.fill("textarea[name=second]", "")
    page.keyboard.press("Tab")
    wait_for(page, "explorer.model.parts?.length === 1")
    assert page.locator("#prompts").is_hidden()
    page.goto("about:blank")
    page.goto(address)
    wait_for(page, "window.explorer?.model?.settings.second === '1 2 3 4' && explorer.model.settings.head === 2")


def test_the_flow_uses_the_chosen_layer_and_head(page, explorer, name):
    page.goto(f"{explorer.address}#scenario={name}-heads&prompt=5 17 3 39 17 0 22")
    wait_for(page, "window.explorer?.frame?.index > 1")
    page.select_option("select[name=layer]", "1")
    wait_for(page, "explorer.model.settings.layer === 1 && explorer.frame?.index > 1")
    assert value(page, "explorer.model.eigenvalues.length") == 4

    page.select_option("select[name=head]", "3")

    wait_for(page, "explorer.model.settings.head === 3 && explorer.model.eigenvalues.length === 1")
    wait_for(page, "document.getElementById('attention-facts').textContent === 'head 3'")


def test_the_equation_has_the_matrices_of_the_model_and_none_stands_for_whole_layers(page, explorer, name):
    page.goto(f"{explorer.address}#scenario={name}-layers")
    wait_for(page, "window.explorer?.frame")
    assert page.locator("#model").is_hidden()

    page.select_option("#scenario", f"{name}-heads")

    wait_for(page, f"explorer.model.scenario === '{name}-heads'")
    wait_for(page, "/Q.*K/s.test(document.getElementById('equation').textContent)")


def test_long_equations_fit_into_their_panel(page, explorer):
    for scenario in ("hardmax", "layernorm-mix", "sinkhorn", "sphere"):
        page.goto(f"{explorer.address}#scenario={scenario}&n=8&t=0")
        page.reload()
        wait_for(page, f"window.explorer?.model?.scenario === '{scenario}'")
        assert (
            value(page, "document.getElementById('model').scrollWidth - document.getElementById('model').clientWidth")
            <= 1
        )
