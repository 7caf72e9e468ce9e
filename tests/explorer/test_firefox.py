"""The explorer's page in Firefox: it plays, a setting is changed, and nothing is logged as an error."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.helpers.firefox import FIREFOX, Firefox

pytestmark = pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox here: apt-get install firefox-esr")


@pytest.fixture
def firefox():
    browser = Firefox()
    yield browser
    browser.close()


def test_the_page_plays_and_a_setting_is_changed(firefox, explorer):
    firefox.resize(1280, 800)
    firefox.goto(explorer.address + "#scenario=sphere&n=8&speed=-1")
    firefox.wait_for("window.explorer?.frame?.index > 5")
    index = firefox.value("explorer.frame.index")
    firefox.wait_for(f"explorer.frame.index > {index}")  # it plays

    firefox.value("(() => { const f = document.querySelector('[name=beta]'); f.value = 9; "
                  "f.dispatchEvent(new Event('change')); return true; })()")  # fmt: skip

    firefox.wait_for("explorer.model.settings.beta === 9")
    firefox.wait_for("document.getElementById('clusters-now').textContent !== ''")
    firefox.value("(document.getElementById('play').click(), true)")
    firefox.wait_for("!explorer.state.plays")
    picture = np.asarray(Image.open(io.BytesIO(firefox.picture())).convert("RGB")).astype(int)
    stage = firefox.value("document.getElementById('drawing').getBoundingClientRect()")
    left, top = round(stage["left"]), round(stage["top"])
    drawn = picture[top : top + round(stage["height"]), left : left + round(stage["width"])]
    assert picture.shape == (800, 1280, 3)
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 20  # the sphere and its tokens
    assert firefox.faults == []
