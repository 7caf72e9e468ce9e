"""Native runs against the oracle, against themselves, and where they end against the runs that XLA compiles."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from tests.helpers import oracle
from tests.helpers.both_paths import native_and_compiled
from tests.helpers.native_flows import MASKS, RULES, SPACES, heads, options, start
from tests.helpers.oracle import mask, solve

import attnflow as af
from attnflow.integrate.native_problem import reason_not_native
from attnflow.integrate.request import checked_request
from attnflow.model.native.library import reason_unused

pytestmark = pytest.mark.skipif(reason_unused() is not None, reason="the native library is not in use")

GRID = list(itertools.product(SPACES, RULES, MASKS, ["identity", "generic", "three"], [False, True], [False, True]))


@pytest.mark.parametrize(("space", "rule", "mask_name", "kind", "has_masses", "has_frozen"), GRID)
def test_native_runs_solve_the_equations_of_the_oracle(space, rule, mask_name, kind, has_masses, has_frozen):
    n, d, times = 6, 3, [0.0, 0.3, 0.8]
    parts = options(n, has_masses, has_frozen, mask_name)
    ours, theirs = heads(kind, d)
    flow = SPACES[space][0](ours, RULES[rule][0], MASKS[mask_name][0], **parts)
    frozen = np.zeros(n, bool) if parts["frozen"] is None else parts["frozen"]
    model = SPACES[space][1](theirs, RULES[rule][1], mask(n, MASKS[mask_name][1]), parts["masses"], frozen)

    run = af.simulate(flow, start(space, n, d), times, solver=af.Adaptive(rtol=1e-10, atol=1e-12))

    assert run.attrs["computed_by"] == "native runs"
    np.testing.assert_allclose(run.tokens, solve(model, start(space, n, d), times)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "stop",
    [
        af.Clustered(0.05),
        af.Clustered(1.2),
        af.Clustered(4.0),
        af.Clustered(0.4, count=2),
        [af.Settled(1e-3), af.Diverged(2.0)],
    ],
    ids=repr,
)
def test_stopping_conditions_end_native_runs_where_they_end_compiled_runs(stop):
    flow, tokens = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0)), start("sphere", 7, 3, runs=4)

    native, compiled = native_and_compiled(flow, tokens, np.linspace(0, 40, 9), stop=stop)

    np.testing.assert_array_equal(native.status, compiled.status)
    np.testing.assert_allclose(native.final_time, compiled.final_time, rtol=1e-7)
    np.testing.assert_allclose(native.tokens, compiled.tokens, rtol=1e-7, atol=1e-8)
    assert native.outcome == compiled.outcome


def test_rejected_steps_count_among_the_largest_number_of_steps():
    flow = af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag([2.0, 0.3])))
    solver = af.Adaptive(max_steps=150)

    native, compiled = native_and_compiled(flow, 5 * start("R^d", 30, 2), [0.0, 20.0], solver=solver)

    assert native.rejected_steps > 20
    for run in (native, compiled):
        assert run.outcome.startswith("Failed")
        assert int(run.steps + run.rejected_steps) == 150


def test_the_drift_is_the_largest_of_all_steps():
    """At the start tokens move fast and leave the sphere by more than at the end, where they are in one cluster."""
    flow, tokens = af.SphereAttention(af.Head.identity(3)), start("sphere", 7, 3)

    native, compiled = native_and_compiled(flow, tokens, [0.0, 20.0])
    late = af.simulate(flow, native.final_tokens.values, [0.0, 1.0], progress=False)

    assert float(late.drift) < 1e-3 * float(native.drift)
    np.testing.assert_allclose(native.drift, compiled.drift, rtol=1e-3)


@pytest.mark.parametrize(("length", "count"), [(0.2, 2), (0.205, 3), (0.2 + 1e-9, 2), (0.299, 3)])
def test_no_fixed_step_is_longer_than_asked(length, count):
    """Steps of 0.1: 2.05 of them are three shorter ones; rounding of the time adds none."""
    flow, tokens = af.EuclideanAttention(af.Head.identity(2)), start("R^d", 5, 2)

    native, compiled = native_and_compiled(flow, tokens, [0.0, length], solver=af.Euler(0.1))

    assert int(native.steps) == int(compiled.steps) == count


def test_divergence_in_space_ends_native_runs_where_it_ends_compiled_runs():
    flow, tokens = af.EuclideanAttention(af.Head.identity(2)), start("R^d", 5, 2, runs=2)

    native, compiled = native_and_compiled(flow, tokens, [0.0, 50.0], stop=af.Diverged(100.0))

    assert native.outcome == "Of 2 runs 2 stopped."
    np.testing.assert_allclose(native.final_time, compiled.final_time, rtol=1e-7)


FAILURES = {
    "blow-up": ([[2.0]], af.Adaptive(), [0.0, 0.001, 1.0], "resolution of time"),
    "overflow at the start": ([[40.0]], af.Adaptive(), [0.0, 1.0], "resolution of time"),
    "fixed step": ([[3.0]], af.Euler(0.1), np.linspace(0, 1, 11), "NaN or infinity"),
    "few steps": ([[0.2]], af.Adaptive(max_steps=3), [0.0, 1.0], "largest number of steps"),
    "late": ([[0.2]], af.Adaptive(), [1e300, 2e300], "resolution of time"),
    "least step": ([[2.0]], af.Adaptive(min_step=1e-4), [0.0, 0.001, 1.0], "resolution of time"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_native_runs_fail_like_compiled_runs(name):
    """x' = e^{x^2} x leaves every bound in finite time."""
    flow = af.EuclideanAttention(af.Head.identity(1), af.Unnormalised(1.0))
    tokens, solver, times, words = FAILURES[name]

    native, compiled = native_and_compiled(flow, tokens, times, solver=solver)

    assert words in native.outcome
    np.testing.assert_array_equal(native.status, compiled.status)
    np.testing.assert_allclose(native.final_time, compiled.final_time, rtol=1e-6)
    assert int(native.steps) == pytest.approx(int(compiled.steps), rel=0.1)  # rounding decides near the end


def test_scores_beyond_the_range_of_the_exponential_are_divided_by_the_largest_of_a_row():
    """Scores of 1e5 overflow as exponentials; the weights of a row do not depend on a common factor."""
    tokens = 100 * start("R^d", 9, 2)
    flow = af.EuclideanAttention(af.Head.bilinear(10 * np.eye(2), -np.eye(2)), masses=np.geomspace(1e-3, 1e3, 9))

    native, compiled = native_and_compiled(flow, tokens, [0.0, 0.1, 1.0])

    np.testing.assert_allclose(native.tokens, compiled.tokens, rtol=1e-7, atol=1e-7)


def test_masses_beyond_the_range_of_the_exponential_are_divided_by_the_largest_of_a_row():
    """beta and the logarithm of a mass are each in range, but e^(beta + log mass) is no float."""
    tokens = start("sphere", 5, 3)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(200.0), masses=1e260 * np.geomspace(1, 10, 5))
    plain = af.SphereAttention(af.Head.identity(3), af.Softmax(200.0), masses=np.geomspace(1, 10, 5))

    heavy, light = (af.simulate(one, tokens, [0.0, 0.1], progress=False) for one in (flow, plain))

    assert heavy.attrs["computed_by"] == "native runs"
    np.testing.assert_allclose(heavy.tokens, light.tokens, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("scheme", "law"), [(af.Sqrt(), oracle.sqrt), (af.NGPT(0.3), oracle.ngpt(0.3))], ids=["sqrt", "nGPT"]
)
def test_schemes_without_lengths_solve_the_equations_of_the_oracle(scheme, law):
    ours, theirs = heads("three", 3)
    tokens, times, frozen = start("sphere", 6, 3), [0.2, 0.5, 1.1], np.arange(6) == 2
    flow = af.SphereAttention(ours, RULES["softmax"][0], normalisation=scheme, frozen=frozen)
    model = oracle.Sphere(theirs, RULES["softmax"][1], mask(6), frozen=frozen, normalisation=law)

    run = af.simulate(flow, tokens, times, solver=af.Adaptive(rtol=1e-10, atol=1e-12))

    assert run.attrs["computed_by"] == "native runs"
    np.testing.assert_allclose(run.tokens, solve(model, tokens, times)[0], atol=1e-8)


def test_a_frame_of_its_own_and_late_times_are_those_of_compiled_runs():
    """At t = 400 scores have the factor e^800, which is no float."""
    tokens = start("R^d", 7, 2)
    framed = af.RescaledAttention(heads("generic", 2)[0], rescaling=np.diag([0.7, 0.4]))
    late = af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag([1.0, 0.9])), masses=1.0 + np.arange(7))

    for flow, times in ((framed, [0.0, 0.5, 2.0]), (late, [0.0, 1.0, 5.0, 400.0])):
        native, compiled = native_and_compiled(flow, tokens, times)
        np.testing.assert_allclose(native.tokens, compiled.tokens, rtol=1e-6, atol=1e-7)
        assert native.outcome.split(",")[0] == compiled.outcome.split(",")[0]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 33])
def test_any_number_of_tokens_is_integrated(n):
    """At beta = 0 and V = I every token moves by the mean of all tokens, which grows like e^t."""
    tokens = start("R^d", n, 2)

    run = af.simulate(af.EuclideanAttention(af.Head.identity(2), af.Softmax(0.0)), tokens, [0.0, 0.7])

    mean = tokens.mean(axis=0)
    np.testing.assert_allclose(run.final_tokens, tokens + (np.exp(0.7) - 1) * mean, rtol=1e-7)


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_symmetric_scores_are_used_for_symmetric_matrices_only(is_symmetric):
    """With 40 tokens each pair of a symmetric matrix takes one exponential; one Euler step against NumPy."""
    matrix = np.array([[1.0, 0.4], [0.4 if is_symmetric else -0.7, 0.5]])
    value, tokens = np.array([[0.3, -1.0], [0.8, 0.2]]), start("R^d", 40, 2)
    flow = af.EuclideanAttention(af.Head.bilinear(matrix, value), af.Softmax(1.3))

    run = af.simulate(flow, tokens, [0.0, 0.1], solver=af.Euler(0.1))

    assert run.attrs["computed_by"] == "native runs"
    weights = np.exp(1.3 * tokens @ matrix @ tokens.T)
    expected = tokens + 0.1 * (weights / weights.sum(axis=1, keepdims=True)) @ tokens @ value.T
    np.testing.assert_allclose(run.final_tokens, expected, rtol=1e-12)


STAGES = {
    "Euler": ([[]], [1.0]),
    "Heun": ([[], [1.0]], [1 / 2, 1 / 2]),
    "RK4": ([[], [1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}


@pytest.mark.parametrize("name", STAGES)
def test_fixed_steps_are_those_of_the_tableau(name):
    """Two steps of the rescaled flow, whose field depends on time, so that the nodes count as well."""
    (ours, theirs), tokens, step = heads("generic", 3), start("rescaled", 5, 3), 0.2
    model = oracle.Rescaled(theirs, oracle.softmax(1.3), mask(5))
    run = af.simulate(
        af.RescaledAttention(ours, af.Softmax(1.3)), tokens, [0.0, 2 * step], solver=getattr(af, name)(step)
    )
    x, (rows, weights) = tokens, STAGES[name]
    for time in (0.0, step):
        slopes: list[np.ndarray] = []
        for row in rows:
            moved = x + step * sum((a * k for a, k in zip(row, slopes, strict=True)), np.zeros_like(x))
            slopes.append(model.velocity(time + step * sum(row), moved, np.ones(5))[0])
        x = x + step * sum(b * k for b, k in zip(weights, slopes, strict=True))
    assert run.attrs["computed_by"] == "native runs"
    np.testing.assert_allclose(run.final_tokens, x, rtol=1e-10, atol=1e-12)


def test_chunks_threads_and_neighbours_change_no_bit(monkeypatch):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(4.0), af.masks.causal)
    tokens, times = start("sphere", 11, 3, runs=37), np.linspace(0, 6, 150)
    seen = {"energy": af.observables.Energy(4.0), "order": af.observables.order_parameter}

    whole = af.simulate(flow, tokens, times, observables=seen)
    tight = af.simulate(flow, tokens, times, observables=seen, memory=1e3)
    alone = af.simulate(flow, tokens[5], times, observables=seen)
    light = af.simulate(flow, tokens, times, observables=seen, keep_tokens=False)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    serial = af.simulate(flow, tokens, times, observables=seen)
    monkeypatch.setattr("attnflow.integrate.native_runs.SECONDS_PER_NATIVE_CALL", 0.0)  # one look at the clock a step

    for other in (tight, serial, af.simulate(flow, tokens[:4], times, observables=seen)):
        for name in ("tokens", "energy", "order", "final_tokens", "steps"):
            np.testing.assert_array_equal(other[name], whole[name][: other.sizes["run"]])
    for name in ("energy", "order"):
        np.testing.assert_array_equal(light[name], whole[name])
        np.testing.assert_array_equal(alone[name], whole[name][5])
    np.testing.assert_array_equal(alone.tokens, whole.tokens[5])


@pytest.mark.parametrize("runs", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_order_of_a_given_array_in_memory_changes_no_bit(dtype, runs):
    tokens = start("sphere", 5, 5, runs=runs)
    turned = np.swapaxes(np.ascontiguousarray(np.swapaxes(tokens, -1, -2)), -1, -2)  # the same numbers, by columns
    assert not turned.flags.c_contiguous
    flow = af.SphereAttention(heads("generic", 5)[0])
    found = [
        af.simulate(flow, given, [0.0, 1.0], dtype=dtype, progress=False)
        for given in (tokens, turned, tokens[..., ::1])
    ]

    for run in found[1:]:
        np.testing.assert_array_equal(run.tokens, found[0].tokens)


def test_observables_of_a_run_that_has_stopped_are_nan():
    flow, tokens = af.SphereAttention(af.Head.identity(3)), start("sphere", 4, 3, runs=5)
    seen = {"clock": lambda time, x: time, "count": lambda time, x: jnp.sum(x[:, 0] > -2)}

    run = af.simulate(flow, tokens, np.linspace(0, 90, 101), observables=seen, stop=af.Clustered(0.01))

    assert run.sizes["time"] < 101
    has_ended = run.time.values > run.final_time.values[:, None]
    np.testing.assert_array_equal(run["clock"], np.where(has_ended, np.nan, run.time.values))
    np.testing.assert_array_equal(run["count"], np.where(has_ended, np.nan, 4))


NOT_SERVED = {
    "Hardmax": {"attention": af.Hardmax()},
    "masks.others": {"mask": af.masks.others},
    "MLP": {"mlp": af.MLP(np.eye(2))},
    "a perceptron": {"perceptron": af.Perceptron(np.eye(2), np.eye(2))},
    "change in time": {"heads": af.PiecewiseHead([1.0], [af.Head.identity(2)] * 2)},
    "Pre": {"normalisation": af.Pre()},
}


@pytest.mark.parametrize("words", NOT_SERVED)
def test_a_request_that_is_not_served_is_computed_by_xla_and_says_why(words):
    parts = {"heads": af.Head.identity(2), **NOT_SERVED[words]}
    run = af.simulate(af.SphereAttention(**parts), np.eye(2), [0.0, 0.01])

    assert run.attrs["computed_by"].startswith("programs compiled by XLA, since ")
    assert words in run.attrs["computed_by"]


@pytest.mark.parametrize("solver", [af.Adaptive(order=8), af.Adaptive(stiff=True), af.Layers(0.1)])
def test_solvers_that_are_not_served(solver):
    request = checked_request(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 0.1], solver=solver)

    assert "solver" in str(reason_not_native(request))


def test_many_tokens_share_the_cores_instead():
    flow = af.SphereAttention(af.Head.identity(2))
    few, many = (checked_request(flow, af.initial.sphere(n, 2, rng=0), [0.0, 1.0]) for n in (1024, 1025))

    assert reason_not_native(few) is None
    assert "1025 tokens" in str(reason_not_native(many))


def test_the_environment_turns_native_runs_off(monkeypatch):
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 0.01])

    assert "ATTNFLOW_NATIVE=0" in run.attrs["computed_by"]
