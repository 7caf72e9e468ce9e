"""`coalesce` from the last tokens of a run of `simulate`: clusters with masses, and the merges of all tokens."""

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, flow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.analyse import clusters
from attnflow.coalescence import hand_over

BETA = 40.0
ANGLES = np.concatenate([centre + 0.05 * np.arange(5) for centre in (0.0, 1.1, 2.7)])


@pytest.fixture(scope="module")
def run():
    return af.simulate(flow(BETA), CIRCLE(ANGLES), [0.0, 30.0], keep_tokens=False, progress=False)


@pytest.fixture(scope="module")
def long(run):
    return af.coalesce(run, progress=False)


def test_leaves_are_the_clusters_of_the_run(long):
    np.testing.assert_array_equal(long.leaf, np.repeat([0, 1, 2], 5))
    np.testing.assert_allclose(af.flow_of(long).masses, [5.0, 5.0, 5.0])
    assert float(long.leaf_radius) < 1e-6
    assert long.clusters.values[0] == 3
    assert long.clusters.values[-1] == 1
    assert float(long.log_time[0]) == pytest.approx(np.log(30.0))


def test_merges_are_those_of_all_tokens(run, long):
    """The last two merges of a run from the first tokens, within the stated errors of both: k beta (rtol + merge)."""
    whole = af.coalesce(flow(BETA), CIRCLE(ANGLES), progress=False)

    allowed = 20 * BETA * 2e-6
    np.testing.assert_allclose(long.merge_log_time, whole.merge_log_time[-2:], atol=allowed)


def test_a_run_is_repeated_from_its_record(long):
    again = af.rerun(long, progress=False)

    np.testing.assert_array_equal(again.merge_log_time, long.merge_log_time)


def test_tokens_that_have_not_gathered_are_refused(monkeypatch):
    early = af.simulate(flow(BETA), CIRCLE(ANGLES), [0.0, 0.01], progress=False)
    monkeypatch.setattr(hand_over, "MOST_LEAVES", 10)

    with pytest.raises(InputError, match=r"15 of them\. Simulate to a later time"):
        af.coalesce(early, gather=0.2)
    with pytest.raises(InputError, match="a run and tokens are given"):
        af.coalesce(early, CIRCLE(ANGLES))


@pytest.fixture(scope="module")
def chain():
    """Two clusters with tokens all the way between them, at two times: a single chain, far too wide for one centre."""
    angles = np.concatenate([np.linspace(0, 3e-4, 60), np.linspace(3e-4, 0.9, 1200), np.linspace(0.9, 0.9003, 60)])
    return af.simulate(flow(BETA), CIRCLE(angles), [0.0, 1e-3], progress=False)


def test_a_chain_between_clusters_is_divided(chain):
    """The leaves are narrow, and their masses are the numbers of their tokens."""
    start = hand_over.HandOver.of(chain, None)

    assert np.all(clusters.labels(chain.final_tokens.values, 1e-3) == 0)  # one chain
    assert 100 < len(start.positions) < 500
    assert start.change <= hand_over.LARGEST_CHANGE
    assert np.bincount(start.leaves).max() > 60
    np.testing.assert_array_equal(np.bincount(start.leaves), start.flow.masses)


def test_the_change_of_velocities_is_within_its_bound(chain, monkeypatch):
    """Control: groups that are far wider change velocities over ten times as much."""

    def largest_change(run):
        start = hand_over.HandOver.of(run, None)
        all_tokens = af.velocity(flow(BETA), run.final_tokens.values)
        groups = af.velocity(start.flow, start.positions)
        masses = np.bincount(start.leaves)[:, None]
        means = np.stack([np.bincount(start.leaves, column) for column in all_tokens.T], axis=1) / masses
        return np.linalg.norm(means - groups, axis=1).max(), start.change

    found, bound = largest_change(chain)
    assert found < bound <= 0.01
    monkeypatch.setattr(hand_over, "_largest_radius", lambda flow: 0.2)
    wide, _ = largest_change(chain)
    assert wide > 10 * found


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((flow(BETA),), {}, "a flow and tokens, or a run"),
        ((flow(BETA), CIRCLE(ANGLES)), {"gather": 0.1}, "Leave it out"),
    ],
)
def test_other_arguments_are_refused(arguments, options, sentence):
    with pytest.raises(InputError, match=sentence):
        af.coalesce(*arguments, **options)


def test_an_ensemble_is_refused():
    runs = af.simulate(flow(BETA), np.stack([CIRCLE(ANGLES)] * 2), [0.0, 1.0], progress=False)

    with pytest.raises(InputError, match="isel"):
        af.coalesce(runs)


def test_a_run_that_failed_is_refused(run):
    with pytest.raises(InputError, match="did not fail"):
        af.coalesce(run.assign(failed=True))


@pytest.mark.parametrize("beta", [1e-3, 1.0, 100.0, 1e7])
def test_the_largest_radius_meets_the_bound(beta):
    radius = hand_over._largest_radius(flow(beta))

    change = hand_over._change(flow(beta), radius)
    assert change == pytest.approx(hand_over.LARGEST_CHANGE, rel=1e-3) or (radius == 1 and change < 0.01)
