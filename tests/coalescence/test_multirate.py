"""Runs with subcycling against runs without, and what each error term is worth."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.helpers.coalescing import THREE_KINDS_BETA, flow, largest_error, merge_tree, plain_velocity, three_kinds

import attnflow as af
from attnflow.coalescence import fast_prediction, integrator, macro_step, multirate, relaxation
from attnflow.coalescence.pair_quadrature import pair_merge
from attnflow.coalescence.step_problem import Partition, SlowPaths
from attnflow.coalescence.subcycling import Subcycle, SubcyclingFailedError
from attnflow.coalescence.time_change import TimeChange
from attnflow.model.native import library

pytestmark = pytest.mark.skipif(not library.is_built(), reason="subcycling needs the native kernel")

MULTIRATE = "attnflow.coalescence.multirate."


def sorted_by_names(run):
    return run.isel(merge=np.lexsort((run["second"], run["first"])))


@pytest.mark.parametrize(("n", "d"), [(40, 2), (40, 3), (60, 10)])
def test_a_run_with_subcycling_is_the_run_without(n, d):
    tokens = af.initial.sphere(n, d, rng=3)
    quick = af.coalesce(flow(60.0, d), tokens, progress=False)
    exact = af.coalesce(flow(60.0, d), tokens, shortcuts=False, rtol=1e-7, progress=False)
    assert int(exact.subcycled_steps) == 0 < int(quick.subcycled_steps)
    assert int(quick.steps) < int(exact.steps) / 3
    quick, exact = sorted_by_names(quick), sorted_by_names(exact)  # distant pairs may merge at one time
    np.testing.assert_array_equal(quick["first"], exact["first"])
    np.testing.assert_array_equal(quick["second"], exact["second"])
    log_times = exact.merge_log_time.values
    errors = np.abs(quick.merge_log_time.values - log_times)[~of_three(exact)]
    # As the docstring of `coalesce` says: every merge so far adds beta (rtol + merge); positions of 0.01 rtol, early.
    allowed = 60.0 * 2e-6 * (np.argsort(np.argsort(log_times)) + 1) + 0.01 * np.exp(-log_times)
    assert len(errors) > n / 3
    assert np.all(errors <= allowed[~of_three(exact)])


def of_three(run):
    """Whether a merged cluster merges with a third within a unit of time: rtol decides which merge is first."""
    names = np.stack([run["first"], run["second"]])
    shares = (names[:, None, :, None] == names[None, :, None, :]).any(axis=(0, 1))
    close = np.abs(np.subtract.outer(*2 * [np.exp(np.minimum(run.merge_log_time.values, 50))])) < 1
    return (shares & close & ~np.eye(names.shape[1], dtype=bool)).any(axis=1)


@pytest.fixture
def of_largest_coordinate():
    """Skips starts found for the present norm; for another one `test_step_errors` pins and judges the norm."""
    if macro_step.error_norm(np.array([[3.0, 4.0]]))[0] != 4.0:
        pytest.skip("the start shows what the term is worth if the norm is the largest coordinate")


def test_without_the_quadrature_defect_merge_times_are_worse(of_largest_coordinate, monkeypatch):
    """Stages and embedded errors do not show when a force changed: without the defect, times are worse fivefold."""
    tokens = af.initial.sphere(16, 3, rng=8)
    exact = af.coalesce(flow(60.0, 3), tokens, shortcuts=False, rtol=1e-9, progress=False).merge_log_time
    accurate = af.coalesce(flow(60.0, 3), tokens, progress=False).merge_log_time
    monkeypatch.setattr(MULTIRATE + "quadrature_defect", lambda *arguments: np.zeros(len(arguments[-2])))
    without = af.coalesce(flow(60.0, 3), tokens, progress=False).merge_log_time
    assert np.abs(accurate - exact).max() < 1e-4
    assert np.abs(without - exact).max() > 3e-4


def test_without_the_growth_defect_a_vanishing_estimate_is_accepted(of_largest_coordinate, monkeypatch):
    """Speed grows 30-fold in a step: its error of 8e-4 is estimated as 8e-7, where the estimate changes its sign."""
    tokens = af.initial.sphere(5, 5, rng=69)
    model = af.SphereAttention(af.Head.identity(5), af.Unnormalised(34.91552465169477, offset=1.0))
    exact = af.coalesce(model, tokens, shortcuts=False, rtol=1e-9, progress=False).merge_log_time
    accurate = af.coalesce(model, tokens, progress=False).merge_log_time
    monkeypatch.setattr(MULTIRATE + "growth_defect", lambda *arguments: 0.0)
    without = af.coalesce(model, tokens, progress=False).merge_log_time
    assert abs(accurate - exact)[1] < 1e-4
    assert abs(without - exact)[1] > 1e-3


@pytest.fixture(scope="module")
def sixteen():
    """Sixteen tokens on S^2, and the merges of a run with one step size and a hundredth of the tolerance."""
    tokens = af.initial.sphere(16, 3, rng=2)
    return tokens, exact_tree(tokens)


def exact_tree(tokens):
    return merge_tree(af.coalesce(flow(60.0, tokens.shape[1]), tokens, shortcuts=False, rtol=1e-8, progress=False))


def error_of(tokens, exact):
    """Largest error of a merge time over the stated one."""
    run = af.coalesce(flow(60.0, tokens.shape[1]), tokens, max_steps=3000, progress=False)
    return largest_error(merge_tree(run), exact, 60.0)


def without_errors_of(is_staged):
    """The macro step without the errors of staged or of trapezoidal tokens."""
    step = multirate.dormand_prince

    def incomplete(*arguments):
        result, staged = step(*arguments), arguments[-2]
        return result._replace(errors=np.where(staged == is_staged, 0.0, result.errors))

    return incomplete


def largest_scale(result, scales):
    """A wrong norm: all tokens have the tolerance of the token with the widest gap."""
    return result.errors / scales.max()


def mean_error(result, scales):
    """A wrong norm: the mean over tokens."""
    return np.full_like(scales, np.mean(result.errors / scales))


WRONG = {
    "no embedded estimate": ("dormand_prince", lambda: without_errors_of(True)),
    "no trapezoidal estimate": ("dormand_prince", lambda: without_errors_of(False)),
    "one tolerance for all tokens": ("relative_errors", lambda: largest_scale),
    "mean over tokens": ("relative_errors", lambda: mean_error),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # of steps that are far too long
def test_without_an_estimate_or_with_a_wrong_norm_merge_times_are_wrong(name, sixteen, monkeypatch):
    assert error_of(*sixteen) < 0.5
    term, wrong = WRONG[name]
    monkeypatch.setattr(MULTIRATE + term, wrong())
    assert error_of(*sixteen) > 2  # the stated error is 1


def test_without_the_coupling_error_merge_times_are_worse(monkeypatch):
    """Fast tokens were integrated along paths that the slow ones did not take."""
    tokens = af.initial.sphere(24, 2, rng=2)
    exact = exact_tree(tokens)
    accurate, errors = error_of(tokens, exact), relaxation.coupling_errors
    monkeypatch.setattr(relaxation, "coupling_errors", lambda *arguments: np.zeros_like(errors(*arguments)))
    assert accurate < 0.1
    assert error_of(tokens, exact) > 5 * accurate


def accepted_step(problem, partition, step, scales):
    """The first accepted step, with the masks of its staged and trapezoidal tokens."""
    slow_limits = np.sqrt(scales / problem.field.beta) / 3
    carry, promoted = multirate.Carry(partition, SlowPaths.predicted(problem)), np.zeros(len(scales), bool)
    for _ in range(10):
        staged = multirate._staged(problem, carry.partition, step, slow_limits, promoted)
        found = multirate.attempt(problem, carry, step, slow_limits, promoted, scales)
        if found.is_accepted:
            return found, staged, carry.partition.slow & ~staged
        carry, step, promoted = found.carry, found.next_step, promoted | found.misclassified
    raise AssertionError("No step was accepted.")


# Limits of the largest true error over the largest estimate of each kind of token. The ratios found are 0.48, 1.0, 7.0
# and 2.6 of staged tokens, whose errors include those of the other kinds; 0.05, 0.06, 0.08 and 0.02 of trapezoidal
# tokens, whose estimate is that of an order below; 3.6, 1.5, 1.5 and 2.1 of fast tokens.
ERROR_OVER_ESTIMATE = {"staged": (0.2, 15.0), "trapezoidal": (0.005, 0.25), "fast": (0.5, 8.0)}


@pytest.mark.parametrize(("seed", "first_step"), [(3, 0.2), (7, 0.2), (11, 0.2), (18, 0.1)])
def test_errors_of_one_step_are_those_that_its_estimates_say(seed, first_step):
    """The accepted step against SciPy's integration of the plain equations over the same time.

    In these steps no estimate is negligible, and no token merges.
    """
    problem, partition = three_kinds(seed)
    start, scales = problem.clusters.positions, np.full(16, 1e-4)
    found, staged, trapezoidal = accepted_step(problem, partition, first_step, scales)
    duration, masses = np.exp(found.log_duration), np.ones(16)
    slope = lambda _, flat: plain_velocity(flat.reshape(start.shape), THREE_KINDS_BETA, masses, True).ravel()
    exact = solve_ivp(slope, (0.0, duration), start.ravel(), "DOP853", rtol=1e-13, atol=1e-15).y[:, -1]
    errors = np.abs(found.result.positions - exact.reshape(start.shape)).max(axis=1)
    estimates = np.where(found.carry.partition.slow, found.result.errors, scales * found.coupling_error)
    kinds = {"staged": staged, "trapezoidal": trapezoidal, "fast": ~found.carry.partition.slow}
    for kind, (least, most) in ERROR_OVER_ESTIMATE.items():
        error, estimate = errors[kinds[kind]].max(), estimates[kinds[kind]].max()
        assert least * estimate < error < most * estimate, f"{kind} tokens: error {error:.3g}, estimate {estimate:.3g}"
    assert np.all(errors < scales)


def test_a_step_whose_subcycling_fails_is_done_without_it(monkeypatch):
    tokens = af.initial.sphere(20, 3, rng=1)
    monkeypatch.setattr("attnflow.coalescence.subcycling.MAX_STEPS", 1)
    failed = af.coalesce(flow(60.0, 3), tokens, progress=False)
    monkeypatch.setattr("attnflow.coalescence.integrator.is_available", lambda field: False)
    without = af.coalesce(flow(60.0, 3), tokens, progress=False)
    assert int(failed.subcycled_steps) == 0
    np.testing.assert_array_equal(failed.merge_log_time, without.merge_log_time)


def test_two_groups_that_merge_at_one_time_are_refused(monkeypatch):
    """Two groups of two, each of which is said to merge at the end of every step that is asked for."""
    groups = (np.array([0, 1]), np.array([2, 3]))
    merging = lambda *given: Subcycle(given[4], np.zeros((1, 2, 2)), np.zeros((2, 2)), merge_time=1.0, pair=given[4])
    monkeypatch.setattr(fast_prediction, "subcycled", merging)
    problem = SimpleNamespace(time_change=TimeChange(), clusters=SimpleNamespace(positions=np.zeros((5, 2))))
    alone = Partition(groups[:1], np.arange(5) > 1)
    assert fast_prediction.predict(problem, alone, None, 0.5).subcycle.pair.tolist() == [0, 1]
    with pytest.raises(SubcyclingFailedError, match="at one time"):
        fast_prediction.predict(problem, Partition(groups, np.arange(5) > 3), None, 0.5)


def test_quadratures_are_tried_only_where_the_other_tokens_rest(monkeypatch):
    """About one is tried for each merge, and not one at every step."""
    tried = []
    monkeypatch.setattr(integrator, "pair_merge", lambda *given: tried.append(given) or pair_merge(*given))
    run = af.coalesce(flow(20.0, 3), af.initial.sphere(20, 3, rng=1), progress=False)
    assert 0 < int(run.quadrature_merges) <= len(tried) <= run.sizes["merge"] < int(run.steps) / 5
