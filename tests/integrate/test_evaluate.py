"""Attention of some rows and at all times, with its labels."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.integrate import evaluate

FLOW = af.EuclideanAttention(af.Head(np.array([[1.0, 2.0], [0.0, 1.0]]), np.eye(2), np.eye(2)))
TOKENS = np.array([[0.1, 0.5], [1.0, -0.3], [-0.7, 0.2]])


def test_weights_are_those_of_the_scores_of_queries_and_keys():
    """Q is not symmetric, and K not the identity: <Q x_i, K x_j>."""
    query, key = np.array([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]]), np.array([[0.3, 0.0], [1.0, -1.0], [0.0, 2.0]])
    flow = af.EuclideanAttention(af.Head(query, key, np.eye(2)), af.Softmax(1.5))
    scores = np.array([[(query @ x) @ (key @ y) for y in TOKENS] for x in TOKENS])
    expected = np.exp(1.5 * scores) / np.exp(1.5 * scores).sum(axis=1, keepdims=True)

    np.testing.assert_allclose(af.attention_matrix(flow, TOKENS), expected, rtol=1e-12)


def test_some_rows_are_those_of_the_whole_matrix_in_the_order_asked_for():
    whole = af.attention_matrix(FLOW, TOKENS)

    np.testing.assert_array_equal(af.attention_matrix(FLOW, TOKENS, rows=[2, 0]), whole[[2, 0]])


@pytest.mark.parametrize("rows", [[3], [-1], [0.0], [[0]], 1])
def test_rows_are_numbers_of_tokens(rows):
    with pytest.raises(InputError, match="numbers of tokens, 0 to 2, in a list"):
        af.attention_matrix(FLOW, TOKENS, rows=rows)


@pytest.mark.parametrize("runs", [None, 2])
def test_attention_over_time_has_the_times_and_runs_of_the_run(runs):
    tokens = TOKENS if runs is None else np.stack([TOKENS, 2 * TOKENS])
    run = af.simulate(FLOW, tokens, [0.0, 0.5, 1.5], solver=af.Euler(0.5), progress=False)

    found = evaluate.attention_over_time(run)

    assert found.dims == (("time",) if runs is None else ("run", "time")) + ("token", "attended")
    np.testing.assert_array_equal(found.time, [0.0, 0.5, 1.5])
    last = run.tokens.values[-1] if runs is None else run.tokens.values[1, -1]
    np.testing.assert_allclose(
        found.values[-1] if runs is None else found.values[1, -1], af.attention_matrix(FLOW, last)
    )


@pytest.mark.parametrize("count", [1, 3])
def test_velocities_of_several_states_are_those_of_each_at_its_time(count):
    """Of a flow whose velocities depend on time, and of one whose tokens have lengths."""
    states, times = np.stack([TOKENS, 2 * TOKENS, TOKENS[::-1]])[:count], np.array([0.0, 0.5, 2.0])[:count]
    for flow in (af.RescaledAttention(FLOW.heads), af.SphereAttention(FLOW.heads, normalisation=af.Pre())):
        expected = [af.velocity(flow, state, time) for state, time in zip(states, times, strict=True)]
        np.testing.assert_allclose(evaluate.velocities(flow, states, times), expected, rtol=1e-13, atol=1e-15)
