"""Functions of NumPy arrays inside compiled programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnflow._common.precision import double
from attnflow.model.native import host_calls


def doubled(x):
    return host_calls.call("doubled", lambda array: 2 * array, x, x)


@pytest.fixture(autouse=True)
def available():
    assert host_calls.reason_unavailable() is None


def test_arrays_pass_through_loops_in_full_precision():
    """A large array, for which JAX starts threads of its own; 2/3 is no number of float32."""
    with double():
        start = np.full((2, 200_000), 1 / 3)
        loop = jax.jit(lambda x: jax.lax.map(lambda row: jax.lax.fori_loop(0, 3, lambda _, y: doubled(y) / 2, row), x))
        np.testing.assert_array_equal(doubled(jnp.asarray(start)), 2 * start)
        np.testing.assert_array_equal(loop(start), start)
        np.testing.assert_array_equal(jax.vmap(doubled)(start), 2 * start)


def test_an_error_of_the_function_is_reported():
    def fails(array):
        raise ArithmeticError("no such number")

    with pytest.raises(jax.errors.JaxRuntimeError, match="ArithmeticError: no such number"):
        jax.jit(lambda x: host_calls.call("fails", fails, x, x))(np.ones(3)).block_until_ready()
