"""The counterexample to Conjecture 1: scalar equation, configuration, stability, share of starts, scans."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attnflow.theorems.studies import conjecture1, two_tokens
from attnflow.theorems.studies.two_tokens import TwoTokens

INDEFINITE = TwoTokens()
POSITIVE = TwoTokens(query_key=np.diag([0.05, 4.0]), beta=1.0)
NOT_NORMAL = TwoTokens(eigenvalues=(1.0, 0.5), query_key=np.eye(2), beta=0.2, eigenvector_angle=np.radians(30.0))
MODELS = pytest.mark.parametrize(
    "model", [INDEFINITE, POSITIVE, NOT_NORMAL], ids=["indefinite", "positive", "not-normal"]
)


def equilibria_of(model):
    return two_tokens.interior_equilibria(model.eigenvalues, model.query_key, model.beta, model.eigenvector_angle)


def field(phi, model):
    """phi' from the definition: softmax over two tokens, value, projection."""
    first, token = np.array([1.0, 0.0]), np.array([np.cos(phi), np.sin(phi)])
    scores = np.exp(model.beta * np.array([token @ model.query_key @ first, token @ model.query_key @ token]))
    weights = scores / scores.sum()
    pull = model.value @ (weights[0] * first + weights[1] * token)
    return pull @ [-np.sin(phi), np.cos(phi)]


@MODELS
def test_value_has_its_eigenvectors(model):
    for angle, size in zip((0.0, model.eigenvector_angle), model.eigenvalues, strict=True):
        vector = np.array([np.cos(angle), np.sin(angle)])
        np.testing.assert_allclose(model.value @ vector, size * vector, atol=1e-14)


@MODELS
def test_equilibria_are_zeros_of_the_flow(model):
    found = equilibria_of(model)
    pattern = [False, True] if model is NOT_NORMAL else [True, False, False, True]
    assert [one.is_stable for one in found] == pattern
    gap = model.eigenvalues[0] - model.eigenvalues[1]
    for one in found:
        assert abs(field(one.angle, model)) < 1e-13
        assert one.residual_speed < 1e-13
        slope = (field(one.angle + 1e-6, model) - field(one.angle - 1e-6, model)) / 2e-6
        # the first token's rate at xi is lambda_2 - lambda_1
        np.testing.assert_allclose(np.sort(one.linearisation.eigenvalues.real), np.sort([slope, -gap]), atol=1e-7)


@pytest.mark.parametrize("model", [INDEFINITE, POSITIVE], ids=["indefinite", "positive"])
def test_the_part_along_xi_follows_from_attention(model):
    """alpha = -(a / (1 - a)) lambda_1 / (lambda_1 - lambda_2)."""
    for one in equilibria_of(model):
        ratio = one.attention_to_first / (1 - one.attention_to_first)
        np.testing.assert_allclose(np.cos(one.angle), -2 * ratio, rtol=1e-9)


@MODELS
def test_a_start_nearby_ends_there(model):
    stable = equilibria_of(model)[-1].angle
    solved = solve_ivp(lambda _, phi: field(phi[0], model), (0, 300), [stable - 0.1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solved.y[0, -1], stable, atol=1e-7)


def test_a_value_that_is_not_normal_breaks_it_without_any_scores():
    """At beta = 0 queries and keys do not matter at all, and still a fifth of the starts end elsewhere."""
    found = conjecture1.investigate((1.0, 0.3), np.eye(2), 0.0, eigenvector_angle=np.radians(20.0), runs=100, end=150.0)
    assert found.refutes
    assert found.elsewhere == 0
    assert found.interior.interval[0] > 0.1


def test_scan_of_values():
    scan = conjecture1.scan_value(angles=[30.0, 90.0], ratios=[-0.5, 0.5], beta=0.2)
    assert bool(scan.sel(angle=30.0, ratio=0.5))
    assert not scan.sel(angle=90.0).any()
    assert not scan.sel(ratio=-0.5).any()


def test_share_of_random_starts_against_an_independent_flow():
    """About a third of uniform starts; the oracle integrates the full two-token equations with SciPy."""
    found = conjecture1.investigate(runs=200)
    low, high = found.interior.interval
    assert found.refutes
    assert found.elsewhere == 0
    assert low < found.interior.fraction < high
    assert 0.2 < low < high < 0.55
    generator, inside = np.random.default_rng(5), 0
    for first, phi in generator.uniform(-np.pi, np.pi, (60, 2)):
        angles = solve_ivp(_two_tokens, (0, 60), [first, phi], rtol=1e-8, atol=1e-10).y[:, -1]
        inside += abs(abs((angles[1] - angles[0] + np.pi) % (2 * np.pi) - np.pi) - np.radians(109.3365)) < 1e-3
    oracle = conjecture1.Share(inside, 60)
    assert oracle.interval[0] < high
    assert oracle.interval[1] > low


def _two_tokens(_, angles):
    tokens = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    scores = np.exp(4.0 * tokens @ INDEFINITE.query_key @ tokens.T) * np.tri(2)
    pulls = (scores / scores.sum(axis=1, keepdims=True)) @ tokens @ np.diag([2.0, 1.0])
    return np.sum(pulls * np.stack([-np.sin(angles), np.cos(angles)], axis=1), axis=1)


def test_nothing_is_found_for_multiples_of_the_identity():
    """Negative control: with Q^T K = k I, k >= 0, every interior equilibrium is unstable."""
    multiples = np.array([0.0, 0.1, 1.0, 10.0])[:, None, None] * np.eye(2)
    for beta in (0.1, 1.0, 4.0, 30.0):
        assert not two_tokens.has_stable_interior(multiples, beta=beta).any()
    found = conjecture1.investigate(query_key=np.eye(2), runs=100)
    assert not found.refutes
    assert found.interior.count == 0
    assert all(one.linearisation.is_unstable for one in found.equilibria)


def test_scan_of_diagonal_scores():
    scan = conjecture1.scan_diagonal(first=[-1.0, 0.05, 1.0], second=[-1.0, 1.0, 4.0], beta=1.0)
    assert scan.dims == ("k1", "k2")
    assert bool(scan.sel(k1=0.05, k2=4.0))  # positive definite
    assert not scan.sel(k1=1.0).any()
    for k1 in scan.k1.values:
        for k2 in scan.k2.values:
            equilibria = two_tokens.interior_equilibria(query_key=np.diag([k1, k2]), beta=1.0)
            assert bool(scan.sel(k1=k1, k2=k2)) == any(one.is_stable for one in equilibria)


def test_scan_of_random_scores():
    any_scores, positive = conjecture1.scan_gaussian(300), conjecture1.scan_gaussian(300, positive=True)
    assert 0 < positive.fraction < any_scores.fraction < 1
    assert any_scores.total == 300
    again = conjecture1.scan_gaussian(300)
    assert again == any_scores


def test_random_scores_agree_with_the_derivative_of_the_flow():
    matrices = np.random.default_rng(3).normal(size=(12, 2, 2))
    flags = two_tokens.has_stable_interior(matrices)
    models = [TwoTokens(query_key=matrix) for matrix in matrices]
    stable = [any(one.is_stable for one in equilibria_of(model)) for model in models]
    np.testing.assert_array_equal(flags, stable)
    assert 0 < flags.sum() < 12


def test_the_report_says_what_was_found():
    text = "\n".join(conjecture1.investigate(runs=50).report())
    assert "109.337 degrees: stable" in text
    assert "does not hold" in text
    assert "of 50; 95 % interval" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eigenvalues": (1.0, 2.0)}, "the first positive and the larger"),
        ({"query_key": np.eye(3)}, "2 x 2"),
        ({"beta": np.nan}, "beta"),
        ({"eigenvector_angle": 0.0}, "between 0 and pi"),
    ],
)
def test_bad_input_is_a_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        TwoTokens(**arguments)


def test_other_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="runs"):
        conjecture1.investigate(runs=0)
    with pytest.raises(ValueError, match="one 2 x 2 matrix"):
        two_tokens.interior_equilibria(query_key=np.zeros((3, 2, 2)))


def test_a_last_time_long_after_rest_costs_nothing_and_changes_nothing():
    usual, late = (conjecture1.investigate(runs=20, end=end) for end in (60.0, 1e12))
    assert usual.interior.count == late.interior.count
    assert usual.elsewhere == late.elsewhere == 0


def test_angular_velocity_is_that_of_the_flow():
    found, angles = conjecture1.investigate(runs=2, end=1.0), np.linspace(-3, 3, 7)
    expected = [field(angle, INDEFINITE) for angle in angles]
    np.testing.assert_allclose(conjecture1.angular_velocity(angles, found), expected, atol=1e-13)


def test_an_equilibrium_a_quarter_of_a_degree_from_the_antipode_is_found():
    """At beta = 0 F = (lambda_1 + (lambda_1 - lambda_2) cos(phi)) / 2, with the zero phi = pi - delta by choice."""
    delta = np.radians(0.25)
    found = two_tokens.interior_equilibria((1.0, 1 - 1 / np.cos(delta)), np.eye(2), beta=0.0)
    np.testing.assert_allclose([one.angle for one in found], [delta - np.pi, np.pi - delta], rtol=1e-9)
