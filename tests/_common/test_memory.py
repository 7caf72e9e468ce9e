"""Memory of the machine and of its container, and the refusal of what needs more."""

import math

import pytest

from attnflow._common import memory
from attnflow._common.checks import InputError


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 2 GB, and the file with the limit of its container."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CONTROL_GROUP_LIMITS", (limit,))
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PHYS_PAGES": 500_000, "SC_PAGE_SIZE": 4000}.__getitem__)
    return limit


@pytest.mark.parametrize(("limit", "present"), [(None, 2e9), ("max\n", 2e9), ("1500000000\n", 1.5e9)])
def test_a_container_may_have_less_than_its_machine(machine, limit, present):
    if limit is not None:
        machine.write_text(limit)
    assert memory.present_bytes() == present


def test_a_system_that_does_not_tell_refuses_nothing(machine, monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.present_bytes() == math.inf
    memory.require_memory(10**400, "A matrix")


@pytest.mark.parametrize(("needed", "words"), [(2_100_000_000, "2.1 GB"), (10**400, "more than 1e300 bytes")])
def test_what_needs_more_than_the_machine_has_is_refused(machine, needed, words):
    memory.require_memory(2_000_000_000, "A matrix", "Use a smaller one.")
    with pytest.raises(InputError) as caught:
        memory.require_memory(needed, "A matrix", "Use a smaller one.")
    assert str(caught.value) == f"A matrix needs {words} of memory, but the machine has 2 GB. Use a smaller one."
