"""Old compiled programs are dropped before Linux ends the process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from attnflow._common import jit_cache

PROGRAM = """
import numpy as np
import attnflow as af
from attnflow._common import jit_cache
jit_cache.CALLS_BETWEEN_LOOKS = 1
jit_cache.LIMIT = jit_cache.Path(__import__("sys").argv[1])
shares = []
for n in range(2, 10):
    flow, tokens = af.SphereAttention(af.Head.identity(2)), af.initial.circle(n, rng=0)
    af.simulate(flow, tokens, [0.0, 1.0], solver=af.Euler(0.5))  # a program of few kernels is compiled quickly
    shares.append(jit_cache.share_taken())
print(*shares)
"""


@pytest.mark.skipif(not jit_cache.MAPS.exists(), reason="the system does not count memory maps")
def test_maps_stay_below_the_limit(tmp_path):
    def shares(limit):
        (tmp_path / "limit").write_text(str(limit))
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "limit")]
        environment = os.environ | {"ATTNFLOW_NATIVE": "0"}  # native runs compile nothing
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        return [float(word) for word in printed.split()]

    free = [share * 10**9 for share in shares(10**9)]
    assert free == sorted(free)  # without need nothing is dropped
    tight = shares(int(2 * free[2]))
    assert max(tight) < 0.5 + (free[1] - free[0]) / free[2]


def test_systems_without_maps_are_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(jit_cache, "MAPS", tmp_path / "nothing")
    assert jit_cache.share_taken() == 0.0


def test_programs_are_dropped_when_the_process_has_grown_by_the_ceiling(monkeypatch):
    sizes, dropped = iter([100e6, 90e6, 500e6, 603e6, 250e6, 700e6, 763e6, 300e6]), []
    monkeypatch.setattr(jit_cache, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(jit_cache, "share_taken", lambda: 0.0)
    monkeypatch.setattr(jit_cache, "_least_bytes", float("inf"))
    monkeypatch.setattr(jit_cache, "CEILING", 512e6)
    monkeypatch.setattr(jit_cache.jax, "clear_caches", lambda: dropped.append(True))
    counts = []
    for _ in range(6):
        jit_cache.drop_old_programs()
        counts.append(len(dropped))

    assert counts == [0, 0, 0, 1, 1, 2]  # above 90 + 512 MB, then above 250 + 512 MB


@pytest.mark.skipif(not jit_cache.PAGES.exists(), reason="the system does not report the memory of a process")
def test_the_memory_of_the_process_is_measured():
    before = jit_cache.resident_bytes()
    block = np.ones(10_000_000)
    assert 70e6 < jit_cache.resident_bytes() - before < 90e6
    del block


@pytest.mark.parametrize("error", [TypeError, OSError, AttributeError])  # of Windows, and of macOS
def test_systems_whose_library_returns_no_memory_go_on(error, monkeypatch):
    asked = []

    def refuse(name):
        asked.append(name)
        raise error

    monkeypatch.setattr(jit_cache.ctypes, "CDLL", refuse)

    jit_cache._return_free_memory()

    assert asked == [None]


def test_systems_that_report_no_memory_drop_nothing(tmp_path, monkeypatch):
    for name in ("MAPS", "LIMIT", "PAGES"):
        monkeypatch.setattr(jit_cache, name, tmp_path / "absent")
    monkeypatch.setattr(jit_cache.jax, "clear_caches", lambda: pytest.fail("nothing is known of the memory"))

    for _ in range(2 * jit_cache.CALLS_BETWEEN_LOOKS):
        jit_cache.drop_old_programs()

    assert (jit_cache.resident_bytes(), jit_cache.share_taken()) == (0, 0.0)


@pytest.mark.parametrize("refusal", [OSError, AttributeError, TypeError])
def test_a_c_library_without_trimming_is_left_alone(refusal, monkeypatch):
    """Other systems than Linux have no `malloc_trim`, and Windows no library without a name."""

    def load(name):
        raise refusal

    monkeypatch.setattr(jit_cache.ctypes, "CDLL", load)

    assert jit_cache._return_free_memory() is None
