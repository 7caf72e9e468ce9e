"""The velocity of a density on the circle against that of tokens with masses, and its derivative."""

import numpy as np
import pytest

import attnflow as af
from attnflow.mean_field import fourier
from attnflow.mean_field.circle_field import circle_field, modes_for

MODES = 80
MATRIX = np.array([[0.7, -1.1], [0.4, 0.9]])
HEADS = {
    "identity": af.Head.identity(2),
    "isotropic": af.Head.bilinear(1.7 * np.eye(2), MATRIX),
    "any": af.Head.bilinear(MATRIX.T, MATRIX),
    "two heads": [af.Head.identity(2), af.Head.bilinear(MATRIX, -np.eye(2))],
}
RULES = {"softmax": af.Softmax(3.0), "unnormalised": af.Unnormalised(2.0, offset=0.5), "repulsive": af.Softmax(-2.0)}


def density(theta):
    return (1 + 0.5 * np.cos(theta) + 0.3 * np.sin(2 * theta)) / (2 * np.pi)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_velocity_is_that_of_tokens_on_the_grid_with_the_density_as_masses(heads, rule):
    angles = fourier.grid(MODES)
    tokens = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    velocity = af.velocity(af.SphereAttention(heads, rule, masses=density(angles)), tokens)
    along = np.sum(np.stack([-np.sin(angles), np.cos(angles)], axis=1) * velocity, axis=1)

    coefficients = fourier.coefficients_of(density(angles), MODES)
    found = circle_field(af.SphereAttention(heads, rule), MODES).velocity(coefficients)

    np.testing.assert_allclose(found, along, atol=1e-13)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_derivative_is_the_limit_of_differences(heads, rule):
    field = circle_field(af.SphereAttention(heads, rule), MODES)
    coefficients = fourier.coefficients_of(density(fourier.grid(MODES)), MODES)
    change = np.zeros(MODES + 1, complex)
    change[1:5] = [0.3 + 0.1j, -0.2j, 0.1, 0.05 - 0.02j]
    step = 1e-5

    difference = (field.velocity(coefficients + step * change) - field.velocity(coefficients - step * change)) / (
        2 * step
    )

    np.testing.assert_allclose(field.derivative(coefficients, change), difference, atol=1e-8)


def test_several_densities_at_once_equal_one_after_the_other():
    field = circle_field(af.SphereAttention(HEADS["two heads"], RULES["softmax"]), MODES)
    first = fourier.coefficients_of(density(fourier.grid(MODES)), MODES)
    both = np.stack([first, first.conj()])

    np.testing.assert_allclose(field.velocity(both), [field.velocity(one) for one in both], atol=1e-14)


@pytest.mark.parametrize("beta", [1.0, 40.0, 400.0])
def test_the_number_of_modes_resolves_the_kernel_and_not_by_far(beta):
    from scipy.special import ive

    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta))
    share = ive(np.array([modes_for(flow), modes_for(flow) // 3]), beta) / ive(0, beta)

    assert share[0] < 1e-12 < share[1]


@pytest.mark.parametrize("modes", [5, 30])
def test_the_tail_is_the_largest_of_the_last_tenth(modes):
    coefficients = np.zeros(modes + 1, complex)
    last = modes // 10 + 1  # how many of the coefficients count
    coefficients[-last] = 3j
    assert fourier.tail(coefficients) == 3
    coefficients[-last - 1] = 4  # the control: one mode earlier it does not count
    assert fourier.tail(coefficients) == 3
