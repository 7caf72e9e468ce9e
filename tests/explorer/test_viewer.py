"""A viewer's run without a browser: what it computes, records, replays and refuses."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments import scenarios
from attnflow.explorer import catalogue, protocol, server
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.playback_clock import PlaybackClock
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.stepper import Stepper
from attnflow.explorer.unpainted_frames import LIMIT
from attnflow.explorer.viewer import Viewer

SMALL = {"n": 8}  # one shape for all tests: compiled once
OWN = {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}


def started(name="sphere", later=(), **changes):
    return LiveRun(1, protocol.Start(name, {**SMALL, **changes}, tuple(later)), lambda *_: None)


def forward(run, frames, factor=1.0):
    for _ in range(frames):
        while not run.forward(factor):
            pass
    return run


def simulated(run, times, **changes):
    setup = scenarios.build(changed_settings(run.scenario.settings, {**SMALL, **changes}))
    return af.simulate(setup.flow, setup.tokens, times, solver=setup.solver, rng=setup.rng).tokens.values


@pytest.mark.parametrize(("name", "tolerance"), [("sphere", 1e-7), ("redrawn", 1e-6), ("layers", 0.0)])
def test_frames_are_what_simulate_gives_at_their_times(name, tolerance):
    """Two steppings of one solver agree to its tolerance of 1e-8, grown along the run; layers to the bit."""
    run = forward(started(name), 60, 4.0)

    times = np.array(run.recording.times)
    expected = simulated(run, times)

    found = np.stack([frame.tokens for frame in run.recording.frames])
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    assert times[-1] > 1.0  # past a redrawing of the weights


def test_a_change_acts_on_the_tokens_that_are_shown():
    run = forward(started(), 10)
    before = run.frame
    run.change({"beta": 6.0})
    forward(run, 10)

    setup = scenarios.build(changed_settings(run.scenario.settings, {**SMALL, "beta": 6.0}))
    expected = af.simulate(setup.flow, before.tokens, [before.time, run.frame.time], solver=setup.solver).tokens.values[
        -1
    ]

    np.testing.assert_allclose(run.frame.tokens, expected, atol=1e-7)
    assert np.abs(run.frame.tokens - simulated(run, [0.0, run.frame.time])[-1]).max() > 1e-4  # not what beta = 1 gives


def test_changes_of_a_link_give_the_same_bits_as_making_them():
    made = forward(started(), 10)
    made.change({"beta": 6.0})
    forward(made, 15, 2.0)

    again = started(later=made.later)
    while again.frame.time < made.frame.time:
        while not again.forward(0.7, made.frame.time):
            pass

    np.testing.assert_array_equal(again.frame.tokens, made.frame.tokens)
    assert again.later == made.later


def test_another_beta_compiles_nothing(caplog):
    import jax

    run = forward(started(), 3)
    run.change({"beta": 3.0})
    forward(run, 2)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        run.change({"beta": 5.0})
        forward(run, 2)

    assert not [record for record in caplog.records if "Compiling" in record.message and "advance" in record.message]


def test_going_back_shows_recorded_frames_and_going_on_returns_to_the_edge():
    run = forward(started(), 20)
    edge = run.frame
    run.seek(0.0)
    assert run.frame.time == 0.0
    while run.frame.index < edge.index:
        forward(run, 1)

    assert run.frame is edge


def test_a_coalescing_scenario_is_played_through_all_of_its_states():
    run = LiveRun(1, protocol.Start("staircase", {}), lambda *_: None)
    assert run.frame.time == -np.inf
    forward(run, 600)

    assert run.is_at_end
    assert run.frame.time > 100  # log t
    assert np.ptp(run.frame.tokens, axis=0).max() < 1e-5  # all in one place


def test_what_a_page_may_not_ask_leaves_the_run_as_it_is():
    run = forward(started(), 3)
    before = run.settings
    with pytest.raises(InputError, match="`mask` 'causel' is not known"):
        run.change({"mask": "causel"})

    assert run.settings == before
    forward(run, 1)


@pytest.mark.parametrize(("before", "after"), [("post", "pre"), ("pre", "post")])
def test_a_normalisation_that_gives_or_takes_lengths_restarts(before, after):
    run = forward(started("layernorm-post", normalisation=before), 2)

    restarts = [
        run.needs_restart(changed_settings(run.settings, {"normalisation": name}), {"normalisation": name})
        for name in (after, before)
    ]

    assert restarts == [True, False]


def test_weights_redrawn_long_after_the_end_are_not_listed_until_then():
    """The next jump is all that a step needs; a list to t = 1e15 would fill the memory."""
    run = forward(started("redrawn"), 1)

    assert run.stepper._window(run.stepper._cursors, 1e15).targets.time[0, 0] == 1.0


def test_changes_made_while_it_rests_are_all_remembered():
    run = forward(started(), 3)
    run.change({"beta": 3.0})
    run.change({"mask": "causal"})
    run.change({"beta": 4.0})

    assert run.later == [(run.frame.time, {"beta": 4.0, "mask": "causal"})]


def test_noise_is_the_same_as_in_simulate():
    run = forward(started("noisy"), 30)

    expected = simulated(run, run.recording.times)

    np.testing.assert_allclose(run.frame.tokens, expected[-1], atol=1e-12)


def test_the_clock_maps_times_to_shares_and_back():
    for clock in (PlaybackClock(7.0), PlaybackClock(7.0, is_log=True)):
        times = [0.0, 0.01, 3.0, 7.0]
        np.testing.assert_allclose([clock.time_of(clock.share_of(time)) for time in times], times, rtol=1e-9)
        assert clock.after(3.0, 1.0) > 3.0


def test_a_stepper_shows_one_run():
    setup = scenarios.build(scenarios.get("conjecture1").settings)
    with pytest.raises(InputError, match="one run at a time"):
        Stepper(setup)


@pytest.fixture(scope="module")
def client():
    with TestClient(server.application(max_viewers=2), base_url="http://127.0.0.1:8000") as client:
        yield client


def received(socket, kind):
    """The next message of a kind; frames are kind 'frame'."""
    for _ in range(400):
        message = socket.receive()
        if message.get("bytes") is not None:
            if kind == "frame" and message["bytes"][0] == protocol.FRAME:
                frame = protocol.read_frame(message["bytes"])
                socket.send_json({"type": "seen", "run": frame.run, "frame": frame.index})
                return frame
        elif json.loads(message["text"])["type"] == kind:
            return json.loads(message["text"])
    raise AssertionError(f"no {kind}")


def test_the_page_is_served_with_its_rules_and_nothing_else_is(client):
    page = client.get("/", headers={"host": OWN["host"]})

    assert "attnflow explorer" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/../server.py", "/%2e%2e/server.py", "/server.py", "/main.py"):
        assert client.get(path, headers={"host": OWN["host"]}).status_code == 404
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403


def test_a_viewer_plays_and_hears_sentences(client):
    with client.websocket_connect("/live", headers=OWN) as socket:
        assert len(received(socket, "hello")["catalogue"]) == len(catalogue.all_scenarios())
        socket.send_text("{")
        assert "must be JSON" in received(socket, "problem")["sentence"]
        socket.send_bytes(b"\x00")
        assert "binary" in received(socket, "problem")["sentence"]
        socket.send_json({"type": "start", "scenario": "sphere", "changes": SMALL})
        assert received(socket, "started")["settings"]["n"] == 8
        assert received(socket, "frame").tokens.shape == (8, 3)
        socket.send_json({"type": "change", "changes": {"n": 10**9}})
        assert "`n` must be at most" in received(socket, "problem")["sentence"]
        assert received(socket, "state")["plays"]  # what is refused does not stop the run
        while received(socket, "frame").index == 0:
            pass  # at the first frame a change begins anew
        socket.send_json({"type": "change", "changes": {"n": 10**9, "beta": 3.0}})
        assert "`n` must be at most" in received(socket, "problem")["sentence"]
        assert received(socket, "changed")["settings"]["beta"] == 3.0  # nor what came with it


def test_a_page_that_leaves_frames_out_is_played_on_and_one_that_paints_nothing_is_waited_for():
    frames = []
    viewer = Viewer(
        lambda kind, message: frames.append(protocol.read_frame(message)) if kind == "frame" else None,
        ThreadPoolExecutor(1),
    )
    viewer.post(protocol.Start("sphere", SMALL))
    patience = time.monotonic() + 60
    while len(frames) < LIMIT and time.monotonic() < patience:
        time.sleep(0.02)
    time.sleep(0.3)
    assert len(frames) == LIMIT

    while len(frames) < 5 * LIMIT and time.monotonic() < patience:
        viewer.post(protocol.FramePainted(frames[-1].run, frames[-1].index))
        time.sleep(0.05)
    viewer.close()

    assert len(frames) >= 5 * LIMIT
    assert viewer.join(20)


def test_viewers_are_limited_and_strangers_refused(client):
    connect = lambda: client.websocket_connect("/live", headers=OWN)
    with connect(), connect(), connect() as third:
        assert "has 2 viewers already" in received(third, "problem")["sentence"]
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/live", headers={**OWN, "origin": "http://evil.example"}),
    ):
        pass
    end = time.monotonic() + 20
    while client.app.state.viewers and time.monotonic() < end:
        time.sleep(0.05)
    assert not client.app.state.viewers
