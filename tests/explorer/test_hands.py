"""Tokens placed by hand in a real browser: dragged, added, removed, and restored by a link."""

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, pause, shown_frame, value, wait_for

pytestmark = needs_chromium


@pytest.fixture
def opened(page, explorer):
    def opened(scenario):
        page.goto(
            explorer.address + f"#scenario={scenario}&speed=-2"
        )  # a token that is grabbed while it moves hardly moves
        wait_for(page, "window.explorer?.frame?.index > 1")
        pause(page)
        page.fill("#time", "0")  # when the run is paused depends on the machine, and with it the places of the tokens
        wait_for(page, "explorer.frame.index === 0 && explorer.state.frame === 0")
        page.click("#move-tokens")
        return page

    return opened


def place(page, token):
    """Where a token is drawn on the page."""
    box = page.locator("#stage").bounding_box()
    x, y, _ = value(page, f"explorer.stage.seenAt({token})")
    return box["x"] + x, box["y"] + y


def front_token(page):
    """The token on the near side that is farthest from all others."""
    return value(
        page,
        """(() => { const { stage } = explorer, seen = [...Array(stage.frame.n).keys()].map((i) => stage.seenAt(i));
        const gap = (i) => Math.min(...seen.map((one, j) => (i === j ? 1e9 : Math.hypot(one[0] - seen[i][0], one[1] - seen[i][1]))));
        return seen.map((one, i) => [one[2] > 0.2 ? gap(i) : 0, i]).sort((a, b) => b[0] - a[0])[0][1]; })()""",
    )


def towards_the_middle(page, token, pixels):
    """A way of so many pixels from a token towards the middle of the stage."""
    box, at = page.locator("#stage").bounding_box(), place(page, token)
    way = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]) - at
    assert np.linalg.norm(way) > pixels
    return way * pixels / np.linalg.norm(way)


def drag(page, token, right, down):
    x, y = place(page, token)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right / 2, y + down / 2)
    page.mouse.move(x + right, y + down)
    page.mouse.up()
    return x + right, y + down


def wait_for_run(page, before):
    wait_for(page, f"explorer.model.run > {before} && explorer.frame.run === explorer.model.run")


def test_a_token_is_dragged_over_the_sphere_and_a_link_restores_it(opened, new_page):
    page = opened("sphere&n=8")
    token, run, (_, before) = front_token(page), value(page, "explorer.model.run"), shown_frame(page)
    to = drag(page, token, *towards_the_middle(page, token, 32))  # outwards it would stop at the rim
    wait_for_run(page, run)

    time, after = shown_frame(page)
    assert time == 0
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(place(page, token), to, atol=1)
    others = np.arange(8) != token
    np.testing.assert_allclose(after[others], before[others], atol=1e-6)
    assert np.abs(after[token] - before[token]).max() > 0.05
    assert "from tokens placed by hand" in page.inner_text("#words")

    page.click("#share")
    again = new_page()
    again.goto(page.url)
    wait_for(again, "window.explorer?.frame")
    np.testing.assert_array_equal(shown_frame(again)[1], after)

    again.click("#first-tokens")
    wait_for(again, "explorer.model.placed === null && explorer.frame.run === explorer.model.run")
    assert np.abs(shown_frame(again)[1] - after).max() > 0.01


def test_a_playing_run_goes_on_from_the_moved_token(opened):
    page = opened("polytope&n=8")
    page.click("#play")
    wait_for(page, "explorer.state.plays")
    run = value(page, "explorer.model.run")
    drag(page, 0, 30, -20)
    wait_for_run(page, run)
    wait_for(page, "explorer.state.plays && explorer.frame.index > 3")
    assert value(page, "explorer.model.placed.tokens.length") == 8


def test_tokens_are_added_and_removed(opened):
    page = opened("sphere&n=8")
    box = page.locator("#stage").bounding_box()
    run = value(page, "explorer.model.run")
    page.click("#add-token")
    at = box["x"] + box["width"] / 2 + 7, box["y"] + box["height"] / 2 - 5
    page.mouse.click(*at)
    wait_for_run(page, run)
    assert value(page, "explorer.frame.n") == 9
    np.testing.assert_allclose(place(page, 8), at, atol=1)
    assert page.input_value("input[name=n]") == "9"

    page.mouse.click(*place(page, 8))
    page.keyboard.press("Delete")
    wait_for(page, "explorer.model.run > 2 && explorer.frame.n === 8 && explorer.frame.run === explorer.model.run")

    page.mouse.dblclick(box["x"] + box["width"] / 2 - 9, box["y"] + box["height"] / 2 + 12)
    wait_for(page, "explorer.frame.n === 9")


def test_without_the_mode_dragging_a_dot_turns_the_picture(opened):
    page = opened("sphere&n=8")
    page.click("#move-tokens")
    run, camera = value(page, "[explorer.model.run, explorer.stage.camera.matrix]")
    drag(page, front_token(page), 40, 10)
    page.keyboard.press("Delete")
    page.wait_for_timeout(300)
    assert value(page, "explorer.model.run") == run
    assert not np.allclose(value(page, "explorer.stage.camera.matrix"), camera)


def test_in_the_mode_dragging_the_background_turns_the_picture(opened):
    page = opened("sphere&n=8")
    box, camera = page.locator("#stage").bounding_box(), value(page, "explorer.stage.camera.matrix")
    page.mouse.move(box["x"] + 12, box["y"] + box["height"] - 12)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + box["height"] - 30)
    page.mouse.up()
    assert not np.allclose(value(page, "explorer.stage.camera.matrix"), camera)
    assert value(page, "explorer.model.placed") is None


def test_more_tokens_than_a_link_has_room_for_are_told(opened):
    page = opened("sphere&n=101")
    run = value(page, "explorer.model.run")
    drag(page, front_token(page), 20, 15)
    wait_for_run(page, run)
    page.click("#share")
    wait_for(page, "document.getElementById('status').textContent.includes('starts from the original tokens')")
    assert "tokens=" not in page.url
