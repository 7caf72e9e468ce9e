"""Every model against the oracle: the same equations in plain NumPy, solved by SciPy.

Tokens are few, times short and tolerances tight, so that the two solutions differ by
solver error only; weights and velocities differ by rounding only.
"""

import numpy as np
import oracle
import pytest
from oracle import Weights, best_matches_stay, mask, solve, solve_in_pieces

import attnflow as af

N, D = 5, 3
TIMES = [0.0, 0.3, 0.7]
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
CLOSE = 1e-8  # a hundred times the tolerance of a step, for tokens of size about one
ROUNDING = 1e-12  # a few hundred roundings of numbers of size about ten

SPACES = {
    "R^d": (af.EuclideanAttention, oracle.Euclidean),
    "rescaled": (af.RescaledAttention, oracle.Rescaled),
    "sphere": (af.SphereAttention, oracle.Sphere),
}
ATTENTIONS = {
    "softmax": (af.Softmax(1.3), oracle.softmax(1.3)),
    "unnormalised": (af.Unnormalised(0.7), oracle.unnormalised(0.7)),
    "hardmax": (af.Hardmax(), oracle.hardmax()),
    "Sinkhorn": (af.Sinkhorn(1.3, iterations=5), oracle.sinkhorn(1.3, 5)),
}
SOME = np.random.default_rng(3).random((N, N)) < 0.5
np.fill_diagonal(SOME, [True, False, True, False, True])
MASKS = {
    "full": (af.masks.full, mask(N)),
    "causal": (af.masks.causal, mask(N, lambda i, j: j <= i)),
    "window": (af.masks.window(1), mask(N, lambda i, j: abs(i - j) <= 1)),
    "ALiBi": (af.masks.alibi(0.4), mask(N, factor=lambda i, j: np.exp(-0.4 * abs(i - j)))),
    "boolean": (af.masks.boolean(SOME), mask(N, lambda i, j: SOME[i, j])),
}


def matrices(rng, *shape):
    """Gaussian entries, of a size that keeps e^{tV} moderate."""
    return 0.6 * rng.normal(size=shape)


def heads(count, seed=0, d=D):
    """One full head; then one with query and key of rank one; then one with an output factor; and so on."""
    rng = np.random.default_rng(seed)
    ours, theirs = [], []
    for number in range(count):
        k = 1 if number == 1 else d
        query, key = matrices(rng, k, d), matrices(rng, k, d)
        value, output = (matrices(rng, 2, d), matrices(rng, d, 2)) if number == 2 else (matrices(rng, d, d), None)
        ours.append(af.Head(query=query, key=key, value=value, output=output))
        theirs.append(Weights(query, key, value if output is None else output @ value))
    return ours, theirs


def start(space, seed=1, n=N, d=D):
    """Gaussian tokens, on the sphere where they must be."""
    tokens = np.random.default_rng(seed).normal(size=(n, d))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True) if space == "sphere" else tokens


def calm_start(space, model, times=TIMES):
    """The first tokens drawn that keep their best matches; looked for with the oracle alone."""
    draws = (start(space, seed) for seed in range(1000))
    calm = next((tokens for tokens in draws if best_matches_stay(model, tokens, times)), None)
    assert calm is not None
    return calm


def both(space, attention, mask_name, count):
    """The flow and its oracle."""
    (flow, model), (ours, theirs) = SPACES[space], heads(count)
    (our_rule, rule), (our_mask, seen) = ATTENTIONS[attention], MASKS[mask_name]
    return flow(ours, our_rule, our_mask), model(theirs, rule, seen)


def assert_same_path(flow, tokens, expected, radii=None, solver=TIGHT, times=TIMES):
    """Simulated tokens (and lengths) are the expected ones."""
    run = af.simulate(flow, tokens, times, solver=solver)
    np.testing.assert_allclose(run.tokens.values, expected, rtol=0, atol=CLOSE)
    if radii is not None:
        np.testing.assert_allclose(run.radius.values, radii, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("space", SPACES)
def test_tokens_follow_the_equations(space, attention, mask_name, count):
    """Velocity, weights and path agree, for every space, rule, mask and number of heads.

    Hypothesis for hardmax, whose field jumps: nobody changes their best match on the way.
    """
    flow, model = both(space, attention, mask_name, count)
    tokens = calm_start(space, model) if attention == "hardmax" else start(space)

    expected, _ = solve(model, tokens, TIMES)

    assert_same_path(flow, tokens, expected)
    weights = af.attention_matrix(flow, tokens, time=0.4).reshape(count, N, N)
    np.testing.assert_allclose(weights, model.attention(0.4, tokens), rtol=0, atol=ROUNDING)
    velocity, _ = model.velocity(0.4, tokens, np.ones(N))
    np.testing.assert_allclose(af.velocity(flow, tokens, time=0.4), velocity, rtol=0, atol=ROUNDING)
