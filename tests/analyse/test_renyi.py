"""Renyi centres against brute force, their numbers against Monte Carlo, and what they capture."""

import numpy as np
import pytest
from scipy.integrate import quad

import attnflow as af
from attnflow.analyse import renyi


def brute_force(tokens, delta, strong, query_key=None):
    """The definition, one token and one pair at a time."""
    score = np.eye(tokens.shape[1]) if query_key is None else query_key
    found = []
    for k, token in enumerate(tokens):
        earlier = range(k) if strong else [j for j in range(k) if found[j]]
        found.append(all(np.arccos(np.clip(token @ score @ tokens[j], -1, 1)) > delta for j in earlier))
    return np.array(found)


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_centres_are_those_of_the_definition(d, strong):
    runs = af.initial.sphere(40, d, rng=d, runs=3)
    find = renyi.strong_centres if strong else renyi.centres

    found = find(runs, 0.7)

    assert found.dims == ("time", "token")  # three axes are times, tokens, coordinates
    for one, tokens in zip(found.values, runs, strict=True):
        np.testing.assert_array_equal(one, brute_force(tokens, 0.7, strong))


@pytest.mark.parametrize("strong", [False, True])
def test_centres_in_the_geometry_of_the_scores(strong):
    tokens = af.initial.sphere(40, 3, rng=1)
    query_key = np.random.default_rng(0).normal(size=(3, 3))  # not symmetric: the order of the two tokens matters
    find = renyi.strong_centres if strong else renyi.centres

    np.testing.assert_array_equal(find(tokens, 0.9, query_key), brute_force(tokens, 0.9, strong, query_key))
    assert not np.array_equal(find(tokens, 0.9, query_key), find(tokens, 0.9, query_key.T))


def test_strong_centres_are_centres_and_the_first_token_is_one():
    tokens = af.initial.sphere(60, 2, rng=0)
    strong, all_centres = renyi.strong_centres(tokens, 0.4).values, renyi.centres(tokens, 0.4).values
    assert strong[0]
    assert np.all(all_centres[strong])
    assert all_centres.sum() > strong.sum()


def test_one_token_equal_tokens_and_missing_tokens():
    assert renyi.count(np.array([[1.0, 0.0]]), 0.5) == 1
    assert renyi.count(np.tile([0.6, 0.8], (7, 1)), 0.5, strong=True) == 1
    broken = af.initial.sphere(5, 2, rng=0, runs=3)
    broken[1, 2, 0] = np.nan
    counts = renyi.count(broken, 0.5).values
    assert counts[1] == -1
    assert np.all(counts[[0, 2]] >= 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: renyi.centres(2 * np.eye(2), 0.5), "unit sphere"),
        (lambda: renyi.centres(np.eye(2), -1.0), "delta"),
        (lambda: renyi.centres(np.eye(2), 0.5, np.eye(3)), "query_key"),
        (lambda: renyi.captured_fraction(np.eye(2)[None], 0.5), "radius"),
        (lambda: renyi.separation(0.0), "beta"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("d", [2, 3, 4, 7])
@pytest.mark.parametrize("delta", [0.3, 1.2, 2.5])
def test_mass_of_a_cap(d, delta):
    """The cap's share is the integral of sin^{d-2} up to delta over that up to pi."""
    part, whole = (quad(lambda x: np.sin(x) ** (d - 2), 0, end)[0] for end in (delta, np.pi))
    np.testing.assert_allclose(renyi.cap_mass(delta, d), part / whole, rtol=1e-9)


def test_limits_of_the_strong_count():
    np.testing.assert_allclose(renyi.expected_strong_count(0.3, 2), np.pi / 0.3, rtol=1e-12)
    np.testing.assert_allclose(renyi.expected_strong_count(0.3, 3), np.sin(0.15) ** -2, rtol=1e-12)
    np.testing.assert_allclose(renyi.expected_strong_count(0.3, 3, 10**9), np.sin(0.15) ** -2, rtol=1e-9)
    assert renyi.expected_strong_count(0.3, 4, 1) == pytest.approx(1.0, rel=1e-12)
    assert renyi.expected_strong_count(4.0, 3, 10) == 1.0  # a cap that is everything


@pytest.mark.parametrize(("d", "n"), [(2, 30), (3, 60), (5, 60)])
def test_expected_strong_count_against_draws(d, n):
    counts = renyi.count(af.initial.sphere(n, d, rng=d, runs=600), 0.6, strong=True).values
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - renyi.expected_strong_count(0.6, d, n)) < 4 * error


def test_the_printed_count_in_three_dimensions_is_three_times_too_small():
    counts = renyi.count(af.initial.sphere(400, 3, rng=0, runs=200), 0.6, strong=True).values
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - np.sin(0.3) ** -2) < 4 * error
    assert abs(counts.mean() - np.sin(0.3) ** -2 / 3) > 40 * error


def test_parking_constant_by_its_nested_integral():
    ein = lambda t: quad(lambda u: -np.expm1(-u) / u if u else 1.0, 0, t)[0]
    until_five = quad(lambda t: np.exp(-2 * ein(t)), 0, 5)[0]
    np.testing.assert_allclose(renyi.parking_constant(5.0), until_five, rtol=1e-8)
    np.testing.assert_allclose(renyi.parking_constant(1e9), renyi.parking_constant(), rtol=1e-8)
    assert abs(renyi.parking_constant() - 0.7475979202534114) < 1e-12  # the known digits


def test_count_on_the_circle_against_draws():
    counts = renyi.count(af.initial.circle(80, rng=0, runs=600), 0.6).values
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - renyi.expected_count_on_circle(0.6, 80)) < 4 * error
    assert abs(counts.mean() - np.pi / 0.6) > 20 * error  # not that of strong centres


@pytest.mark.parametrize("beta", [0.3, 1.0, 10.0, 64.0, 1e6])
def test_interaction_has_its_peak_and_slope(beta):
    peak, around = renyi.interaction_peak(beta), np.linspace(0.2, 1.8, 2001)
    assert renyi.interaction(peak, beta) >= renyi.interaction(peak * around, beta).max()
    angles, step = peak * np.array([0.3, 1.0, 1.7]), 1e-6 * peak
    numerical = (renyi.interaction(angles + step, beta) - renyi.interaction(angles - step, beta)) / (2 * step)
    np.testing.assert_allclose(renyi.interaction_slope(angles, beta), numerical, atol=1e-7)
    np.testing.assert_allclose(np.cos(peak), (np.sqrt(4 * beta**2 + 1) - 1) / (2 * beta), rtol=1e-9)


def test_captured_fraction_counts_tokens_near_centres():
    at = lambda *angles: np.stack([np.cos(angles), np.sin(angles)], axis=1)
    run = np.stack([at(0.0, 1.0, 0.3, 2.0), at(0.0, 1.0, 0.05, 1.05)])
    # Centres of the first snapshot at delta = 0.9: tokens 0, 1, 3.
    np.testing.assert_allclose(renyi.captured_fraction(run, 0.9, 0.1), [0.75, 1.0])
    np.testing.assert_allclose(renyi.captured_fraction(run, 0.9, beta=100.0), [0.75, 1.0])
    # From where the centres were, token 3 is now beside centre 1; strong centres are the same here.
    np.testing.assert_allclose(renyi.captured_fraction(run, 0.9, 0.01, still=True), [0.75, 0.5])
    np.testing.assert_allclose(renyi.captured_fraction(run, 0.9, 0.01), [0.75, 0.75])


def test_captured_fraction_of_an_ensemble_equals_that_of_its_runs():
    runs = af.initial.sphere(30, 2, rng=0, runs=8).reshape(2, 4, 30, 2)
    runs[1, 3] = np.nan
    both = renyi.captured_fraction(runs, 0.6, 0.2, strong=True)
    assert both.dims == ("run", "time")
    for one, run in zip(both.values, runs, strict=True):
        np.testing.assert_array_equal(one, renyi.captured_fraction(run, 0.6, 0.2, strong=True))
    assert np.isnan(both.values[1, 3])
    assert np.isfinite(both.values).sum() == 7
