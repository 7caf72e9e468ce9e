"""Merge events within a step: order, times, and centres of mass."""

import numpy as np
import pytest

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.merge_events import merge_events

MERGE = 1e-6


def on_a_line(offsets):
    """Tokens of the sphere near one point, so many merging distances beside it."""
    return np.stack([np.array([1.0, offset * MERGE, 0.0]) for offset in offsets])


def shrunk(positions, step):
    """Positions after all gaps have shrunk by e^-step, as small gaps do."""
    return np.stack([positions[:, 0], *(positions[:, 1:].T * np.exp(-step))], axis=1)


def test_the_time_of_a_merge_lies_within_a_step():
    """A gap that shrinks by e^-2 in a step, from twice the merging distance, passes it after log(2) / 2 of the step."""
    before = np.concatenate([on_a_line([0.0, 2.0]), on_a_line([0.0, 1.1])[:, [1, 2, 0]]])
    after = before.copy()
    after[1, 1], after[3, 0] = 2 * MERGE * np.exp(-2), 1.1 * MERGE * np.exp(-2)
    found = merge_events(before, Clusters.singletons(after), MERGE)
    assert [(event.first, event.second) for event in found] == [(2, 3), (0, 1)]
    np.testing.assert_allclose([event.share for event in found], [np.log(1.1) / 2, np.log(2) / 2], rtol=1e-9)


@pytest.mark.parametrize("step", [1.2, 2.0, 3.0])
def test_three_merge_one_after_the_other_wherever_the_step_ends(step):
    """Tokens at 0, 1.5 and 3.2: two merge at log 1.5, the third is then 3.2 - 0.75 of their centre away."""
    before = on_a_line([0.0, 1.5, 3.2])
    found = merge_events(before, Clusters.singletons(shrunk(before, step)), MERGE)
    assert [(event.first, event.second) for event in found] == [(0, 1), (0, 2)]
    np.testing.assert_allclose([step * event.share for event in found], [np.log(1.5), np.log(2.45)], rtol=1e-5)


def test_a_heavy_centre_is_where_its_mass_is():
    """With masses 1, 3 the first two merge at 1.125 of 1.5: the third, at 3.2, is 2.075 away."""
    before = on_a_line([0.0, 1.5, 3.2])
    found = merge_events(before, Clusters.singletons(shrunk(before, 2.0), [1.0, 3.0, 1.0]), MERGE)
    assert 2 * found[1].share == pytest.approx(np.log(2.075), rel=1e-5)


def test_a_centre_may_be_nearer_than_any_of_its_parts():
    """Three corners of a flat triangle: as its long side has merged, the tip is next to the centre."""
    after = np.array([[1.0, -0.5, 0.0], [1.0, 0.5, 0.0], [1.0, 0.0, 0.95]]) * [1.0, 0.999 * MERGE, 0.999 * MERGE]
    assert np.linalg.norm(after[0] - after[2]) > MERGE
    found = merge_events(2 * after - [1.0, 0.0, 0.0], Clusters.singletons(after), MERGE)
    assert [(event.first, event.second) for event in found] == [(0, 1), (0, 2)]
    assert found[0].share == found[1].share


def test_clusters_beyond_the_merging_distance_do_not_merge():
    positions = on_a_line([0.0, 1.2, 2.4])
    assert merge_events(2 * positions, Clusters.singletons(positions), MERGE) == []


def test_clusters_that_merge_in_the_step_they_formed_in_have_their_whole_masses():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0))
    found = af.coalesce(flow, af.initial.sphere(12, 3, rng=0), progress=False)  # all merge within few steps
    gained = 2 * found.mass_of_first * found.mass_of_second / 12**2
    np.testing.assert_allclose(found.level_after, 1 / 12 + np.cumsum(gained), atol=1e-12)
    assert float(found.level_after[-1]) == pytest.approx(1.0)
    assert float(found.mass_of_second.max()) > 1
