"""Perceptrons as a drift: the equation against the oracle, exact solutions, records, and what is refused."""

import dataclasses

import numpy as np
import pytest
from tests.helpers import oracle

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.theorems.prediction.observed_limits import observed_limit
from attnflow.theorems.simplest_flow import simplest

N, D, P = 5, 3, 2  # tokens, coordinates, hidden units
TIMES = [0.0, 0.3, 0.7]
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
SPACES = {"R^d": (af.EuclideanAttention, oracle.Euclidean), "sphere": (af.SphereAttention, oracle.Sphere)}


def start(space):
    """Gaussian tokens, on the sphere where they must be."""
    tokens = 0.6 * np.random.default_rng(1).normal(size=(N, D))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True) if space == "sphere" else tokens


def both(space, count, ours, theirs):
    """A flow with a perceptron and `count` Gaussian heads, softmax at beta = 1.3, and its oracle."""
    draws = np.random.default_rng(0).normal(size=(count, 3, D, D)) / np.sqrt(D)
    (flow, model), mask = SPACES[space], oracle.mask(N)
    heads = [af.Head(*matrices) for matrices in draws]
    weights = [oracle.Weights(*matrices) for matrices in draws]
    return flow(heads, af.Softmax(1.3), perceptron=ours), model(weights, oracle.softmax(1.3), mask, perceptron=theirs)


def weights(seed=5):
    """W (d x p), U (p x d) and b."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(D, P)), rng.normal(size=(P, D)), rng.normal(size=P)


def pair(activation, seed=5):
    """The perceptron and its oracle."""
    return af.Perceptron(*weights(seed), activation), oracle.perceptron(*weights(seed), activation)


@pytest.mark.parametrize("space", ["R^d", "sphere"])
@pytest.mark.parametrize("activation", af.Perceptron.activations)
def test_velocities_agree_with_and_without_attention(activation, space):
    ours, theirs = pair(activation)
    tokens = start(space)
    for count in (1, 0):
        flow, model = both(space, count, ours, theirs)
        expected, _ = model.velocity(0.4, tokens, np.ones(N))
        np.testing.assert_allclose(af.velocity(flow, tokens, time=0.4), expected, rtol=1e-12, atol=1e-12)
    without, _ = dataclasses.replace(model, perceptron=None).velocity(0.4, tokens, np.ones(N))
    assert np.abs(expected - without).max() > 0.01  # the control: the drift is not nothing


@pytest.mark.parametrize("space", ["R^d", "sphere"])
def test_layers_agree(space):
    ours, theirs = pair("relu")
    flow, model = both(space, 1, ours, theirs)
    run = af.simulate(flow, start(space), [0.0, 0.2, 0.4], solver=af.Layers(0.2))
    np.testing.assert_allclose(run.tokens, oracle.layers(model, start(space), 2, 0.2)[0], rtol=1e-12, atol=1e-12)


def test_pieces_and_functions_of_time_agree_with_constant_pieces():
    """tanh in two pieces, against the oracle piece by piece; a function of time that is constant, against a constant."""
    (first, one), (second, two) = pair("tanh"), pair("tanh", 6)
    flow = af.EuclideanAttention([], perceptron=af.PiecewisePerceptron([0.5], [first, second]))
    models = [oracle.Euclidean([], None, oracle.mask(N), perceptron=drift) for drift in (one, two)]
    expected, _ = oracle.solve_in_pieces(models, [0.5], start("R^d"), TIMES)

    run = af.simulate(flow, start("R^d"), TIMES, solver=TIGHT)
    np.testing.assert_allclose(run.tokens, expected, rtol=0, atol=1e-8)
    smooth = af.EuclideanAttention([], perceptron=af.TimeDependentPerceptron(lambda t: first, D))
    constant = af.EuclideanAttention([], perceptron=first)
    np.testing.assert_allclose(
        af.velocity(smooth, start("R^d"), 0.3), af.velocity(constant, start("R^d")), rtol=1e-13, atol=0
    )


def test_the_residual_network_tends_to_the_neural_ode():
    """x <- x + h c (a x + b)_+ against x(t) = (x + b/a) e^{act} - b/a for a x + b > 0: an error of order h."""
    a, b, c, x = 0.5, 0.25, 1.0, 1.0
    flow = af.EuclideanAttention([], perceptron=af.Perceptron([[c]], [[a]], [b]))
    exact = (x + b / a) * np.exp(a * c) - b / a

    errors = [
        af.simulate(flow, [[x]], [0.0, 1.0], solver=af.Layers(h)).final_tokens.item() - exact for h in (1 / 64, 1 / 128)
    ]
    run = af.simulate(flow, [[x]], [0.0, 1.0], solver=TIGHT)

    assert run.final_tokens.item() == pytest.approx(exact, abs=1e-9)
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.02)


def test_a_constant_drift_turns_tokens_to_a_pole():
    """P_x w with |w| = 1: the angle to w obeys a' = -sin a, so that tan(a / 2) = e^{-t} tan(a(0) / 2)."""
    drift = af.Perceptron(np.eye(3)[:, :1], np.zeros((1, 3)), [1.0])
    angle = 2.0
    token = [[np.cos(angle), np.sin(angle), 0.0]]
    run = af.simulate(af.SphereAttention([], perceptron=drift), token, [0.0, 1.5], solver=TIGHT)
    found = np.arccos(run.final_tokens.values[0, 0])
    assert np.tan(found / 2) == pytest.approx(np.exp(-1.5) * np.tan(angle / 2), rel=1e-8)


def test_tokens_outside_the_support_of_a_hat_keep_their_bits():
    """The hat is zero exactly outside of its strip; the sum of three ReLUs is zero up to rounding only."""
    drift = af.Perceptron([[0.0], [1.0], [0.0]], [[0.0, 0.0, 1 / 0.3]], [0.0], "hat")
    tokens = af.initial.sphere(40, 3, rng=1)
    run = af.simulate(af.SphereAttention([], perceptron=drift), tokens, [0.0, 1.0], solver=TIGHT)
    rests = np.all(run.final_tokens.values == tokens, axis=1)
    np.testing.assert_array_equal(rests, np.abs(tokens[:, 2]) >= 0.3)


def test_results_and_settings_hold_perceptrons(tmp_path):
    pieces = af.PiecewisePerceptron([0.5], [pair("hat")[0], pair("hat", 6)[0]])
    flow = af.SphereAttention([], perceptron=pieces)
    run = af.simulate(flow, start("sphere"), [0.0, 1.0], solver=af.Euler(0.5))
    loaded = af.load(af.save(run, tmp_path / "run.zarr"))

    path = af.save_config(af.config_of(loaded), tmp_path / "run.toml")
    again = af.load_config(path).run()

    assert af.flow_of(loaded) == flow
    assert af.flow_of(again) == flow
    np.testing.assert_array_equal(again.tokens, run.tokens)
    assert "5 tokens on the sphere, no attention, hat perceptron with p = 2 in 2 pieces" in str(af.describe(run))


def test_no_theorem_applies_to_a_flow_with_a_perceptron():
    """V = I on a hemisphere: single-cluster holds; with a perceptron nothing is said, with W = 0 all is as before."""
    tokens = af.initial.hemisphere(4, 3, rng=0)
    plain = af.SphereAttention(af.Head.identity(3))
    drift, _ = pair("relu")
    flow = dataclasses.replace(plain, perceptron=drift)
    nothing = dataclasses.replace(plain, perceptron=dataclasses.replace(drift, outer=np.zeros((3, P))))

    assert af.predict(plain, tokens).proved
    assert af.predict(flow, tokens).limit == "unknown"
    assert af.predict(nothing, tokens).limit == af.predict(plain, tokens).limit
    assert simplest(nothing, 4) == simplest(plain, 4)
    run = af.simulate(flow, tokens, np.linspace(0, 1, 6), solver=af.Euler(0.1))
    assert {verdict.verdict for verdict in af.verify(run)} == {"not_applicable"}
    with pytest.raises(InputError, match="has a perceptron"):
        observed_limit(flow, run)


REFUSED = {
    "shapes": (lambda: af.Perceptron(np.eye(2), np.eye(3)), "must match: `inner` is p x d"),
    "bias": (lambda: af.Perceptron(np.eye(2), np.eye(2), np.ones(3)), r"`bias` has the shape \(3,\)"),
    "activation": (lambda: af.Perceptron(np.eye(2), np.eye(2), activation="hut"), "Did you mean 'hat'"),
    "no heads": (lambda: af.SphereAttention([]), "the list is empty"),
    "rescaled": (lambda: af.RescaledAttention(af.Head.identity(3), perceptron=pair("relu")[0]), "takes no"),
    "dimension": (lambda: af.SphereAttention(af.Head.identity(2), perceptron=pair("relu")[0]), "its dimension is 3"),
    "kind": (lambda: af.SphereAttention(af.Head.identity(2), perceptron=af.MLP(np.eye(2))), r"`Perceptron\(outer"),
    "switches": (lambda: af.PiecewisePerceptron([1.0], [pair("relu")[0]]), "1 switches and 1 pieces"),
    "weights": (
        lambda: af.attention_matrix(af.EuclideanAttention([], perceptron=pair("relu")[0]), start("R^d")),
        "has no heads",
    ),
    "coalesce": (
        lambda: af.coalesce(af.SphereAttention(af.Head.identity(3), perceptron=pair("relu")[0]), start("sphere")),
        "a perceptron is not supported",
    ),
    "stream": (
        lambda: af.stream(
            af.EuclideanAttention(af.Head.identity(3), mask=af.masks.causal, perceptron=pair("relu")[0]),
            start("R^d"),
            [0.0, 1.0],
        ),
        "a perceptron is not supported",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence(case):
    make, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        make()
