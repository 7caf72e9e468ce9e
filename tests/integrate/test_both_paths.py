"""Native runs step for step against the runs that XLA compiles.

Every pair of values of the options below occurs. ATTNFLOW_COMBINATIONS=3 in the environment asks for every group of three
values (about 150 combinations), a larger number for more, and the number of options for every combination.
"""

import itertools
import os

import numpy as np
import pytest
from tests.helpers.both_paths import native_and_compiled
from tests.helpers.covering import covering
from tests.helpers.native_flows import MASKS, RULES, SPACES, heads, options, start

import attnflow as af
from attnflow.model.native.library import reason_unused
from attnflow.solvers.status import Status

pytestmark = pytest.mark.skipif(reason_unused() is not None, reason="the native library is not in use")

SCHEMES = {"post": af.Post(), "sqrt": af.Sqrt(), "nGPT": af.NGPT(0.3)}
OPTIONS = {
    "space": ["R^d", "rescaled", "post", "sqrt", "nGPT"],
    "rule": list(RULES),
    "mask": list(MASKS),
    "head": ["identity", "symmetric", "generic", "three"],
    "has_masses": [False, True],
    "has_frozen": [False, True],
    "dtype": ["float64", "float32"],
    "solver": ["adaptive", "euler", "heun", "rk4"],
    "stop": [None, af.Clustered(0.9), af.Settled(0.05), af.Diverged(1.8)],
    "times": ["many", "two"],
    "size": [(26, 3), (9, 2), (17, 5)],  # n and d: symmetric scores have sums of their own from 24 tokens on
}
SOLVERS = {"euler": af.Euler(0.03), "heun": af.Heun(0.04), "rk4": af.RK4(0.05)}
TIMES = {"many": np.linspace(0.5, 1.7, 9), "two": [0.0, 1.1]}
ROUNDING = {"float64": 1e-10, "float32": 1e-3}
COMBINATIONS = covering(OPTIONS, int(os.environ.get("ATTNFLOW_COMBINATIONS", "2")))


def flow_of(choice):
    n, d = choice["size"]
    space, scheme = ("sphere", SCHEMES[choice["space"]]) if choice["space"] in SCHEMES else (choice["space"], None)
    parts = options(n, choice["has_masses"], choice["has_frozen"], choice["mask"])
    if scheme is not None:
        parts["normalisation"] = scheme
    flow = SPACES[space][0](heads(choice["head"], d)[0], RULES[choice["rule"]][0], MASKS[choice["mask"]][0], **parts)
    return flow, start(space, n, d, runs=2)


def solver_of(choice):
    # In float32 the length of the first step depends on rounding, and with it all others.
    tolerances = {"rtol": 1e-4, "atol": 1e-5} if choice["dtype"] == "float32" else {}
    return SOLVERS.get(choice["solver"], af.Adaptive(**tolerances))


@pytest.mark.parametrize("choice", COMBINATIONS, ids=lambda choice: "-".join(map(str, choice.values())))
def test_native_runs_take_the_steps_of_compiled_runs(choice):
    flow, tokens = flow_of(choice)
    seen = {"longest": af.observables.largest_norm}

    native, compiled = native_and_compiled(
        flow,
        tokens,
        TIMES[choice["times"]],
        solver=solver_of(choice),
        dtype=choice["dtype"],
        observables=seen,
        stop=choice["stop"] or [],
        progress=False,
    )

    assert list(native.data_vars) == list(compiled.data_vars)
    assert np.isfinite(native.final_tokens).all()
    allowed = ROUNDING[choice["dtype"]]
    if choice["dtype"] == "float64":
        for name in ("steps", "status"):
            np.testing.assert_array_equal(native[name], compiled[name])
        names = ("tokens", "longest", "final_tokens", "final_time", "drift")
    else:
        # A run that stops may do so a step earlier or later.
        np.testing.assert_allclose(native.steps, compiled.steps, atol=2)
        names = ("tokens", "longest")
    for name in names:
        assert native[name].dtype == compiled[name].dtype
        ours, theirs = native[name].values, compiled[name].values
        if name == "final_tokens":  # near a blow-up in finite time rounding changes the last state by much
            has_blown_up = native.status.values == Status.STEP_TOO_SMALL
            ours, theirs = ours[~has_blown_up], theirs[~has_blown_up]
        if choice["dtype"] == "float32":
            times = min(native.sizes["time"], compiled.sizes["time"])
            ours, theirs = ours[:, :times], theirs[:, :times]
            ours, theirs = np.where(np.isnan(theirs), np.nan, ours), np.where(np.isnan(ours), np.nan, theirs)
        np.testing.assert_allclose(ours, theirs, rtol=allowed, atol=allowed)


def test_every_pair_of_values_occurs():
    for first, second in itertools.combinations(OPTIONS, 2):
        pairs = {(repr(choice[first]), repr(choice[second])) for choice in COMBINATIONS}
        assert len(pairs) == len(OPTIONS[first]) * len(OPTIONS[second])
