"""Densities on S^2: velocity against tokens, growth rates, rotation, moments of tokens with masses, free energy, files."""

import numpy as np
import pytest
from scipy.special import sph_harm_y, spherical_in

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.mean_field.sphere_equation import SphereEquation
from attnflow.mean_field.spherical_harmonics import SphereGrid, values_at
from attnflow.solvers.status import Status

mean_field = af.mean_field
MATRIX = np.array([[0.7, -1.1, 0.2], [0.4, 0.9, -0.3], [0.1, 0.5, 1.2]])
RULES = {
    "softmax": af.Softmax(3.0),
    "unnormalised": af.Unnormalised(2.0, offset=0.5),
    "repulsive": af.Softmax(-2.0),
    "beta 0": af.Softmax(0.0),
}


def lopsided(points):
    return np.exp(0.8 * points[..., 2] + 0.5 * points[..., 0] * points[..., 1] + 0.3 * points[..., 0])


def grid_tokens(grid, density):
    """Points of a grid and the masses of a density there."""
    points = np.moveaxis(grid.frame[0], 0, -1)
    weights = grid.nodes[1][:, None] * density(points)
    return points.reshape(-1, 3), (weights / weights.sum()).ravel()


def test_harmonics_are_those_of_scipy_and_their_transform_inverts():
    rng, grid = np.random.default_rng(0), SphereGrid(12, False)
    coefficients = np.triu(rng.normal(size=(13, 13)) + 1j * rng.normal(size=(13, 13)))
    coefficients[0] = coefficients[0].real
    polar, azimuths = np.array([0.1, 1.0, 2.9]), 8
    angles = 2 * np.pi * np.arange(azimuths) / azimuths
    direct = sum(
        (1 if m == 0 else 2) * np.real(coefficients[m, degree] * sph_harm_y(degree, m, polar[:, None], angles))
        for degree in range(4)
        for m in range(degree + 1)
    )
    few = np.where(np.arange(13) < 4, coefficients, 0)

    np.testing.assert_allclose(values_at(few[:4], polar, azimuths), direct, atol=1e-13)
    np.testing.assert_allclose(grid.coefficients_of(grid.values(coefficients)), coefficients, atol=1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("is_zonal", [False, True])
def test_velocity_is_that_of_tokens_on_the_grid_with_the_density_as_masses(rule, is_zonal):
    value = np.diag([0.7, 0.7, -0.4]) if is_zonal else MATRIX
    density = mean_field.von_mises_fisher(0.8) if is_zonal else lopsided
    head, full = af.Head.bilinear(1.3 * np.eye(3), value), SphereGrid(24, False)
    points, masses = grid_tokens(full, density)
    oracle = af.velocity(af.SphereAttention(head, rule, masses=masses), points).reshape(*full.frame.shape[2:], 3)

    equation = SphereEquation.of(af.SphereAttention(head, rule), 24, is_zonal)
    grid = equation.grid
    coefficients = grid.coefficients_of(density(np.moveaxis(grid.frame[0], 0, -1)))
    found = equation.velocity(coefficients / (coefficients[0, 0].real * np.sqrt(4 * np.pi)))

    count = len(grid.azimuths)
    for direction, component in zip(full.frame[1:], found, strict=True):
        expected = np.einsum("jpq,pqj->pq", direction, oracle)[:, :count]
        np.testing.assert_allclose(component, expected, atol=1e-12)


@pytest.mark.parametrize(("rule", "degree"), [(af.Unnormalised(4.0), 1), (af.Softmax(6.0), 3)])
def test_small_perturbations_grow_at_the_rates_of_theory(rule, degree):
    beta = float(rule.beta)
    rate = degree * (degree + 1) * spherical_in(degree, beta) / beta
    rate = rate / (spherical_in(0, beta) if isinstance(rule, af.Softmax) else 1)
    flow = af.SphereAttention(af.Head.identity(3), rule)
    law = mean_field.evolve(flow, mean_field.zonal_wave(degree, 1e-6), [0.0, 1 / rate], rtol=1e-10)

    assert float(np.log(law.cosine[1, degree] / law.cosine[0, degree]) * rate) == pytest.approx(rate, rel=1e-8)


def test_the_uniform_law_loses_stability_at_the_critical_kappa():
    orders = []
    for ratio in (0.98, 1.02):
        noise = af.Noise(ratio * mean_field.critical_kappa(1.5, d=3))
        flow = af.SphereAttention(af.Head.identity(3), af.Unnormalised(1.5), noise=noise)
        law = mean_field.evolve(flow, mean_field.zonal_wave(1, 1e-3), [0.0, 5.0], rtol=1e-7)
        orders.append(float(law.order[-1] / law.order[0]))

    assert orders[0] < 1 < orders[1]


def test_a_zonal_law_is_the_same_in_one_and_two_dimensions_and_in_any_direction():
    flow, first = af.SphereAttention(af.Head.identity(3), af.Softmax(3.0)), mean_field.von_mises_fisher(1.0)
    zonal = mean_field.evolve(flow, first, [0.0, 1.0])
    along_x = mean_field.evolve(flow, lambda points: first.profile(points[..., 0]), [0.0, 1.0])

    assert (zonal.attrs["domain"], along_x.attrs["domain"]) == ("zonal", "sphere")
    np.testing.assert_allclose(along_x.order, zonal.order, rtol=1e-10)
    np.testing.assert_allclose(along_x.energy, zonal.energy, rtol=1e-10)
    np.testing.assert_allclose(along_x.entropy, zonal.entropy, rtol=1e-9)


def test_tokens_with_masses_follow_the_density():
    # Until the flow map is steep, moments of tokens on a Gauss grid are as accurate as the density.
    head = af.Head.bilinear(np.eye(3), np.array([[1.0, 0.4, 0.0], [-0.4, 0.8, 0.1], [0.0, 0.2, 0.5]]))
    points, masses = grid_tokens(SphereGrid(16, False), lopsided)
    run = af.simulate(af.SphereAttention(head, af.Softmax(2.0), masses=masses), points, [0.0, 0.5], progress=False)
    law = mean_field.evolve(af.SphereAttention(head, af.Softmax(2.0)), lopsided, [0.0, 0.5])

    x, y, z = run.final_tokens.values.T
    axial = np.sqrt(3 / (4 * np.pi)) * masses @ z
    first = -np.sqrt(3 / (8 * np.pi)) * masses @ (x - 1j * y)
    coefficients = law.cosine.values[-1] - 1j * law.sine.values[-1]
    np.testing.assert_allclose(coefficients[0, 1], axial, atol=1e-6)
    np.testing.assert_allclose(coefficients[1, 1], first, atol=1e-6)
    assert abs(axial - np.sqrt(3 / (4 * np.pi)) * masses @ points[:, 2]) > 0.01  # they have moved


def test_mass_is_exact_and_free_energy_falls():
    flow = af.SphereAttention(af.Head.identity(3), af.Unnormalised(2.0), noise=af.Noise(3.0))
    law = mean_field.evolve(flow, lopsided, np.linspace(0, 1, 6), rtol=1e-6)

    np.testing.assert_allclose(law.cosine[:, 0, 0], 1 / np.sqrt(4 * np.pi), atol=0)
    assert np.all(np.diff(law.free_energy) < 0)
    assert float(law.least_density.min()) > 0


def test_entropy_and_energy_are_those_of_the_grid():
    law = mean_field.evolve(af.SphereAttention(af.Head.identity(3), af.Softmax(2.0)), lopsided, [0.0, 0.01])
    grid = SphereGrid(24, False)
    points, masses = grid_tokens(grid, lopsided)
    weights = (grid.nodes[1][:, None] * np.full(len(grid.azimuths), 2 * np.pi / len(grid.azimuths))).ravel()
    density = masses / weights

    assert float(law.entropy[0]) == pytest.approx(-masses @ np.log(density), rel=1e-10)
    assert float(law.energy[0]) == pytest.approx(masses @ np.exp(2 * points @ points.T) @ masses / 4, rel=1e-10)


def test_a_narrow_density_ends_with_a_sentence():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(4.0))
    law = mean_field.evolve(flow, mean_field.von_mises_fisher(3.0), [0.0, 0.1, 50.0], max_modes=48)

    assert int(law.status) == Status.UNRESOLVED
    assert "48 modes" in law.outcome


@pytest.mark.parametrize("start", [mean_field.von_mises_fisher(1.0), lopsided], ids=["zonal", "sphere"])
def test_files_keep_the_density_which_goes_on_from_any_time(tmp_path, start):
    flow, times = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0)), [0.0, 0.2, 0.4]
    law = mean_field.evolve(flow, start, times)
    loaded = af.load(af.save(law, tmp_path / "law.nc"))

    later = mean_field.evolve(flow, loaded.isel(time=1), [0.2, 0.4])
    np.testing.assert_allclose(later.density[-1], law.density[-1], atol=1e-8)
    with pytest.raises(InputError, match="one time"):
        mean_field.evolve(flow, loaded, times)
