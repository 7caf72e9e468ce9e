"""Hulls, limit polytopes and the set S, against brute force, closed forms and SciPy's own hull."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

from attnflow._common.checks import InputError
from attnflow.analyse import polytope

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def in_a_random_subspace(points, d, seed=1):
    """The points in R^d, turned and moved: the same hull, flat."""
    turn = np.linalg.qr(cloud(d, d, seed))[0][: points.shape[1]]
    return points @ turn + cloud(1, d, seed + 1)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_vertices_are_those_of_every_direction(d):
    """A vertex is the strict best of some direction; sampled directions find no other, and Qhull finds the same."""
    points = cloud(25, d)
    found = polytope.vertices(points)

    best = np.unique(np.argmax(points @ cloud(d, 4000, 9), axis=0))
    assert set(best) <= set(found)
    expected = [points.argmin(), points.argmax()] if d == 1 else ConvexHull(points).vertices
    np.testing.assert_array_equal(found, np.sort(np.ravel(expected)))


def test_linear_programmes_find_the_vertices_that_qhull_finds():
    points = cloud(30, 3)
    np.testing.assert_array_equal(polytope._vertices_by_programmes(points), np.sort(ConvexHull(points).vertices))


def test_in_high_dimension_convex_combinations_are_not_vertices():
    corners = cloud(20, 12)
    weights = np.random.default_rng(3).dirichlet(np.ones(20), size=4)
    points = np.concatenate([weights @ corners, corners])

    np.testing.assert_array_equal(polytope.vertices(points), np.arange(4, 24))


@pytest.mark.parametrize("d", [2, 3, 8])
def test_flat_sets_have_the_vertices_of_their_span(d):
    flat = cloud(15, 2)
    np.testing.assert_array_equal(polytope.vertices(in_a_random_subspace(flat, d)), np.sort(ConvexHull(flat).vertices))


def test_degenerate_sets():
    assert polytope.vertices([[1.0, 2.0]]).tolist() == [0]
    assert polytope.vertices(np.ones((5, 3))).tolist() == [0]
    assert polytope.vertices([[0.0, 0.0], [1.0, 1.0]]).tolist() == [0, 1]
    on_a_line = np.outer([0.3, -1.0, 2.0, 0.0], [1.0, 2.0, -1.0]) + 5
    assert polytope.vertices(on_a_line).tolist() == [1, 2]
    duplicates = np.concatenate([SQUARE, SQUARE, [[0.0, 0.0]]])
    assert polytope.vertices(duplicates).tolist() == [0, 1, 2, 3]
    assert polytope.vertices(np.full((4, 2), 1e-300)).tolist() == [0]


def test_a_thin_set_keeps_its_vertices():
    """A million times longer than wide is still a rectangle."""
    assert polytope.vertices(np.concatenate([SQUARE, [[0.0, 0.0]]]) * [1.0, 1e-6]).tolist() == [0, 1, 2, 3]


def test_volume_is_scipys_and_zero_for_flat_sets():
    run = np.stack([cloud(12, 3, seed) for seed in range(4)] + [in_a_random_subspace(cloud(12, 2), 3)])
    expected = [ConvexHull(one).volume for one in run[:4]] + [0.0]
    np.testing.assert_allclose(polytope.volume(run), expected, rtol=1e-12)
    np.testing.assert_allclose(polytope.volume(np.array([[[2.0], [-1.0], [0.5]], [[3.0], [3.0], [3.0]]])), [3.0, 0.0])


def test_snapshots_that_are_not_finite_do_not_affect_the_others():
    tokens = np.stack([SQUARE, np.full((4, 2), np.nan)])[:, None]
    labelled = xr.DataArray(tokens, dims=("run", "time", "token", "coordinate"), coords={"time": [2.0]})

    areas = polytope.volume(labelled)
    flags = polytope.is_vertex(labelled)

    assert areas.dims == ("run", "time")
    np.testing.assert_allclose(areas.values[:, 0], [4.0, np.nan])
    assert flags.dims == ("run", "time", "token")
    assert flags.values.tolist() == [[[True] * 4], [[False] * 4]]
    assert np.isnan(polytope.residual_of_s(labelled[1])).all()


def brute_distance(points, token):
    """By SciPy's general optimiser over the weights."""
    n = len(points)
    found = minimize(
        lambda w: np.sum((w @ points - token) ** 2),
        np.full(n, 1 / n),
        jac=lambda w: 2 * points @ (w @ points - token),
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return np.sqrt(found.fun)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_distance_to_hull_is_that_of_an_optimiser(d):
    points, tokens = cloud(8, d), 2 * cloud(12, d, 5)
    expected = [brute_distance(points, token) for token in tokens]
    np.testing.assert_allclose(polytope.distance_to_hull(points, tokens), expected, atol=2e-6)


def test_distance_to_the_square_is_exact():
    tokens = np.array([[0.2, 0.3], [3.0, 0.0], [4.0, 5.0], [1.0, 1.0], [1 + 1e-9, 0.0]])
    np.testing.assert_allclose(polytope.distance_to_hull(SQUARE, tokens), [0, 2, 5, 0, 1e-9], atol=1e-15)
    assert polytope.distance_to_hull(SQUARE, np.array([0.0, 2.0])) == pytest.approx(1.0, abs=1e-14)
    assert polytope.distance_to_hull([[1.0, 2.0]], np.array([4.0, 6.0])) == pytest.approx(5.0, abs=1e-14)


@pytest.mark.parametrize("d", [2, 20])
def test_contains_agrees_with_the_distance(d):
    points = cloud(2 * d + 2, d)
    inside = np.random.default_rng(0).dirichlet(np.ones(len(points)), size=5) @ points
    outside = points.mean(axis=0) + 5 * (points[:5] - points.mean(axis=0))
    tokens = np.concatenate([inside, outside])

    found = polytope.contains(points, tokens)

    assert found.tolist() == [True] * 5 + [False] * 5
    np.testing.assert_array_equal(found, polytope.distance_to_hull(points, tokens) < 1e-9)


def test_contains_has_a_tolerance():
    just_outside = np.array([1 + 1e-5, 0.0])
    assert not polytope.contains(SQUARE, just_outside)
    assert polytope.contains(SQUARE, just_outside, tolerance=1e-4)
    assert polytope.contains([[2.0, 3.0]], np.array([2.0, 3.0]))
    assert not polytope.contains([[2.0, 3.0]], np.array([2.0, 3.1]))


def test_distance_to_the_boundary():
    tokens = np.array([[0.0, 0.0], [0.9, 0.2], [1.0, 0.5], [3.0, 0.0]])
    np.testing.assert_allclose(polytope.distance_to_boundary(SQUARE, tokens), [1, 0.1, 0, 2], atol=1e-14)
    segment = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        polytope.distance_to_boundary(segment, [[0.5, 0.5], [1.0, 0.0]]), [0, 0.5**0.5], atol=1e-14
    )
    np.testing.assert_allclose(polytope.distance_to_boundary([[0.0], [4.0]], [[1.0], [5.0]]), [1, 1])


def test_limit_vertices_merge_close_tokens():
    rng = np.random.default_rng(0)
    near = np.concatenate([corner + 1e-6 * rng.normal(size=(4, 2)) for corner in SQUARE])
    run = np.stack([5 * near, near, np.full_like(near, np.nan)])

    found = polytope.limit_vertices(run)

    assert len(found) == 4
    np.testing.assert_allclose(found[np.lexsort(found.T.round(3))], SQUARE[np.lexsort(SQUARE.T)], atol=1e-5)
    assert len(polytope.limit_vertices(run, merge=1e-9)) > 4


def brute_points_of_s(corners, scores):
    """Minimise |x|_B over every subset of vertices (exactly, by Lagrange) and keep what satisfies the definition."""
    found = []
    for size in range(1, len(corners) + 1):
        for subset in itertools.combinations(range(len(corners)), size):
            some = corners[list(subset)]
            gram = np.block([[some @ scores @ some.T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            weights = np.linalg.lstsq(gram, np.r_[np.zeros(size), 1.0], rcond=None)[0][:size]
            point = weights @ some
            fits = abs(point @ scores @ point - (corners @ scores @ point).max()) < 1e-9
            if fits and brute_distance(corners, point) < 1e-5:
                found.append(point.round(7) + 0.0)
    return np.unique(found, axis=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [2, 3])
def test_points_of_s_are_those_of_all_subsets_of_vertices(d, seed):
    points = cloud(7, d, seed) + (0.0 if seed % 2 else 0.8)
    corners = points[polytope.vertices(points)]
    root = cloud(d, d, seed + 50)
    scores = root @ root.T + np.eye(d)

    found = polytope.points_of_s(corners, scores)

    np.testing.assert_allclose(np.unique(found.round(7) + 0.0, axis=0), brute_points_of_s(corners, scores), atol=1e-6)
    assert polytope.residual_of_s(found[None], corners, scores).max() < 1e-8


def test_s_of_a_square_a_segment_and_a_point():
    """Corners, middles of edges and 0; ends and foot of the perpendicular; the point."""
    assert len(polytope.points_of_s(SQUARE)) == 9
    segment = np.array([[-1.0, 1.0], [2.0, 1.0]])
    found = polytope.points_of_s(segment)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], [[-1, 1], [0, 1], [2, 1]], atol=1e-12)
    np.testing.assert_array_equal(polytope.points_of_s([[3.0, 4.0]]), [[3.0, 4.0]])
    # A vertex that another one outscores is not in S.
    assert [1.0, 0.0] not in polytope.points_of_s([[1.0, 0.0], [3.0, 0.0]]).tolist()


def test_distance_to_s_over_time():
    run = np.stack([2 * SQUARE, SQUARE])
    found = polytope.distance_to_s(run, polytope.points_of_s(SQUARE))
    assert found.dims == ("time", "token")
    np.testing.assert_allclose(found, [[2**0.5] * 4, [0] * 4], atol=1e-12)


def test_the_residual_is_its_formula():
    tokens, scores = cloud(6, 2), np.diag([2.0, 0.5])
    expected = [abs(x @ scores @ x - max(x @ scores @ v for v in SQUARE)) for x in tokens]
    np.testing.assert_allclose(polytope.residual_of_s(tokens[None], SQUARE, scores).values[0], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: polytope.vertices([[np.nan, 1.0]]), "must be finite .* but some are not"),
        (lambda: polytope.vertices([1.0, 2.0]), r"but the shape is \(2,\)"),
        (lambda: polytope.volume(np.zeros((1, 9, 7))), "d <= 6"),
        (lambda: polytope.contains(SQUARE, [1.0, 2.0, 3.0]), "2 coordinates"),
        (lambda: polytope.residual_of_s(SQUARE[None], SQUARE, [[0.0, 1.0], [0.0, 0.0]]), "symmetric"),
        (lambda: polytope.residual_of_s(SQUARE[None], SQUARE, np.eye(3)), "2 x 2"),
        (lambda: polytope.points_of_s(SQUARE, -np.eye(2)), "positive definite"),
        (lambda: polytope.points_of_s(cloud(12, 8)), "at most 6"),
        (lambda: polytope.limit_vertices(np.full((2, 3, 2), np.nan)), "no finite tokens"),
        (lambda: polytope.limit_vertices(np.zeros((2, 2, 3, 2))), "one run"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
