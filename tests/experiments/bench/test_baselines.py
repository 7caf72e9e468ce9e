"""Every other way to compute a flow computes the same flow, and a wrong beta is told apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import double
from attnflow.experiments.bench import baselines, plain_loop, velocities
from attnflow.experiments.bench.rows import ROWS, mean_of_cosines

BETA = 3.0
TOKENS = af.initial.sphere(16, 3, rng=0)


def expected(tokens, is_causal=False):
    mask = af.masks.causal if is_causal else af.masks.full
    return np.asarray(af.velocity(af.SphereAttention(af.Head.identity(3), af.Softmax(BETA), mask), tokens))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("xp", [np, jnp])
def test_velocities_in_whole_arrays_are_those_of_the_flow(is_causal, xp):
    with double():
        velocity = lambda beta: baselines.sphere_velocity(xp.asarray(TOKENS), beta, is_causal=is_causal, xp=xp)
        found, other = np.asarray(velocity(BETA)), np.asarray(velocity(1.01 * BETA))

    np.testing.assert_allclose(found, expected(TOKENS, is_causal), atol=1e-14)
    assert np.abs(other - expected(TOKENS, is_causal)).max() > 1e-3


def test_velocities_in_blocks_are_those_of_the_flow():
    tokens = af.initial.sphere(2 * baselines.BLOCK_ROWS, 3, rng=1)
    with double():
        found = baselines.blocked_velocity(jnp.asarray(tokens), BETA)

    np.testing.assert_allclose(found, expected(tokens), atol=1e-13)


@pytest.mark.skipif(plain_loop.compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_bare_loop_computes_the_averages_of_the_flow(is_causal):
    averages = plain_loop.averages(TOKENS[None], BETA, is_causal=is_causal, threads=1)[0]
    tangent = averages - np.sum(averages * TOKENS, axis=1, keepdims=True) * TOKENS

    np.testing.assert_allclose(tangent, expected(TOKENS, is_causal), atol=1e-13)


@pytest.mark.parametrize("per_score", [True, False])
def test_nested_loops_are_forward_euler_of_the_rescaled_flow(per_score):
    tokens = af.initial.box(4, 2, -1, 1, rng=0)
    flow = af.RescaledAttention(af.Head.identity(2))
    euler = af.simulate(flow, tokens, np.linspace(0, 0.5, 6), solver=af.Euler(0.1)).final_tokens

    np.testing.assert_allclose(baselines.nested_loops(tokens, 0.5, 0.1, per_score=per_score), euler, atol=1e-12)
    np.testing.assert_allclose(
        baselines.rescaled_velocity(tokens, 0.3), np.asarray(af.velocity(flow, tokens, 0.3)), atol=1e-13
    )


def test_the_published_batch_is_forward_euler_on_the_sphere():
    tokens = af.initial.sphere(5, 3, rng=0, runs=2)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(BETA))
    euler = af.simulate(flow, tokens, np.linspace(0, 1, 6), solver=af.Euler(0.1), progress=False)
    found = baselines.euler_batch(tokens, BETA, 1.0, 0.1, 6, xp=np, observable=lambda x: x)

    np.testing.assert_allclose(np.array(found).swapaxes(0, 1), euler.tokens, atol=1e-12)


def test_solutions_of_diffrax_and_scipy_are_those_of_the_flow():
    times, tolerances = np.linspace(0, 2, 3), (1e-9, 1e-11)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(BETA))
    run = af.simulate(flow, TOKENS, times, progress=False).tokens.values
    with double():
        solve = lambda x: baselines.diffrax_solution(
            lambda y: baselines.sphere_velocity(y, BETA), x, jnp.asarray(times), tolerances
        )
        by_diffrax = jax.jit(solve)(jnp.asarray(TOKENS))
    by_scipy = baselines.scipy_solution(lambda y: baselines.sphere_velocity(y, BETA, xp=np), TOKENS, times, tolerances)

    np.testing.assert_allclose(by_diffrax, run, atol=1e-6)
    np.testing.assert_allclose(by_scipy, run, atol=1e-6)


def test_contenders_of_velocity_rows_have_the_same_numbers():
    with double():
        rows = [
            velocities.pairs("sets", 8, 3, BETA, sets=2, calls=2),
            velocities.pairs("causal", 8, 2, BETA, is_causal=True, calls=2),
            velocities.heads("heads", count=4, n=6, d=8, calls=2),
        ]
        found = [[one.compute() for one in row.contenders if one.has_same_numbers] for row in rows]

    for ours, *others in found:
        assert others
        for numbers in others:
            np.testing.assert_allclose(numbers, ours, atol=1e-13)


def test_rows_have_their_names():
    with double():
        assert all(ROWS[name](True).name == name for name in ("polytope", "large-run", "causal-ensemble"))


def test_the_observable_of_the_phase_diagram_is_that_of_the_package():
    with double():
        expected = float(af.observables.mean_cosine(0.0, jnp.asarray(TOKENS)))

    np.testing.assert_allclose(mean_of_cosines(np.stack([TOKENS, TOKENS])), [expected, expected], rtol=1e-12)
