"""Energies and their rates against loops, finite differences and the simulated flow."""

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse import energy

TOKENS = af.initial.sphere(7, 3, rng=0)


def plain_sum(tokens, beta):
    return sum(np.exp(beta * (x @ y)) for x in tokens for y in tokens)


@pytest.mark.parametrize("beta", [-1.0, 0.5, 4.0])
def test_energies_are_the_double_sums(beta):
    total = plain_sum(TOKENS, beta)

    np.testing.assert_allclose(energy.interaction(TOKENS[None], beta), [total / (2 * beta * 49)], rtol=1e-13)
    np.testing.assert_allclose(energy.normalised(TOKENS[None], beta), [total * np.exp(-beta) / 49], rtol=1e-13)


def test_masses_count_as_tokens_in_one_place():
    masses = [1, 3, 2, 1, 1, 1, 4]

    found = energy.normalised(TOKENS[None], 2.0, masses)

    np.testing.assert_allclose(found, energy.normalised(np.repeat(TOKENS, masses, axis=0)[None], 2.0), rtol=1e-13)


def test_levels_and_jumps():
    """Clusters far apart at this beta; merging sizes 2 and 3 of n = 6 raises the level by 2 * 2 * 3 / 36."""
    directions = np.repeat(np.eye(3), [1, 2, 3], axis=0)

    np.testing.assert_allclose(energy.normalised(directions[None], 60.0), [energy.level([1, 2, 3])], rtol=1e-13)
    np.testing.assert_allclose(energy.level([1, 5]) - energy.level([1, 2, 3]), 12 / 36)


@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_velocities_are_those_of_the_flow(beta):
    softmax = af.SphereAttention(af.Head.identity(3), af.Softmax(beta))
    unnormalised = af.SphereAttention(af.Head.identity(3), af.Unnormalised(beta, offset=0.3))

    np.testing.assert_allclose(energy.softmax_velocity(TOKENS, beta), af.velocity(softmax, TOKENS), atol=1e-14)
    np.testing.assert_allclose(
        energy.unnormalised_velocity(TOKENS, beta, 0.3), af.velocity(unnormalised, TOKENS), atol=1e-13
    )


def test_rate_is_the_derivative_of_the_energy():
    """Against a central difference along any tangent motion, not only the flow's."""
    generator = np.random.default_rng(5)
    velocities = generator.normal(size=TOKENS.shape)
    velocities -= np.sum(velocities * TOKENS, axis=1, keepdims=True) * TOKENS
    step = 1e-5

    ahead, behind = (energy.interaction((TOKENS + h * velocities)[None], 2.0).item() for h in (step, -step))

    np.testing.assert_allclose(energy.rate(TOKENS, velocities, 2.0), (ahead - behind) / (2 * step), rtol=1e-8)


@pytest.mark.parametrize("beta", [-0.5, 1.0, 5.0])
def test_dissipation_identities(beta):
    softmax, unnormalised = energy.softmax_velocity(TOKENS, beta), energy.unnormalised_velocity(TOKENS, beta, 1.0)

    found = energy.softmax_dissipation(TOKENS, softmax, beta)
    np.testing.assert_allclose(energy.rate(TOKENS, softmax, beta), found, rtol=1e-10)
    found = energy.unnormalised_dissipation(unnormalised, beta, 1.0)
    np.testing.assert_allclose(energy.rate(TOKENS, unnormalised, beta), found, rtol=1e-10)


def test_identities_are_not_interchangeable():
    """Negative control: softmax velocities do not dissipate as unnormalised ones do."""
    velocities = energy.softmax_velocity(TOKENS, 2.0)

    assert abs(energy.rate(TOKENS, velocities, 2.0) / energy.unnormalised_dissipation(velocities) - 1) > 0.1


def test_energies_go_over_runs_and_times_and_leave_gaps():
    tokens = np.stack([[TOKENS, TOKENS], [TOKENS, np.full_like(TOKENS, np.nan)]])

    found = energy.normalised(tokens, 1.0)

    assert found.dims == ("run", "time")
    np.testing.assert_array_equal(np.isnan(found), [[False, False], [False, True]])


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="must not be 0"):
        energy.interaction(TOKENS[None], 0.0)
    with pytest.raises(ValueError, match="one number per token, 7"):
        energy.normalised(TOKENS[None], 1.0, [1.0, 2.0])
    with pytest.raises(ValueError, match="above zero"):
        energy.normalised(TOKENS[None], 1.0, [0.0] * 7)
