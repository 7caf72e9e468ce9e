"""The reasons for which the native library is not used."""

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("system", "advice"), [("linux", "install a C++ compiler"), ("win32", "not available on Windows")]
)
def test_a_missing_library_is_explained(system, advice, monkeypatch):
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(library.sys, "platform", system)

    assert advice in library._reason_not_loaded.__wrapped__()


def test_functions_are_registered_only_when_jax_has_started():
    """Before, JAX accepts a library made for a newer version and then fails to start with any device."""
    program = """
import jax
from jax._src import xla_bridge
from attnflow.model.native import library
started = []
library.importlib.util.find_spec = lambda name: True
symbols = [*library.TARGETS.values(), *library.PULLBACKS.values()]
library.library = lambda: type("Library", (), dict.fromkeys(symbols))
jax.ffi.pycapsule = lambda function: function
jax.ffi.register_ffi_target = lambda *names, **options: started.append(xla_bridge.backends_are_initialized())
assert library.is_built()
assert started == [True] * len(symbols), started
"""

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
