"""Hulls of runs, limit polytopes and the set S, against brute force, closed forms and SciPy's own hull."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy.spatial import ConvexHull
from tests.helpers.polytopes import SQUARE, brute_distance, cloud, in_a_random_subspace

from attnflow._common.checks import InputError
from attnflow.analyse import polytope


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
        (lambda: polytope.volume(np.zeros((1, 9, 7))), "volume .* at most 6 dimensions, but this one has 7. Project"),
        (lambda: polytope.residual_of_s(SQUARE[None], SQUARE, [[0.0, 1.0], [0.0, 0.0]]), "symmetric"),
        (lambda: polytope.residual_of_s(SQUARE[None], SQUARE, np.eye(3)), "2 x 2"),
        (lambda: polytope.points_of_s(SQUARE, -np.eye(2)), "positive definite"),
        (lambda: polytope.points_of_s(cloud(12, 8)), "at most 6 .* Use `residual_of_s`"),
        (lambda: polytope.limit_vertices(np.full((2, 3, 2), np.nan)), "no finite tokens"),
        (lambda: polytope.limit_vertices(np.zeros((2, 2, 3, 2))), "one run"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
