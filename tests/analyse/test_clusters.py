"""Clusters against the plain definition, and the published counts against brute force."""

import numpy as np
import pytest
import xarray as xr
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from attnflow.analyse import clusters


def by_definition(tokens, distance):
    """Components of the full matrix of distances, numbered by their first members."""
    found = connected_components(cdist(tokens, tokens) <= distance, directed=False)[1]
    numbers = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in found])


def blobs(n, d, count, width, seed):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, d))[generator.integers(count, size=n)] + width * generator.normal(size=(n, d))


CLOUDS = {
    "sparse": (np.random.default_rng(0).normal(size=(300, 2)), 0.08),
    "dense": (np.random.default_rng(1).normal(size=(300, 2)), 0.3),
    "line": (np.random.default_rng(2).normal(size=(200, 1)), 0.02),
    "blobs just apart": (blobs(400, 2, 12, 0.04, 3), 0.1),
    "blobs in 16 dimensions": (blobs(300, 16, 5, 0.05, 4), 0.3),
    "met": (blobs(500, 3, 4, 1e-9, 5), 0.01),
    "all in one place": (np.ones((50, 3)), 0.01),
    "one token": (np.ones((1, 3)), 0.01),
    "chain": (np.c_[np.arange(200.0) * 0.9, np.zeros(200)], 1.0),
    "chain of crowds": (
        np.repeat(np.arange(40.0), 20)[:, None] * 0.99 + np.tile(np.linspace(0, 0.3, 20), 40)[:, None],
        0.7,
    ),
}


@pytest.mark.parametrize("grouping", [0, clusters.MAX_LISTED_NEIGHBOURS])
@pytest.mark.parametrize("name", CLOUDS)
def test_labels_are_those_of_the_definition(name, grouping, monkeypatch):
    """With `grouping` 0 close tokens are grouped before pairs are listed, whatever the cloud."""
    monkeypatch.setattr(clusters, "MAX_LISTED_NEIGHBOURS", grouping)
    tokens, distance = CLOUDS[name]

    np.testing.assert_array_equal(clusters.labels(tokens, distance), by_definition(tokens, distance))


@pytest.mark.parametrize("distance", [1e-9, 1e-7, 1e-3, 0.3, 5.0])
@pytest.mark.parametrize("width", [1e-9, 1e-7, 0.1])
def test_many_dimensions_lose_no_digits(width, distance):
    """<x, y> of tokens in places far from 0 knows distances only to 1e-8; the definition knows all of them."""
    tokens = 3 + blobs(60, 12, 4, width, 6)

    np.testing.assert_array_equal(clusters.labels(tokens, distance), by_definition(tokens, distance))


def test_many_dimensions_include_pairs_at_exactly_the_distance():
    chain = np.arange(6.0)[:, None] * np.eye(12)[0] + 2.0**20

    assert clusters.labels(chain, 1.0).max() == 0
    assert clusters.labels(chain, np.nextafter(1.0, 0)).max() == 5


def test_labels_in_many_dimensions_do_not_depend_on_the_method(monkeypatch):
    tokens = blobs(50, 12, 5, 0.2, 7)
    expected = clusters.labels(tokens, 1.0)
    monkeypatch.setattr(clusters, "MAX_DENSE_TOKENS", 10)

    np.testing.assert_array_equal(clusters.labels(tokens, 1.0), expected)


def test_integer_points_at_exactly_the_distance_are_one_cluster(monkeypatch):
    monkeypatch.setattr(clusters, "MAX_LISTED_NEIGHBOURS", 0)
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)

    assert clusters.labels(grid, 1.0).max() == 0
    assert clusters.labels(grid, np.nextafter(1.0, 0)).max() == 35


def test_dense_clusters_are_not_compared_pair_by_pair(monkeypatch):
    """6000 tokens in three places have six million close pairs; none of them is listed."""
    listed = []
    real = clusters.KDTree

    class Watched(real):
        def query_pairs(self, *args, **kwargs):
            found = super().query_pairs(*args, **kwargs)
            listed.append(len(found))
            return found

    monkeypatch.setattr(clusters, "KDTree", Watched)
    tokens = blobs(6000, 3, 3, 1e-4, 0)

    assert clusters.labels(tokens, 0.05).max() == 2
    assert sum(listed) < 6000


def test_geodesic_distance_is_an_angle():
    angles = np.array([0.0, 0.99, 2.2, 3.0])
    tokens = np.c_[np.cos(angles), np.sin(angles)]

    np.testing.assert_array_equal(clusters.labels(tokens, 1.0, geodesic=True), [0, 0, 1, 1])
    np.testing.assert_array_equal(clusters.labels(tokens, 0.98, geodesic=True), [0, 1, 2, 2])
    # The straight distance of an angle of .99 is .95.
    np.testing.assert_array_equal(clusters.labels(tokens, 0.96), [0, 0, 1, 1])


def test_an_angle_of_pi_reaches_all_tokens():
    np.testing.assert_array_equal(clusters.labels([[1.0, 0.0], [-1.0, 0.0]], np.pi, geodesic=True), [0, 0])


def test_chords_and_angles_are_inverse_also_when_tiny():
    angles = np.array([1e-12, 1e-3, 1.0, 3.0])

    np.testing.assert_allclose(clusters.angle(clusters.chord(angles)), angles, rtol=1e-14)


def test_geodesic_distance_needs_the_sphere():
    with pytest.raises(ValueError, match=r"unit sphere.*tokens\[1\] has length 2"):
        clusters.labels([[1.0, 0.0], [2.0, 0.0]], 0.1, geodesic=True)


def path_with_a_gap():
    tokens = np.array([[[0.0], [1.0], [5.0]], [[0.5], [0.5], [5.0]], [[0.5], [0.5], [0.5]]])
    ensemble = np.stack([tokens, tokens])
    ensemble[1, 2:] = np.nan
    return xr.DataArray(ensemble, {"time": [0.0, 1.0, 3.0]}, ("run", "time", "token", "coordinate"))


def test_counts_and_sizes_over_runs_and_times():
    run = path_with_a_gap()

    np.testing.assert_array_equal(clusters.count(run), [[3, 2, 1], [3, 2, -1]])
    found = clusters.sizes(run)
    assert found.dims == ("run", "time", "cluster")
    np.testing.assert_array_equal(found[0], [[1, 1, 1], [2, 1, 0], [3, 0, 0]])
    np.testing.assert_array_equal(found[1, 2], [-1, -1, -1])
    np.testing.assert_array_equal(found.time, [0.0, 1.0, 3.0])


def test_counts_of_a_run_without_finite_tokens():
    np.testing.assert_array_equal(clusters.count(np.full((2, 3, 2), np.nan)), [-1, -1])


def test_labels_need_one_snapshot():
    with pytest.raises(ValueError, match=r"shape \(n, d\)"):
        clusters.labels(np.zeros((2, 3, 2)))


def circle(*angles):
    return np.c_[np.cos(angles), np.sin(angles)]


def test_share_of_close_pairs_counts_pairs_one_by_one():
    tokens = circle(*np.random.default_rng(0).uniform(0, 0.3, 20))
    pairs = [(i, j) for i in range(20) for j in range(20) if i != j]
    expected = np.mean([tokens[i] @ tokens[j] > 0.999 for i, j in pairs])

    assert 0.1 < expected < 0.9
    np.testing.assert_allclose(clusters.share_of_close_pairs(tokens[None]), [expected], rtol=1e-14)
    assert np.isnan(clusters.share_of_close_pairs(tokens[None, :1])[0])


def test_published_counts_differ_on_a_chain():
    """Neighbours .04 apart: one component; no transitivity for the Gram matrix at cosine .999 (angle .0447)."""
    chain = circle(*(0.04 * np.arange(5)))[None]

    assert clusters.count(chain, 0.0447, geodesic=True)[0] == 1
    assert clusters.gram_rank(chain, 0.999)[0] > 1
    np.testing.assert_allclose(clusters.share_of_close_pairs(chain, 0.999), [8 / 20])
    assert clusters.circle_gaps(chain, 0.0447)[0] == 1


def test_all_counts_agree_on_narrow_clusters():
    tokens = circle(*np.repeat([0.0, 1.0, 3.0], 4))[None]

    assert [int(f(tokens)[0]) for f in (clusters.count, clusters.gram_rank, clusters.circle_gaps)] == [3, 3, 3]


def test_a_ring_without_gaps_has_none():
    ring = circle(*np.linspace(0, 2 * np.pi, 200, endpoint=False))[None]

    assert clusters.circle_gaps(ring)[0] == 0
    assert clusters.count(ring, 0.07, geodesic=True)[0] == 1


def test_gaps_are_those_of_the_circle_only():
    with pytest.raises(ValueError, match="d = 3"):
        clusters.circle_gaps(np.ones((1, 4, 3)))
    np.testing.assert_array_equal(clusters.circle_gaps(np.full((1, 4, 2), np.nan)), [-1])


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("distance", [0.003, 0.03, 0.2])
def test_cells_of_many_tokens_give_the_same_clusters(d, distance, monkeypatch):
    """Chains, narrow clusters and single tokens, against the definition."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-1, 1, (30, d))[rng.integers(0, 30, 1500)]
    tokens = np.concatenate([centres + 0.004 * rng.normal(size=(1500, d)), rng.uniform(-1, 1, (40, d))])
    monkeypatch.setattr(clusters, "MANY_TOKENS", 1)
    used = clusters._cell_groups(tokens, distance) is not None

    np.testing.assert_array_equal(clusters.labels(tokens, distance), by_definition(tokens, distance))
    assert used or distance < 0.2  # where cells are many, the tree is used
