"""Functions of attention matrices, against high-precision and brute-force counterparts."""

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest

from attnflow._common.checks import InputError
from attnflow.analyse import attention_matrices, attention_rank


def random_matrices(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def test_distance_to_boolean_is_the_least_over_all_boolean_matrices():
    matrices = random_matrices(5, 3, 3)
    unit = np.eye(3)
    for matrix, found in zip(matrices, attention_matrices.distance_to_boolean(matrices), strict=True):
        distances = [np.abs(matrix - unit[list(columns)]).max() for columns in itertools.product(range(3), repeat=3)]
        assert found == pytest.approx(min(distances), abs=1e-15)


def test_distance_to_boolean_is_accurate_below_the_rounding_of_one():
    tiny = 1e-30
    assert attention_matrices.distance_to_boolean([[1.0, tiny], [0.0, 1.0]]) == tiny
    assert attention_matrices.distance_to_boolean([[1.0]]) == 0


def test_entropy_of_rows():
    matrices = random_matrices(2, 4, 4)
    expected = [[-sum(p * np.log(p) for p in row) for row in matrix] for matrix in matrices]
    np.testing.assert_allclose(attention_matrices.row_entropy(matrices), expected, rtol=1e-12)
    np.testing.assert_allclose(attention_matrices.row_entropy(np.full((3, 3), 1 / 3)), np.log(3))


def test_leader_columns_and_rank():
    matrix = np.zeros((3, 5, 5))
    matrix[:, :, 2] = 1.0
    matrix[1, 0] = [0.0, 0.0, 0.5, 0.5, 0.0]
    found = attention_matrices.leader_columns(matrix)
    assert [np.flatnonzero(row).tolist() for row in found] == [[2], [2, 3], [2]]
    assert attention_matrices.rank is attention_rank.rank
    assert attention_matrices.rank(matrix).tolist() == [1, 2, 1]


def test_the_missing_weight_is_right_to_a_hundred_digits():
    """Against decimal arithmetic, for scores up to 200; one minus float64 is 0 from 37 on."""
    getcontext().prec = 120
    scores = np.array([[0.0, 1.0, 200.0], [3.0, 3.0, 3.0], [-50.0, 0.0, 40.0]])
    for row, found in zip(scores, attention_matrices.log_of_missing_weight(scores), strict=True):
        shares = [Decimal(float(s)).exp() for s in row]
        expected = [float((1 - share / sum(shares)).ln()) for share in shares]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    softmax = np.exp(scores[0] - 200) / np.exp(scores[0] - 200).sum()
    assert 1 - softmax[2] == 0


def test_a_single_token_has_no_missing_weight():
    assert attention_matrices.log_of_missing_weight([[3.0]]) == -np.inf


def test_the_doubly_exponential_rate_and_its_interval():
    times = np.linspace(1, 9, 30)
    noise = np.random.default_rng(0).normal(scale=0.02, size=30)
    found = attention_matrices.doubly_exponential_rate(times, -0.3 * np.exp(1.5 * times + noise))
    assert found.low < 1.5 < found.high
    assert 0 < found.high - found.low < 0.02
    assert found.constant == pytest.approx(0.3, rel=0.05)
    # Merely exponential decay of 1 - P has no such slope.
    assert attention_matrices.doubly_exponential_rate(times, -times).slope < 0.4
    with pytest.raises(InputError, match="at least 5 times"):
        attention_matrices.doubly_exponential_rate(times[:3], -times[:3])


def test_bad_shapes_are_a_sentence():
    with pytest.raises(InputError, match="n, n"):
        attention_matrices.row_entropy([1.0, 2.0])
