"""Weighted clusters: nearest neighbours, before and after merges."""

import numpy as np
import pytest

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters


def test_nearest_neighbours_below_the_resolution_of_cosines():
    angles = np.array([0.0, 3e-9, 9e-9, 1.0, 1.0 + 2e-9, 2.0])
    gaps, nearest = Clusters.singletons(af.initial.on_circle(angles)).nearest
    np.testing.assert_array_equal(nearest, [1, 0, 1, 4, 3, 4])
    np.testing.assert_allclose(gaps[:5], [3e-9, 3e-9, 6e-9, 2e-9, 2e-9], rtol=1e-6)


def test_nearest_neighbours_are_carried_over_a_merge():
    clusters = Clusters.singletons(af.initial.sphere(40, 4, rng=0))
    first, second = sorted((0, int(clusters.nearest.indices[0])))
    merged = clusters.merge([(first, second)])
    assert merged.known_nearest is not None
    searched = Clusters(merged.positions, merged.masses, merged.members)
    assert searched.known_nearest is None
    moved = clusters.nearest.distances[first]  # the centre may be farther from others than its parts were
    np.testing.assert_allclose(merged.nearest.distances, searched.nearest.distances, atol=moved)
    np.testing.assert_array_equal(clusters.merge([]).nearest.indices, clusters.nearest.indices)


def test_clusters_that_move_lose_their_carried_neighbours():
    clusters = Clusters.singletons(af.initial.sphere(9, 3, rng=1)).merge([(0, 1)])
    moved = clusters.moved_to(2 * clusters.positions[::-1])
    np.testing.assert_allclose(np.linalg.norm(moved.positions, axis=1), 1.0, rtol=1e-15)
    assert clusters.known_nearest is not None
    assert moved.known_nearest is None
    searched = Clusters.singletons(moved.positions)
    np.testing.assert_array_equal(moved.nearest.indices, searched.nearest.indices)


@pytest.mark.parametrize("distance", [0.3, 1.0])
def test_rows_within_a_distance_and_no_others_are_near(distance):
    """Chords of 0.99 and 1.01 distances from the row 0, in both directions, and the row 3 with a neighbour of its own."""
    chord = lambda length: 2 * np.arcsin(length / 2)
    angles = [
        0.0,
        chord(0.99 * distance),
        -chord(0.99 * distance),
        2.5,
        chord(1.01 * distance),
        -chord(1.01 * distance),
        2.6,
    ]
    clusters = Clusters.singletons(af.initial.on_circle(np.array(angles)))

    np.testing.assert_array_equal(clusters.rows_near(np.array([0]), distance), [0, 1, 2])
    np.testing.assert_array_equal(clusters.rows_near(np.array([0, 3]), distance), [0, 1, 2, 3, 6])


def test_carried_distances_are_those_to_the_carried_neighbours():
    clusters = Clusters.singletons(af.initial.sphere(20, 3, rng=2))
    first, second = sorted((0, int(clusters.nearest.indices[0])))

    merged = clusters.merge([(first, second)])

    assert merged.known_nearest is not None
    distances, indices = merged.known_nearest
    assert distances.shape == indices.shape == (19,)
    np.testing.assert_allclose(distances, np.linalg.norm(merged.positions - merged.positions[indices], axis=1))
