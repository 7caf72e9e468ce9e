"""Tokens that do not follow the recorded flow say nothing about any statement."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.results.provenance import flow_of
from attnflow.theorems import interval_integration, recorded_equation
from attnflow.theorems.recorded_equation import agreement

EYE = np.eye(2)
CAUSAL = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), af.masks.causal)
POLYTOPE = af.RescaledAttention(af.Head.identity(2))


def with_tokens(run, tokens):
    return run.assign(tokens=run.tokens.copy(data=tokens))


def polytope_run(**options):
    return af.simulate(POLYTOPE, af.initial.box(8, 2, rng=0), np.linspace(0, 20, 41), **options)


def refused(run, flow=None):
    """The reason, which all statements have in common, for `not_applicable`."""
    verdicts = af.verify(run) if flow is None else af.verify(flow, run)
    assert {one.verdict for one in verdicts} == {"not_applicable"}
    (reason,) = {one.explanation() for one in verdicts}
    return reason


def test_a_run_under_another_name_of_its_flow_is_refused():
    flow = af.RescaledAttention(af.Head(EYE, EYE, np.diag([2.0, 1.0])))
    run = af.simulate(flow, af.initial.box(8, 2, rng=0), np.linspace(0, 20, 41))
    assert "follow the flow" in refused(run, POLYTOPE)
    assert "follow the flow" in refused(run.assign_attrs(flow=polytope_run().attrs["flow"]))
    assert agreement(flow, run).follows.holds


def test_replaced_tokens_are_refused():
    run = af.simulate(CAUSAL, af.initial.sphere(8, 3, rng=0), np.linspace(0, 40, 41))
    assert af.verify(run, only=["identity-value"])[0].verdict == "holds"
    others = af.initial.sphere(8, 3, rng=1, runs=41)
    others[0], others[-1] = run.tokens[0], run.tokens[-1]  # both ends as they were
    assert "follow the flow" in refused(with_tokens(run, others))
    arrived = np.broadcast_to(run.tokens.values[0, 0], run.tokens.shape)  # at the limit from the start
    assert "first tokens" in refused(with_tokens(run, arrived))
    early = run.isel(time=slice(0, 3))
    assert "follow the flow" in refused(
        early.assign(final_tokens=early.final_tokens.copy(data=arrived[0]), final_time=3)
    )
    assert "last tokens" in refused(run.assign(final_tokens=run.final_tokens.copy(data=run.initial_tokens.values)))


def test_shuffled_times_are_refused():
    line = af.RescaledAttention(af.Head.identity(1))
    run = af.simulate(line, af.initial.box(8, 1, rng=0), np.linspace(0, 20, 41))
    assert af.verify(run, only=["boolean-limit"])[0].verdict == "holds"
    order = np.r_[0, 1 + np.random.default_rng(0).permutation(39), 40]
    assert "follow the flow" in refused(with_tokens(run, run.tokens.values[order]))
    assert "increasing" in refused(run.assign_coords(time=run.time.values[order]))


SPHERE = af.initial.sphere(6, 3, rng=0)
FAITHFUL = {
    "float32": lambda: polytope_run(dtype="float32"),
    "late rescaled": lambda: af.simulate(POLYTOPE, af.initial.box(8, 2, rng=0), np.linspace(0, 60, 41)),
    "two times": lambda: af.simulate(CAUSAL, SPHERE, [0.0, 30.0]),
    "stopped": lambda: af.simulate(CAUSAL, SPHERE, np.linspace(0, 100, 11), stop=af.Settled(1e-4)),
    "some times": lambda: polytope_run().isel(time=slice(3, 30)),
    "hardmax": lambda: af.simulate(dataclasses.replace(POLYTOPE, attention=af.Hardmax()), af.initial.box(8, 2, rng=0),
                                   np.linspace(0, 20, 41)),
    "Euler": lambda: polytope_run(solver=af.Euler(0.1)),
    "layers": lambda: polytope_run(solver=af.Layers(0.1)),
    "coarse": lambda: polytope_run(solver=af.Adaptive(rtol=1e-3, atol=1e-3)),
    "lengths": lambda: af.simulate(af.SphereAttention(af.Head.identity(3), normalisation=af.Mix(3.0)), 2 * SPHERE,
                                   np.linspace(0, 10, 21)),
    "redrawn": lambda: af.simulate(af.SphereAttention(af.RedrawnHead(3, 0.5, 1)), SPHERE, np.linspace(0, 5, 11)),
    "member": lambda: af.simulate(CAUSAL, af.initial.sphere(6, 3, rng=0, runs=3), np.linspace(0, 9, 10)).isel(run=1),
    "stream": lambda: af.stream(dataclasses.replace(CAUSAL, attention=af.Softmax(32.0)), SPHERE,
                                np.r_[0, np.geomspace(0.1, 1e12, 20)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAITHFUL)
def test_runs_of_every_solver_follow_their_flow(name):
    run = FAITHFUL[name]()
    found = agreement(flow_of(run), run)
    assert found.follows.holds
    assert not found.unsettled


@pytest.mark.parametrize("name", ["float32", "Euler", "layers", "lengths", "stream", "member", "stopped"])
def test_runs_of_every_solver_do_not_follow_another_flow(name):
    run = FAITHFUL[name]()
    flow = flow_of(run)
    assert not agreement(dataclasses.replace(flow, attention=af.Softmax(1.5 * flow.beta)), run).follows.holds


def test_a_saved_file_and_a_file_with_other_tokens(tmp_path):
    run = polytope_run()
    af.save(run, tmp_path / "run.zarr")
    loaded = af.load(tmp_path / "run.zarr")
    assert af.verify(loaded, only=["polytope"])[0].verdict == "holds"
    assert "first tokens" in refused(with_tokens(loaded, 2 * loaded.tokens.values))


def test_a_flow_of_another_dimension_is_refused():
    assert "dimension" in refused(polytope_run(), CAUSAL)
    with pytest.raises(ValueError, match="flow"):
        af.verify("polytope", polytope_run())


@pytest.mark.parametrize("attention", [af.Softmax(60.0), af.Unnormalised(60.0, offset=1.0)], ids=["SA", "USA"])
def test_merges_follow_the_flow(attention):
    flow = af.SphereAttention(af.Head.identity(2), attention)
    run = af.coalesce(flow, af.initial.circle(10, rng=0))
    assert agreement(flow, run).follows.holds
    other = dataclasses.replace(flow, attention=dataclasses.replace(attention, beta=59.0))
    assert "merges follow" in refused(run, other)
    late = run.assign(merge_log_time=run.merge_log_time + np.linspace(0, 1, run.sizes["merge"]))
    assert "merges follow" in refused(late)
    assert "first state" in refused(with_tokens(run, run.tokens.values[::-1]))


def test_a_token_outside_its_cluster_is_refused():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(60.0))
    run = af.coalesce(flow, af.initial.circle(10, rng=0))
    tokens = run.tokens.values.copy()
    late = run.sizes["state"] - 3
    tokens[late, 0] = -tokens[late, 0]
    assert "as many places" in refused(with_tokens(run, tokens))


def test_a_displaced_token_that_is_its_own_cluster_is_refused():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(60.0))
    run = af.coalesce(flow, af.initial.circle(10, rng=0))
    states = run.tokens.values
    alone = [(k, i) for k in range(1, len(states) - 1) for i in range(10) if np.sum(states[k] == states[k, i]) == 2]
    for state, token in [alone[3], alone[len(alone) // 2], alone[-1]]:
        tokens = states.copy()
        x, y = tokens[state, token]
        tokens[state, token] = np.array([x - 0.01 * y, y + 0.01 * x]) / np.hypot(1, 0.01)
        assert "merges follow" in refused(with_tokens(run, tokens))


DAMAGE = {
    "text": lambda run: run.assign_attrs(flow=run.attrs["flow"][:-7]),
    "number": lambda run: run.assign_attrs(flow="3"),
    "unknown class": lambda run: run.assign_attrs(flow='{"is": "Flow"}'),
    "missing part": lambda run: run.assign_attrs(flow='{"is": "RescaledAttention"}'),
    "solver": lambda run: run.assign_attrs(solver="{}"),
    "precision": lambda run: run.assign_attrs(dtype="float17"),
    "times": lambda run: run.assign_attrs(requested_times="x"),
    "first tokens": lambda run: run.assign(initial_tokens=run.initial_tokens.rename(token="first")[:1]),
    "last tokens": lambda run: run.drop_vars("final_tokens"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_gets_verdicts_and_no_traceback(name):
    assert refused(DAMAGE[name](polytope_run()))


def test_tokens_that_are_all_missing_decide_nothing():
    run = polytope_run()
    verdicts = af.verify(with_tokens(run, np.nan * run.tokens.values))
    assert {one.verdict for one in verdicts} == {"not_applicable", "undecided"}


def displaced(run, time, token, by):
    """The run with one token at one saved time moved by `by` times its size, on the sphere where tokens are there."""
    tokens = run.tokens.values.copy()
    row = tokens[time, token] + by * np.abs(tokens[time]).max() * np.array([1.0, -1.0, 0.5])[: tokens.shape[-1]]
    tokens[time, token] = row / np.linalg.norm(row) if flow_of(run).is_on_sphere else row
    return with_tokens(run, tokens)


def many_times(kind):
    tokens = af.initial.sphere(12, 3, rng=1)
    if kind == "stream":
        flow = dataclasses.replace(CAUSAL, attention=af.Softmax(8.0))
        return af.stream(flow, tokens, np.r_[0, np.geomspace(0.1, 1e5, 60)])
    if kind == "layers":
        return af.simulate(CAUSAL, tokens, 0.1 * np.arange(81), solver=af.Layers(0.1))
    if kind == "lengths":
        flow = af.SphereAttention(af.Head.identity(3), normalisation=af.Pre())
        return af.simulate(flow, 2 * tokens, np.r_[0, np.geomspace(0.1, 1e3, 40)])
    if kind == "heads":
        flow = af.SphereAttention([af.Head.identity(3)] * 2, frozen=np.arange(12) == 3)
        return af.simulate(flow, tokens, np.linspace(0, 20, 61))
    return af.simulate(CAUSAL, tokens, np.r_[0, np.geomspace(0.1, 300, 60)])


@pytest.mark.parametrize("kind", ["causal", "stream", "layers", "lengths", "heads"])
def test_one_token_displaced_at_one_saved_time_is_found(kind):
    """By a hundredth, at times of which none is chosen for its doubt; the run itself follows its flow."""
    run = many_times(kind)
    assert agreement(flow_of(run), run).follows.holds
    for time, token in [(5, 7), (run.sizes["time"] // 2, 1), (run.sizes["time"] - 3, 4)]:
        assert not agreement(flow_of(run), displaced(run, time, token, 0.01)).follows.holds


def test_saved_tokens_of_a_stream_lie_on_its_recorded_paths():
    assert "recorded paths" in refused(displaced(many_times("stream"), 30, 2, 1e-6))


SADDLE = af.initial.on_circle(np.array([0.0, 2 * np.pi / 3, 4 * np.pi / 3]) + np.array([0.0, 1e-10, 0.0]))


def test_a_faithful_run_from_an_unstable_equilibrium_is_not_refused():
    """Three tokens at equal angles leave like e^{t/2}: between t = 0 and 80 rounding decides where they meet."""
    flow = af.SphereAttention(af.Head.identity(2))
    far = af.simulate(flow, SADDLE, [0.0, 80.0])
    assert agreement(flow, far).follows.holds
    # They could have met on the other side as well.
    tokens, last = far.tokens.values.copy(), -far.final_tokens
    tokens[-1] = last
    other = agreement(flow, with_tokens(far, tokens).assign(final_tokens=last))
    assert other.follows.holds
    assert "too far apart" in other.unsettled
    verdicts = af.verify(with_tokens(far, tokens).assign(final_tokens=last))
    assert {one.verdict for one in verdicts} <= {"not_applicable", "undecided"}


def test_a_run_through_an_unstable_stage_is_compared_at_its_other_times():
    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, SADDLE, np.r_[0.0, np.linspace(70, 100, 31)])
    found = agreement(flow, run)
    assert found.follows.holds
    assert not found.unsettled
    assert "follow the flow" in refused(displaced(run, 20, 1, 0.02))


def scenario_run(name):
    """A run of a scenario, its first where it has several, with eight tokens unless it lists them, and its own seed."""
    seed = 10 + list(CATALOGUE).index(name)
    try:
        setup = af.scenario(name, n=8, seed=seed)
    except ValueError:
        setup = af.scenario(name, seed=seed)
    tokens = setup.tokens.reshape(-1, *setup.tokens.shape[-2:])[0]
    return af.simulate(setup.flow, tokens, setup.times, solver=setup.solver, rng=setup.rng, progress=False)


def moved_at_random(run, rng):
    """The run with a random token at a random time moved by a hundredth of the largest coordinate."""
    tokens = run.tokens.values.copy()
    time, token = rng.integers(1, len(tokens) - 1), rng.integers(tokens.shape[1])
    direction = rng.normal(size=tokens.shape[2])
    if flow_of(run).is_on_sphere:
        direction -= direction @ tokens[time, token] * tokens[time, token]
    tokens[time, token] += 0.01 * np.abs(tokens[time]).max() * direction / np.linalg.norm(direction)
    if flow_of(run).is_on_sphere:
        tokens[time, token] /= np.linalg.norm(tokens[time, token])
    return with_tokens(run, tokens)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "noisy"])
def test_scenarios_follow_their_flow_and_displaced_tokens_are_found(name):
    run, rng = scenario_run(name), np.random.default_rng(1)
    found = agreement(flow_of(run), run)
    assert found.follows.holds
    assert not found.unsettled
    for _ in range(3):
        assert not agreement(flow_of(run), moved_at_random(run, rng)).follows.holds


@pytest.mark.parametrize("name", ["codim2", "polytope"])
def test_the_comparison_takes_about_the_steps_of_the_run(name, monkeypatch):
    """In `codim2` rounding decides from t = 16 on, so that many intervals differ when they are integrated again."""
    run, calls = scenario_run(name), []

    def counted(*arguments):
        cursors, *others = real(*arguments)
        calls.append(int(cursors.accepted[0] + cursors.rejected[0]))
        return cursors, *others

    real = interval_integration.advance
    monkeypatch.setattr(interval_integration, "advance", counted)
    assert agreement(flow_of(run), run).follows.holds
    attempts = int(run.steps + run.rejected_steps)
    assert run.sizes["time"] / 2 < sum(calls) < 2 * attempts + 1000


def test_a_displaced_token_is_found_beside_a_longer_interval():
    """The first interval is four times as long as all others together, and its tokens are right."""
    run = af.simulate(POLYTOPE, af.initial.box(8, 2, rng=0), np.r_[0.0, np.linspace(4.0, 5.0, 11)], progress=False)
    tokens = run.tokens.values.copy()
    tokens[6, 1] += 1e-4
    assert "between saved times" in refused(with_tokens(run, tokens))


@dataclasses.dataclass(frozen=True)
class GivenDifferences:
    """Intervals with given differences in the first pass, and given shares at the second look."""

    found: np.ndarray
    shares: list[float]
    attempts: int = 100

    @property
    def path(self):
        return recorded_equation.Path(np.arange(len(self.found) + 1.0), np.zeros((len(self.found) + 1, 1, 1)))

    def differences(self, level, reached):
        return self.found

    def outcome(self, index, level):
        return recorded_equation._Outcome(self.shares[index], attempts=1)


@pytest.mark.parametrize(
    ("shares", "holds"), [([0.5, 0.5, 0.5, 3.0], False), ([0.5, np.inf, 3.0, 0.5], False), ([0.9, 0.5, 0.2, 0.5], True)]
)
def test_intervals_that_differ_are_looked_at_until_one_decides(shares, holds):
    """An interval that turns out to agree does not end the search."""
    given = GivenDifferences(np.array([9.0, 8.0, 7.0, 6.0, 0.1]), [*shares, 0.1])
    found = recorded_equation._compared(given, None, None, np.empty(0))  # type: ignore[arg-type]
    assert found.follows.holds is holds


def test_a_streamed_run_is_integrated_again_by_stream():
    flow = af.SphereAttention(af.Head.identity(2), mask=af.masks.causal)
    run = af.stream(flow, af.initial.circle(4, rng=0), [0.0, 1.0, 2.0], tolerance=1e-7, progress=False)
    again = interval_integration.recorded(flow, run)

    assert (again.rtol, again.atol) == (1e-7, 1e-7)
    reached = again.integrate(run.tokens.values[0], run.time.values)
    np.testing.assert_allclose(reached.states, run.tokens.values[1:], atol=1e-12)
    assert reached.attempts == interval_integration.attempts_of(run)
