"""Every fast sum against the sum over all pairs in NumPy, within the promised tolerance, for every rule and mask."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.dense_sums import dense_outputs, largest_error

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.model.fast_sums import fourier, gauss, harmonics, heavy_tokens, kernel_sums, neighbours, summation
from attnflow.model.fast_sums.problem import Positions, SumProblem

N = 600  # tokens: one level of halves on the circle; `test_many_halves` has more
MASKS = {
    "full": Positions(),
    "others": Positions(itself=False),
    "causal": Positions(later=False),
    "strictly causal": Positions(later=False, itself=False),
    "ALiBi": Positions(slope=0.02),
    "causal ALiBi": Positions(later=False, slope=0.02),
}
RULES = {
    "softmax": {},
    "unnormalised": {"is_normalised": False, "log_divisor": 1.0},
    "Sinkhorn": {"sweeps": 2},
}


def problem_of(tokens, beta, seed=1, **settings):
    """A sum with random values and masses."""
    rng = np.random.default_rng(seed)
    values = tokens @ rng.normal(size=(tokens.shape[1], tokens.shape[1]))
    return SumProblem(tokens, tokens, values, rng.uniform(0.5, 2, len(tokens)), beta, **settings)


def on_sphere(d, n=N, seed=0):
    tokens = np.random.default_rng(seed).normal(size=(n, d))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def in_space(d, n=N):
    return np.random.default_rng(0).normal(size=(n, d)) + 0.5


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("method", "tokens", "beta"),
    [
        (summation.Fourier(), on_sphere(2), 40.0),
        (summation.Harmonics(), on_sphere(3, 300), 12.0),
        (summation.Gauss(), in_space(1), 1.0),
        (summation.Gauss(), in_space(2, 300), 0.7),
    ],
    ids=["circle", "S^2", "R^1", "R^2"],
)
def test_expansions_keep_their_tolerance(method, tokens, beta, rule, mask):
    problem = problem_of(tokens, beta, positions=MASKS[mask], **RULES[rule])

    assert largest_error(method.outputs(problem), problem) < method.tolerance


@pytest.mark.parametrize("beta", [0.0, -3.0, 1e-3, 5e3, 1e6])
def test_the_circle_serves_every_beta(beta):
    problem = problem_of(on_sphere(2), beta)

    assert largest_error(summation.Fourier().outputs(problem), problem) < 1e-10


@pytest.mark.parametrize("beta", [0.0, -3.0, 300.0])
def test_the_sphere_serves_every_beta(beta):
    problem = problem_of(on_sphere(3, 300), beta)

    assert largest_error(summation.Harmonics().outputs(problem), problem) < 1e-10


def test_a_gauss_transform_in_three_dimensions():
    problem = problem_of(0.8 * in_space(3, 200), 0.5)

    assert largest_error(summation.Gauss().outputs(problem), problem) < 1e-10


def test_queries_and_keys_may_be_turned_and_scaled():
    turn = 1.5 * np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    problem = problem_of(on_sphere(2), 20.0)
    problem = replace(problem, keys=problem.keys @ turn.T)

    assert largest_error(summation.Fourier().outputs(problem), problem) < 1e-10


def clustered(n=1000):
    """Two narrow clusters, and one token midway between them, whose sum is e^-25 of the largest."""
    rng = np.random.default_rng(0)
    angles = np.concatenate([1e-4 * rng.normal(size=n // 2), 1.5 + 1e-4 * rng.normal(size=n // 2), [0.75]])
    return np.column_stack([np.cos(angles), np.sin(angles)])


def test_an_isolated_token_is_summed_directly():
    """Its error is that of the expansion over its small sum; without the direct sum it exceeds the tolerance."""
    problem = replace(problem_of(clustered(), 100.0), masses=np.append(np.ones(1000), 1e-9))
    fast = summation.Fourier(1e-12).outputs(problem)
    expected, _ = dense_outputs(problem)
    size = np.linalg.norm(problem.values, axis=1).max()

    assert np.linalg.norm(fast[-1] - expected[-1]) < 1e-12 * size
    unchecked = kernel_sums.outputs(problem, fourier.CircleKernel, np.inf)
    assert np.linalg.norm(unchecked[-1] - expected[-1]) > 1e-12 * size  # the control


@pytest.mark.parametrize(
    ("kernel", "tokens", "beta"),
    [
        (fourier.CircleKernel, clustered(), 100.0),
        (fourier.CircleKernel, np.tile([[0.6, 0.8]], (3000, 1)), 1e4),
        (harmonics.SphereKernel, np.tile(on_sphere(3, 2), (1000, 1)), 100.0),
        (gauss.GaussKernel, np.tile(in_space(2, 3), (1000, 1)), 2.0),
    ],
)
def test_the_unit_error_bounds_sums_over_clusters(kernel, tokens, beta):
    """Errors of one sign add up where all tokens are at a few places: the worst case of the transforms."""
    expansion, everything = kernel(tokens, tokens, beta), slice(0, len(tokens))
    columns = np.ones((len(tokens), 2))
    found = expansion.sums(slice(0, 50), everything, columns)
    # <q, k> = (|q|^2 + |k|^2 - |q - k|^2) / 2, where the squares cancel against the shift for unit vectors.
    squares = np.sum(tokens**2, axis=1)
    lengths = 2.0 if kernel is not gauss.GaussKernel else squares[:50, None] + squares
    exponents = (
        beta * (lengths - np.sum((tokens[:50, None] - tokens) ** 2, axis=2)) / 2 - expansion.row_shifts[:50, None]
    )
    expected = np.exp(exponents) @ columns
    gross = expansion.column_factors.sum()

    assert np.abs(found - expected).max() < expansion.unit_error * gross


@pytest.mark.parametrize("is_normalised", [True, False])
@pytest.mark.parametrize("beta", [1.0, -2.0, 50.0])
def test_heavy_tokens_keep_their_tolerance(beta, is_normalised):
    rng = np.random.default_rng(0)
    tokens = on_sphere(5, 3)[rng.integers(0, 3, 400)] + 1e-4 * rng.normal(size=(400, 5))
    problem = problem_of(tokens, beta, is_normalised=is_normalised, log_divisor=abs(beta))
    for tolerance in (1e-9, 1e-3):
        assert largest_error(heavy_tokens.outputs(problem, tolerance), problem) < tolerance
    groups = heavy_tokens.formed(problem, 1e-3)
    assert len(groups.weights) < 100  # of 400 tokens
    np.testing.assert_allclose(groups.weights.sum(), problem.masses.sum())


def test_groups_beyond_the_tolerance_are_dissolved():
    tokens = on_sphere(4, 50)
    problem = problem_of(np.concatenate([tokens, tokens]), 10.0)

    assert len(heavy_tokens.formed(problem, 1e-9).weights) == 50  # equal tokens form groups, others do not


@pytest.mark.parametrize("is_normalised", [True, False])
@pytest.mark.parametrize("beta", [30.0, -30.0, 3000.0])
def test_neighbours_keep_their_tolerance(beta, is_normalised):
    problem = problem_of(in_space(4, 300), beta / 10, is_normalised=is_normalised, log_divisor=2 * abs(beta))

    assert largest_error(neighbours.outputs(problem, 1e-8), problem) < 1e-8


def test_few_tokens_count_at_large_beta():
    counts = [neighbours.mean_count(problem_of(on_sphere(3, 400), beta), 1e-10) for beta in (1.0, 1e4)]

    assert counts[0] == 400
    assert counts[1] < 40


BAD_FLOWS = {
    "circle only": (
        lambda: af.SphereAttention(af.Head.identity(3), summation=summation.Fourier()),
        "of R.3.*Harmonics",
    ),
    "stretched": (
        lambda: af.SphereAttention(
            af.Head(value=np.eye(2), query=np.diag([1, 2]), key=np.eye(2)), summation=summation.Fourier()
        ),
        "do not map the sphere.*Gauss",
    ),
    "hardmax": (
        lambda: af.SphereAttention(af.Head.identity(2), af.Hardmax(), summation=summation.Fourier()),
        "Hardmax",
    ),
    "window": (
        lambda: af.SphereAttention(af.Head.identity(2), mask=af.masks.window(2), summation=summation.Gauss()),
        r"window\(2\)\. These do: Dense",
    ),
    "causal groups": (
        lambda: af.SphereAttention(af.Head.identity(2), mask=af.masks.causal, summation=summation.HeavyTokens()),
        "causal.*Fourier",
    ),
    "redrawn": (
        lambda: af.SphereAttention(af.RedrawnHead(2, period=1.0), summation=summation.Gauss()),
        "weights change in time",
    ),
    "too many coordinates": (
        lambda: af.EuclideanAttention(af.Head.identity(4), summation=summation.Gauss()),
        "4 coordinates, more than 3",
    ),
    "too many modes": (
        lambda: af.SphereAttention(af.Head.identity(2), af.Softmax(1e16), summation=summation.Fourier()),
        r"needs 1\.0e\+09 modes, more than 4,194,304.*Dense",
    ),
    "unknown word": (lambda: af.SphereAttention(af.Head.identity(2), summation="fast"), "auto.*'fast'"),
    "tolerance": (lambda: summation.Fourier(1e-16), "at least 1e-12"),
    "no tolerance": (lambda: summation.HeavyTokens(0.0), "above zero"),
}


@pytest.mark.parametrize("name", BAD_FLOWS)
def test_a_method_that_does_not_apply_says_why(name):
    make, sentence = BAD_FLOWS[name]

    with pytest.raises(InputError, match=sentence):
        make()


def test_a_missing_library_is_named_with_its_pip_line(monkeypatch):
    monkeypatch.setattr(summation, "missing", lambda extra: ("finufft",))

    with pytest.raises(InputError, match="pip install finufft"):
        summation.require_available(summation.Fourier())
    summation.require_available(summation.HeavyTokens())  # needs none


def test_scores_beyond_the_range_of_a_gauss_transform_are_summed_directly():
    problem = problem_of(in_space(2, 200), 500.0)

    assert gauss.GaussKernel(problem.queries, problem.keys, 500.0).unit_error == np.inf
    assert largest_error(summation.Gauss().outputs(problem), problem) < 1e-12


@pytest.mark.parametrize("mask", ["causal", "ALiBi"])
def test_many_halves(mask, monkeypatch):
    """Six levels of unequal halves, under an expansion with leaves of a few tokens."""
    monkeypatch.setattr(fourier.CircleKernel, "leaf", 10)
    problem = problem_of(on_sphere(2, 333), 30.0, positions=MASKS[mask])

    assert largest_error(summation.Fourier().outputs(problem), problem) < 1e-10


@pytest.mark.parametrize("mask", [af.masks.causal & af.masks.others, af.masks.others & af.masks.causal])
def test_the_product_of_two_masks_hides_what_either_hides(mask):
    assert Positions.of(mask) == Positions(later=False, itself=False)
    assert Positions.of(mask & af.masks.full) == Positions(later=False, itself=False)


@pytest.mark.parametrize(("first", "others"), [(0.1, 40.0), (999.0, 1000.0)], ids=["no expansion", "an expansion"])
def test_sums_whose_terms_underflow_are_summed_directly(first, others):
    """The first token sees itself alone, with a factor e^-800 of the largest, so that its sum and error are zero."""
    tokens = np.append(first, np.linspace(others - 0.1, others, 200))[:, None]
    problem = problem_of(tokens, 1.0, positions=MASKS["causal"])

    found = summation.Gauss().outputs(problem)

    np.testing.assert_allclose(found[0], problem.values[0], rtol=1e-12)


def test_queries_of_more_coordinates_than_tokens_have_are_not_served():
    """Q maps the circle to a circle in space, whose angles are not those of its first two coordinates."""
    query = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0]
    head = af.Head(query=query, key=query, value=np.eye(2))
    with pytest.raises(InputError, match="do not map the sphere to a sphere"):
        af.SphereAttention(head, summation=summation.Fourier())
