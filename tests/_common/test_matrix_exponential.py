"""e^{tV} and powers of V against SciPy, for matrices that are neither symmetric nor normal."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from attnflow._common.matrix_exponential import scaled_exponential, scaled_power
from attnflow._common.precision import double

MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, -1.0], [0.3, 0.0, -0.7]])


@pytest.mark.parametrize("time", [-2.0, 0.0, 0.01, 1.0, 7.0])
def test_the_exponential_is_that_of_scipy(time):
    with double():
        matrix, log_scale = scaled_exponential(jnp.asarray(MATRIX), jnp.asarray(time))
        found = np.exp(float(log_scale)) * np.asarray(matrix)

    np.testing.assert_allclose(found, scipy.linalg.expm(time * MATRIX), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("exponent", [0, 1, 2, 6, 7, 21])
def test_the_power_is_that_of_numpy(exponent):
    with double():
        matrix, log_scale = scaled_power(jnp.asarray(MATRIX), jnp.asarray(exponent))
        found = np.exp(float(log_scale)) * np.asarray(matrix)

    expected = np.linalg.matrix_power(MATRIX, exponent)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


def test_neither_overflows():
    """Both grow as the largest eigenvalue, to the power of a thousand."""
    leading = np.linalg.eigvals(MATRIX).real.max()
    with double():
        matrix, log_scale = scaled_exponential(jnp.asarray(MATRIX), jnp.asarray(1000.0))
        assert np.log(np.abs(matrix).max()) + log_scale == pytest.approx(1000 * leading, abs=5)
        power, log_size = scaled_power(jnp.asarray(10.0 * MATRIX), jnp.asarray(1000))
        size = np.abs(np.linalg.eigvals(MATRIX)).max()
        assert np.log(np.abs(power).max()) + log_size == pytest.approx(1000 * np.log(10 * size), abs=5)
