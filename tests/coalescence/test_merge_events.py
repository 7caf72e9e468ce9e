"""Who joins whom, when, at the centre of those who have met before; and who is nearest to whom."""

import numpy as np
import pytest

import attnflow as af
from attnflow.coalescence.cluster_state import HeavyTokens
from attnflow.coalescence.merge_events import joinings

MERGE = 1e-6


def on_a_line(offsets):
    """Tokens of the sphere near one point, so many merging distances beside it."""
    return np.stack([np.array([1.0, offset * MERGE, 0.0]) for offset in offsets])


def shrunk(places, step):
    """After some time in which all gaps shrink alike, as near each other they do."""
    return np.stack([places[:, 0], *(places[:, 1:].T * np.exp(-step))], axis=1)


def test_the_moment_of_a_meeting_lies_within_a_step():
    """A gap that shrinks by e^-2 in a step, from twice the merging distance, passes it after log(2) / 2 of the step."""
    before = np.concatenate([on_a_line([0.0, 2.0]), on_a_line([0.0, 1.1])[:, [1, 2, 0]]])
    after = before.copy()
    after[1, 1], after[3, 0] = 2 * MERGE * np.exp(-2), 1.1 * MERGE * np.exp(-2)
    found = joinings(before, HeavyTokens.alone(after), MERGE)
    assert [(one, other) for _, one, other in found] == [(2, 3), (0, 1)]
    np.testing.assert_allclose([one.share for one in found], [np.log(1.1) / 2, np.log(2) / 2], rtol=1e-9)


@pytest.mark.parametrize("step", [1.2, 2.0, 3.0])
def test_three_meet_one_after_the_other_wherever_the_step_ends(step):
    """Tokens at 0, 1.5 and 3.2: two meet at log 1.5, the third is then 3.2 - 0.75 of their centre away."""
    before = on_a_line([0.0, 1.5, 3.2])
    found = joinings(before, HeavyTokens.alone(shrunk(before, step)), MERGE)
    assert [(one, other) for _, one, other in found] == [(0, 1), (0, 2)]
    np.testing.assert_allclose([step * one.share for one in found], [np.log(1.5), np.log(2.45)], rtol=1e-5)


def test_a_heavy_centre_is_where_its_mass_is():
    """With masses 1, 3 the first two meet at 1.125 of 1.5: the third, at 3.2, is 2.075 away."""
    before = on_a_line([0.0, 1.5, 3.2])
    found = joinings(before, HeavyTokens.alone(shrunk(before, 2.0), [1.0, 3.0, 1.0]), MERGE)
    assert 2 * found[1].share == pytest.approx(np.log(2.075), rel=1e-5)


def test_a_centre_may_be_nearer_than_any_of_those_who_have_met_there():
    """Three corners of a flat triangle: as its long side has met, the tip is next to the centre."""
    after = np.array([[1.0, -0.5, 0.0], [1.0, 0.5, 0.0], [1.0, 0.0, 0.95]]) * [1.0, 0.999 * MERGE, 0.999 * MERGE]
    assert np.linalg.norm(after[0] - after[2]) > MERGE
    found = joinings(2 * after - [1.0, 0.0, 0.0], HeavyTokens.alone(after), MERGE)
    assert [(one, other) for _, one, other in found] == [(0, 1), (0, 2)]
    assert found[0].share == found[1].share


def test_nobody_joins_who_stays_beyond_the_merging_distance():
    places = on_a_line([0.0, 1.2, 2.4])
    assert joinings(2 * places, HeavyTokens.alone(places), MERGE) == []


def test_two_clusters_that_meet_in_the_step_they_formed_in_have_their_whole_masses():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0))
    found = af.coalesce(flow, af.initial.sphere(12, 3, rng=0), progress=False)  # all fall at once
    gained = 2 * found.mass_of_first * found.mass_of_second / 12**2
    np.testing.assert_allclose(found.level_after, 1 / 12 + np.cumsum(gained), atol=1e-12)
    assert float(found.level_after[-1]) == pytest.approx(1.0)
    assert float(found.mass_of_second.max()) > 1


def test_who_is_nearest_below_the_digits_of_cosines():
    angles = np.array([0.0, 3e-9, 9e-9, 1.0, 1.0 + 2e-9, 2.0])
    gaps, nearest = HeavyTokens.alone(af.initial.on_circle(angles)).gaps
    np.testing.assert_array_equal(nearest, [1, 0, 1, 4, 3, 4])
    np.testing.assert_allclose(gaps[:5], [3e-9, 3e-9, 6e-9, 2e-9, 2e-9], rtol=1e-6)


def test_joined_tokens_know_who_is_nearest():
    heavy = HeavyTokens.alone(af.initial.sphere(40, 4, rng=0))
    one, other = sorted((0, int(heavy.gaps[1][0])))
    joined = heavy.joined([(one, other)])
    assert "gaps" in vars(joined)
    fresh = HeavyTokens(joined.places, joined.masses, joined.members)
    moved = heavy.gaps[0][one]  # the centre may be farther from others than the two were
    np.testing.assert_allclose(joined.gaps[0], fresh.gaps[0], atol=moved)
    near = heavy.joined([])
    np.testing.assert_array_equal(near.gaps[1], heavy.gaps[1])
