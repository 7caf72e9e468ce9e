"""Weights of attention alone, found by a search, judged by solves that are not part of it."""

import jax
import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.control.shooting import SteeringSearch

TOKENS, TARGETS = af.initial.sphere(3, 3, rng=0), af.initial.sphere(3, 3, rng=1)


@pytest.fixture(scope="module")
def found():
    objectives = ("arrive", "energy", "soonest")
    return {one: af.control.optimise(TOKENS, TARGETS, pieces=4, objective=one, rng=0) for one in objectives}


@pytest.mark.parametrize("objective", ["arrive", "energy", "soonest"])
def test_three_tokens_arrive_at_once_by_attention_alone(found, objective):
    one = found[objective]
    assert one.terminal_error < 1e-8
    assert one.has_arrived
    assert one.control.flow().perceptron is None
    assert 1.0 <= one.gap < 3.0
    assert "of its gradient" in str(one)


def test_minima_are_stationary_and_fits_alone_are_not(found):
    """The control is "arrive", which ends before the minimisation."""
    for objective in ("energy", "soonest"):
        search = found[objective].search
        assert search.stationarity < 1e-3
        assert search.cost < 0.8 * search.first_cost
        assert search.pontryagin.mean_residual < 1e-2
        assert search.pontryagin.drift.max() < 1e-8
    assert found["arrive"].search.stationarity > 0.05
    assert found["arrive"].search.pontryagin.mean_residual > 0.05


def test_soonest_is_sooner_and_the_least_energy_is_less(found):
    assert found["soonest"].time < found["arrive"].time
    assert found["soonest"].limit.speed == pytest.approx(1.0)  # |V| = 1 in every piece
    assert found["soonest"].gap < found["energy"].gap  # measured with the largest |V| of each
    assert found["energy"].search.cost < found["arrive"].search.cost


def test_the_adjoint_gives_the_gradient_of_the_search():
    """Mean of dH/du with p(T) = multipliers, against reverse mode through the Runge-Kutta steps: 6 of them in a piece."""
    weights = 0.5 * np.random.default_rng(0).normal(size=(2, 2, 3, 3))
    with jax.enable_x64(True):
        search = SteeringSearch(TOKENS[None], TARGETS[None], weights.shape, 0.5)
        multipliers = np.random.default_rng(1).normal(size=6)
        total = lambda flat: search.cost(flat) + multipliers @ search.arrivals(flat)
        slopes = np.asarray(jax.grad(total)(weights.ravel())).reshape(2, -1) / 0.25
        # `arrivals` normalises tokens, whose derivative is the projection onto the tangent space of the last tokens.
        last = np.asarray(search.last(weights))[0]
        ends = np.einsum("ijk,ij->ik", search.tangents, multipliers.reshape(3, 2))
        ends = ends - (last * ends).sum(axis=1, keepdims=True) * last
        from attnflow.control.pontryagin import pontryagin
        from attnflow.control.shooting import velocity

        check = pontryagin(weights, 0.25, search.prompts, ends, search.running_cost, velocity)
        sizes = [np.linalg.norm(jax.grad(search.running_cost)(one)) for one in weights]
    expected = np.linalg.norm(slopes, axis=1).max() / np.sqrt(np.mean(np.square(sizes)))
    assert check.mean_residual == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("target", [[0.0, 0.6, 0.8], [-1.0, 0.0, 0.0], [np.cos(1e-3), np.sin(1e-3), 0.0]])
def test_one_token_arrives_in_the_shortest_possible_time(target):
    """The angle of token and target, also where they are opposite; three pieces have no influence."""
    found = af.control.optimise([[1.0, 0.0, 0.0]], [target], pieces=3, rng=0)

    assert found.gap == pytest.approx(1.0, abs=1e-9)
    assert found.terminal_error < 1e-11
    assert found.time == pytest.approx(np.arccos(target[0]), rel=1e-9)
    assert found.search.steps == 0


def test_a_search_that_cannot_arrive_keeps_what_it_has_reached():
    """18 weights against 2 * 12 conditions."""
    tokens, targets = af.initial.sphere(12, 3, rng=0), af.initial.sphere(12, 3, rng=1)

    found = af.control.optimise(tokens, targets, pieces=1, rng=0)

    assert 1e-3 < found.terminal_error < np.linalg.norm(tokens - targets, axis=1).max()
    assert not found.has_arrived
    assert "this is what was reached" in str(found)


def test_prompts_of_two_labels_end_in_the_caps_of_their_labels():
    rng = np.random.default_rng(0)
    points = np.array([1.0, -1.0] * 2)[:, None, None] * np.eye(3)[0]
    prompts = 0.8 * points + rng.normal(size=(4, 3, 3))
    prompts = prompts / np.linalg.norm(prompts, axis=-1, keepdims=True)
    targets = np.broadcast_to(points, prompts.shape)

    found = af.control.optimise(prompts, targets, 2, "label", radius=0.6, rng=0)

    assert found.has_arrived
    assert found.terminal_error < 0.6
    assert found.stationarity is None
    assert found.gap >= 1.0
    first = np.linalg.norm(prompts - targets, axis=-1)
    assert first.max() > 0.9  # control: they are not there at the start
    assert "4 prompts of 3" in str(found)


def test_tokens_are_kept_apart_that_come_close_otherwise():
    tokens = af.initial.on_circle(np.array([0.0, 1.0, 2.0]))
    tokens = np.c_[tokens, np.zeros(3)]
    targets = tokens[[1, 0, 2]]
    free = af.control.optimise(tokens, targets, 3, "arrive", rng=0)
    apart = af.control.optimise(tokens, targets, 3, "arrive", apart=0.85, rng=0)
    assert apart.has_arrived
    assert apart.least_distance >= 0.85 > free.least_distance
    assert "apart" in str(apart)


def test_conditions_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="`radius` belongs to"):
        af.control.optimise(TOKENS, TARGETS, objective="label")
    with pytest.raises(InputError, match="`apart` is of the objectives"):
        af.control.optimise(TOKENS, TARGETS, apart=0.1)
    with pytest.raises(InputError, match="least distance of the first tokens"):
        af.control.optimise(TOKENS, TARGETS, objective="arrive", apart=3.0)
    with pytest.raises(InputError, match="Tokens 0 and 1 are equal"):
        af.control.optimise(np.eye(3)[[0, 0]], np.eye(3)[[1, 2]], objective="label", radius=0.1)


def test_bad_input():
    with pytest.raises(InputError, match="tokens 0 and 1 are distinct"):
        af.control.optimise(np.eye(3), np.eye(3)[[0, 0, 2]])
    with pytest.raises(InputError, match="nothing to do"):
        af.control.optimise(np.eye(3), np.eye(3))
    with pytest.raises(InputError, match="`pieces`"):
        af.control.optimise(np.eye(3), -np.eye(3), pieces=0)
    with pytest.raises(InputError, match="objective"):
        af.control.optimise(np.eye(3), -np.eye(3), objective="fast")
    with pytest.raises(InputError, match=r"The time must be at least 1\.5708"):
        af.control.optimise(np.eye(3), -np.eye(3), time=1.5, norm=2.0)
    with pytest.raises(InputError, match="`norm` is of"):
        af.control.optimise(np.eye(3), -np.eye(3), objective="energy", norm=2.0)
