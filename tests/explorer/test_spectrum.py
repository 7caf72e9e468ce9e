"""Eigenvalues of V that are dragged in the spectrum panel, and the prediction that follows them."""

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for

from attnflow.experiments import scenarios
from attnflow.explorer.settings_changes import changed_settings

pytestmark = needs_chromium

HANDLES = "([word, d]) => import('./spectrum.js').then(({ handlesOf, spectrumOf }) => { const found = handlesOf(word, d); return found && spectrumOf(found, d); })"
PLACE = """(index) => Promise.all([import('./charts.js'), import('./spectrum.js')]).then(([{ spectrumScale }, { spectrumOf }]) => {
  const canvas = document.getElementById('spectrum'), { handles } = explorer.panels.hand, box = canvas.getBoundingClientRect();
  const scale = spectrumScale(canvas.clientWidth, canvas.clientHeight, spectrumOf(handles, explorer.panels.model.settings.d));
  const [re, im] = handles.values[index];
  return [box.left + scale.x + scale.unit * re, box.top + scale.y - scale.unit * im, scale.unit];
})"""


@pytest.fixture
def opened(page, explorer):
    def opened(settings):
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(explorer.address + f"#scenario={settings}")
        wait_for(page, "window.explorer?.frame?.index > 1")
        return page

    return opened


def drag(page, index, right, up):
    x, y, unit = page.evaluate(PLACE, index)
    page.mouse.move(x, y)
    page.mouse.down()
    for part in (0.3, 0.7, 1.0):
        page.mouse.move(x + part * right * unit, y - part * up * unit)
    page.mouse.up()


@pytest.mark.parametrize("word", ["identity", "minus-identity", "diagonal:2,1,-0.5", "pair", "pair:-1,2", "jordan", "jordan:3",
                                  "eigenvalues:1,2,3", "eigenvalues-random:1,-2,3"])  # fmt: skip
def test_the_dots_are_the_eigenvalues_of_v(page, explorer, word):

    page.goto(explorer.address)
    drawn = np.array(page.evaluate(HANDLES, [word, 3])) @ [1, 1j]
    settings = changed_settings(scenarios.get("sphere").settings, {"value": word})
    expected = np.linalg.eigvals(np.asarray(scenarios.build(settings).flow.heads[0].value))

    np.testing.assert_allclose(np.sort_complex(drawn), np.sort_complex(expected), atol=1e-4)  # a Jordan block splits


def test_matrices_without_given_eigenvalues_have_no_handles(page, explorer):
    page.goto(explorer.address)
    for word in ("gaussian", "matrix:1,0,0,1", "published-2d", "diagonal:1,x", "identity"):
        assert page.evaluate(HANDLES, [word, 40]) is None


def test_a_real_eigenvalue_is_dragged_through_zero_and_the_prediction_follows(opened):
    page = opened("sphere&n=8&value=diagonal:1,1,1")
    before = page.inner_text("#prediction")
    drag(page, 0, -1.3, 0.4)
    wait_for(page, "explorer.model.settings.value === 'diagonal:-0.3,1,1'")
    wait_for(page, f"document.getElementById('prediction').innerText !== {before!r}")
    assert page.inner_text("#spectrum-hint") == "drag a dot to change V"


def test_a_pair_is_dragged_in_the_plane(opened):
    page = opened("sphere&n=8&value=pair:1,0.5")
    drag(page, 1, 0.2, 0.1)  # the lower of the two
    assert wait_for(page, "explorer.model.settings.value === 'pair:1.2,0.4'")


def test_in_rescaled_coordinates_the_run_starts_again_once_the_dot_is_dropped(opened):
    page = opened("polytope&value=diagonal:1,0.5")
    drag(page, 1, -0.25, 0)
    wait_for(page, "explorer.model.settings.value === 'diagonal:1,0.25' && explorer.frame.run === explorer.model.run")
    assert value(page, "explorer.model.run") == 2


def test_other_spectra_stay(opened):
    page = opened("sphere&n=8&value=goe")
    assert value(page, "explorer.panels.hand.handles") is None
    assert page.inner_text("#spectrum-hint") == ""
