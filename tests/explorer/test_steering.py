"""Tokens that go to targets placed by hand: what is computed, what is refused, and the page."""

import base64
import json
import re

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for

from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, placed_tokens, protocol
from attnflow.explorer.export.exports import exported_file, snapshot_of
from attnflow.explorer.export.python_code import python_code
from attnflow.explorer.export.recorded_run import Caption, recorded_messages, recorded_run
from attnflow.explorer.live_run import LiveRun


def run_of(changes, tokens=None):
    return LiveRun(1, page_requests.Start("steer-sphere", changes, tokens=tokens), lambda share, words: None)


@pytest.mark.parametrize("d", [2, 3])
def test_all_tokens_arrive_one_at_a_time(d):
    run = run_of({"n": 4, "d": d})
    frames = run.recording.frames
    tokens, targets = np.split(np.array([frame.tokens for frame in frames]), 2, axis=1)
    assert frames[-1].time == pytest.approx(run.settings.end)
    np.testing.assert_allclose(tokens[-1], targets[0], atol=1e-6)
    np.testing.assert_array_equal(targets, np.broadcast_to(targets[0], targets.shape))
    assert np.linalg.norm(tokens[0] - targets[0], axis=1).min() > 0.01  # control: no token begins at its target
    moving = np.sum(np.linalg.norm(np.diff(tokens, axis=0), axis=2) > 1e-9, axis=1)
    assert np.mean(moving == 1) > 0.8  # frames before and after a switch show two tokens that move
    assert "4 of 4 tokens" in run.measurements.verdict([], np.array([frames[-1].time]), frames[-1].tokens[None])["says"]
    pieces = run.measurements.facts()["steering"]["pieces"]
    assert pieces[0][0] == 0.0
    assert pieces[-1][1] == pytest.approx(run.settings.end)


def test_a_moved_target_is_another_control_from_the_same_tokens():
    run = run_of({"n": 3})
    edit = page_requests.EditTokens(4, (0.0, 0.0, 1.0))  # the target of token 1
    request = placed_tokens.start_from(run, edit)
    assert request.plays
    other = run_of(request.changes, request.tokens)
    np.testing.assert_allclose(other.recording.last.tokens[[1, 4]], [[0.0, 0.0, 1.0]] * 2, atol=1e-6)
    np.testing.assert_allclose(other.first.tokens[:3], run.first.tokens[:3], atol=1e-12)
    assert "af.control.steer(" in python_code(other, other.recording.frames, ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"d": 4}, "`d` must be 2"), ({"n": 41}, "`n` must be from 1 to 40"), ({"beta": 3.0}, "change nothing")],
)
def test_settings_without_effect_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        run_of(changes)


def test_tokens_are_not_added_and_crossed_targets_are_named():
    run = run_of({"n": 3, "d": 2})
    with pytest.raises(InputError, match="not added or removed"):
        placed_tokens.start_from(run, page_requests.EditTokens(None, (1.0, 0.0)))
    rows = run.first.tokens.copy()
    rows[[3, 4]] = rows[[4, 3]]
    with pytest.raises(InputError, match="order of tokens 0 and 1"):
        run_of({"n": 3, "d": 2}, tuple(map(tuple, rows)))


@needs_chromium
def test_a_page_of_the_run_has_its_targets_and_pieces():
    run = run_of({"n": 3})
    name, content = exported_file(snapshot_of(run), "html")
    found = re.search(rb'id="recorded-run">(.*?)</script>', content)
    messages = json.loads(found[1])
    last = protocol.read_frame(base64.b64decode(messages["frames"][-1]))

    assert name == "attnflow-steer-sphere.html"
    assert messages["started"]["settings"]["n"] == messages["started"]["steering"]["targets"] == 3
    assert messages["attention"] == {}
    np.testing.assert_array_equal(last.labels, [1, 2, 3] * 2)
    np.testing.assert_allclose(last.tokens[:3], last.tokens[3:], atol=1e-6)


def test_a_run_without_heads_has_a_page_without_weights():
    run = recorded_run(run_of({"n": 2}).measurements.found.run)
    messages = recorded_messages(run, Caption("steered"))

    assert messages["attention"] == {}
    assert run.measurements.attention_row(run.frames()[0], 0, None) == []


def test_a_target_is_dragged_on_the_page(page, explorer):
    page.goto(explorer.address + "#scenario=steer-sphere&n=3")
    wait_for(page, "window.explorer?.frame?.index > 1")
    assert value(page, "document.querySelectorAll('#pieces span').length === explorer.model.steering.pieces.length")
    run, target = value(page, "[explorer.model.run, Array.from(explorer.frame.tokens.slice(9, 12))]")
    place = value(
        page,
        "(() => { const s = explorer.stage, box = s.root.getBoundingClientRect();"
        " return [box.left + s.seen[9], box.top + s.seen[10], box.left + s.width / 2, box.top + s.height / 2]; })()",
    )
    page.mouse.move(*place[:2])
    page.mouse.down()
    page.mouse.move(*place[2:], steps=3)
    page.mouse.up()
    wait_for(page, f"explorer.model.run > {run} && explorer.frame?.run === explorer.model.run")
    moved = value(page, "Array.from(explorer.frame.tokens.slice(9, 12))")
    assert np.linalg.norm(np.subtract(moved, target)) > 0.05
    page.select_option("#scenario", "sphere")
    wait_for(page, "explorer.model.scenario === 'sphere'")
    assert value(page, "document.getElementById('pieces').hidden && !explorer.hands.isOn")
