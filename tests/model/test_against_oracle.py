"""Every model against the oracle: the same equations in plain NumPy, solved by SciPy.

Tokens are few, times short and tolerances tight, so that two paths differ by solver
error only, and weights and velocities by rounding only.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.helpers import oracle
from tests.helpers.oracle import Weights, best_matches_stay, layers, mask, rescaled_layers, solve, solve_in_pieces

import attnflow as af

N, D = 5, 3
TIMES = [0.0, 0.3, 0.7]
BRIEF = [0.0, 0.1, 0.25]  # for hardmax: three heads that keep every best match for longer are rare
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
CLOSE = 1e-8  # a hundred times the tolerance of a step, for tokens of size about one
ROUNDING = 1e-12  # a few thousand roundings, relative to numbers above one

SPACES = {
    "R^d": (af.EuclideanAttention, oracle.Euclidean),
    "rescaled": (af.RescaledAttention, oracle.Rescaled),
    "sphere": (af.SphereAttention, oracle.Sphere),
}
ATTENTIONS = {
    "softmax": (af.Softmax(1.3), oracle.softmax(1.3)),
    "unnormalised": (af.Unnormalised(0.7), oracle.unnormalised(0.7)),
    "hardmax": (af.Hardmax(), oracle.hardmax()),
    "Sinkhorn": (af.Sinkhorn(1.3, iterations=5), oracle.sinkhorn(1.3, 5)),
}
SOME = np.random.default_rng(3).random((N, N)) < 0.5
np.fill_diagonal(SOME, [True, False, True, False, True])
MASKS = {
    "full": (af.masks.full, mask(N)),
    "causal": (af.masks.causal, mask(N, lambda i, j: j <= i)),
    "window": (af.masks.window(1), mask(N, lambda i, j: abs(i - j) <= 1)),
    "ALiBi": (af.masks.alibi(0.4), mask(N, factor=lambda i, j: np.exp(-0.4 * abs(i - j)))),
    "boolean": (af.masks.boolean(SOME), mask(N, lambda i, j: SOME[i, j])),
    "others": (af.masks.others, mask(N, lambda i, j: i != j)),
    "strictly causal": (af.masks.strictly_causal, mask(N, lambda i, j: j < i)),
    "causal ALiBi": (
        af.masks.causal & af.masks.alibi(0.4),
        mask(N, lambda i, j: j <= i, lambda i, j: np.exp(-0.4 * abs(i - j))),
    ),
}
GRID = ["full", "causal", "window", "ALiBi", "boolean"]
LENGTHS = np.array([0.5, 0.8, 1.0, 1.5, 2.0])
MASSES = np.array([1.0, 2.5, 0.3, 1.0, 4.0])
NORMALISATIONS = {
    "post": (af.Post(), oracle.post),
    "pre": (af.Pre(), oracle.pre),
    "peri": (af.Peri(), oracle.peri),
    "nGPT": (af.NGPT(alpha=0.3), oracle.ngpt(0.3)),
    "sqrt": (af.Sqrt(), oracle.sqrt),
}


def heads(count, seed=0, d=D, is_mixed=True):
    """Gaussian heads; if mixed the second has query and key of rank one, the third an output factor."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(size=shape) / np.sqrt(d)
    ours, theirs = [], []
    for number in range(count):
        k = 1 if is_mixed and number == 1 else d
        query, key, value, output = draw(k, d), draw(k, d), draw(d, d), None
        if is_mixed and number == 2:
            value, output = draw(2, d), draw(d, 2)
        ours.append(af.Head(query=query, key=key, value=value, output=output))
        theirs.append(Weights(query, key, value if output is None else output @ value))
    return ours, theirs


def start(space, seed=1, n=N, d=D):
    """Gaussian tokens, on the sphere where they must be; small ones, for unnormalised attention can blow up."""
    tokens = 0.6 * np.random.default_rng(seed).normal(size=(n, d))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True) if space == "sphere" else tokens


def calm_start(space, model, times):
    """The first tokens drawn that keep their best matches; looked for with the oracle alone."""
    draws = (start(space, seed) for seed in range(1000))
    calm = next((tokens for tokens in draws if best_matches_stay(model, tokens, times)), None)
    assert calm is not None
    return calm


def both(space, attention="softmax", mask_name="full", some_heads=None, ours=None, theirs=None):
    """The flow and its oracle; `ours` and `theirs` are further arguments of each."""
    (flow, model), (our_heads, their_heads) = SPACES[space], some_heads or heads(1)
    (our_rule, rule), (our_mask, seen) = ATTENTIONS[attention], MASKS[mask_name]
    return flow(our_heads, our_rule, our_mask, **ours or {}), model(their_heads, rule, seen, **theirs or {})


def assert_same_path(flow, tokens, expected, radii=None, solver=TIGHT, times=TIMES):
    run = af.simulate(flow, tokens, times, solver=solver)
    np.testing.assert_allclose(run.tokens.values, expected, rtol=0, atol=CLOSE)
    if radii is not None:
        np.testing.assert_allclose(run.radius.values, radii, rtol=0, atol=CLOSE)


def assert_same_field(flow, model, tokens, time=0.4):
    """Weights and velocities agree up to rounding."""
    weights, expected = af.attention_matrix(flow, tokens, time=time), model.attention(time, tokens)
    np.testing.assert_allclose(weights.reshape(expected.shape), expected, rtol=ROUNDING, atol=ROUNDING)
    velocity, _ = model.velocity(time, tokens, np.ones(len(tokens)))
    np.testing.assert_allclose(af.velocity(flow, tokens, time=time), velocity, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mask_name", GRID)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("space", SPACES)
def test_tokens_follow_the_equations(space, attention, mask_name, count):
    """Weights, velocity and seven steps agree up to rounding for every space, rule, mask and number of heads.

    The steps are Euler's: the oracle takes the same ones, and a program with one velocity is compiled quickly.
    """
    flow, model = both(space, attention, mask_name, heads(count))
    tokens = start(space)

    run = af.simulate(flow, tokens, TIMES, solver=af.Euler(0.1))

    expected = oracle.euler(model, tokens, TIMES, 0.1)
    np.testing.assert_allclose(run.tokens.values, expected, rtol=ROUNDING, atol=ROUNDING)
    with jax.disable_jit():  # saves a third of the time; the steps above were compiled
        assert_same_field(flow, model, tokens)


# Softmax and unnormalised attention under these masks are integrated natively, all others by compiled programs.
PATHS = [(rule, "full") for rule in ATTENTIONS] + [
    (rule, mask_name) for rule in ("softmax", "unnormalised") for mask_name in ("causal", "window")
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("attention", "mask_name"), PATHS)
@pytest.mark.parametrize("space", SPACES)
def test_paths_are_those_of_another_solver(space, attention, mask_name, count):
    """Paths are those of SciPy. Hypothesis for hardmax, whose field jumps: largest scores stay the same ones."""
    flow, model = both(space, attention, mask_name, heads(count))
    times = BRIEF if attention == "hardmax" else TIMES
    tokens = calm_start(space, model, times) if attention == "hardmax" else start(space)

    expected, _ = solve(model, tokens, times)

    assert_same_path(flow, tokens, expected, times=times, solver=af.RK4(0.002))  # 0.002^4 is 2e-11


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("mask_name", ["others", "causal ALiBi"])
def test_other_masks_and_their_products_agree(mask_name, attention):
    """The masks outside the grid, on the sphere, with masses: all other tokens, and causal with ALiBi."""
    flow, model = both("sphere", attention, mask_name, ours={"masses": MASSES}, theirs={"masses": MASSES})
    assert_same_field(flow, model, start("sphere"))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("space", SPACES)
def test_masses_and_frozen_tokens_agree(space, attention):
    """Masses count in every rule; a frozen token, here one without visible tokens, is seen and stays.

    The mask is strictly causal: the first token has no token before it and must be frozen.
    """
    given = {"masses": MASSES, "frozen": np.array([True, False, False, True, False])}
    flow, model = both(space, attention, "strictly causal", ours=given, theirs=given)
    times = BRIEF if attention == "hardmax" else TIMES
    tokens = calm_start(space, model, times) if attention == "hardmax" else start(space)

    expected, _ = solve(model, tokens, times)

    assert_same_path(flow, tokens, expected, times=times)
    assert_same_field(flow, model, tokens)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("rule", "expected_rule"),
    [
        (af.Softmax(-2.0), oracle.softmax(-2.0)),
        (af.Softmax(0.0), oracle.softmax(0.0)),
        (af.Unnormalised(1.5, offset=0.8), oracle.unnormalised(1.5, 0.8)),
        (af.Sinkhorn(-1.0, iterations=1), oracle.softmax(-1.0)),
    ],
    ids=["negative beta", "beta zero", "offset", "one Sinkhorn iteration"],
)
def test_special_values_of_the_rules_agree(space, rule, expected_rule):
    """Negative and zero beta, an offset, and one iteration of Sinkhorn, which is softmax."""
    (flow, model), (ours, theirs) = SPACES[space], heads(1)
    flow, model = flow(ours, rule), model(theirs, expected_rule, mask(N))
    tokens = start(space)

    assert_same_path(flow, tokens, solve(model, tokens, TIMES)[0])
    assert_same_field(flow, model, tokens)


def test_tied_scores_have_weights_proportional_to_masses():
    """Hardmax on a square: the two neighbours of each corner have equal scores under the mask `others`."""
    square, masses = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]]), np.array([1.0, 2.0, 3.0, 4.0])
    flow = af.SphereAttention(af.Head.identity(2), af.Hardmax(), af.masks.others, masses=masses)

    weights = af.attention_matrix(flow, square)

    expected = [[0, 1 / 3, 0, 2 / 3], [1 / 4, 0, 3 / 4, 0], [0, 1 / 3, 0, 2 / 3], [1 / 4, 0, 3 / 4, 0]]
    np.testing.assert_allclose(weights, expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "identity"])
def test_the_feed_forward_layer_agrees(activation, space):
    """Every activation, with a bias, in the field; the smooth tanh also along the path."""
    rng = np.random.default_rng(5)
    weight, bias = rng.normal(size=(D, D)), rng.normal(size=D)
    ours, theirs = af.MLP(weight, activation, bias), oracle.mlp(weight, activation, bias)
    flow, model = both(space, ours={"mlp": ours}, theirs={"mlp": theirs})
    tokens = start(space)

    assert_same_field(flow, model, tokens)
    if activation == "tanh":
        assert_same_path(flow, tokens, solve(model, tokens, TIMES)[0])


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_normalisations_agree(name):
    """Directions and lengths of every scheme; schemes without lengths have none in the result."""
    ours, theirs = NORMALISATIONS[name]
    flow, model = both("sphere", ours={"normalisation": ours}, theirs={"normalisation": theirs})
    directions = start("sphere")

    expected, radii = solve(model, directions, TIMES, LENGTHS)

    tokens = directions * LENGTHS[:, None] if flow.has_radii else directions
    assert flow.has_radii == (name in ("pre", "peri"))
    assert_same_path(flow, tokens, expected, radii if flow.has_radii else None)


@pytest.mark.parametrize("name", ["post", "pre", "peri"])
def test_frozen_tokens_agree_under_every_normalisation(name):
    """Frozen tokens act on the others through their directions; neither their directions nor their lengths change."""
    ours, theirs = NORMALISATIONS[name]
    frozen = np.arange(N) % 2 == 0
    flow, model = both(
        "sphere", ours={"normalisation": ours, "frozen": frozen}, theirs={"normalisation": theirs, "frozen": frozen}
    )
    directions = start("sphere")
    tokens = directions * LENGTHS[:, None] if flow.has_radii else directions
    layer_times, solver = 0.1 * np.arange(9), af.Layers(step=0.1, residual=0.7)
    lengths = lambda radii: radii if flow.has_radii else None

    path, radii = solve(model, directions, TIMES, LENGTHS)
    assert_same_path(flow, tokens, path, lengths(radii))
    path, radii = layers(model, directions, 8, 0.1, 0.7, LENGTHS)
    assert_same_path(flow, tokens, path, lengths(radii), solver=solver, times=layer_times)

    smooth, discrete = af.simulate(flow, tokens, TIMES), af.simulate(flow, tokens, layer_times, solver=solver)
    np.testing.assert_array_equal(smooth.final_tokens[frozen], smooth.tokens[0, frozen])
    np.testing.assert_array_equal(discrete.tokens[-1, frozen], discrete.tokens[0, frozen])
    for run in (smooth, discrete) if flow.has_radii else ():
        np.testing.assert_array_equal(run.radius[-1, frozen], run.radius[0, frozen])
        assert np.abs(run.radius[-1, ~frozen] - run.radius[0, ~frozen]).max() > 1e-2


def test_mixed_normalisation_is_post_and_then_pre():
    """The oracle solves Post up to the switch and Pre after it."""
    flow, first = both("sphere", ours={"normalisation": af.Mix(switch=0.45)})
    _, second = both("sphere", theirs={"normalisation": oracle.pre})
    directions = start("sphere")

    expected, radii = solve_in_pieces([first, second], [0.45], directions, TIMES, LENGTHS)

    assert_same_path(flow, directions * LENGTHS[:, None], expected, radii)


def scheduled(space, our_head, their_heads):
    """A flow with one head that changes, and an oracle a piece; the rescaled frame is fixed."""
    frame = 0.5 * np.eye(D) + np.eye(D, k=1)
    ours, theirs = ({"rescaling": frame}, {"frame": frame}) if space == "rescaled" else ({}, {})
    models = [both(space, some_heads=([af.Head.identity(D)], [head]), theirs=theirs)[1] for head in their_heads]
    return SPACES[space][0](our_head, af.Softmax(1.3), **ours), models


@pytest.mark.parametrize("solver", [TIGHT, af.RK4(1e-3)], ids=["adaptive", "RK4"])
@pytest.mark.parametrize("space", SPACES)
def test_weights_that_jump_agree(space, solver):
    """Two switches, one of them between saved times, the other at one; RK4's error is about 1e-12."""
    ours, theirs = heads(3, is_mixed=False)
    flow, models = scheduled(space, af.PiecewiseHead([0.2, 0.3], ours), theirs)
    tokens = start(space)

    expected, _ = solve_in_pieces(models, [0.2, 0.3], tokens, TIMES)

    assert_same_path(flow, tokens, expected, solver=solver)


@pytest.mark.parametrize("space", SPACES)
def test_weights_that_change_smoothly_agree(space):
    """The value matrix turns and the query grows with time."""
    first, second = heads(2, is_mixed=False)[1]

    def weights(time, numpy):
        value = numpy.cos(3 * time) * first.value + numpy.sin(3 * time) * second.value
        return Weights(first.query * (1 + time), first.key, value)

    ours = af.TimeDependentHead(lambda time: af.Head(*weights(time, jnp)), dimension=D)
    flow, (model,) = scheduled(space, ours, [lambda time: weights(time, np)])
    tokens = start(space)

    assert_same_path(flow, tokens, solve(model, tokens, TIMES)[0])


@pytest.mark.parametrize("value", ["gaussian", "minus_query_key"])
@pytest.mark.parametrize("space", SPACES)
def test_redrawn_weights_agree(space, value):
    """The oracle takes the drawn matrices in the middle of each period."""
    head = af.RedrawnHead(D, period=0.2, seed=4, query_key="goe", value=value)
    with jax.enable_x64(True):
        drawn = [Weights(*map(np.asarray, (h.query, h.key, h.value))) for h in map(head.at, [0.1, 0.3, 0.5, 0.65])]
    flow, models = scheduled(space, head, drawn)
    tokens = start(space)

    expected, _ = solve_in_pieces(models, [0.2, 0.4, 3 * 0.2], tokens, TIMES)

    assert not np.allclose(drawn[0].value, drawn[1].value)
    assert_same_path(flow, tokens, expected)


def test_redrawn_weights_are_the_same_in_every_run_and_precision():
    """A head asked outside of a simulation shows the matrices that a simulation uses."""
    head = af.RedrawnHead(D, period=0.2, seed=4)
    with jax.enable_x64(True):
        used = np.asarray(head.at(0.1).value)

    np.testing.assert_allclose(np.asarray(head.at(0.1).value), used, rtol=0, atol=1e-6)  # float32 is enough to see it


@pytest.mark.parametrize("residual", [1.0, 0.7])
@pytest.mark.parametrize("space", ["R^d", "rescaled"])
def test_discrete_layers_agree(space, residual):
    """Eight layers of three heads, with a frozen token and masses; the rescaled ones see x through a power."""
    given = {"masses": MASSES, "frozen": np.arange(N) == 2}
    flow, model = both(space, "softmax", "causal", heads(3), ours=given, theirs=given)
    tokens, solver = start(space), af.Layers(step=0.1, residual=residual)

    follow = rescaled_layers if space == "rescaled" else lambda *request: layers(*request)[0]
    expected = follow(model, tokens, 8, 0.1, residual)

    assert_same_path(flow, tokens, expected, solver=solver, times=0.1 * np.arange(9))


@pytest.mark.parametrize("residual", [1.0, 0.7])
@pytest.mark.parametrize("name", NORMALISATIONS)
def test_discrete_layers_on_the_sphere_agree(name, residual):
    """Every normalisation, directions and lengths after each of eight layers."""
    ours, theirs = NORMALISATIONS[name]
    flow, model = both("sphere", ours={"normalisation": ours}, theirs={"normalisation": theirs})
    directions, solver = start("sphere"), af.Layers(step=0.1, residual=residual)

    expected, radii = layers(model, directions, 8, 0.1, residual, LENGTHS)

    tokens = directions * LENGTHS[:, None] if flow.has_radii else directions
    given = radii if flow.has_radii else None
    assert_same_path(flow, tokens, expected, given, solver=solver, times=0.1 * np.arange(9))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("space", SPACES)
def test_many_heads_and_coordinates_agree(space, attention):
    """Five equal heads in six coordinates take the compiled loop over heads and the matrix product."""
    flow, model = both(space, attention, some_heads=heads(5, d=6, is_mixed=False))
    assert_same_field(flow, model, start(space, d=6))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_sums_in_blocks_of_rows_agree(attention):
    """1100 tokens have more pairs than one block holds, and the last block is shorter."""
    n, (ours, theirs), (rule, their_rule) = 1100, heads(1), ATTENTIONS[attention]
    seen = oracle.Mask(np.tril(np.ones((n, n), dtype=bool)), np.ones((n, n)))
    flow, model = af.SphereAttention(ours, rule, af.masks.causal), oracle.Sphere(theirs, their_rule, seen)

    assert_same_field(flow, model, start("sphere", n=n))
