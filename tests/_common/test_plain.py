"""Numbers for JSON, numbers beside their errors, and evenly spaced indices."""

import json

import numpy as np
import pytest

from attnflow._common.plain import evenly_spaced, json_value, number_or_text, number_with_error, text_with_error


def test_numpy_scalars_become_python_values():
    values = [np.float32(0.5), np.int64(2), np.bool_(True), np.inf, np.float64("nan"), "text", None]
    assert json.loads(json.dumps([json_value(value) for value in values])) == [0.5, 2, True, None, None, "text", None]


def test_infinities_are_kept_as_text_where_they_matter():
    assert [number_or_text(value) for value in (np.float64(1.5), -np.inf, np.nan)] == [1.5, "-inf", "nan"]


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("most", [1, 2, 5, 200])
def test_indices_are_few_evenly_spaced_and_contain_both_ends(count, most):
    chosen = evenly_spaced(count, most)
    assert len(chosen) == min(count, most)
    assert chosen[0] == 0
    assert most == 1 or chosen[-1] == count - 1
    assert np.ptp(np.diff(chosen)) <= 1 if len(chosen) > 2 else True


def test_a_number_below_its_error_is_zero_with_the_error():
    assert number_with_error(7.8e-16, 2.7e-15) == number_with_error(-7.8e-16, 2.7e-15) == "0 ± 3e-15"
    assert number_with_error(0.0, 1e-14) == "0 ± 1e-14"
    assert text_with_error(-7.8e-16, 2.7e-15) == "0 ± 3e-15"


def test_a_number_above_its_error_is_kept():
    assert number_with_error(np.float64(3e-15), 2.7e-15) == 3e-15
    assert type(number_with_error(np.float64(-0.25), 1e-15)) is float
    assert text_with_error(-0.123456, 1e-15) == "-0.123"
