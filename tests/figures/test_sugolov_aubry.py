"""Numbers of the figures of the slides, at small sizes, against SciPy and against what theory says."""

import numpy as np
import pytest
from scipy.linalg import expm

from attnflow.figures.entries import multihead, multihead_rates, sugolov_aubry


@pytest.fixture(scope="module")
def two_sizes():
    settings = {"n": [4, 8], "d": 2, "heads": 3, "start": "gaussian", "end": 12.0, "saves": 25, "seed": 2}
    return multihead.compute_heads(False, **settings)


def test_tokens_grow_at_the_leading_eigenvalue_of_the_sum(two_sizes):
    """In the end all heads of a token look at leaders of its own side, and x' = (sum of V_h) x."""
    eigenvalues, vectors = np.linalg.eig(two_sizes.value.sum("head").values)
    leading = np.argmax(eigenvalues)

    numbers = multihead.head_numbers(two_sizes)

    for n in (4, 8):
        assert abs(numbers[f"growth rate at the end (n = {n})"] - eigenvalues[leading]) < 1e-3
        last = two_sizes.tokens.sel(n=n).values[-1, :n]
        cosines = np.abs(last @ vectors[:, leading]) / np.linalg.norm(last, axis=1)
        angle = np.degrees(np.arccos(np.clip(cosines.min(), 0, 1)))
        assert abs(numbers[f"largest angle to the eigenvector, degrees (n = {n})"] - angle) < 1e-4
        assert numbers[f"clusters at the end (n = {n})"] <= 2
    # Negative control: the best single head would give another rate.
    assert abs(numbers["largest real part of a single head"] - eigenvalues[leading]) > 0.1


def test_the_velocity_of_several_heads_is_the_sum_of_theirs(two_sizes):
    """A step of the flow from the start, with the heads made again from the seed."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(3, 2, 2)) / np.sqrt(6)
    factors = rng.normal(size=(3, 2, 2))
    x = two_sizes.tokens.sel(n=4).values[0, :4]
    velocity = np.zeros_like(x)
    for value, factor in zip(values, factors, strict=True):
        weights = np.exp(x @ (factor @ factor.T / 2) @ x.T)
        velocity += weights / weights.sum(axis=1, keepdims=True) @ x @ value.T

    fine = {"n": [4], "d": 2, "heads": 3, "start": "gaussian", "end": 2e-4, "saves": 3, "seed": 2}
    path = multihead.compute_heads(False, **fine).tokens.sel(n=4).values

    np.testing.assert_allclose((path[2] - path[0]) / 2e-4, velocity, atol=2e-3)  # first order in the step


@pytest.fixture(scope="module")
def coming_to_rest():
    return multihead_rates.compute_rates(False, heads=[1, 2, 4], runs=3, n=8, d=2, end=16.0, seed=0)


def test_any_number_of_heads_comes_to_rest_at_rate_one(coming_to_rest):
    """Where heads are Boolean and all tokens of a cluster look at the same ones, P has the eigenvalues 1 and 0.

    Single runs may still be on the way there: two leaders that are nearly equal take long to part.
    """
    measured = coming_to_rest.measured

    np.testing.assert_allclose(measured.median("run"), 1, atol=1e-3)
    assert np.mean(np.abs(measured - 1) < 0.01) > 0.9
    for law in coming_to_rest.law.values:
        for count in (1, 2, 4):
            of = f"Q^T K {law}, {count} head{'s' if count > 1 else ''}"
            median = multihead_rates.rate_numbers(coming_to_rest)[f"rate, {of}: median, least and largest"].split(",")[
                0
            ]
            assert float(median) == pytest.approx(np.nanmedian(measured.sel(law=law, heads=count)), abs=6e-4)


def test_the_weights_at_the_end_predict_the_rate(coming_to_rest):
    settled = np.isfinite(coming_to_rest.measured.values)

    np.testing.assert_allclose(coming_to_rest.predicted.values[settled], 1, atol=1e-6)


@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("floor", [1e-12, 1e-8])  # both below what counts as noise
def test_a_rate_does_not_depend_on_where_noise_begins_or_on_the_first_phase(rate, floor):
    times = np.linspace(0, 24, 181)
    fast = np.exp(-rate * times) + 30 * np.exp(-3 * times)  # gone by t = 8
    noise = floor * np.random.default_rng(0).random(len(times))

    found = multihead_rates.final_rate(times, fast + noise)

    assert found == pytest.approx(rate, abs=0.02)


def test_a_rate_that_still_changes_is_none():
    times = np.linspace(0, 16, 121)
    slow_then_fast = np.exp(-np.where(times < 8, 0.5 * times, 4 + (times - 8)))

    assert np.isnan(multihead_rates.final_rate(times[times < 10.1], slow_then_fast[times < 10.1]))
    assert multihead_rates.final_rate(times, slow_then_fast) == pytest.approx(1)


def test_the_time_at_rest_is_when_a_hundredth_of_the_way_is_left():
    times = np.linspace(0, 16, 161)
    tokens = np.exp(-times)[:, None, None] * np.array([[1.0, 2.0], [0.0, -3.0]])

    assert multihead_rates.time_at_rest(times, tokens) == pytest.approx(np.log(100), abs=0.1)  # the spacing of times


def test_start_laws_report_the_means_of_their_starts():
    dataset = sugolov_aubry.compute_laws(False, laws=["gaussian", "shell"], n=[8], d=[2], seeds=3, end=12.0, seed=0)

    numbers = sugolov_aubry.law_numbers(dataset)

    assert numbers["vertices, shell, n = 8, d = 2"] == dataset.vertices.sel(law="shell", n=8, d=2).values.mean()
    assert abs(numbers["median rate over all starts, 1 in theory"] - 1) < 0.02


@pytest.fixture(scope="module")
def frozen():
    return sugolov_aubry.compute_frozen(False, n=8, sizes=[0.2, 1.0], end=5.0, saves=26, seed=0)


def test_frozen_attention_is_the_matrix_exponential(frozen):
    for place in range(2):
        z = frozen.initial_tokens.values[place]
        weights = np.exp(z @ z.T)
        weights /= weights.sum(axis=1, keepdims=True)
        expected = expm(5.0 * (weights - np.eye(8))) @ z
        np.testing.assert_allclose(frozen.predicted[place, -1], expected, atol=1e-9)
        rates = np.sort(1 - np.linalg.eigvals(weights).real)
        np.testing.assert_allclose(frozen.rate[place], rates, atol=1e-9)


def test_a_slowest_rate_below_its_rounding_error_is_printed_as_zero():
    """Tokens of size 5: attention is decided, P has two blocks, and the second eigenvalue is one within rounding."""
    frozen = sugolov_aubry.compute_frozen(False, n=12, sizes=[0.2, 5.0], end=0.5, saves=3, seed=7)
    numbers = sugolov_aubry.frozen_numbers(frozen)

    shown = numbers["slowest rate, size 5"]
    assert shown.startswith("0 ± ")
    assert float(frozen.rate[1, 1]) < 1.5 * float(shown.removeprefix("0 ± ")) < 1e-12
    assert numbers["slowest rate, size 0.2"] == float(frozen.rate[0, 1])
    assert float(frozen.rate_error.max()) < 1e-9


def test_frozen_attention_is_right_longer_for_small_starts(frozen):
    numbers = sugolov_aubry.frozen_numbers(frozen)
    apart = np.linalg.norm(frozen.predicted - frozen.tokens, axis=(2, 3)) / np.linalg.norm(frozen.tokens, axis=(2, 3))

    until = [numbers[f"right within 5 % until t, size {size}"] for size in ("0.2", "1")]

    assert until[0] > until[1]
    for place, moment in enumerate(until):
        times = frozen.time.values
        assert np.all(apart[place][times < moment - 1e-9] <= 0.05)
        assert apart[place][times > moment][0] > 0.05
