"""Stationary laws of the noisy equation: the bifurcation, folds, and what the equation in time says of them."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

mean_field = af.mean_field


@pytest.fixture(scope="module")
def discontinuous():
    """The branch at beta = 4, above `critical_beta`."""
    return mean_field.branch(af.Unnormalised(4.0), modes=64)


@pytest.mark.parametrize("mode", [1, 2])
def test_a_branch_begins_where_the_uniform_law_loses_the_mode(mode):
    states = mean_field.branch(af.Unnormalised(3.0), mode=mode, modes=64, states=4)

    assert float(states.kappa[0]) == pytest.approx(af.circle.critical_kappa(3.0, mode), rel=1e-12)
    assert int(np.abs(states.moments.values[1]).argmax()) == mode - 1


def test_softmax_loses_it_at_i0_times_the_kappa():
    states = mean_field.branch(af.Softmax(3.0), modes=64, states=2)

    assert float(states.kappa[0]) == pytest.approx(af.circle.critical_kappa(3.0) * np.i0(3.0), rel=1e-12)


def test_states_solve_the_equation_and_stable_ones_attract(discontinuous):
    assert float(discontinuous.residual.max()) < 1e-11
    place = int(np.flatnonzero(discontinuous.is_stable)[3])
    state = discontinuous.isel(state=place)
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(4.0), noise=af.Noise(float(state.kappa)))
    nearby = lambda theta: np.interp(theta, state.angle, state.density, period=2 * np.pi) ** 0.98
    fine = np.fft.irfft(np.fft.rfft(nearby(2 * np.pi * np.arange(512) / 512))[:40], 512)
    law = mean_field.evolve(flow, fine, [0.0, 15 / -float(state.growth_rate)], rtol=1e-7)

    assert float(law.order[-1]) == pytest.approx(float(state.order), abs=1e-6)


def test_unstable_states_are_left_at_their_growth_rate(discontinuous):
    state = discontinuous.isel(state=int(np.flatnonzero(~discontinuous.is_stable)[-3]))
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(4.0), noise=af.Noise(float(state.kappa)))
    times = np.linspace(0, 6 / float(state.growth_rate), 13)
    law = mean_field.evolve(flow, state.density.values * (1 + 1e-6 * np.cos(state.angle.values)), times)
    away = np.abs(law.order.values - float(state.order))

    assert np.log(away[8] / away[4]) / (times[8] - times[4]) == pytest.approx(float(state.growth_rate), rel=0.02)


@pytest.mark.parametrize(("beta", "turns_back"), [(2.2, False), (2.44, False), (2.46, True), (4.0, True)])
def test_the_branch_turns_back_above_the_critical_beta_only(beta, turns_back):
    states = mean_field.branch(af.Unnormalised(beta), modes=64, states=12)

    assert (float(states.kappa.min()) < float(states.kappa[0]) * (1 - 1e-10)) == turns_back


def test_between_fold_and_bifurcation_both_laws_persist(discontinuous):
    kappa = (float(discontinuous.kappa.min()) + float(discontinuous.kappa[0])) / 2
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(4.0), noise=af.Noise(kappa))

    from_uniform = mean_field.evolve(flow, mean_field.uniform(1, 0.05), [0.0, 40.0], rtol=1e-5)
    from_gathered = mean_field.evolve(flow, mean_field.von_mises(4.0), [0.0, 40.0], rtol=1e-5)

    assert float(from_uniform.order[-1]) < 5e-3
    assert float(from_gathered.order[-1]) > 0.6


@pytest.mark.parametrize(("d", "beta"), [(2, 2.4469), (3, 1.8162), (4, 1.5753), (8, 1.2666), (64, 1.0315)])
def test_critical_beta_as_published(d, beta):
    assert round(mean_field.critical_beta(d), 4) == beta


def test_critical_kappa_tends_to_d_and_is_that_of_the_circle():
    assert mean_field.critical_kappa(1e-5, d=7) == pytest.approx(7, rel=1e-6)
    assert mean_field.critical_kappa(2.5) == pytest.approx(af.circle.critical_kappa(2.5), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"attention": af.Hardmax()}, "Hardmax"),
        ({"attention": af.Softmax(-1.0)}, "beta"),
        ({"modes": 8}, "at least"),
        ({"kappas": (5.0, 6.0)}, "bifurcation at kappa"),
        ({"mode": 0}, "mode"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, words):
    with pytest.raises(InputError, match=words):
        mean_field.branch(**({"attention": af.Unnormalised(1.0)} | arguments))


def test_tokens_have_the_order_of_the_law_with_geodesic_steps_only():
    """At beta = 4 and step 0.01 straight steps leave the circle by 0.02, where tokens attract more (control)."""
    beta, kappa, n = 4.0, 0.5, 128
    law = af.mean_field.branch(af.Unnormalised(beta), modes=64, states=80)
    is_gathered = law.is_stable.values.astype(bool) & (law.order.values > 0.5)
    expected = np.interp(kappa, law.kappa.values[is_gathered], law.order.values[is_gathered])
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(beta), noise=af.Noise(kappa))
    tokens = np.stack([af.initial.hemisphere(n, 2, rng=seed) for seed in range(4)])
    orders = {}
    for geodesic in (True, False):
        solver = af.StochasticHeun(0.01, geodesic)
        run = af.simulate(
            flow, tokens, np.linspace(0, 12, 121), solver=solver, rng=1, keep_tokens=False,
            observables={"order": af.observables.order_parameter}, progress=False,
        )  # fmt: skip
        orders[geodesic] = float(run.order.sel(time=slice(2, None)).mean())

    # The mean over time and runs has the deviation 0.004; finitely many tokens have an order less by 0.005.
    assert abs(orders[True] - expected) < 0.015
    assert abs(orders[False] - expected) > 0.02
