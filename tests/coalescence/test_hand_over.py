"""`coalesce` from the last tokens of a run of `simulate`: clusters with masses, and the merges of all tokens."""

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, flow

import attnflow as af
from attnflow._common.checks import InputError

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


def test_tokens_that_have_not_gathered_are_refused():
    early = af.simulate(flow(BETA), CIRCLE(ANGLES), [0.0, 0.01], progress=False)

    with pytest.raises(InputError, match="later time"):
        af.coalesce(early, gather=0.2)
    with pytest.raises(InputError, match="a run and tokens are given"):
        af.coalesce(early, CIRCLE(ANGLES))


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
