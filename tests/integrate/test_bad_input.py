"""Every invalid argument raises a sentence: argument, expected, found, what to do."""

import numpy as np
import pytest

import attnflow as af

HEAD = af.Head.identity(2)
FLOW = af.SphereAttention(HEAD)
PLANE = af.EuclideanAttention(HEAD)
TOKENS = af.initial.circle(4, rng=0)
TIMES = [0.0, 1.0]


def with_entry(value):
    tokens = TOKENS.copy()
    tokens[2, 1] = value
    return tokens


BAD_RUNS = {
    "NaN": ((PLANE, with_entry(np.nan), TIMES), r"`tokens` must be finite, but 1 of 8 .* nan at tokens\[2, 1\] \(token, coordinate\)"),
    "infinity": ((PLANE, with_entry(np.inf), TIMES), r"inf at tokens\[2, 1\]"),
    "infinity in a run": ((PLANE, np.stack([TOKENS, with_entry(np.inf)]), TIMES), r"tokens\[1, 2, 1\] \(run, token, coordinate\)"),
    "one axis": ((PLANE, np.ones(4), TIMES), r"`tokens` must have shape \(n, d\)"),
    "four axes": ((PLANE, np.ones((1, 1, 1, 2)), TIMES), r"`tokens` must have shape \(n, d\)"),
    "no tokens": ((PLANE, np.ones((0, 2)), TIMES), r"all at least 1"),
    "text": ((PLANE, [["a", "b"]], TIMES), r"`tokens` must be real numbers"),
    "complex": ((PLANE, np.ones((2, 2)) * 1j, TIMES), r"`tokens` must be real numbers, but their type is complex128"),
    "booleans": ((PLANE, np.ones((2, 2), bool), TIMES), r"`tokens` must be real numbers, but their type is bool"),
    "dimension": ((PLANE, np.ones((4, 3)), TIMES), r"must have 2 coordinates, as the heads do, but they have 3"),
    "off the sphere": ((FLOW, 3 * TOKENS, TIMES), r"must lie on the unit sphere, but 4 of 4 tokens do not: tokens\[.\] has length 3"),
    "one off the sphere": ((FLOW, np.stack([TOKENS, with_entry(2.0)]), TIMES), r"1 of 8 tokens do not: tokens\[1, 2\] has length"),
    "zero vector": ((af.SphereAttention(HEAD, normalisation=af.Pre()), 0 * TOKENS, TIMES), r"must have a direction, but tokens\[0\] is the zero"),
    "decreasing times": ((FLOW, TOKENS, [0.0, 2.0, 1.0]), r"`times` must increase, but time 1 at position 2 follows 2"),
    "repeated times": ((FLOW, TOKENS, [0.0, 0.0]), r"`times` must increase"),
    "empty times": ((FLOW, TOKENS, []), r"at least two times"),
    "one time": ((FLOW, TOKENS, 5.0), r"at least two times"),
    "NaN time": ((FLOW, TOKENS, [0.0, np.nan]), r"`times` must be finite"),
    "words as times": ((FLOW, TOKENS, "soon"), r"`times` must be a list of numbers"),
    "ragged tokens": ((PLANE, [[1.0, 2.0], [3.0]], TIMES), r"its rows have different lengths"),
    "not a flow": ((HEAD, TOKENS, TIMES), r"`flow` must be an `EuclideanAttention`"),
}  # fmt: skip


THREE = af.masks.boolean(np.ones((3, 3), bool))
BAD_RUNS |= {
    f"{name} for three tokens": ((af.SphereAttention(HEAD, mask=mask), af.initial.circle(5, rng=0), TIMES), r"`mask` is made for 3 tokens, but there are 5")
    for name, mask in {"boolean": THREE, "causal & boolean": af.masks.causal & THREE, "boolean & window": THREE & af.masks.window(2), "nested": af.masks.causal & (THREE & af.masks.window(2))}.items()
}  # fmt: skip


def time_dependent(function):
    return af.EuclideanAttention(af.TimeDependentHead(function, dimension=2))


BAD_RUNS |= {
    "head of another dimension": ((time_dependent(lambda t: af.Head.identity(3)), TOKENS, TIMES), r"must return a `Head` of dimension 2, but its value is of dimension 3"),
    "matrix for a head": ((time_dependent(lambda t: np.eye(2)), TOKENS, TIMES), r"must return a `Head` of dimension 2, but its value is of type ndarray"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_RUNS)
def test_simulate_refuses(name):
    arguments, sentence = BAD_RUNS[name]
    with pytest.raises(ValueError, match=sentence):
        af.simulate(*arguments)


BAD_OPTIONS = {
    "solver": ({"solver": "rk4"}, r"`solver` must be one of attnflow's"),
    "dtype": ({"dtype": "float16"}, r"`dtype` 'float16' is not known. Did you mean 'float64' or 'float32'"),
    "memory": ({"memory": -1}, r"`memory` must be above zero"),
    "budget": ({"budget": 0}, r"`budget` must be above zero"),
    "rng": ({"rng": "seed"}, r"`rng` must be None, a non-negative integer"),
    "negative rng": ({"rng": -3}, r"`rng` must be None, a non-negative integer"),
    "no stop": ({"stop": None}, r"`stop` must be `Clustered`, `Settled` or `Diverged`, but it is None"),
    "class for a stop": ({"stop": af.Clustered}, r"`stop` must be `Clustered`"),
    "list of observables": ({"observables": [len]}, r"`observables` must be functions by name"),
    "taken name": ({"observables": {"failed": af.observables.diameter}}, r"cannot use the name 'failed'"),
    "float32 tolerance": ({"dtype": "float32", "solver": af.Adaptive()}, r"`rtol` must be at least 1.2e-06 in float32"),
    "stop": ({"stop": [1e-3]}, r"`stop` must be `Clustered`, `Settled` or `Diverged`"),
    "NumPy observable": ({"observables": {"size": lambda _, x: np.linalg.norm(x)}}, r"written with jax\.numpy"),
    "observable": ({"observables": {"energy": 3}}, r"Observable 'energy' must be a function"),
    "observable name": ({"observables": {"tokens": af.observables.diameter}}, r"cannot use the name 'tokens'"),
    "layers": ({"solver": af.Layers(0.3)}, r"whole number of steps of 0.3 .* time 1 at position 1 is layer 3.33333"),
    "needless noise": ({"solver": af.StochasticHeun(0.1)}, r"for flows with noise, and this one has none"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_simulate_refuses_the_option(name):
    options, sentence = BAD_OPTIONS[name]
    with pytest.raises(ValueError, match=sentence):
        af.simulate(FLOW, TOKENS, TIMES, **options)


@pytest.mark.parametrize("solver", [af.Adaptive(), af.RK4(0.1), af.Layers(0.1)])
def test_a_flow_with_noise_needs_its_solver(solver):
    noisy = af.SphereAttention(HEAD, noise=af.Noise(1.0))
    with pytest.raises(ValueError, match=r"noise.* Use `StochasticHeun\("):
        af.simulate(noisy, TOKENS, TIMES, solver=solver)


def test_layers_refuse_a_rescaled_flow_that_they_cannot_solve():
    shrinking = af.RescaledAttention(af.Head.bilinear(np.eye(2), -np.eye(2)))
    with pytest.raises(ValueError, match="residual \\* I \\+ step \\* V is singular"):
        af.simulate(shrinking, TOKENS, TIMES, solver=af.Layers(1.0))
    with_mlp = af.RescaledAttention(HEAD, mlp=af.MLP(np.eye(2)))
    with pytest.raises(ValueError, match="an MLP does not commute"):
        af.simulate(with_mlp, TOKENS, TIMES, solver=af.Layers(0.1))


EYE = np.eye(2)
BAD_MODELS = {
    "value not square": (lambda: af.Head(EYE, EYE, np.ones((3, 2))), r"`value` must be 2 x 2, but it is 3 x 2"),
    "value too wide": (lambda: af.Head(EYE, EYE, np.ones((2, 3))), r"`value` must be 2 x 2, but it is 2 x 3"),
    "value too wide for its output": (lambda: af.Head(EYE, EYE, np.ones((1, 3)), np.ones((2, 1))), r"`value` must be 1 x 2, but it is 1 x 3"),
    "key of another shape": (lambda: af.Head(EYE, np.ones((3, 2)), EYE), r"`key` must be 2 x 2, but it is 3 x 2"),
    "output": (lambda: af.Head(EYE, EYE, np.ones((1, 2)), np.ones((2, 3))), r"`output` must be 2 x 1, but it is 2 x 3"),
    "output too tall": (lambda: af.Head(EYE, EYE, np.ones((1, 2)), np.ones((3, 1))), r"`output` must be 2 x 1, but it is 3 x 1"),
    "bilinear not square": (lambda: af.Head.bilinear(np.ones((2, 3)), EYE), r"`query_key` must be"),
    "vector for a matrix": (lambda: af.Head(EYE, EYE, np.ones(2)), r"`value` must be a matrix, but it has shape \(2,\)"),
    "NaN in a matrix": (lambda: af.Head(EYE, EYE, EYE * np.nan), r"`value` must be finite, .* at value\[0, 0\] \(row, column\)"),
    "heads of two dimensions": (lambda: af.EuclideanAttention([HEAD, af.Head.identity(3)]), r"theirs are \[2, 3\]"),
    "no heads": (lambda: af.EuclideanAttention([]), r"the list is empty"),
    "matrix for a head": (lambda: af.EuclideanAttention(EYE), r"it holds an object of type ndarray"),
    "class for attention": (lambda: af.EuclideanAttention(HEAD, af.Softmax), r"write Softmax\(\.\.\.\)"),
    "word for a mask": (lambda: af.EuclideanAttention(HEAD, af.Softmax(), "causal"), r"such as `masks.causal`, but it is 'causal'"),
    "complex head": (lambda: af.Head(EYE * 1j, EYE, EYE), r"numbers must be real"),
    "word for beta": (lambda: af.Softmax("hot"), r"numbers must be real, but 'hot' is not"),
    "masks of two sizes": (lambda: af.masks.boolean(np.eye(2) > 0) & af.masks.boolean(np.eye(3) > 0), r"not 2 and 3"),
    "tolerance below rounding": (lambda: af.Adaptive(rtol=1e-30), r"`rtol` must be at least 2.2e-15 in float64"),
    "NaN beta": (lambda: af.Softmax(np.nan), r"`beta` must be one finite number"),
    "two betas": (lambda: af.Softmax([1.0, 2.0]), r"`beta` must be one finite number"),
    "even Sinkhorn": (lambda: af.Sinkhorn(1.0, 4), r"`iterations` must be odd, .* Use 5"),
    "hardmax tolerance": (lambda: af.Hardmax(0.0), r"`tolerance` must be above zero"),
    "number mask": (lambda: af.masks.boolean(EYE), r"square matrix of booleans, but it has shape \(2, 2\) and type float64"),
    "oblong mask": (lambda: af.masks.boolean(np.ones((2, 3), bool)), r"square matrix of booleans"),
    "window": (lambda: af.masks.window(-1), r"`width` must be a whole number, at least 0, but it is -1"),
    "negative mass": (lambda: af.EuclideanAttention(HEAD, masses=[1.0, -2.0]), r"masses\[1\] is -2"),
    "frozen numbers": (lambda: af.EuclideanAttention(HEAD, frozen=[0, 1]), r"`frozen` must be a list of booleans"),
    "kappa": (lambda: af.Noise(0.0), r"`kappa` must be above zero, but it is 0.0. Leave `noise` out"),
    "activation": (lambda: af.MLP(EYE, "rely"), r"Did you mean 'relu'"),
    "bias": (lambda: af.MLP(EYE, bias=np.ones(3)), r"`bias` must have one entry for each column"),
    "MLP of another size": (lambda: af.EuclideanAttention(HEAD, mlp=af.MLP(np.eye(3))), r"must be 2 x 2"),
    "mix": (lambda: af.Mix(-1.0), r"`switch` must be above zero"),
    "step": (lambda: af.RK4(0.0), r"`step` must be above zero"),
    "rtol": (lambda: af.Adaptive(rtol=0), r"`rtol` must be above zero"),
    "order": (lambda: af.Adaptive(order=4), r"`order` must be 5"),
    "switches": (lambda: af.PiecewiseHead([2.0, 1.0], [HEAD] * 3), r"`switches` must increase"),
    "pieces": (lambda: af.PiecewiseHead([2.0], [HEAD]), r"1 switches and 1 heads"),
    "pieces of two shapes": (lambda: af.PiecewiseHead([2.0], [HEAD, af.Head.identity(3)]), r"same shapes"),
    "law": (lambda: af.RedrawnHead(2, 1.0, value="gausian"), r"Did you mean 'gaussian'"),
    "time-dependent rescaling": (lambda: af.RescaledAttention(af.RedrawnHead(2, 1.0)), r"cannot form e\^\{-tV\}"),
    "rescaling of another size": (lambda: af.RescaledAttention(HEAD, rescaling=np.eye(3)), r"`rescaling` must be 2 x 2"),
    "rescaling not square": (lambda: af.RescaledAttention(HEAD, rescaling=np.ones((2, 3))), r"must be a square matrix"),
    "negative n": (lambda: af.initial.box(-3, 2), r"`n` must be a whole number, at least 1, but it is -3"),
    "broken n": (lambda: af.initial.sphere(2.5, 2), r"`n` must be a whole number"),
    "zero d": (lambda: af.initial.gaussian(3, 0), r"`d` must be a whole number"),
    "negative runs": (lambda: af.initial.ball(3, 2, runs=-1), r"`runs` must be a whole number"),
    "empty box": (lambda: af.initial.box(3, 2, 1.0, 1.0), r"`low` must be below `high`"),
    "circle on a line": (lambda: af.initial.circle(3, 1), r"`d` must be a whole number, at least 2"),
    "cosine": (lambda: af.initial.equiangular(3, 3, -0.9), r"must be in \[-0.5, 1\], but it is -0.9"),
    "equiangular room": (lambda: af.initial.equiangular(4, 2, 0.5), r"need d >= 4, but `d` is 2"),
    "duplicates": (lambda: af.initial.with_duplicates(TOKENS, 9), r"at most the number of tokens, 4"),
    "eigenvectors": (lambda: af.values.from_spectrum([1.0], "othogonal"), r"Did you mean 'orthogonal'"),
    "eigenvalue without its conjugate": (lambda: af.values.from_spectrum([1j, 1.0]), r"conjugate pairs"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MODELS)
def test_a_model_refuses(name):
    make, sentence = BAD_MODELS[name]
    with pytest.raises(ValueError, match=sentence):
        make()


BAD_SIZES = {
    "masses": (af.EuclideanAttention(HEAD, masses=[1.0]), r"`masses` must have one entry for each token, 4, but it has 1"),
    "frozen": (af.EuclideanAttention(HEAD, frozen=[True]), r"`frozen` must have one entry for each token, 4, but it has 1"),
    "mask": (af.EuclideanAttention(HEAD, mask=af.masks.boolean(np.eye(3) > 0)), r"`mask` is made for 3 tokens, but there are 4"),
    "token without visible tokens": (af.EuclideanAttention(HEAD, mask=af.masks.strictly_causal), r"`mask` hides everything from token 1"),
    "empty row": (af.EuclideanAttention(HEAD, mask=af.masks.boolean(np.diag([1, 1, 0, 1]) > 0)), r"hides everything from token 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SIZES)
@pytest.mark.parametrize(
    "look", [lambda flow: af.simulate(flow, TOKENS, TIMES), lambda flow: af.velocity(flow, TOKENS)]
)
def test_a_model_that_does_not_fit_the_tokens_is_refused(name, look):
    flow, sentence = BAD_SIZES[name]
    with pytest.raises(ValueError, match=sentence):
        look(flow)


def test_a_token_without_visible_tokens_may_be_frozen():
    flow = af.SphereAttention(HEAD, mask=af.masks.strictly_causal, frozen=[True, False, False, False])

    run = af.simulate(flow, TOKENS, TIMES)

    assert np.all(np.isfinite(run.tokens))


def test_times_that_are_equal_in_float32_are_refused():
    with pytest.raises(ValueError, match="too close together for float32"):
        af.simulate(PLANE, TOKENS, 1000 + np.arange(3) * 1e-6, dtype="float32")


def test_counting_clusters_needs_tokens():
    run = af.simulate(FLOW, TOKENS, TIMES, keep_tokens=False)

    with pytest.raises(ValueError, match="holds no tokens"):
        af.clusters.count(run)
