"""Densities in R^1 and R^2: Gaussian laws, the closed form of beta = 0, conservation, resolution, files."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.solvers.status import Status

mean_field = af.mean_field


def test_a_gaussian_law_on_the_line_follows_the_closed_form():
    flow, times = af.EuclideanAttention(af.Head(value=[[-1.0]])), [0.0, 1.0, 3.0]
    law = mean_field.evolve(flow, mean_field.normal([0.0], [[1.0]], widths=8), times)
    variance = 1 / (1 + 2 * np.array(times))

    # The box cuts the law of what far tokens attend to: with 8 deviations 2e-7 of the variance.
    np.testing.assert_allclose(law.covariance[:, 0, 0], variance, rtol=1e-6)
    places = law.place.values[..., 0]
    expected = np.exp(-(places**2) / (2 * variance[:, None])) / np.sqrt(2 * np.pi * variance[:, None])
    np.testing.assert_allclose(law.density, expected, atol=1e-6)
    np.testing.assert_allclose(law.entropy, 0.5 * np.log(2 * np.pi * np.e * variance), atol=1e-6)
    assert float(law.mass.sum()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(("beta", "is_decided_by_tails"), [(0.9, False), (2.0, True)])
def test_a_gaussian_law_that_its_tails_decide_is_told_as_such(beta, is_decided_by_tails):
    """With beta s > 1 the law of the box misses the closed form by more than 1e-4, which no number of nodes mends."""
    flow = af.EuclideanAttention(af.Head(value=[[-1.0]]), af.Softmax(beta))
    law = mean_field.evolve(flow, mean_field.normal([0.0], [[1.0]]), [0.0, 1.0, 2.0])
    variance = 1 / (1 + 2 * beta * law.time.values)
    missed = np.abs(law.covariance.values[:, 0, 0] / variance - 1).max()

    assert (missed > 1e-4) == is_decided_by_tails
    assert ("of the weight of all pairs" in law.attrs["outcome"]) == is_decided_by_tails


def test_the_energy_of_a_gaussian_law_is_its_closed_form_or_none():
    """E = (1 - (beta s)^2)^(-1/2) / (2 beta) for beta s < 1; it is infinite from beta s = 1 on."""
    flow, times = af.EuclideanAttention(af.Head(value=[[-1.0]])), np.array([0.0, 1.0, 2.0])
    law = mean_field.evolve(flow, mean_field.normal([0.0], [[1.0]], widths=8), times)
    variance = 1 / (1 + 2 * times)

    assert np.isnan(law.energy[0])
    np.testing.assert_allclose(law.energy[1:], 0.5 / np.sqrt(1 - variance[1:] ** 2), rtol=1e-6)
    bounded = mean_field.evolve(flow, mean_field.box([-8.0], [8.0]), [0.0, 0.01])
    assert np.all(np.isfinite(bounded.energy))
    assert "all pairs" not in bounded.attrs["outcome"]


def test_a_gaussian_law_in_the_plane_follows_the_closure():
    flow = af.EuclideanAttention(af.Head.bilinear([[0.5, 0.3], [-0.2, 0.4]], [[-0.5, 0.4], [-0.3, -0.6]]))
    mean, covariance, times = [0.3, -0.1], [[1.0, 0.2], [0.2, 0.5]], [0.0, 1.0]
    law = mean_field.evolve(flow, mean_field.normal(mean, covariance, widths=7), times, rtol=1e-6, modes=40)
    closure = mean_field.gaussian(flow, mean, covariance, times)

    np.testing.assert_allclose(law.covariance, closure.covariance, atol=1e-6)
    np.testing.assert_allclose(law["mean"], closure["mean"], atol=1e-6)


def test_without_interaction_the_box_shrinks_to_the_mean_in_the_rescaled_flow():
    # beta = 0: z' = mean - z, so that z = e^-t z_0 for a law of mean zero, and the uniform density grows by e^t.
    flow = af.RescaledAttention(af.Head.identity(1), af.Softmax(0.0))
    law = mean_field.evolve(flow, mean_field.box([-1.0], [1.0]), [0.0, 1.5])

    np.testing.assert_allclose(law.place[1], np.exp(-1.5) * law.place[0], rtol=1e-7)
    np.testing.assert_allclose(law.density[1], np.exp(1.5) / 2, rtol=1e-7)


def test_equal_tokens_at_quantiles_follow_the_nodes():
    flow = af.RescaledAttention(af.Head.identity(1), af.Unnormalised(0.8))
    law = mean_field.evolve(flow, mean_field.box([-1.0], [1.0]), [0.0, 0.5])
    tokens = np.linspace(-1, 1, 401)[:-1] + 1 / 400
    run = af.simulate(flow, tokens[:, None], [0.0, 0.5], progress=False)

    found = np.interp(tokens, law.label, law.place[-1, :, 0])
    np.testing.assert_allclose(run.final_tokens.values[5:-5, 0], found[5:-5], atol=1e-3)
    assert float(law["mean"][-1, 0]) == pytest.approx(0, abs=1e-9)


def test_a_steep_flow_map_is_computed_again_with_more_nodes_and_ends_with_a_sentence():
    flow = af.RescaledAttention(af.Head.identity(1))
    law = mean_field.evolve(flow, mean_field.box([-1.0], [1.0]), [0.0, 1.0, 9.0], max_modes=64)

    assert int(law.status) == Status.UNRESOLVED
    assert law.time.values.tolist() == [0.0, 1.0]
    assert "64 nodes" in law.outcome
    assert float(law.density.min()) > 0


def test_derivative_and_series_of_a_grid_are_exact_for_polynomials():
    grid = LabelGrid(np.array([0.0, -1.0]), np.array([2.0, 3.0]), 9)
    x, y = grid.points[..., 0], grid.points[..., 1]
    places = np.stack([x**2 + y, x * y**2], axis=-1)

    np.testing.assert_allclose(grid.determinant(places), 4 * x**2 * y - y**2, atol=1e-11)
    assert float((grid.weights * x**3 * y**2).sum()) == pytest.approx(4 * 28 / 3, rel=1e-13)
    middle = grid.evaluated(places, np.array([0.0]))
    np.testing.assert_allclose(middle[0, 0], [2.0, 1.0], atol=1e-12)


def test_files_keep_the_nodes_and_go_on(tmp_path):
    flow = af.EuclideanAttention(af.Head(value=[[-1.0]]))
    law = mean_field.evolve(flow, mean_field.box([-1.0], [1.0]), [0.0, 0.5, 1.0])
    loaded = af.load(af.save(law, tmp_path / "law.zarr"))
    later = mean_field.evolve(flow, loaded.isel(time=1), [0.5, 1.0])

    np.testing.assert_allclose(later.density[-1], law.density[-1], rtol=1e-6)
    circle = af.SphereAttention(af.Head.identity(2))
    with pytest.raises(InputError, match="on the circle"):
        mean_field.evolve(circle, loaded.isel(time=0), [0.0, 1.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mean_field.box([1.0], [0.0]), "low below high"),
        (lambda: mean_field.box([0.0], [np.inf]), "finite"),
        (lambda: mean_field.normal([0.0], [[-1.0]]), "positive definite"),
        (lambda: mean_field.zonal(3.0), "function of z"),
        (lambda: mean_field.zonal_wave(2, 1.5), "amplitude"),
        (lambda: mean_field.von_mises_fisher(-1.0), "concentration"),
    ],
)
def test_bad_densities_get_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()
