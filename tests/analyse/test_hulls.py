"""Convex hulls of points, against brute force, closed forms and SciPy's own hull."""

import itertools

import numpy as np
import pytest
from scipy.spatial import ConvexHull, QhullError
from tests.helpers.polytopes import SQUARE, brute_distance, cloud, in_a_random_subspace

from attnflow._common.checks import InputError
from attnflow.analyse import hulls


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_vertices_are_those_of_every_direction(d):
    """A vertex is the strict best of some direction; sampled directions find no other, and Qhull finds the same."""
    points = cloud(25, d)
    found = hulls.vertices(points)

    best = np.unique(np.argmax(points @ cloud(d, 4000, 9), axis=0))
    assert set(best) <= set(found)
    expected = [points.argmin(), points.argmax()] if d == 1 else ConvexHull(points).vertices
    np.testing.assert_array_equal(found, np.sort(np.ravel(expected)))


def test_linear_programmes_find_the_vertices_that_qhull_finds():
    points = cloud(30, 3)
    np.testing.assert_array_equal(hulls._vertices_by_programmes(points), np.sort(ConvexHull(points).vertices))


def test_in_high_dimension_convex_combinations_are_not_vertices():
    corners = cloud(20, 12)
    weights = np.random.default_rng(3).dirichlet(np.ones(20), size=4)
    points = np.concatenate([weights @ corners, corners])

    np.testing.assert_array_equal(hulls.vertices(points), np.arange(4, 24))


@pytest.mark.parametrize("d", [2, 3, 8])
def test_flat_sets_have_the_vertices_of_their_span(d):
    flat = cloud(15, 2)
    np.testing.assert_array_equal(hulls.vertices(in_a_random_subspace(flat, d)), np.sort(ConvexHull(flat).vertices))


def test_degenerate_sets():
    assert hulls.vertices([[1.0, 2.0]]).tolist() == [0]
    assert hulls.vertices(np.ones((5, 3))).tolist() == [0]
    assert hulls.vertices([[0.0, 0.0], [1.0, 1.0]]).tolist() == [0, 1]
    on_a_line = np.outer([0.3, -1.0, 2.0, 0.0], [1.0, 2.0, -1.0]) + 5
    assert hulls.vertices(on_a_line).tolist() == [1, 2]
    duplicates = np.concatenate([SQUARE, SQUARE, [[0.0, 0.0]]])
    assert hulls.vertices(duplicates).tolist() == [0, 1, 2, 3]
    assert hulls.vertices(np.full((4, 2), 1e-300)).tolist() == [0]


def test_a_thin_set_keeps_its_vertices():
    """A million times longer than wide is still a rectangle."""
    assert hulls.vertices(np.concatenate([SQUARE, [[0.0, 0.0]]]) * [1.0, 1e-6]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("d", [1, 2, 4])
def test_distance_to_hull_is_that_of_an_optimiser(d):
    points, tokens = cloud(8, d), 2 * cloud(12, d, 5)
    expected = [brute_distance(points, token) for token in tokens]
    np.testing.assert_allclose(hulls.distance_to_hull(points, tokens), expected, atol=2e-6)


def test_distance_to_the_square_is_exact():
    tokens = np.array([[0.2, 0.3], [3.0, 0.0], [4.0, 5.0], [1.0, 1.0], [1 + 1e-9, 0.0]])
    np.testing.assert_allclose(hulls.distance_to_hull(SQUARE, tokens), [0, 2, 5, 0, 1e-9], atol=1e-15)
    assert hulls.distance_to_hull(SQUARE, np.array([0.0, 2.0])) == pytest.approx(1.0, abs=1e-14)
    assert hulls.distance_to_hull([[1.0, 2.0]], np.array([4.0, 6.0])) == pytest.approx(5.0, abs=1e-14)


@pytest.mark.parametrize("d", [2, 20])
def test_contains_agrees_with_the_distance(d):
    points = cloud(2 * d + 2, d)
    inside = np.random.default_rng(0).dirichlet(np.ones(len(points)), size=5) @ points
    outside = points.mean(axis=0) + 5 * (points[:5] - points.mean(axis=0))
    tokens = np.concatenate([inside, outside])

    found = hulls.contains(points, tokens)

    assert found.tolist() == [True] * 5 + [False] * 5
    np.testing.assert_array_equal(found, hulls.distance_to_hull(points, tokens) < 1e-9)


def test_contains_has_a_tolerance():
    just_outside = np.array([1 + 1e-5, 0.0])
    assert not hulls.contains(SQUARE, just_outside)
    assert hulls.contains(SQUARE, just_outside, tolerance=1e-4)
    assert hulls.contains([[2.0, 3.0]], np.array([2.0, 3.0]))
    assert not hulls.contains([[2.0, 3.0]], np.array([2.0, 3.1]))


def test_distance_to_the_boundary():
    tokens = np.array([[0.0, 0.0], [0.9, 0.2], [1.0, 0.5], [3.0, 0.0]])
    np.testing.assert_allclose(hulls.distance_to_boundary(SQUARE, tokens), [1, 0.1, 0, 2], atol=1e-14)
    segment = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(hulls.distance_to_boundary(segment, [[0.5, 0.5], [1.0, 0.0]]), [0, 0.5**0.5], atol=1e-14)
    np.testing.assert_allclose(hulls.distance_to_boundary([[0.0], [4.0]], [[1.0], [5.0]]), [1, 1])


def cube_with_coplanar_facets(seed, noise):
    """The corners of [0, 1]^5, moved so little that Qhull cannot tell all facets apart."""
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    return corners + noise * cloud(32, 5, seed)


@pytest.mark.parametrize(("seed", "noise"), [(1, 1e-14), (3, 1e-14), (4, 3e-14), (18, 3e-14), (0, 1e-12)])
def test_hulls_with_nearly_coplanar_facets(seed, noise):
    """Qhull's first method fails for all but the last of these sets, where rounding does not prevent that."""
    corners = cube_with_coplanar_facets(seed, noise)
    assert hulls.hull_volume(corners) == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(hulls.distance_to_boundary(corners, [np.full(5, 0.4)]), 0.4, atol=1e-8)


def test_where_qhull_fails_linear_programmes_find_the_vertices(monkeypatch):
    calls = []

    def failing(points, **options):
        calls.append(options)
        if not options:
            raise QhullError("nearly coplanar facets")
        return ConvexHull(points, **options)

    points = np.concatenate([[[0.1, 0.2, 0.0]], cloud(20, 3)])
    expected = hulls.hull(points)
    monkeypatch.setattr(hulls, "ConvexHull", failing)
    found = hulls.hull(points)
    assert calls == [{}, {"qhull_options": "QJ"}]
    np.testing.assert_array_equal(found.vertices, np.sort(expected.vertices))
    assert {frozenset(one) for one in found.simplices} == {frozenset(one) for one in expected.simplices}
    assert found.volume == pytest.approx(expected.volume, rel=1e-8)
    np.testing.assert_array_equal(hulls.vertices(points), np.sort(expected.vertices))
    assert hulls.hull_volume(points) == pytest.approx(expected.volume, rel=1e-8)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hulls.vertices([[np.nan, 1.0]]), "must be finite .* but some are not"),
        (lambda: hulls.vertices([1.0, 2.0]), r"but the shape is \(2,\)"),
        (lambda: hulls.contains(SQUARE, [1.0, 2.0, 3.0]), "2 coordinates"),
        (lambda: hulls.distance_to_boundary(cloud(20, 7), cloud(2, 7)), "boundary .* at most 6 dimensions.* Project"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
