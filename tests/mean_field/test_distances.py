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


@pytest.mark.parametrize("tokens", [np.ones(3), np.ones((3, 3)), [[2.0, 0.0]]])
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
