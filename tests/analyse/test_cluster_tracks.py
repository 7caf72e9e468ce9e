"""Clusters followed through time, on paths whose merges are drawn by hand."""

import numpy as np
import pytest
import xarray as xr

from attnflow.analyse import cluster_tracks


def path(*snapshots, times=None):
    tokens = np.array(snapshots, dtype=float)[..., None]
    times = np.arange(len(tokens), dtype=float) if times is None else times
    return xr.DataArray(tokens, {"time": times}, ("time", "token", "coordinate"))


def test_merges_have_their_tokens_and_times():
    run = path([0, 1, 5, 9], [0, 0, 5, 9], [0, 0, 9, 9], [4, 4, 4, 4], times=[0.0, 0.5, 2.0, 7.0])

    tracks = cluster_tracks.follow(run, 0.1)

    assert [(merge.before, merge.time) for merge in tracks.merges] == [(0.0, 0.5), (0.5, 2.0), (2.0, 7.0)]
    assert [merge.members for merge in tracks.merges] == [((0,), (1,)), ((2,), (3,)), ((0, 1), (2, 3))]
    assert [merge.parts for merge in tracks.merges] == [(0, 1), (2, 3), (0, 2)]
    assert tracks.merges[-1].sizes == (2, 2)
    assert tracks.splits == ()


def test_the_largest_cluster_keeps_its_label():
    run = path([0, 5, 5, 5], [5, 5, 5, 5])

    tracks = cluster_tracks.follow(run, 0.1)

    np.testing.assert_array_equal(tracks.labels, [[0, 1, 1, 1], [1, 1, 1, 1]])
    assert tracks.merges[0].parts == (1, 0)
    assert tracks.merges[0].cluster == 1


def test_labels_persist_when_the_order_of_first_members_changes():
    """Cluster 1 loses no token; its label per snapshot would change from 1 to 0 and back."""
    run = path([0, 5, 5, 9], [9, 5, 5, 9], [9, 5, 5, 9])

    labels = cluster_tracks.follow(run, 0.1).labels

    np.testing.assert_array_equal(labels[:, 1], [1, 1, 1])
    np.testing.assert_array_equal(labels[1:, 0], labels[1:, 3])


def test_splits_are_told_from_merges():
    run = path([0, 0, 0, 5], [0, 0, 3, 5], [0, 0, 5, 5])

    tracks = cluster_tracks.follow(run, 0.1)

    assert [split.members for split in tracks.splits] == [((0, 1), (2,))]
    assert [merge.members for merge in tracks.merges] == [((2,), (3,))] or [
        merge.members for merge in tracks.merges
    ] == [((3,), (2,))]
    assert tracks.labels[1, 2] not in tracks.labels[0]  # a new cluster has a new name


def test_every_label_belongs_to_one_cluster_at_a_time():
    generator = np.random.default_rng(0)
    run = path(*np.round(generator.uniform(0, 6, size=(30, 12))))

    tracks = cluster_tracks.follow(run, 0.5)

    for snapshot, labels in zip(run.values[..., 0], tracks.labels, strict=True):
        same_place = snapshot[:, None] == snapshot
        np.testing.assert_array_equal(labels[:, None] == labels, same_place)


def test_missing_times_are_left_out():
    run = path([0, 1], [np.nan, np.nan], [0, 0])

    tracks = cluster_tracks.follow(run, 0.1)

    np.testing.assert_array_equal(tracks.labels, [[0, 1], [-1, -1], [0, 0]])
    assert [(merge.before, merge.time) for merge in tracks.merges] == [(0.0, 2.0)]


def test_a_run_without_tokens_has_no_tracks():
    tracks = cluster_tracks.follow(path([np.nan], [np.nan]), 0.1)

    assert tracks.merges == tracks.splits == ()


def test_an_ensemble_is_refused():
    with pytest.raises(ValueError, match="one run with a time axis"):
        cluster_tracks.follow(np.zeros((2, 3, 4, 2)))


def test_plateaus_in_time_and_in_log_time():
    times = np.array([0.0, 0.1, 1.0, 10.0, 100.0, 1000.0])
    counts = [4, 3, 3, 2, 2, 1]

    in_time = cluster_tracks.plateaus(times, counts, 0.05)
    in_log = cluster_tracks.plateaus(times, counts, 0.2, log=True)

    assert [(found.count, found.start, found.end) for found in in_time] == [(2, 10.0, 100.0)]
    assert [(found.count, found.start, found.end) for found in in_log] == [(3, 0.1, 1.0), (2, 10.0, 100.0)]
    np.testing.assert_allclose([found.share for found in in_log], [0.25, 0.25])


def test_missing_counts_end_a_plateau():
    found = cluster_tracks.plateaus(np.arange(6.0), [2, 2, -1, -1, 2, 2], 0.1)

    assert [(plateau.start, plateau.end) for plateau in found] == [(0.0, 1.0), (4.0, 5.0)]


def test_plateaus_need_one_count_for_each_time():
    with pytest.raises(ValueError, match="one number per time"):
        cluster_tracks.plateaus([0.0, 1.0], [1, 2, 3])
    with pytest.raises(ValueError, match="Log time"):
        cluster_tracks.plateaus([-1.0, 0.0], [1, 2], log=True)
