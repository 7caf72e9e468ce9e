"""The reasons for which the native library is not used."""

import pytest

from attnflow.model.native import library


@pytest.mark.parametrize(("setting", "is_off"), [("0", True), ("1", False), ("", False), (None, False)])
def test_only_a_zero_in_the_environment_turns_it_off(setting, is_off, monkeypatch):
    monkeypatch.delenv("ATTNFLOW_NATIVE", raising=False)
    if setting is not None:
        monkeypatch.setenv("ATTNFLOW_NATIVE", setting)

    assert (library.reason_unused() == "turned off by ATTNFLOW_NATIVE=0") is is_off


def test_it_is_for_processors_only(monkeypatch):
    monkeypatch.delenv("ATTNFLOW_NATIVE", raising=False)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")

    assert library.reason_unused() == "XLA computes on the gpu"
