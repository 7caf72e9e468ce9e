"""Leaders: by definition, on small sets."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.analyse import leaders


def test_extremes_over_time_and_where_numbers_are_missing():
    run = np.array([[[0.0], [2.0], [-3.0]], [[5.0], [1.0], [1.0]], [[np.nan], [0.0], [0.0]]])
    found = leaders.extremes(run)
    assert found.dims == ("time", "extreme")
    assert found.sel(extreme="least").values.tolist() == [2, 1, -1]
    assert found.sel(extreme="greatest").values.tolist() == [1, 0, -1]
    with pytest.raises(InputError, match="d = 2"):
        leaders.extremes(np.zeros((3, 2)))


def test_leaders_are_their_own_best_match():
    rng = np.random.default_rng(0)
    run, root = rng.normal(size=(3, 4, 9, 2)), rng.normal(size=(2, 2))
    scores = root @ root.T
    found = leaders.is_leader(run, scores).values
    for index in np.ndindex(3, 4):
        tokens = run[index]
        expected = [all(x @ scores @ x >= x @ scores @ y for y in tokens) for x in tokens]
        assert found[index].tolist() == expected
    assert 0 < found.sum() < found.size


def test_leaders_under_scores_that_are_not_symmetric():
    """The score of tokens i and j is <Q x_i, K x_j> = <x_i, Q^T K x_j>; its transpose has other leaders."""
    rng = np.random.default_rng(4)
    query, key, tokens = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(12, 2))
    rotated = query.T @ key + np.array([[0.0, 4.0], [-4.0, 0.0]])
    for scores in (query.T @ key, rotated):
        expected = [all(x @ scores @ x >= x @ scores @ y for y in tokens) for x in tokens]
        assert leaders.is_leader(tokens, scores).values.tolist() == expected
    found = leaders.is_leader(tokens, query.T @ key).values
    weights = af.attention_matrix(af.EuclideanAttention(af.Head(query, key, np.eye(2)), af.Hardmax()), tokens)
    np.testing.assert_array_equal(found, np.diagonal(np.squeeze(weights)) > 0)
    assert 0 < found.sum() < 12
    assert found.tolist() != leaders.is_leader(tokens, key.T @ query).values.tolist()


def test_a_leader_outscored_by_rounding_still_leads():
    """A follower arrives a rounding error beyond its leader; plain argmax would dethrone the leader."""
    tokens = np.array([[[1.0, 0.0], [1.0 + 1e-12, 0.0], [0.5, 0.0]]])
    assert leaders.is_leader(tokens).values.tolist() == [[True, True, False]]
    assert leaders.is_leader(tokens, tolerance=1e-14).values.tolist() == [[False, True, False]]


def test_missing_snapshots_have_no_leaders():
    run = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert leaders.is_leader(run).values.tolist() == [[True, True], [False, False]]
    assert leaders.causal_leaders(run).values.tolist() == [[True, True], [False, False]]


def test_attended_columns():
    matrix = [[0.9999, 1e-4, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    assert leaders.attended(matrix).tolist() == [0, 1]
    assert leaders.attended(matrix, threshold=0.6).tolist() == [0]
    with pytest.raises(InputError, match="one attention matrix"):
        leaders.attended(np.ones((2, 3, 3)))


def test_causal_leaders_are_first_in_their_group():
    run = np.array([[[0.0], [5.0], [0.001], [5.001], [9.0]], [[0.0], [0.0], [0.0], [0.0], [0.0]]])
    found = leaders.causal_leaders(run)
    assert found.values.tolist() == [[True, True, False, False, True], [True, False, False, False, False]]
    assert leaders.first_of_groups([-1, 3, 3, 0, -1]).tolist() == [1, 3]


def test_bad_score_matrices_are_a_sentence():
    with pytest.raises(InputError, match="2 x 2"):
        leaders.is_leader(np.zeros((1, 3, 2)), np.eye(3))


def test_a_leader_that_ties_is_not_alone():
    """(-0.4, 0.2) scores 0.2 with itself and with (-0.2, 0.6)."""
    tokens = np.array([[[-0.4, 0.2], [-0.2, 0.6], [0.3, 0.9]]])
    assert leaders.is_leader(tokens).values.tolist() == [[True, False, True]]
    assert leaders.is_leader(tokens, alone=True).values.tolist() == [[False, False, True]]
