"""Derivatives of attention sums: the native transpose against XLA and finite differences, and second derivatives."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.model.native import attention_sums, library
from attnflow.model.pair_sums import Pairs

needs_library = pytest.mark.skipif(
    library.reason_unused() is not None, reason=f"native kernel: {library.reason_unused()}"
)
RULES = [af.Softmax(1.3), af.Softmax(-2.0), af.Softmax(300.0), af.Unnormalised(0.3, offset=1.0)]
MASKS = [af.masks.full, af.masks.causal, af.masks.strictly_causal, af.masks.causal & af.masks.window(5)]
SIZES = [(1, 1), (5, 2), (17, 3), (70, 5), (300, 16)]  # below, at and beyond whole vectors and blocks of rows
FAR = (2**40, 2**40)


def draw(n, d, rng=0):
    return np.random.default_rng(rng).normal(size=(4, n, d))


def loss(rule, mask, dtype="float64") -> Any:
    """A number made of the sums, as a function of queries, keys, values, beta and masses, and of its weights g."""

    def of(queries, keys, values, beta, masses, g):
        one = eqx.tree_at(lambda rule: rule.beta, cast(rule, dtype), beta)
        return jnp.sum(g * Pairs(one, mask, queries, keys, masses).weighted_sums(values))

    return of


def arguments(n, d, with_masses=True, length=1.0) -> Any:
    queries, keys, values, g = map(jnp.asarray, draw(n, d))
    masses = jnp.asarray(np.random.default_rng(1).uniform(1, 3, n)) if with_masses else None
    return queries, keys, length * values, 1.3, masses, g


@needs_library
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gradients_are_those_of_xla(rule, mask, size, monkeypatch):
    for with_masses, length in ((True, 1.0), (False, 1e3)):  # of the values: below and beyond `kLongValue`
        with double():
            given = arguments(*size, with_masses=with_masses, length=length)
            given = (*given[:3], float(rule.beta), *given[4:])
            gradient = jax.grad(loss(rule, mask), argnums=(0, 1, 2, 3, 4) if with_masses else (0, 1, 2, 3))
            monkeypatch.setenv("ATTNFLOW_NATIVE", "1")
            native = gradient(*given)
            monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
            expected = gradient(*given)
        # The derivative in beta is the difference of sums that are up to beta times larger.
        units = 1e-13 * max(10.0, abs(float(rule.beta)))
        for found, wanted in zip(native, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=units * (1e-3 + np.abs(wanted).max()))


@needs_library
def test_groups_of_rows_add_up(monkeypatch):
    """600 tokens have five groups of rows, each with sums of its own."""
    with double():
        given, gradient = arguments(600, 3), jax.grad(loss(af.Softmax(1.3), af.masks.causal), argnums=(0, 1, 2, 4))
        native = gradient(*given)
        monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
        for found, wanted in zip(native, gradient(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@needs_library
def test_gradients_are_limits_of_differences():
    with double():
        given = arguments(33, 5)
        function = loss(af.Softmax(1.0), af.masks.causal)
        gradient = jax.grad(function, argnums=(0, 1, 2, 3, 4))(*given)
        for place, slope in enumerate(gradient):
            change = 1e-5 * np.random.default_rng(place).normal(size=np.shape(slope))
            moved = [function(*given[:place], given[place] + sign * change, *given[place + 1 :]) for sign in (1, -1)]
            assert float(np.sum(slope * change)) == pytest.approx(float(moved[0] - moved[1]) / 2, rel=1e-6)


@pytest.mark.parametrize("is_native", ["1", "0"])
@pytest.mark.parametrize("rule", [af.Softmax(1.3), af.Unnormalised(0.3)], ids=str)
def test_second_derivatives_are_limits_of_differences(rule, is_native, monkeypatch):
    """Forward over reverse, reverse over reverse and forward over forward."""
    monkeypatch.setenv("ATTNFLOW_NATIVE", is_native)
    with double():
        queries, keys, values, beta, masses, g = arguments(6, 3)
        function = lambda x: loss(rule, af.masks.causal)(x, keys + x, values - x**2, beta, masses, g)
        change = draw(6, 3, rng=2)[0]
        gradient = jax.grad(function)
        moved = [np.sum(gradient(queries + sign * 1e-5 * change) * change) for sign in (1, -1)]
        expected = float(moved[0] - moved[1]) / 2e-5
        along = lambda x: jax.jvp(function, (x,), (change,))[1]
        found = [
            np.sum(jax.jvp(gradient, (queries,), (change,))[1] * change),
            np.sum(jax.grad(lambda x: jnp.sum(gradient(x) * change))(queries) * change),
            jax.jvp(along, (queries,), (change,))[1],
            np.sum(np.tensordot(jax.hessian(function)(queries), change, 2) * change),
        ]

    np.testing.assert_allclose(np.array(found, float), expected, rtol=1e-6)


@needs_library
def test_a_batch_of_gradients_has_the_bits_of_each_alone():
    with double():
        starts = jnp.asarray(draw(20, 3))
        _, keys, values, beta, masses, g = arguments(20, 3)
        one = jax.grad(lambda x: loss(af.Softmax(1.0), af.masks.full)(x, keys, values, beta, masses, g))
        together = np.asarray(jax.vmap(one)(starts))

        np.testing.assert_array_equal(together, [one(start) for start in starts])


@needs_library
def test_threads_change_no_bit():
    """1500 tokens are groups of rows on all threads; as two batches of one the groups are the same on other threads."""
    with double():
        arrays = [jnp.asarray(array) for array in draw(1500, 3)]
        pulled = lambda q, k, v, g: attention_sums.pulled_back(
            q, k, v, jnp.zeros(len(q)), g, reach=FAR, relative=True, weighted=False
        )
        first = pulled(*arrays)
        again = jax.vmap(pulled)(*(jnp.stack([array, array]) for array in arrays))
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(two[0], one)
        np.testing.assert_array_equal(two[1], one)


@needs_library
def test_gradients_in_single_precision():
    queries, keys, values, g = draw(40, 5)
    given = [jnp.asarray(array, "float32") for array in (queries, keys, values)]
    function = loss(af.Softmax(1.0), af.masks.causal, "float32")
    found = jax.grad(function, argnums=(0, 1, 2))(*given, jnp.float32(1.3), None, jnp.asarray(g, "float32"))
    with double():
        wide = loss(af.Softmax(1.0), af.masks.causal)
        exact = jax.grad(wide, argnums=(0, 1, 2))(*map(jnp.asarray, (queries, keys, values)), 1.3, None, jnp.asarray(g))
    for one, wanted in zip(found, exact, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@needs_library
def test_the_native_transpose_is_used(monkeypatch):
    """Without the call the gradient fails: it is not computed by XLA unnoticed."""
    monkeypatch.setattr(attention_sums, "PULLBACKS", {})
    with double(), pytest.raises(KeyError):
        jax.grad(loss(af.Softmax(1.0), af.masks.full))(*arguments(4, 2))
