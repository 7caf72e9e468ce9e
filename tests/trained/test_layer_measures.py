"""Measurements between layers against plain formulas: CKA, effective rank, second eigenvalue, energy and its falls."""

import numpy as np
import pytest
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.trained import attention_graph, layer_energy, layer_similarity


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


def test_linear_cka_is_the_published_formula(rng):
    x, y = rng.normal(size=(9, 4)), rng.normal(size=(9, 7))
    a, b = x - x.mean(0), y - y.mean(0)
    expected = np.linalg.norm(b.T @ a) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    np.testing.assert_allclose(layer_similarity.linear_cka(x, y), expected)
    stretched = x * [1.0, 1.0, 1.0, 9.0]
    assert layer_similarity.linear_cka(x, stretched) < 0.999  # it is invariant under rotation, shift and one scale only
    assert np.isnan(layer_similarity.linear_cka(x, np.ones((9, 2))))


def test_consecutive_layers_are_compared_in_order(rng):
    run = rng.normal(size=(3, 6, 4))
    run[2] = 2 * run[1] + 1
    found = layer_similarity.consecutive_cka(run).values
    np.testing.assert_allclose(found, [layer_similarity.linear_cka(run[0], run[1]), 1.0])
    with pytest.raises(InputError, match="the same tokens, but they have 6 and 5"):
        layer_similarity.linear_cka(run[0], run[1, :5])


def test_effective_rank_lies_between_one_and_the_rank(rng):
    line = rng.normal(size=(6, 1)) @ rng.normal(size=(1, 5))
    flat = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5))
    found = layer_similarity.effective_rank(np.stack([line, flat])).values
    np.testing.assert_allclose(found[0], 1)
    sizes = np.linalg.svd(flat, compute_uv=False)[:2]
    shares = sizes / sizes.sum()
    np.testing.assert_allclose(found[1], np.exp(-np.sum(shares * np.log(shares))), rtol=1e-6)


def test_second_eigenvalue_is_the_rate_at_which_differences_decay(rng):
    weights = rng.random((2, 5, 5))
    weights /= weights.sum(axis=-1, keepdims=True)
    found = attention_graph.second_eigenvalue(weights)
    for matrix, rate in zip(weights, found, strict=True):
        stationary = np.linalg.matrix_power(matrix, 99)[0]
        differences = matrix - stationary  # its powers are those of P without the eigenvalue 1
        forgotten = np.linalg.norm(np.linalg.matrix_power(differences, 200))
        np.testing.assert_allclose(forgotten ** (1 / 200), rate, rtol=0.02)  # up to the norms of eigenvectors
    assert attention_graph.second_eigenvalue([[1.0]]) == 0


def test_the_iterative_second_eigenvalue_is_that_of_all_eigenvalues(rng):
    weights = rng.random((140, 140)) ** 8
    weights /= weights.sum(axis=-1, keepdims=True)
    causal = np.tril(weights) / np.tril(weights).sum(axis=-1, keepdims=True)
    expected = [np.sort(np.abs(np.linalg.eigvals(one)))[-2] for one in (weights, causal)]
    np.testing.assert_allclose(attention_graph.second_eigenvalue([weights, causal]), expected, rtol=1e-6)


def test_eigenvalues_of_equal_modulus():
    """A head that looks one token back, mixed with the mean: all other eigenvalues lie on one circle, 0.9 from 0."""
    weights = 0.9 * np.roll(np.eye(140), 1, axis=1) + 0.1 / 140
    np.testing.assert_allclose(attention_graph.second_eigenvalue(weights), 0.9, rtol=1e-6)


@pytest.fixture(scope="module")
def stream():
    """Two blocks on three tokens: attention draws all together, the MLP of the second drives tokens 0 and 2 apart."""
    angles = np.array([[0.0, 1.0, 2.0], [0.2, 1.0, 1.8], [0.3, 1.0, 1.7], [0.4, 1.0, 1.6], [0.1, 1.0, 1.9]])
    states = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * [[1.0], [2.0], [5.0]]  # lengths must not matter
    per_token = ("token", "coordinate")
    return xr.Dataset(
        {"tokens": (("time", *per_token), states[::2]), "after_attention": (("layer", *per_token), states[1::2])},
        {"time": [0.0, 1.0, 2.0]},
    )


def test_energy_is_the_double_sum(stream):
    found = layer_energy.by_layer(stream, [2.0])
    for time, tokens in enumerate(stream.tokens.values):
        units = [token / np.linalg.norm(token) for token in tokens]
        expected = np.mean([np.exp(2.0 * (one @ other - 1)) for one in units for other in units])
        np.testing.assert_allclose(found.energy.values[0, time], expected)
    np.testing.assert_allclose(found.change.values.sum(axis=2), np.diff(found.energy.values, axis=1))


def test_a_fall_names_the_half_and_the_pair(stream):
    (fall,) = layer_energy.falls(stream, [2.0])
    assert (fall.layer, fall.half) == (1, "mlp")
    assert fall.change < 0
    assert len(fall.pairs) == 3
    for one, other, share in fall.pairs:
        before, after = (np.cos(angle[one] - angle[other]) for angle in ([0.4, 1.0, 1.6], [0.1, 1.0, 1.9]))
        np.testing.assert_allclose(share * fall.change, 2 / 9 * (np.exp(2 * (after - 1)) - np.exp(2 * (before - 1))))
    assert [share for _, _, share in fall.pairs] == sorted((share for _, _, share in fall.pairs), reverse=True)
    rising = stream.isel(time=[0, 1], layer=[0])
    assert layer_energy.falls(rising, [2.0]) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_does_not_count_as_a_fall(stream, rng, dtype):
    """One token, or tokens that agree: the energy is 1 for ever, and what differs from it are roundings."""
    one = rng.normal(size=7)
    for n in (1, 5):
        lengths = rng.uniform(0.1, 9, size=(5, n, 1))
        states = (lengths * one).astype(dtype)
        run = xr.Dataset(
            {
                "tokens": (stream.tokens.dims, states[::2]),
                "after_attention": (stream.after_attention.dims, states[1::2]),
            }
        )
        assert layer_energy.falls(run, [1.0, 16.0, 64.0]) == []
        moved = states[3].copy()
        moved[0] += np.eye(7)[0].astype(dtype) * lengths[3, 0].astype(dtype)  # one token turns away
        turned = run.copy(deep=True)
        turned.after_attention[1] = moved
        assert [(fall.layer, fall.half) for fall in layer_energy.falls(turned, [1.0])] == [(1, "attention")] * (n > 1)


def test_a_run_without_sublayers_is_refused(stream):
    with pytest.raises(InputError, match="sublayers=True"):
        layer_energy.by_layer(stream.drop_vars("after_attention"))
