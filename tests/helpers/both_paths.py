"""The same request by the native library and by programs that XLA compiles."""

import importlib

import pytest

import attnflow as af

MODULE = importlib.import_module("attnflow.integrate.simulate")


def native_and_compiled(*arguments, **options):
    """The results of `simulate` by native runs and by XLA; fails if the native library does not serve the request."""
    native = af.simulate(*arguments, **options)
    assert native.attrs["computed_by"] == "native runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "reason_not_native", lambda request: "a test asks for XLA")
        return native, af.simulate(*arguments, **options)
