"""Weighted clusters: nearest neighbours, before and after merges."""

import numpy as np

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
