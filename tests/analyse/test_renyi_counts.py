"""Expected numbers of Renyi centres on spheres against random draws, and exponents against known powers."""

import numpy as np
import pytest

from attnflow._common.checks import InputError
from attnflow.analyse import renyi
from attnflow.analyse.renyi_counts import _second_coefficient, expected_count, growth_exponent
from attnflow.model import initial


@pytest.mark.parametrize(
    ("d", "delta", "n"), [(3, 0.5, 20), (3, 0.5, 300), (3, 0.35, 300), (4, 0.5, 100), (4, 0.4, 300)]
)
def test_expected_numbers_of_centres_are_those_of_random_tokens(d, delta, n):
    counts = renyi.count(initial.sphere(n, d, rng=3, runs=100), delta).values
    error = counts.std(ddof=1) / 10
    assert abs(expected_count(delta, d, n) - counts.mean()) < 0.04 * counts.mean() + 3 * error


def test_few_tokens_are_all_centres_and_many_saturate():
    assert expected_count(0.3, 3, 1) == 1.0
    p = renyi.cap_mass(0.3, 3)
    assert expected_count(0.3, 3, 2) == pytest.approx(2 - p, abs=p)  # the second one unless it is in the first cap
    numbers = [expected_count(0.3, 3, n) for n in (10, 100, 1000, 10**7)]
    assert np.all(np.diff(numbers) > 0)
    assert numbers[-1] == pytest.approx(expected_count(0.3, 3), rel=1e-2)
    assert numbers[-1] < expected_count(0.3, 3)


def test_known_terms_of_the_free_share():
    """In coverages theta = y / 2^D: 1/2 in D = 1, 6 sqrt(3)/pi in the plane (for discs), 17 in space."""
    assert _second_coefficient(1) * 4 == pytest.approx(0.5)
    assert _second_coefficient(2) * 16 == pytest.approx(6 * np.sqrt(3) / np.pi)
    assert _second_coefficient(3) * 64 == pytest.approx(17.0)


def test_dimensions_without_a_known_saturation_are_refused():
    with pytest.raises(InputError, match="must be 2, 3 or 4, but it is 5"):
        expected_count(0.5, 5, 10)


def test_the_exponent_and_its_interval():
    betas = np.geomspace(10.0, 1000.0, 5)
    counts = np.random.default_rng(0).poisson(20 * betas**0.75, (200, 5)).T
    exponent = growth_exponent(betas, counts)
    assert exponent.low < 0.75 < exponent.high
    # Var log mean = 1/(runs mean), through the weights of least squares.
    logarithms = np.log(betas) - np.log(betas).mean()
    deviation = np.sqrt(np.sum(logarithms**2 / (200 * 20 * betas**0.75))) / np.sum(logarithms**2)
    assert exponent.high - exponent.low == pytest.approx(2 * 1.96 * deviation, rel=0.15)
    assert not exponent.low < 0.8 < exponent.high
    with pytest.raises(InputError, match=r"over \(beta, run\)"):
        growth_exponent(betas, counts[:3])
