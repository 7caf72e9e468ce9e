"""Rows that stay away from Boolean, at a small size: against symmetry, the scalar equation and the control."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attnflow.figures.entries import boolean_exceptions
from attnflow.show.parts.composition import compose

BETA = 32.0


@pytest.fixture(scope="module")
def data():
    return boolean_exceptions.compute_exceptions(
        False, beta=BETA, axis=4, offsets=[0.0, 1e-8, 1e-2], end=6.0, saves=601, runs=3, seed=0
    )


def test_tokens_of_the_axis_keep_two_leaders(data):
    rows = data.entropy.sel(offset=0.0)
    np.testing.assert_allclose(rows[-1, 2:], np.log(2), rtol=1e-12)
    np.testing.assert_array_equal(data.tokens.sel(offset=0.0)[:, 2:, 0], 0.0)
    np.testing.assert_allclose(data.tokens.sel(offset=0.0)[-1, 2:, 1], 1.0, atol=2 * np.exp(-6.0))
    numbers = boolean_exceptions.exception_numbers(data)
    assert numbers["plane, mirrored start: rows not Boolean at the end"] == "4 of 6"
    assert numbers["line, start -1, 0, 1: rows not Boolean at the end"] == "1 of 3"
    assert numbers["plane, random starts: rows not Boolean at the end"] == "0 of 18"  # the control


def test_tokens_beside_the_axis_leave_at_the_predicted_time(data):
    measured = boolean_exceptions.measured_times(data)
    predicted = [boolean_exceptions.predicted_time(float(offset), BETA) for offset in data.offset.values]
    assert np.isinf(measured[0])
    assert np.isinf(predicted[0])
    np.testing.assert_allclose(measured[1:], predicted[1:], atol=0.02)  # saved every 0.01
    assert np.all(data.entropy.values[1:, -1] < 1e-6)


def test_the_predicted_time_is_that_of_two_leaders_alone():
    """x' = tanh(beta e^{2t} x) - x, until the entropy of the weights is log(2)/2."""
    entropy = lambda p: -p * np.log(p) - (1 - p) * np.log(1 - p)
    times = np.linspace(0, 0.6, 6001)
    rate = lambda t, x: np.tanh(BETA * np.exp(2 * t) * x) - x
    path = solve_ivp(rate, (0, 0.6), [1e-10], t_eval=times, rtol=1e-10, atol=1e-20).y[0]
    weights = 1 / (1 + np.exp(-np.minimum(2 * BETA * np.exp(2 * times) * path, 30)))
    first = times[np.argmax(entropy(weights) <= np.log(2) / 2)]
    assert boolean_exceptions.predicted_time(1e-10, BETA) == pytest.approx(first, abs=0.01)


def test_the_picture_says_how_many_rows(data):
    picture = compose(boolean_exceptions.draw_exceptions(data))
    texts = " ".join(" ".join(text.get_text() for text in picture.texts).split())
    assert len(picture.axes) == 3
    assert "4 of 6 rows are not Boolean" in texts
