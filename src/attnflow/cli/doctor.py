"""The facts of `attnflow doctor`: versions, missing extras, and the error of a run with a known solution."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

PACKAGES = ("attnflow", "jax", "jaxlib", "equinox", "diffrax", "numpy", "scipy", "xarray", "zarr", "matplotlib")


def diagnose() -> dict[str, Any]:
    """Versions, missing extras, and the error of two tokens on the circle against tanh t."""
    import jax

    from attnflow._common import extras
    from attnflow.model.native import library

    facts: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count()}
    facts |= {name: _version(name) for name in PACKAGES}
    facts["device"] = str(jax.devices()[0])
    facts["native kernel"] = library.reason_unused() or "in use"
    facts["compiled code is kept in"] = os.environ.get("JAX_COMPILATION_CACHE_DIR", "memory only")
    missing = {extra: names for extra in extras.MODULES if (names := extras.missing(extra))}
    lines = (f"{extra} ({extras.pip_line(*names)})" for extra, names in missing.items())
    facts["extras missing"] = ", ".join(lines) or "none"
    error = _error_of_known_run()
    facts["error of a known run"] = f"{error:.1e}"
    facts["healthy"] = bool(error < 1e-7)
    return facts


def path_of(name: str) -> str:
    """What computes the runs of a scenario: the native library, or programs compiled by XLA and why."""
    from attnflow.experiments import scenarios
    from attnflow.integrate.native_problem import computed_by, reason_not_native
    from attnflow.integrate.request import checked_request

    if scenarios.get(name).coalesces:
        return "coalesce, which has an integrator of its own"
    setup = scenarios.scenario(name)
    request = checked_request(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng)
    return computed_by(reason_not_native(request))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _error_of_known_run() -> float:
    """The largest error of the cosine of two orthogonal tokens, which is tanh t at beta = 0."""
    import attnflow as af

    times = np.linspace(0, 3, 7)
    run = af.simulate(af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0)), np.eye(2), times)
    cosine = np.sum(run.tokens.values[:, 0] * run.tokens.values[:, 1], axis=-1)
    return float(np.max(np.abs(cosine - np.tanh(times))))
