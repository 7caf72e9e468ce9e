"""Checks of arguments on both sides of their thresholds."""

import numpy as np
import pytest

from attnflow._common import checks
from attnflow._common.checks import InputError

RUNS = np.array([[[0.6, 0.8, 0.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]])
"""Two runs of two tokens of length one in R^3: no two axes have one length."""


@pytest.mark.parametrize("tokens", [RUNS, RUNS[0]])
def test_tokens_are_on_the_sphere_up_to_a_millionth(tokens):
    checks.require_on_sphere(tokens, "tokens")
    checks.require_on_sphere(tokens * (1 + 0.9e-6), "tokens")
    with pytest.raises(InputError, match=r"of \d tokens do not"):
        checks.require_on_sphere(tokens * (1 + 1.1e-6), "tokens")


def test_the_farthest_token_from_the_sphere_is_named():
    tokens = RUNS.copy()
    tokens[0, 1] *= 1.01
    tokens[1, 0] *= 1.5

    with pytest.raises(InputError, match=r"2 of 4 tokens do not: tokens\[1, 0\] has length 1\.5"):
        checks.require_on_sphere(tokens, "tokens")


def test_the_zero_vector_has_no_direction():
    tokens = RUNS * 7.0
    checks.require_positive_lengths(tokens, "tokens")
    tokens[1, 0] = 0.0

    with pytest.raises(InputError, match=r"tokens\[1, 0\] is the zero vector"):
        checks.require_positive_lengths(tokens, "tokens")


@pytest.mark.parametrize("sign", [-1, 1])
def test_tokens_are_served_up_to_the_largest_number_whose_square_is_a_number(sign):
    tokens = np.array([[1.0, sign * checks.LARGEST]])

    assert np.isfinite(checks.require_tokens(tokens) ** 2).all()
    with pytest.raises(InputError, match=r"below 1e\+150"):
        checks.require_tokens(1.01 * tokens)


@pytest.mark.parametrize(
    ("shape", "place", "words"),
    [
        ((2, 3), (1, 2), r"tokens\[1, 2\] \(token, coordinate\)"),
        ((2, 3, 4), (1, 0, 3), r"tokens\[1, 0, 3\] \(run, token, coordinate\)"),
    ],
)
def test_the_place_of_the_first_number_that_is_not_finite_is_named(shape, place, words):
    tokens = np.ones(shape)
    tokens[place] = np.nan

    with pytest.raises(InputError, match=f"1 of {tokens.size} numbers are not: the first is nan at {words}"):
        checks.require_tokens(tokens)


def test_times_must_increase_and_the_first_fault_is_named():
    np.testing.assert_array_equal(checks.require_times([0, 1, 3]), [0.0, 1.0, 3.0])
    with pytest.raises(InputError, match="time 2 at position 3 follows 2"):
        checks.require_times([0.0, 1.0, 2.0, 2.0, 1.0])


@pytest.mark.parametrize(("value", "least", "fits"), [(3, 3, True), (2, 3, False), (True, 1, False), (1.0, 1, False)])
def test_a_count_is_a_whole_number_of_at_least_its_bound(value, least, fits):
    if fits:
        checks.require_count(value, "n", least)
    else:
        with pytest.raises(InputError, match="at least"):
            checks.require_count(value, "n", least)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tolerance_is_at_least_ten_roundings(dtype):
    least = 10 * float(np.finfo(dtype).eps)
    checks.require_resolvable(1.01 * least, dtype)
    with pytest.raises(InputError, match="must be at least"):
        checks.require_resolvable(0.99 * least, dtype)


def test_a_value_matrix_is_square_and_other_matrices_need_not_be():
    checks.require_matrix(np.ones((2, 3)), "query")
    checks.require_square(np.ones((3, 3)), "value")
    with pytest.raises(InputError, match="it is 2 x 3"):
        checks.require_square(np.ones((2, 3)), "value")


def test_near_names_are_suggested_and_others_are_listed():
    known = ["circle", "sphere", "polytope"]
    checks.require_known("sphere", known, "scenario")
    with pytest.raises(InputError, match="Did you mean 'sphere'"):
        checks.require_known("spere", known, "scenario")
    with pytest.raises(InputError, match="Known: circle, sphere, polytope"):
        checks.require_known("xyz", known, "scenario")
