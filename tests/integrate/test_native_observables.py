"""Observables by the native library against the functions of jax.numpy that define them."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.integrate.native_observables import NativeObservable, native_observables
from attnflow.model.native.library import reason_unused

pytestmark = pytest.mark.skipif(reason_unused() is not None, reason="the native library is not in use")

KNOWN = {
    "mean_cosine": af.observables.mean_cosine,
    "order_parameter": af.observables.order_parameter,
    "diameter": af.observables.diameter,
    "largest_norm": af.observables.largest_norm,
    "energy": af.observables.Energy(3.0),
    "close_pairs": af.observables.ClosePairs(0.4),
}


class TwiceTheEnergy(af.observables.Energy):
    """A subclass with another value."""

    def __call__(self, time, tokens):
        """Twice the energy."""
        return 2 * super().__call__(time, tokens)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 2), (32, 3), (33, 5)], ids=str)
@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-13), ("float32", 2e-5)])
def test_values_are_those_of_the_definition(name, size, dtype, rounding):
    """States of different lengths, the last with all tokens in one place."""
    states = np.random.default_rng(0).normal(size=(2, 3, *size)).astype(dtype)
    states[-1, -1] = states[-1, -1, 0]
    observable = NativeObservable.of(KNOWN[name])
    assert observable is not None

    found = observable.values(states)

    with double():
        function = cast(KNOWN[name], "float64")
        expected = [[function(0.0, jnp.asarray(state, "float64")) for state in group] for group in states]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


def test_only_attnflows_own_observables_are_known():
    given = {**KNOWN, "own": lambda time, x: x[0, 0], "twice": TwiceTheEnergy(3.0)}

    assert set(native_observables(given)) == set(KNOWN)


def test_a_run_has_both_kinds_at_its_times():
    tokens, times = af.initial.sphere(9, 3, rng=0, runs=5), np.linspace(0, 3, 100)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))
    seen = {**KNOWN, "own": lambda time, x: time * jnp.sum(x[:, 0]), "twice": TwiceTheEnergy(3.0)}

    run = af.simulate(flow, tokens, times, observables=seen, progress=False)

    x = run.tokens.values
    cosines = np.einsum("rtic,rtjc->rtij", x, x)
    np.testing.assert_allclose(run.energy, np.exp(3 * (cosines - 1)).mean((-1, -2)), rtol=1e-12)
    np.testing.assert_allclose(run.twice, 2 * run.energy, rtol=1e-12)
    np.testing.assert_allclose(run.mean_cosine, (cosines.sum((-1, -2)) - 9) / 72, atol=1e-12)
    np.testing.assert_allclose(run.close_pairs, ((cosines > 0.4).sum((-1, -2)) - 9) / 72)
    np.testing.assert_allclose(run.own, times * x[..., 0].sum(-1), atol=1e-12)
    np.testing.assert_allclose(run.order_parameter, np.linalg.norm(x.mean(-2), axis=-1), rtol=1e-12)
