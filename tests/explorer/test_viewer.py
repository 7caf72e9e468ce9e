"""A viewer without a browser: its requests, frames and limits."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from attnflow.explorer import catalogue, page_requests, protocol, server
from attnflow.explorer.mailbox import Mailbox
from attnflow.explorer.unpainted_frames import LIMIT
from attnflow.explorer.viewer import Viewer

SMALL = {"n": 8}  # the shape of the other explorer tests: compiled once
OWN = {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}


def test_a_mailbox_keeps_the_latest_request_of_each_type_and_merges_changes():
    mailbox = Mailbox()
    for request in (
        page_requests.Seek(0.2),
        page_requests.ChangeSettings({"beta": 2.0, "n": 5}),
        page_requests.Seek(0.7),
        page_requests.ChangeSettings({"beta": 3.0}),
    ):
        mailbox.post(request)

    assert mailbox.take(None) == [page_requests.Seek(0.7), page_requests.ChangeSettings({"beta": 3.0, "n": 5})]
    assert mailbox.take(0.0) == []


def test_a_start_replaces_all_waiting_requests():
    mailbox = Mailbox()
    mailbox.post(page_requests.Seek(0.2))
    mailbox.post(page_requests.Start("sphere", {}))
    mailbox.post(page_requests.Step(1))

    assert page_requests.Start in mailbox
    assert mailbox.take(None) == [page_requests.Start("sphere", {}), page_requests.Step(1)]


@pytest.fixture(scope="module")
def client():
    with TestClient(server.application(max_viewers=2), base_url="http://127.0.0.1:8000") as client:
        yield client


def received(socket, kind, *skipped):
    """The next message of a kind; frames are kind 'frame'. Messages of other kinds that came before join `skipped`."""
    for _ in range(4000):
        message = socket.receive()
        if message.get("bytes") is not None:
            if kind == "frame" and message["bytes"][0] == protocol.MessageKind.FRAME:
                frame = protocol.read_frame(message["bytes"])
                socket.send_json({"type": "seen", "run": frame.run, "frame": frame.index})
                return frame
        else:
            parsed = json.loads(message["text"])
            if parsed["type"] == kind:
                return parsed
            for earlier in skipped:
                earlier[parsed["type"]] = parsed
    raise AssertionError(f"no {kind}")


def test_only_the_page_is_served_and_with_security_headers(client):
    page = client.get("/", headers={"host": OWN["host"]})

    assert "attnflow explorer" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/../server.py", "/%2e%2e/server.py", "/server.py", "/main.py"):
        assert client.get(path, headers={"host": OWN["host"]}).status_code == 404
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403


def test_a_viewer_plays_and_answers_refused_requests(client):
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
        earlier = {}  # a busy server sends both at once, the change first
        assert "`n` must be at most" in received(socket, "problem", earlier)["sentence"]
        changed = earlier.get("changed") or received(socket, "changed")
        assert changed["settings"]["beta"] == 3.0  # nor what came with it


def test_a_run_waits_for_a_page_that_paints_nothing():
    frames = []
    viewer = Viewer(
        lambda kind, message: frames.append(protocol.read_frame(message)) if kind == "frame" else None,
        ThreadPoolExecutor(1),
    )
    viewer.post(page_requests.Start("sphere", SMALL))
    patience = time.monotonic() + 120
    while len(frames) < LIMIT and time.monotonic() < patience:
        time.sleep(0.02)
    time.sleep(0.3)
    assert len(frames) == LIMIT

    while len(frames) < 5 * LIMIT and time.monotonic() < patience:
        viewer.post(page_requests.FramePainted(frames[-1].run, frames[-1].index))
        time.sleep(0.05)
    viewer.close()

    assert len(frames) >= 5 * LIMIT
    assert viewer.join(20)


def test_a_seek_ends_a_step_whose_frame_is_not_computed_yet():
    """Its answer has the frame that it asked for, and the frame of the step is not shown after it."""
    states = []
    viewer = Viewer(lambda kind, message: states.append(message) if kind == "state" else None, ThreadPoolExecutor(1))
    viewer.post(page_requests.Start("sphere", SMALL, plays=False))
    patience = time.monotonic() + 120
    while not states and time.monotonic() < patience:
        time.sleep(0.02)
    viewer.post(page_requests.Step(1, number=1))
    viewer.post(page_requests.Seek(0.0, number=2))
    while states[-1]["answered"] < 2 and time.monotonic() < patience:
        time.sleep(0.02)
    time.sleep(0.3)
    viewer.close()

    assert {state["frame"] for state in states} == {0}
    assert states[-1]["answered"] == 2
    assert viewer.join(20)


def test_the_number_of_viewers_is_limited_and_other_origins_are_refused(client):
    connect = lambda: client.websocket_connect("/live", headers=OWN)
    with connect(), connect(), connect() as third:
        assert "has 2 viewers already" in received(third, "problem")["sentence"]
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/live", headers={**OWN, "origin": "http://evil.example"}),
    ):
        pass
    end = time.monotonic() + 90
    while client.app.state.viewers and time.monotonic() < end:
        time.sleep(0.05)
    assert not client.app.state.viewers
