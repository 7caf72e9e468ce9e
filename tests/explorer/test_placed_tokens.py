"""Tokens placed by hand: which edits are read and carried out, what the run then is, and its exported files."""

import json

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, placed_tokens, run_messages
from attnflow.explorer.catalogue import build_from
from attnflow.explorer.export.exports import dataset_of, snapshot_of
from attnflow.explorer.export.python_code import python_code
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.page_requests import EditTokens
from attnflow.explorer.preparation import changed_run

NORTH = (0.0, 0.0, 1.0)


def started(name="sphere", tokens=None, **changes):
    return LiveRun(1, page_requests.Start(name, {"n": 8, **changes}, tokens=tokens), lambda *_: None)


def forward(run, frames):
    for _ in range(frames):
        while not run.forward(1.0):
            pass
    return run


def after(run, edit):
    return LiveRun(2, placed_tokens.start_from(run, edit), lambda *_: None)


def parsed(**fields):
    return page_requests.parse(json.dumps({"type": "tokens", **fields}))


def test_a_moved_token_is_elsewhere_and_the_others_stay():
    run = forward(started(), 10)

    moved = after(run, EditTokens(3, NORTH))

    expected = run.frame.tokens.copy()
    expected[3] = NORTH
    assert moved.frame.time == 0.0
    np.testing.assert_allclose(moved.frame.tokens, expected, atol=1e-15)
    assert np.abs(run.frame.tokens[3] - expected[3]).max() > 0.1


def test_added_and_removed_tokens_change_n():
    run = forward(started(), 3)

    more, fewer = after(run, EditTokens(None, NORTH)), after(run, EditTokens(2, None))

    assert [one.settings.n for one in (more, fewer)] == [9, 7]
    np.testing.assert_array_equal(more.frame.tokens[-1], NORTH)
    np.testing.assert_allclose(fewer.frame.tokens, np.delete(run.frame.tokens, 2, axis=0), atol=1e-15)


def test_a_moved_token_keeps_its_length():
    run = forward(started("layernorm-pre", d=3), 30)

    moved, more = after(run, EditTokens(0, NORTH)), after(run, EditTokens(None, NORTH))

    np.testing.assert_allclose(moved.frame.radii, run.frame.radii)
    assert np.ptp(run.frame.radii) > 1e-3
    np.testing.assert_allclose(more.frame.radii[-1], run.frame.radii.mean())


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (EditTokens(8, NORTH), "`token` must be from 0 to 7, but it is 8"),
        (EditTokens(-1, None), "`token` must be from 0 to 7"),
        (EditTokens(None, None), "names none"),
        (EditTokens(0, (0.0, 1.0)), "3 coordinates, but it has 2"),
        (EditTokens(0, (0.0, 0.0, 2.0)), "sphere of radius 1, but this place has length 2"),
    ],
)
def test_an_impossible_edit_is_refused(edit, words):
    with pytest.raises(InputError, match=words):
        placed_tokens.start_from(started(), edit)


def test_limits_of_n_hold_for_added_and_removed_tokens():
    with pytest.raises(InputError, match="`n` must be at most 10,000"):
        placed_tokens.start_from(started(n=10_000, d=2), EditTokens(None, (0.0, 1.0)))
    with pytest.raises(InputError, match="one token at least"):
        placed_tokens.start_from(started(n=1), EditTokens(0, None))


def test_a_run_that_is_computed_at_once_keeps_its_tokens():
    run = LiveRun(1, page_requests.Start("staircase", {}), lambda *_: None)
    with pytest.raises(InputError, match="computed at once"):
        placed_tokens.start_from(run, EditTokens(0, (1.0, 0.0)))


def test_off_the_sphere_a_token_may_go_anywhere():
    run = started("polytope")

    assert after(run, EditTokens(0, (40.0, -3.0))).frame.tokens[0].tolist() == [40.0, -3.0]


def test_a_link_with_the_tokens_gives_the_same_bits():
    run = after(forward(started(), 5), EditTokens(3, NORTH))
    message = run_messages.started(run, {})

    request = page_requests.parse(
        json.dumps(
            {
                "type": "start",
                "scenario": "sphere",
                "changes": {"n": 8},
                "tokens": message["placed"]["tokens"],
            }
        )
    )
    again = LiveRun(3, request, lambda *_: None)

    np.testing.assert_array_equal(forward(again, 8).frame.tokens, forward(run, 8).frame.tokens)


def test_more_tokens_than_a_link_has_room_for_are_not_sent():
    run = after(started(n=101), EditTokens(3, NORTH))

    assert run_messages.started(run, {})["placed"] == {"tokens": None}
    assert run_messages.started(started(), {})["placed"] is None


def test_code_and_dataset_of_the_run_have_the_changed_tokens():
    run = forward(after(forward(started(), 5), EditTokens(3, NORTH)), 8)

    scope = {}
    code = python_code(run, run.recording.frames, run.later)
    exec(code, scope)  # the program that a user would run

    assert "from tokens placed by hand" in code
    np.testing.assert_array_equal(scope["run"].tokens.values[0], run.first.tokens)
    np.testing.assert_allclose(scope["run"].tokens.values[-1], run.frame.tokens, atol=1e-7)
    dataset = dataset_of(snapshot_of(run))
    np.testing.assert_array_equal(dataset.tokens.values[0], run.first.tokens)
    np.testing.assert_allclose(af.rerun(dataset).tokens.values[-1], run.frame.tokens, atol=1e-7)


def test_a_change_that_restarts_keeps_placed_tokens_unless_it_brings_its_own():
    run = after(started(), EditTokens(3, NORTH))

    assert changed_run(run, {"beta": 2.0}, True).restart.tokens == run.placed
    assert changed_run(run, {"seed": 2}, True).restart.tokens is None


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({"move": {"token": 2, "to": [0, 1]}, "plays": True}, EditTokens(2, (0.0, 1.0), True)),
        ({"add": [0.5]}, EditTokens(None, (0.5,))),
        ({"remove": 4}, EditTokens(4, None)),
    ],
)
def test_edits_are_read(fields, request_):
    assert parsed(**fields) == request_


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "one of `move`, `add` and `remove`"),
        ({"add": [0.0], "remove": 1}, "one of `move`, `add` and `remove`"),
        ({"add": []}, "list of its coordinates"),
        ({"add": ["x"]}, "`coordinate` must be a finite number"),
        ({"add": [1e301]}, "`coordinate` must be a finite number"),
        ({"move": 3}, "`move` must have a `token` and its place `to`"),
        ({"move": {"token": 1.5, "to": [0]}}, "`token` must be a whole number"),
        ({"remove": None}, "`remove` must be a whole number"),
    ],
)
def test_unreadable_edits_are_refused(fields, words):
    with pytest.raises(InputError, match=words):
        parsed(**fields)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [([[0.0]] * 301, "at most 300 numbers"), ("x", "list of places"), ([3], "list of its coordinates")],
)
def test_unreadable_tokens_of_a_link_are_refused(tokens, words):
    with pytest.raises(InputError, match=words):
        page_requests.parse(json.dumps({"type": "start", "scenario": "sphere", "tokens": tokens}))


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(((1.0, 0.0, 0.0),), "8 places of 3 coordinates"), (((0.0,) * 3,) * 8, "one of `tokens` is zero")],
)
def test_tokens_that_do_not_fit_the_model_are_refused(tokens, words):
    with pytest.raises(InputError, match=words):
        started(tokens=tokens)


def test_on_the_sphere_placed_tokens_are_scaled_to_length_one():
    settings = started(n=2).settings
    placed = [[3.0, 0.0, 4.0], [0.0, 0.5, 0.0]]
    np.testing.assert_allclose(build_from(settings, placed).tokens, [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
