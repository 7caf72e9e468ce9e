"""Densities on the circle over time: growth rates, tokens, stationary states, conservation, files and refusals."""

import numpy as np
import pytest
from scipy.special import iv

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.solvers.status import Status

mean_field = af.mean_field


def flow(rule, head=None, **settings):
    return af.SphereAttention(af.Head.identity(2) if head is None else head, rule, **settings)


def sizes(law):
    return np.hypot(law.cosine, law.sine)


@pytest.mark.parametrize(("rule", "mode"), [(af.Unnormalised(4.0), 3), (af.Softmax(9.0), 4), (af.Softmax(9.0), 2)])
def test_small_perturbations_grow_at_the_rates_of_theory(rule, mode):
    rate = af.circle.growth_rates(float(rule.beta), mode, softmax=isinstance(rule, af.Softmax))[mode - 1]
    times = np.array([0.0, 1 / rate])
    law = mean_field.evolve(flow(rule), mean_field.uniform(mode, 1e-6), times, rtol=1e-11)

    measured = np.log(sizes(law)[1:, mode] / sizes(law)[0, mode]) / times[1:]

    np.testing.assert_allclose(measured, rate, rtol=1e-8)


def test_with_noise_diffusion_is_subtracted_from_the_rate():
    rate = af.circle.growth_rates(4.0, 2)[1] - 4 / 0.7
    noisy = flow(af.Unnormalised(4.0), noise=af.Noise(0.7))
    law = mean_field.evolve(noisy, mean_field.uniform(2, 1e-5), [0.0, 0.5], rtol=1e-12)

    assert float(np.log(sizes(law)[1, 2] / sizes(law)[0, 2]) / 0.5) == pytest.approx(rate, rel=1e-8)


@pytest.mark.parametrize(
    "head", [af.Head.identity(2), af.Head.bilinear([[1.0, 0.3], [-0.6, 0.5]], [[0.2, 1.0], [-1.0, 0.4]])]
)
def test_tokens_drawn_as_quantiles_follow_the_density(head):
    # Quantiles of the first law are nearer to it, by n^-1/2, than random tokens, and so are the moments later on.
    start, n = mean_field.von_mises(0.8, clusters=1, angle=0.4), 600
    fine = np.linspace(0, 2 * np.pi, 20001)
    share = np.concatenate([[0.0], np.cumsum((start(fine[1:]) + start(fine[:-1])) / 2 * np.diff(fine))])
    angles = np.interp((np.arange(n) + 0.5) / n, share / share[-1], fine)
    attention = flow(af.Softmax(2.0), head)
    law = mean_field.evolve(attention, start, [0.0, 1.5])
    run = af.simulate(attention, af.initial.on_circle(angles), [0.0, 1.5], progress=False)

    modes = af.order.fourier_modes(run.final_tokens.values, 4).values

    expected = law.cosine.values[-1, 1:5] - 1j * law.sine.values[-1, 1:5]
    np.testing.assert_allclose(modes, expected, atol=1e-5)


def test_mass_is_exact_and_free_energy_falls():
    noisy = flow(af.Unnormalised(4.0), noise=af.Noise(0.8))
    law = mean_field.evolve(noisy, mean_field.uniform(2, 0.3), np.linspace(0, 2, 11), rtol=1e-7)

    np.testing.assert_allclose(law.cosine[:, 0], 1.0, atol=0)
    assert np.all(np.diff(law.free_energy) < 1e-9)
    assert law.free_energy[-1] < law.free_energy[0] - 0.01
    assert float(law.least_density.min()) > 0


def test_energy_is_that_of_many_tokens():
    law = mean_field.evolve(flow(af.Softmax(3.0)), mean_field.uniform(1, 0.5), [0.0, 0.1])
    angles = 2 * np.pi * np.arange(400) / 400
    weights = mean_field.uniform(1, 0.5)(angles) * 2 * np.pi / 400
    direct = weights @ np.exp(3 * np.cos(angles[:, None] - angles)) @ weights / 6

    assert float(law.energy[0]) == pytest.approx(direct, rel=1e-12)


def test_a_density_that_tends_to_point_masses_ends_with_a_sentence_and_what_was_computed():
    law = mean_field.evolve(flow(af.Softmax(4.0)), mean_field.von_mises(1.0), [0.0, 1.0, 50.0], max_modes=128)

    assert int(law.status) == Status.UNRESOLVED
    assert law.time.values.tolist() == [0.0, 1.0]
    assert 1 < float(law.final_time) < 50
    assert "too narrow" in law.outcome
    assert "128 modes" in law.outcome


def test_more_modes_and_a_finer_tolerance_change_nothing_but_the_error():
    start, times = mean_field.von_mises(2.0), [0.0, 1.0]
    coarse = mean_field.evolve(flow(af.Softmax(2.0)), start, times, rtol=1e-6)
    fine = mean_field.evolve(flow(af.Softmax(2.0)), start, times, rtol=1e-12, modes=200)

    difference = np.abs(coarse.cosine[-1, :20].values - fine.cosine[-1, :20].values).max()
    assert 1e-13 < difference < 1e-6


def test_saved_times_do_not_change_the_end():
    start = mean_field.uniform(2, 0.4)
    few = mean_field.evolve(flow(af.Softmax(2.0)), start, [0.0, 1.0])
    many = mean_field.evolve(flow(af.Softmax(2.0)), start, np.linspace(0, 1, 23))

    np.testing.assert_allclose(few.density[-1], many.density[-1], atol=1e-8)


def test_values_at_equally_spaced_angles_are_a_start_and_are_divided_by_their_integral():
    angles = 2 * np.pi * np.arange(64) / 64
    by_values = mean_field.evolve(flow(af.Softmax(2.0)), 5 + 2 * np.cos(angles), [0.0, 0.5])
    by_function = mean_field.evolve(flow(af.Softmax(2.0)), mean_field.uniform(1, 0.4), [0.0, 0.5])

    np.testing.assert_allclose(by_values.density[-1], by_function.density[-1], atol=1e-9)


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_files_keep_the_density_and_its_flow(tmp_path, suffix):
    law = mean_field.evolve(flow(af.Softmax(2.0), noise=af.Noise(3.0)), mean_field.uniform(1, 0.4), [0.0, 0.5])

    again = af.load(af.save(law, tmp_path / f"law.{suffix}"))

    np.testing.assert_array_equal(again.density, law.density)
    assert af.flow_of(again) == af.flow_of(law)


@pytest.mark.parametrize("function", [af.verify, af.describe, af.config_of], ids=lambda function: function.__name__)
def test_what_reads_tokens_refuses_a_density_with_a_sentence(function):
    law = mean_field.evolve(flow(af.Softmax(2.0)), mean_field.uniform(), [0.0, 0.5])

    with pytest.raises(InputError, match="density"):
        function(law)


def test_a_budget_ends_the_run_with_what_was_computed():
    law = mean_field.evolve(flow(af.Softmax(2.0)), mean_field.uniform(1, 0.1), [0.0, 1e-9, 1e3], budget=0.02)

    assert int(law.status) == Status.OUT_OF_TIME
    assert law.sizes["time"] >= 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flow": af.SphereAttention(af.Head.identity(4))}, "d = 4"),
        ({"flow": flow(af.Softmax(1.0), mask=af.masks.causal)}, "mask"),
        ({"flow": flow(af.Hardmax())}, "Hardmax"),
        ({"flow": flow(af.Softmax(1.0), noise=af.Noise(1.0, common=True))}, "common"),
        ({"flow": flow(af.Unnormalised(800.0))}, "overflows"),
        ({"modes": 5}, "at least 18"),
        ({"max_modes": 5}, "at least 18"),
        ({"start": lambda theta: np.cos(theta)}, "falls to -1"),
        ({"start": np.ones(3)}, "8 or more"),
        ({"start": lambda theta: (np.abs(theta - 3) < 1).astype(float)}, "not resolved"),
        ({"start": lambda theta: np.full_like(theta, np.nan)}, "finite"),
        ({"times": [0.0, 0.0]}, "times"),
        ({"budget": -1.0}, "budget"),
        ({"times": np.linspace(0, 1, 2 * 10**7)}, "at 20000000 times needs .* Save fewer times"),
        ({"flow": af.SphereAttention(af.Head.bilinear(np.diag([1.0, 1, 2]), np.eye(3)))}, "no multiple of I"),
        ({"flow": af.SphereAttention(af.Head.identity(3)), "start": np.ones(9)}, "unit vectors"),
        ({"flow": af.SphereAttention(af.Head.identity(3)), "start": lambda points: points}, "one number for each"),
        ({"flow": af.SphereAttention(af.Head.identity(3)), "modes": 6}, "at least 18"),
        ({"flow": af.SphereAttention(af.Head.identity(3), normalisation=af.Pre())}, "normalisation"),
        ({"flow": af.EuclideanAttention(af.Head.identity(3))}, "d = 3"),
        ({"flow": af.EuclideanAttention(af.Head.identity(1), noise=af.Noise(1.0))}, "noise in R"),
        ({"flow": af.EuclideanAttention(af.Head.identity(1))}, "mean_field.box"),
        ({"flow": af.EuclideanAttention(af.Head.identity(2)), "start": mean_field.box([-1.0], [1.0])}, "2 coordinates"),
        (
            {
                "flow": af.EuclideanAttention(af.Head.identity(1), af.Unnormalised(1.0)),
                "start": mean_field.box([0], [40]),
            },
            "overflow",
        ),
    ],
)
def test_bad_input_gets_one_sentence(changes, words):
    arguments = {"flow": flow(af.Softmax(1.0)), "start": mean_field.uniform(), "times": [0.0, 1.0]} | changes

    with pytest.raises(InputError, match=words):
        mean_field.evolve(**arguments)


def test_cluster_number_and_places_follow_from_the_first_modes():
    """In the linear phase c_k(t) = c_k(0) e^{rate_k t}: the same maxima as the equation, and as many as predicted."""
    beta, modes = 9.0, np.arange(1, 9)
    rng = np.random.default_rng(4)
    clusters = af.circle.predicted_clusters(beta)
    first = 1e-8 * (rng.normal(size=8) + 1j * rng.normal(size=8))
    first[clusters - 1] *= 10
    wave = lambda theta, sizes: np.real(np.exp(1j * np.outer(theta, modes)) @ sizes)
    rates = af.circle.growth_rates(beta, 8, softmax=True)
    end = 5 / rates.max()
    law = mean_field.evolve(flow(af.Softmax(beta)), lambda theta: 1 + wave(theta, first), [0.0, end], rtol=1e-10)

    found = 2 * (law.cosine.values[-1, 1:9] - 1j * law.sine.values[-1, 1:9])
    expected = first * np.exp(rates * end)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-8 * largest + 10 * largest**2)
    # Places of the clusters: (2 pi j - arg c_k) / k for the mode that grows fastest.
    assert np.angle(found[clusters - 1] / first[clusters - 1]) == pytest.approx(0, abs=1e-8 + 10 * largest)
    values = wave(2 * np.pi * np.arange(4096) / 4096, found)
    assert np.sum((values > np.roll(values, 1)) & (values >= np.roll(values, -1))) == clusters


def test_the_entropy_of_a_von_mises_law():
    """-int rho log rho = log(2 pi I_0(c)) - c I_1(c) / I_0(c)."""
    law = mean_field.evolve(flow(af.Softmax(1.0)), mean_field.von_mises(2.5), [0.0, 1e-3])

    exact = np.log(2 * np.pi * iv(0, 2.5)) - 2.5 * iv(1, 2.5) / iv(0, 2.5)
    assert float(law.entropy[0]) == pytest.approx(exact, rel=1e-9)
