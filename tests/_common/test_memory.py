"""Memory of the machine and of its container, and the refusal of what needs more."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common import memory
from attnflow._common.checks import InputError
from attnflow.experiments import scenarios

HUGE = 99999999999999999999


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 2 GB, and the file with the limit of its container."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CONTROL_GROUP_LIMITS", (limit,))
    pages = {"SC_PHYS_PAGES": 500_000, "SC_PAGE_SIZE": 4000}.__getitem__
    monkeypatch.setattr(memory.os, "sysconf", pages, raising=False)  # Windows has none
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
    monkeypatch.delattr(memory.os, "sysconf")  # as on Windows
    assert memory.present_bytes() == math.inf
    memory.require_memory(10**400, "A matrix")


@pytest.mark.parametrize(("needed", "words"), [(2_100_000_000, "2.1 GB"), (10**400, "more than 1e300 bytes")])
def test_what_needs_more_than_the_machine_has_is_refused(machine, needed, words):
    memory.require_memory(2_000_000_000, "A matrix", "Use a smaller one.")
    with pytest.raises(InputError) as caught:
        memory.require_memory(needed, "A matrix", "Use a smaller one.")
    assert str(caught.value) == f"A matrix needs {words} of memory, but the machine has 2 GB. Use a smaller one."


@pytest.mark.parametrize("law", [af.initial.sphere, af.initial.gaussian, af.initial.equiangular, af.initial.circle])
def test_laws_of_tokens_refuse_huge_numbers(law):
    for size in ((HUGE, 3), (3, HUGE), (10**9, 10**9)):
        with pytest.raises(ValueError, match="of memory"):
            law(*size)


def test_results_that_would_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "present_bytes", lambda: 1e6)
    flow = af.SphereAttention(af.Head.identity(3))
    with pytest.raises(ValueError, match=r"Tokens of shape \(10, 3\) at 5000 times needs 1.2 MB of memory"):
        af.simulate(flow, af.initial.sphere(10, 3, rng=0), np.linspace(0, 1, 5000))


@pytest.mark.parametrize("option", ["n", "d", "runs", "saves", "heads"])
def test_commands_refuse_huge_numbers(option, tmp_path):
    for command in ("run", "predict"):
        _, said = attnflow(command, "kuramoto", f"--{option}", HUGE, cwd=tmp_path, code=2)
        assert said.startswith("attnflow: ")
    attnflow("stream", "renyi", f"--{option}", HUGE, cwd=tmp_path, code=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "predict"])
def test_matrices_whose_products_overflow_are_refused(command, tmp_path):
    _, said = attnflow(command, "hyperplanes", "--d", 2, "--value", "diagonal:1e308,1e308", cwd=tmp_path, code=2)
    assert "must be at most 1e+100 in size" in said


def test_a_run_needs_room_for_more_than_its_first_tokens(monkeypatch):
    """The system would end a process that holds first tokens and has no room for their directions."""
    settings = replace(scenarios.get("sphere").settings, n=1000)
    monkeypatch.setattr(memory, "present_bytes", lambda: 60e3)
    with pytest.raises(InputError, match="1 run of 1000 tokens in dimension 3 needs 96 kB of memory"):
        scenarios.build(settings)
    with pytest.raises(InputError, match="Drawing 2000 tokens"):
        af.initial.sphere(2000, 3, rng=0)
    assert scenarios.build(replace(settings, n=500)).tokens.shape == (500, 3)
