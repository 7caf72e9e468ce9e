"""The last tokens as a function of JAX: equal to `simulate`, with derivatives held to differences and exact solutions."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.linalg import expm

import attnflow as af
from attnflow._common.checks import InputError
from attnflow._common.precision import double
from attnflow.integrate import discrete_adjoint
from attnflow.model.dynamics import State

VALUE = np.array([[0.6, -0.3, 0.1], [0.2, 0.5, 0.0], [-0.1, 0.4, -0.2]])
HEAD = af.Head(np.eye(3) + 0.2 * VALUE, np.eye(3), VALUE)
FLOWS = {
    "sphere, causal": af.SphereAttention(HEAD, af.Softmax(3.0), af.masks.causal),
    "sphere, unnormalised, two heads": af.SphereAttention([HEAD, af.Head.identity(3)], af.Unnormalised(1.5)),
    "R^d": af.EuclideanAttention(HEAD, af.Softmax(0.7)),
    "rescaled": af.RescaledAttention(HEAD, af.Softmax(0.7)),
}
TOKENS = af.initial.sphere(7, 3, rng=4)
TIGHT: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_equal_to_simulate(flow):
    run = af.simulate(flow, TOKENS, [0.0, 1.5], solver=af.Adaptive(**TIGHT), progress=False)
    with double():
        last = af.flow_map(flow, TOKENS, 1.5, **TIGHT)

    np.testing.assert_allclose(last, run.final_tokens.values, atol=1e-9)


def test_gradients_are_limits_of_differences():
    def loss(value, beta, tokens, end):
        flow = af.SphereAttention(af.Head(HEAD.query, HEAD.key, value), af.Softmax(beta), af.masks.causal)
        return af.flow_map(flow, tokens, end, **TIGHT)[:, 0].sum()

    arguments, changes = (VALUE, 3.0, TOKENS, 1.5), (0.3 * VALUE.T, 0.7, TOKENS[::-1] * 0.2, 0.4)
    with double():
        loss = jax.jit(loss)
        gradient = jax.grad(loss, argnums=(0, 1, 2, 3))(*arguments)
        for place, change in enumerate(changes):
            moved = [
                float(
                    loss(
                        *(one + sign * 1e-5 * change if index == place else one for index, one in enumerate(arguments))
                    )
                )
                for sign in (1, -1)
            ]
            assert float(np.sum(gradient[place] * change)) == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-6)


def test_weights_may_be_constants_of_jax_inside_a_compiled_function():
    with double():
        value = jax.numpy.asarray(VALUE)
        last = lambda beta: af.flow_map(af.EuclideanAttention(af.Head(value=value), af.Softmax(beta)), TOKENS, 0.5)

        np.testing.assert_allclose(jax.jit(last)(2.0), last(2.0), rtol=1e-12)


def test_the_gradient_of_one_token_is_that_of_the_matrix_exponential():
    direction, token = np.array([0.3, -1.0, 0.5]), np.array([[1.0, 2.0, -1.0]])
    flow = af.EuclideanAttention(HEAD)
    with double():
        gradient = eqx.filter_grad(lambda flow: (af.flow_map(flow, token, 1.2, **TIGHT) @ direction)[0])(flow)

    # The block matrix [[V, E], [0, V]] has the derivative of e^{tV} in the direction E as its corner.
    exact = np.zeros((3, 3))
    for row, column in np.ndindex(3, 3):
        unit = np.zeros((3, 3))
        unit[row, column] = 1.0
        corner = expm(1.2 * np.block([[VALUE, unit], [np.zeros((3, 3)), VALUE]]))[:3, 3:]
        exact[row, column] = direction @ corner @ token[0]
    np.testing.assert_allclose(gradient.heads[0].value, exact, atol=1e-8)


def _by_diffrax(flow, tokens, start, end, tolerances):
    """The last tokens, whose derivatives are those that diffrax takes of its own steps."""
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda time, tokens, _: flow.velocity(time, State(tokens)).tokens),
        diffrax.Tsit5(),
        t0=start,
        t1=end,
        dt0=None,
        y0=tokens,
        stepsize_controller=diffrax.PIDController(**tolerances),
        max_steps=500,
    )
    return solution.ys[0]


def _turning_flow(value, beta):
    weights = lambda time: af.Head(HEAD.query, HEAD.key, value * jax.numpy.cos(3 * time))
    return af.EuclideanAttention(af.TimeDependentHead(weights, 3), af.Softmax(beta))


# Both need more than three steps, of which few are kept: the earlier ones are taken again. Times run in both directions.
@pytest.mark.parametrize(("start", "end", "kept"), [(0.2, 2.0, 64), (0.2, 2.0, 3), (1.0, -0.5, 2)])
def test_derivatives_are_those_of_the_steps_at_any_tolerance(monkeypatch, start, end, kept):
    monkeypatch.setattr(discrete_adjoint, "_kept_steps", lambda tokens: kept)
    loose: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}

    def found(last):
        loss = lambda value, beta, tokens, start, end: (last(_turning_flow(value, beta), tokens, start, end) ** 3).sum()
        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3, 4)))(VALUE, 3.0, TOKENS, start, end)

    with double():
        ours = found(lambda flow, tokens, start, end: af.flow_map(flow, tokens, end, start=start, **loose))
        oracle = found(lambda flow, tokens, start, end: _by_diffrax(flow, tokens, start, end, loose))

    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(oracle), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


def test_gradients_of_several_starts_at_once(monkeypatch):
    monkeypatch.setattr(discrete_adjoint, "_kept_steps", lambda tokens: 3)
    starts = np.stack([TOKENS, TOKENS[::-1] * [1, -1, 1]])

    def loss(value, tokens):
        return af.flow_map(af.SphereAttention(af.Head(value=value)), tokens, 1.0, rtol=1e-5)[:, 0].sum()

    with double():
        gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
        together = jax.vmap(gradient, in_axes=(None, 0))(VALUE, starts)
        for number, tokens in enumerate(starts):
            for found, alone in zip(together, gradient(VALUE, tokens), strict=True):
                np.testing.assert_allclose(found[number], alone, rtol=1e-10, atol=1e-12)


def test_too_few_steps_raise_an_error():
    with double(), pytest.raises(Exception, match="max_steps"):
        af.flow_map(FLOWS["R^d"], TOKENS, 1.5, max_steps=2)


def test_several_starts_at_once_and_single_precision():
    starts = np.stack([TOKENS, TOKENS[::-1]]).astype(np.float32)
    flow = FLOWS["sphere, causal"]
    both = jax.vmap(lambda tokens: af.flow_map(flow, tokens, 1.0))(starts)

    assert both.dtype == np.float32
    np.testing.assert_allclose(both[1], af.flow_map(flow, starts[1], 1.0), atol=1e-5)


@pytest.mark.parametrize(
    ("flow", "tokens", "words"),
    [
        (af.SphereAttention(HEAD, noise=af.Noise(1.0)), TOKENS, "noise"),
        (af.SphereAttention(HEAD, normalisation=af.Pre()), TOKENS, "lengths"),
        (af.SphereAttention(af.PiecewiseHead([1.0], [HEAD, HEAD])), TOKENS, "jump"),
        (FLOWS["R^d"], TOKENS[:, :2], r"shape \(n, 3\)"),
        (FLOWS["R^d"], np.ones((2, 3), int), "floats"),
        ("sphere", TOKENS, "flow"),
    ],
)
def test_bad_input_gets_one_sentence(flow, tokens, words):
    with pytest.raises(InputError, match=words):
        af.flow_map(flow, tokens, 1.0)
