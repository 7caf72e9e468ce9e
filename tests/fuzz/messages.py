"""Random messages to the explorer: `python -m tests.fuzz.messages [seconds] [seed]`.

A server runs in a process of its own. Clients send valid, mutated, extreme, malformed and binary messages and floods of them.
After each group of messages a control must be answered and a stream must be alive; at the end no traceback may stand in the
log, threads and file descriptors must have gone, and Ctrl-C must end the server with exit code 0.
"""

import contextlib
import json
import os
import random
import signal
import string
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

COMMAND = "import sys; sys.argv[0] = 'attnflow'; from attnflow.cli.app import main; main()"
PATIENCE = 30.0  # seconds for an answer of a machine that also compiles
ANSWERS = {"state", "busy", "problem"}
CONNECTIONS_BEFORE_COUNT = 20  # after which the pools of compilers and of compiled code have their threads
LEFTOVER = 12  # threads and descriptors of pools and of connections that are just closing
NUMBERS = [0.0, -1.0, 1e-300, 1e300, -1e300, 1e40, 400.0, -400.0, 1e9, 3.0, 1e-3]
TEXTS = [
    "diagonal:1e308,1e308,1e308",
    "matrix:1,2",
    "identity",
    "",
    "x" * 2000,
    "sinkhorn:3",
    "../a.npy",
    "causal",
    "window:3",
]
VALUES: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    7,
    2**53,
    10**400,
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "\ud800",
    *NUMBERS,
    *TEXTS,
]
FIELDS = ["scenario", "changes", "later", "until", "plays", "share", "by", "factor", "token", "run", "frame", "kind"]
SETTINGS = ["beta", "n", "d", "end", "value", "attention", "mask", "seed", "rtol", "kappa", "solver", "spacing", "start",
            "normalisation", "redraw", "query_key", "space", "heads", "mlp"]  # fmt: skip
SCENARIOS = [
    "sphere",
    "sphere-usa",
    "kuramoto",
    "causal",
    "layers",
    "noisy",
    "polytope",
    "hardmax",
    "renyi",
    "staircase",
]


class ServedProcess:
    """A server in a process of its own, with its log."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.log = Path(self._folder.name) / "log"
        command = [sys.executable, "-c", COMMAND, "explore", "--no-browser", "--json"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        text = "".join(iter(self.process.stdout.readline, "}\n")) + "}"
        self.address = json.loads(text)["address"].rstrip("/")

    def connected(self) -> Any:
        return connect(self.address.replace("http", "ws") + "/live", origin=self.address, max_size=None)  # type: ignore[arg-type]

    def threads_and_files(self) -> tuple[int, int]:
        base = Path(f"/proc/{self.process.pid}")
        return (len(os.listdir(base / "task")), len(os.listdir(base / "fd"))) if base.exists() else (0, 0)

    def stop(self) -> tuple[int, float]:
        """Exit code and seconds after Ctrl-C."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return code, time.monotonic() - began


class FuzzClient:
    """One connection; what arrives is read in a thread."""

    def __init__(self, server: ServedProcess):
        self._socket = contextlib.ExitStack().enter_context(server.connected())  # `close` ends it
        self.heard: list[tuple[float, str]] = []
        self.is_closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed, OSError):
            for message in self._socket:
                if isinstance(message, bytes):
                    kind = "frame" if message[0] == 1 else "binary"
                    if kind == "frame":
                        run, frame = (int.from_bytes(message[at : at + 4], "little") for at in (4, 8))
                        self.send(json.dumps({"type": "seen", "run": run, "frame": frame}))
                else:
                    kind = json.loads(message)["type"]
                self.heard = [*self.heard[-200:], (time.monotonic(), kind)]
        self.is_closed = True

    def send(self, message: str | bytes) -> None:
        with contextlib.suppress(ConnectionClosed, OSError):
            self._socket.send(message)

    def hears(self, kinds: set[str], since: float) -> bool:
        """Whether one of the kinds of messages comes within the patience."""
        while time.monotonic() < since + PATIENCE and not self.is_closed:
            if any(at >= since and kind in kinds for at, kind in self.heard):
                return True
            time.sleep(0.01)
        return False

    def close(self) -> None:
        self._socket.close()


def changes(rng: random.Random) -> dict[str, Any]:
    """Settings that may be legal, extreme or of a wrong type."""
    wanted = [("beta", rng.choice(NUMBERS)), ("n", rng.choice([1, 2, 8, 8, 8, 10_000])), ("end", rng.choice([1e9, 5.0, 1e-9])),
              (rng.choice(SETTINGS), rng.choice(VALUES)), (rng.choice(SETTINGS), rng.choice(TEXTS))]  # fmt: skip
    return dict(rng.sample(wanted, rng.randrange(1, 3)))


def valid(rng: random.Random) -> dict[str, Any]:
    """A message that a page might send, with extreme values."""
    return rng.choice([
        {"type": "change", "changes": changes(rng)}, {"type": "play", "plays": rng.random() < 0.7},
        {"type": "step", "by": rng.choice([1, -1])}, {"type": "seek", "share": rng.random()},
        {"type": "speed", "factor": rng.choice([1.0, 1e-3, 1e3, 1e300])}, {"type": "row", "token": rng.choice([None, 0, 5, 10**6])},
        {"type": "tokens", **rng.choice([{"add": [1.0, 0.0, 0.0]}, {"remove": rng.choice([0, 7, -1, 10**6])},
                                         {"move": {"token": 0, "to": [0.0, rng.choice([1.0, 0.0, 1e300]), 0.0]}}])},
        {"type": "axes"}, {"type": "seen", "run": rng.randrange(9), "frame": rng.randrange(99)},
        {"type": "start", "scenario": rng.choice(SCENARIOS), "changes": {"n": 8, **changes(rng)},
         "later": [[rng.random(), changes(rng)]] if rng.random() < 0.3 else [], "plays": rng.random() < 0.8},
    ])  # fmt: skip


def message_of(rng: random.Random) -> str | bytes:
    """A random message: half of them valid, the others mutated, malformed, nested or binary."""
    kind = rng.random()
    if kind < 0.5:
        return json.dumps(valid(rng))
    if kind < 0.75:
        return json.dumps({**valid(rng), rng.choice(FIELDS): rng.choice(VALUES)})
    if kind < 0.85:
        text = list(json.dumps(valid(rng)))
        for _ in range(rng.randrange(1, 5)):
            text[rng.randrange(len(text))] = rng.choice(string.printable)
        return "".join(text)
    if kind < 0.9:
        return rng.choice(["[", '{"type":']) * rng.randrange(1, 3000)
    return rng.randbytes(rng.randrange(200)) if kind < 0.95 else "".join(rng.choices(string.printable, k=40))


def run(seconds: float, seed: int) -> tuple[dict[str, int], list[str]]:
    """Send messages for some seconds; returns counts, and a sentence for every failure."""
    rng, server = random.Random(seed), ServedProcess()
    counts = {
        "messages": 0,
        "connections": 0,
        "controls answered": 0,
        "controls answered after 0.3 s": 0,
        "closed by the server": 0,
    }
    failures: list[str] = []
    before = None
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.process.poll() is None:
        client = FuzzClient(server)
        counts["connections"] += 1
        client.send(json.dumps({"type": "start", "scenario": rng.choice(SCENARIOS), "changes": {"n": 8}}))
        sent = [message_of(rng) for _ in range(rng.choice([1, 5, 30, 150]))]
        for message in sent:
            client.send(message)
            time.sleep(rng.choice([0.0, 0.0, 0.0, 0.02]))
        counts["messages"] += 1 + len(sent)
        failures += _control(
            client, counts, f"connection {counts['connections']} of seed {seed}: last {sent[-1]!r:.200}"
        )
        client.close()
        if counts["connections"] == CONNECTIONS_BEFORE_COUNT:
            before = server.threads_and_files()
    time.sleep(2)
    after = server.threads_and_files()
    if before and any(late > early + LEFTOVER for early, late in zip(before, after, strict=True)):
        failures.append(f"Threads and files grew from {before} to {after}.")
    died = server.process.poll()
    code, waited = server.stop()
    if died is not None or code != 0:
        failures.append(f"The server ended with {died if died is not None else code}.")
    if waited > PATIENCE / 3:
        failures.append(f"The server ended {waited:.0f} s after Ctrl-C.")
    text = server.log.read_text(errors="replace")
    failures += [f"Traceback in the log: {part[-300:]}" for part in text.split("Traceback")[1:]]
    return counts, failures


def _control(client: FuzzClient, counts: dict[str, int], where: str) -> list[str]:
    """A sentence if a control after the messages is not answered."""
    if client.is_closed:
        counts["closed by the server"] += 1
        return []
    since = time.monotonic()
    client.send(json.dumps({"type": "play", "plays": False}))
    if client.hears(ANSWERS, since):
        counts["controls answered"] += 1
        answered = next(at for at, kind in client.heard if at >= since and kind in ANSWERS)
        counts["controls answered after 0.3 s"] += answered - since > 0.3
        return []
    return [] if client.is_closed else [f"A control was not answered in {PATIENCE} s: {where}."]


if __name__ == "__main__":
    found, faults = run(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(found, *faults, sep="\n")
    sys.exit(bool(faults))
