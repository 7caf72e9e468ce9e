"""The Wasserstein distance between tokens and a density on the circle."""

import numpy as np
import pytest
from scipy.optimize import linprog

import attnflow as af
from attnflow._common.checks import InputError

mean_field = af.mean_field


def law(start):
    return mean_field.evolve(af.SphereAttention(af.Head.identity(2)), start, [0.0, 1e-3]).isel(time=0)


def test_equal_to_a_linear_programme():
    rng = np.random.default_rng(0)
    angles, start = rng.uniform(0, 2 * np.pi, 5), mean_field.von_mises(1.5, angle=1.0)
    points = 240
    places = 2 * np.pi * (np.arange(points) + 0.5) / points
    weights = start(places) / start(places).sum()
    apart = np.abs((places[:, None] - angles + np.pi) % (2 * np.pi) - np.pi)
    rows = np.kron(np.eye(points), np.ones(5))
    columns = np.kron(np.ones(points), np.eye(5))
    found = linprog(apart.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([weights, np.full(5, 0.2)]))

    assert mean_field.distance(af.initial.on_circle(angles), law(start)) == pytest.approx(found.fun, abs=2e-3)


def test_a_rotation_costs_nothing_if_any_is_allowed():
    start = mean_field.von_mises(3.0)
    tokens = af.initial.on_circle(np.random.default_rng(1).vonmises(0.0, 3.0, 400) + 2.0)

    assert mean_field.distance(tokens, law(start)) > 1.5
    assert mean_field.distance(tokens, law(start), any_rotation=True) < 0.08


def test_random_tokens_tend_to_their_law_at_the_rate_of_the_mean():
    rng, start = np.random.default_rng(2), law(mean_field.von_mises(1.0))
    mean = [
        np.mean([mean_field.distance(af.initial.on_circle(rng.vonmises(0, 1.0, n)), start) for _ in range(40)])
        for n in (100, 10_000)
    ]

    assert mean[0] / mean[1] == pytest.approx(10, rel=0.25)


@pytest.mark.parametrize("tokens", [np.ones(3), np.ones((3, 3)), np.eye(3), [[2.0, 0.0]]])
def test_tokens_off_the_circle_are_refused(tokens):
    with pytest.raises(InputError, match="tokens"):
        mean_field.distance(tokens, law(mean_field.uniform()))


def test_a_density_over_several_times_is_refused():
    both = mean_field.evolve(af.SphereAttention(af.Head.identity(2)), mean_field.uniform(), [0.0, 1.0])
    with pytest.raises(InputError, match="one time"):
        mean_field.distance([[1.0, 0.0]], both)


def test_a_run_stands_for_its_last_tokens():
    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.circle(30, rng=0), [0.0, 0.5], progress=False)
    density = mean_field.evolve(flow, mean_field.uniform(), [0.0, 0.5]).isel(time=-1)

    assert mean_field.distance(run, density) == mean_field.distance(run.final_tokens.values, density)


def test_on_the_line_it_is_the_difference_of_quantiles():
    # W_1 = int |F^-1 - G^-1|: here between 50 points and the uniform law that e^-t shrinks.
    flow = af.RescaledAttention(af.Head.identity(1), af.Softmax(0.0))
    law = mean_field.evolve(flow, mean_field.box([-1.0], [1.0]), [0.0, 0.5]).isel(time=-1)
    points = np.sort(np.random.default_rng(0).normal(size=50))
    shares = (np.arange(200_000) + 0.5) / 200_000
    quantiles = np.exp(-0.5) * (2 * shares - 1)
    direct = np.mean(np.abs(points[(shares * 50).astype(int)] - quantiles))

    assert mean_field.distance(points[:, None], law) == pytest.approx(direct, rel=1e-4)


def test_on_the_sphere_it_is_the_mean_over_projections():
    flow, rng = af.SphereAttention(af.Head.identity(3)), np.random.default_rng(1)
    lopsided = lambda points: np.exp(points[..., 0] + 0.5 * points[..., 1] * points[..., 2])
    law = mean_field.evolve(flow, lopsided, [0.0, 1e-3]).isel(time=0)
    candidates = rng.normal(size=(400_000, 3))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    sample = candidates[rng.random(len(candidates)) < lopsided(candidates) / np.exp(1.5)]
    pole = np.array([[0.0, 0.0, 1.0]])
    # One token at the pole: W_1 of a projection is the mean of |<x, w> - <pole, w>|, over the lattice of directions.
    index = np.arange(32) + 0.5
    polar, azimuth = np.arccos(index / 32), index * np.pi * (3 - np.sqrt(5))
    lines = np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)])
    direct = np.mean(np.abs((sample - pole) @ lines))

    assert mean_field.distance(pole, law) == pytest.approx(direct, rel=5e-3)
    assert mean_field.distance(sample[:40_000], law) < 0.01  # n^-1/2


def test_in_the_plane_tokens_of_the_law_are_near_and_shifted_ones_are_not():
    flow = af.EuclideanAttention(af.Head.identity(2))
    law = mean_field.evolve(flow, mean_field.box([-1.0, 0.0], [1.0, 1.0]), [0.0, 1e-6], modes=16).isel(time=0)
    tokens = np.random.default_rng(2).uniform([-1, 0], [1, 1], (20_000, 2))

    assert mean_field.distance(tokens, law) < 0.01
    assert mean_field.distance(tokens + np.array([3.0, 0.0]), law) == pytest.approx(3 * 2 / np.pi, rel=0.01)
    with pytest.raises(InputError, match="any_rotation"):
        mean_field.distance(tokens, law, any_rotation=True)


def test_tokens_of_another_dimension_are_refused():
    with pytest.raises(InputError, match=r"shape \(n, 2\), but it is \(4, 3\)"):
        mean_field.distance(af.initial.sphere(4, 3, rng=0), law(mean_field.von_mises(1.0)))
