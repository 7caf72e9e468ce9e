"""The server with hostile, broken, slow and dropped clients: it continues for other viewers and keeps no state of them."""

import asyncio
import contextlib
import gc
import json
import random
import socket
import string
import threading
import time
from pathlib import Path

import pytest
from tests.helpers.served_explorer import TIMEOUT, Served, wait_until
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from attnflow.explorer import connection_limits, page_requests, protocol, security, server
from attnflow.explorer.outbox import Outbox
from attnflow.explorer.unpainted_frames import LIMIT
from attnflow.explorer.viewer import Viewer

UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
SMALL = {"type": "start", "scenario": "sphere", "changes": {"n": 8}}


@pytest.fixture(scope="module")
def explorer():
    served = Served()
    yield served
    served.stop()


def connected(explorer, **options):
    return connect(f"ws://127.0.0.1:{explorer.port}/live", origin=explorer.origin, max_size=None, **options)


def received(client, kind, patience=TIMEOUT):
    """The next message of a kind; b"frame" is the next frame."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        message = client.recv(timeout=patience)
        if isinstance(message, bytes):
            if kind == "frame" and message[0] == protocol.MessageKind.FRAME:
                return protocol.read_frame(message)
        elif json.loads(message)["type"] == kind:
            return json.loads(message)
    raise AssertionError(f"no {kind}")


def read_all(client):
    """Take whatever comes, in a thread."""

    def read():
        with contextlib.suppress(ConnectionClosed):
            for _ in client:
                pass

    threading.Thread(target=read, daemon=True).start()


def plays(explorer):
    """Whether a new viewer gets frames."""
    with connected(explorer) as client:
        client.send(json.dumps(SMALL))
        return received(client, "frame").tokens.shape == (8, 3)


def all_gone(explorer):
    return wait_until(lambda: not explorer.viewers)


def asked(explorer, request):
    """What the server answers to raw bytes; no library tidies them up."""
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=20) as plug:
        plug.sendall(request)
        found = b""
        while part := plug.recv(65536):
            found += part
    return found


SECRET = Path(server.__file__).read_bytes().splitlines()[0]


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py", "/..%2fserver.py", "/%2e%2e/server.py", "/%2e%2e%2fserver.py", "//../server.py", "/.././../server.py",
        "/..\\server.py", "/%5c..%5cserver.py", "/main.js/../../server.py", "/server.py%00.js", "//etc/passwd", "/%2fetc%2fpasswd",
        "/" + str(Path(server.__file__)), "/__pycache__/server.cpython-311.pyc", "/PROTOCOL.md", "/" + "../" * 40 + "etc/passwd",
    ],
)  # fmt: skip
def test_only_the_pages_own_files_are_served(path, explorer):
    answer = asked(
        explorer, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\nConnection: close\r\n\r\n".encode()
    )

    assert answer.split(b"\r\n")[0].split()[1] in (b"400", b"404")
    assert SECRET not in answer
    assert b"root:" not in answer


def test_pages_of_other_sites_are_refused(explorer):
    for options in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {},
        {"origin": explorer.origin, "additional_headers": {"Host": "evil.example"}},
    ):
        with (
            pytest.raises((InvalidStatus, ConnectionClosed)),
            connect(f"ws://127.0.0.1:{explorer.port}/live", **options) as client,
        ):
            client.recv(timeout=10)
    host = asked(explorer, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert b" 403 " in host
    assert b"not served under the name evil.example" in host
    own = asked(explorer, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\nConnection: close\r\n\r\n".encode())
    assert b" 200 " in own
    assert b"frame-ancestors 'none'" in own


def test_requests_that_are_too_large_are_refused_and_the_run_continues(explorer):
    with connected(explorer) as client:
        client.send(json.dumps(SMALL))
        received(client, "frame")
        for changes, sentence in (
            ({"n": 10**7}, "`n` must be at most"),
            ({"d": 10**4}, "`d` must be at most"),
            ({"attention": "sinkhorn:999999999"}, "iterations"),
            ({"redraw": 1e-200}, "redrawings"),
            ({"start": "../../secret.npy"}, "names a file"),
        ):
            client.send(json.dumps({"type": "change", "changes": changes}))
            assert sentence in received(client, "problem")["sentence"]
        client.send(json.dumps({"type": "step", "by": 1}))
        assert received(client, "frame").index > 0
        client.send("x" * (page_requests.MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosed):
            received(client, "nothing")
    all_gone(explorer)


def test_numbers_beyond_floats_are_sent_as_texts_and_the_run_goes_on(explorer):
    """The energy at beta = -400 is e^(2 * 400) and more."""
    with connected(explorer) as client:
        client.send(json.dumps({**SMALL, "changes": {"n": 8, "beta": -400.0}}))
        assert received(client, "panels")["height"] == "Infinity"
        client.send(json.dumps({"type": "step", "by": 1}))
        assert received(client, "frame").index > 0
        client.send(json.dumps(SMALL))
        assert received(client, "started")["settings"]["beta"] == 1.0


def test_a_sender_that_fails_closes_the_connection_with_a_sentence(explorer, monkeypatch, caplog):
    swift = Outbox.put
    monkeypatch.setattr(Outbox, "put", lambda outbox, kind, message: swift(outbox, kind, {"unknown": object()}))
    with connected(explorer) as client, pytest.raises(ConnectionClosed) as closed:
        received(client, "nothing")

    assert closed.value.rcvd.code == 1011
    assert closed.value.rcvd.reason == server.FAILED
    assert "connection of a viewer failed" in caplog.text
    monkeypatch.undo()
    assert plays(explorer)


def test_an_origin_that_cannot_be_read_is_refused(explorer, caplog):
    lines = [f"Host: 127.0.0.1:{explorer.port}", "Origin: http://[::1", *UPGRADE]
    answer = asked(explorer, ("GET /live HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode())

    assert answer.split(b"\r\n")[0].split()[1] == b"403"
    assert not [record for record in caplog.records if record.exc_info]


def test_half_sent_requests_are_dropped(explorer, monkeypatch):
    monkeypatch.setattr(connection_limits, "HEADER_SECONDS", 0.5)
    plugs = [socket.create_connection(("127.0.0.1", explorer.port)) for _ in range(20)]
    for plug in plugs[:10]:
        plug.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
    whole = f"GET /icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\n\r\n".encode()
    plugs[0].sendall(b".0.1\r\n\r\n")
    for plug in plugs[10:]:
        plug.sendall(whole + b"GET / HTTP/1.1\r\nHost: 127.0")  # a half one after a whole one
    assert all(ends(plug) for plug in plugs)


def ends(plug):
    """Whether the other side closes a connection."""
    plug.settimeout(TIMEOUT)
    with plug:
        while plug.recv(65536):
            pass
    return True


class OpenTransport:
    """A connection that only notes whether it was closed."""

    def __init__(self):
        self.is_closed = False

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def get_extra_info(self, _, default=None):
        return default


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0"])
def test_a_request_may_take_five_seconds(sent, explorer, monkeypatch):
    """By the clock of the event loop, which is set here, so that a busy machine changes nothing."""
    loop, now = asyncio.new_event_loop(), 0.0
    monkeypatch.setattr(loop, "time", lambda: now)
    transport = OpenTransport()

    def turn(seconds):
        nonlocal now
        now = seconds
        loop.call_soon(loop.stop)
        loop.run_forever()
        return transport.is_closed

    async def connect_to():
        config = explorer.server.config
        timed = connection_limits.TimedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        timed.connection_made(transport)
        if sent:
            timed.data_received(sent)

    loop.run_until_complete(connect_to())
    assert not turn(4.9)
    assert turn(5.1)
    loop.close()


def test_a_flood_of_valid_messages_is_read_slowly(explorer, monkeypatch):
    count = 0

    def post(viewer, request):
        nonlocal count
        count += 1

    monkeypatch.setattr(Viewer, "post", post)
    with connected(explorer) as client:
        read_all(client)
        began = time.monotonic()
        with contextlib.suppress(TimeoutError, ConnectionClosed):
            client.socket.settimeout(0.2)
            while time.monotonic() - began < 1.5 or count < connection_limits.BURST:
                client.send('{"type": "seek", "share": 0.5}')
        wait_until(lambda: count >= connection_limits.BURST)
        read, seconds = count, time.monotonic() - began  # in this order: more is read meanwhile
        assert read <= connection_limits.BURST + connection_limits.MESSAGES_PER_SECOND * seconds + 5


def test_a_page_gets_no_more_frames_than_it_paints(explorer):
    """Any speed is clamped, and a page that paints nothing gets three frames."""
    with connected(explorer) as client:
        client.send(json.dumps(SMALL))
        received(client, "frame")
        viewer = next(iter(explorer.viewers))
        wait_until(lambda: len(viewer.player.playback.unpainted) >= LIMIT)
        index = viewer.run.frame.index
        time.sleep(0.3)
        assert viewer.run.frame.index == index
        client.send(json.dumps({"type": "speed", "factor": 1e290}))
        wait_until(lambda: viewer.player.playback.speed == page_requests.SPEEDS[1])
        assert viewer.run.frame.index == index


WORDS = ["start", "change", "play", "step", "seek", "speed", "row", "axes", "seen", "export", "eval", "__class__", ""]
FIELDS = [
    "type",
    "changes",
    "scenario",
    "later",
    "until",
    "plays",
    "share",
    "by",
    "factor",
    "token",
    "run",
    "frame",
    "kind",
    "n",
    "beta",
    "value",
]


def hostile(rng):
    """A message that no page would send: broken JSON, deep, huge, of wrong types, or bytes."""
    noise = lambda: "".join(rng.choice(string.printable) for _ in range(rng.randrange(40)))
    value = lambda: rng.choice([
        None, True, -1, 0.5, 1e308, 10**400, noise(), "sphere", [], {}, [[1, {"n": 5}]], {"beta": [1]}, {"n": -3}, {"mask": noise()},
        {"value": "matrix:" + "1," * 30}, {"attention": "sinkhorn:-1"}, {"end": -5.0}, {"rtol": 0.0}, {"seed": -1}, {"heads": 0},
    ])  # fmt: skip
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return noise()
    if kind == 2:
        return rng.choice(["[", '{"type":']) * rng.randrange(1, 3000)
    if kind == 3:
        return '{"type": "seek", "share": ' + rng.choice(["NaN", "Infinity", "1e999", "--1", "9" * 5000]) + "}"
    return json.dumps({"type": rng.choice(WORDS), **{rng.choice(FIELDS[1:]): value() for _ in range(3)}})


@pytest.mark.parametrize("seed", range(4))
def test_hostile_messages_are_answered_or_the_connection_is_closed(seed, explorer, caplog):
    rng = random.Random(seed)
    sent = 0
    with connected(explorer) as client:
        read_all(client)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(300):
                client.send(hostile(rng))
                sent += 1
    all_gone(explorer)

    assert sent > 20
    assert not [record for record in caplog.records if "failed" in record.message]  # nothing unforeseen
    assert plays(explorer)


def test_a_stream_of_unreadable_messages_closes_the_connection(explorer):
    sent, is_closed, end = 0, False, time.monotonic() + TIMEOUT
    with connected(explorer) as client:
        read_all(client)
        while not is_closed and time.monotonic() < end:
            try:
                client.send("{")
                sent += 1
            except ConnectionClosed:
                is_closed = True
    assert is_closed
    all_gone(explorer)
    assert sent >= server.MAX_REFUSALS
    assert plays(explorer)


def test_endless_requests_of_one_viewer_do_not_block_others(explorer):
    is_over = threading.Event()

    def flood():
        with connected(explorer) as client:
            client.send(json.dumps(SMALL))
            read_all(client)
            while not is_over.is_set():
                client.send('{"type": "seek", "share": 0.5}')

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        assert plays(explorer)
    finally:
        is_over.set()
        thread.join(20)
    all_gone(explorer)


def test_a_client_that_does_not_read_makes_no_queue(explorer):
    """Its window fills, the server waits; what waits is one message of a kind."""
    plug = socket.create_connection(("127.0.0.1", explorer.port))
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    shake_hands(plug, explorer)
    plug.sendall(frame_of(json.dumps(SMALL)))
    wait_until(lambda: explorer.viewers and next(iter(explorer.viewers)).run is not None)
    viewer = next(iter(explorer.viewers))
    for _ in range(200):
        plug.sendall(frame_of('{"type": "step", "by": 1}') + frame_of('{"type": "axes"}'))
    assert plays(explorer)
    assert len(viewer._mailbox) <= len(page_requests.PageRequest.__args__)
    plug.close()  # it vanishes without a word
    all_gone(explorer)


def shake_hands(plug, explorer):
    """Open a WebSocket, and read no more than the answer's first bytes."""
    lines = ["GET /live HTTP/1.1", f"Host: 127.0.0.1:{explorer.port}", f"Origin: {explorer.origin}", *UPGRADE]
    plug.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    assert b" 101 " in plug.recv(30)


def frame_of(text):
    """A masked text frame; the mask is zero."""
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()


def memory():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured where Linux tells it")
def test_500_dropped_connections_leave_no_memory_behind(explorer):
    def open_and_drop(times):
        for _ in range(times):
            plugs = [socket.create_connection(("127.0.0.1", explorer.port)) for _ in range(10)]
            for plug in plugs:
                shake_hands(plug, explorer)
            plugs[0].sendall(frame_of(json.dumps(SMALL)))
            for plug in plugs:
                plug.close()
            all_gone(explorer)
        wait_until(lambda: threads() == 0 and not viewers_in_memory())  # a helper may still measure the last frame

    open_and_drop(5)  # what is made once is made
    before = memory()
    open_and_drop(50)

    assert memory() - before < 20e6  # 40 KB each would not show; a viewer with its run has more
    assert plays(explorer)


def viewers_in_memory():
    gc.collect()
    return sum(isinstance(one, Viewer) for one in gc.get_objects())


def threads():
    return sum(thread.name == "attnflow viewer" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("host", "origin", "is_socket", "is_refused"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000", True, False),
        ("localhost:8000", None, False, False),
        ("[::1]:8000", "http://[::1]:8000", True, False),
        ("evil.example:8000", "http://evil.example:8000", True, True),
        ("127.0.0.1:8000", "http://evil.example", True, True),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", True, True),
        ("127.0.0.1:8000", None, True, True),
        ("127.0.0.1:8000", "null", True, True),
        ("127.0.0.1:8000", "http://[::1", True, True),
        ("", None, False, True),
    ],
)
def test_only_the_own_page_may_connect(host, origin, is_socket, is_refused):
    assert (security.refusal(host, origin, security.LOCAL, is_socket) is not None) == is_refused


def test_on_windows_no_other_server_can_listen_at_the_port(monkeypatch):
    """SO_REUSEADDR would let two servers listen at one port there; the option that forbids it exists on Windows only."""
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)

    assert server._option_of_address() == -5


def test_two_servers_never_have_the_same_port():
    with contextlib.ExitStack() as both:
        first, second = (both.enter_context(server.listening_socket("127.0.0.1", None)) for _ in range(2))
        taken = first.getsockname()[1]
        assert second.getsockname()[1] != taken
        with pytest.raises(ValueError, match="cannot be used"):
            server.listening_socket("127.0.0.1", taken)
