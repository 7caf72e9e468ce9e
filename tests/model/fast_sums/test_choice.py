"""The automatic choice: which method for which flow and number of tokens.

The numbers on the two sides of a crossover are those at which `benchmarks/fast_sums.py` measured which is faster.
"""

import numpy as np
import pytest

import attnflow as af
from attnflow.model.fast_sums import choice, summation
from attnflow.model.fast_sums.choice import chosen, with_method
from attnflow.model.fast_sums.heavy_tokens import formed as choice_formed


def sphere_flow(d, beta, mask=af.masks.full, **options):
    return af.SphereAttention(af.Head.identity(d), af.Softmax(beta), mask, **options)


@pytest.mark.parametrize(
    ("flow", "n", "kind"),
    [
        (sphere_flow(2, 100.0), 500, summation.Dense),
        (sphere_flow(2, 100.0), 1200, summation.Dense),
        (sphere_flow(2, 100.0), 4000, summation.Fourier),
        (sphere_flow(3, 100.0), 2000, summation.Dense),
        (sphere_flow(3, 100.0), 6000, summation.Harmonics),
        (sphere_flow(2, 100.0, af.masks.causal), 2000, summation.Dense),
        (sphere_flow(2, 100.0, af.masks.causal), 16_000, summation.Fourier),
        (sphere_flow(2, 100.0, af.masks.causal), 100_000, summation.Fourier),
        (sphere_flow(2, 100.0, af.masks.window(3)), 20_000, summation.Dense),
        (sphere_flow(3, 10.0), 30_000, summation.Harmonics),
        (sphere_flow(6, 10.0), 5000, summation.Dense),
    ],
)
def test_method_by_space_mask_and_number(flow, n, kind):
    assert type(chosen(flow, af.initial.sphere(n, flow.dimension, rng=0), 1e-10)) is kind


def test_tokens_in_few_places_are_grouped():
    tokens = np.repeat(af.initial.sphere(20, 6, rng=0), 300, axis=0)

    assert type(chosen(sphere_flow(6, 10.0), tokens, 1e-10)) is summation.HeavyTokens


def test_tokens_of_a_box_take_a_gauss_transform():
    flow = af.EuclideanAttention(af.Head.identity(1))

    assert type(chosen(flow, af.initial.box(20_000, 1, 1.0, rng=0), 1e-8)) is summation.Gauss


@pytest.mark.parametrize(("d", "beta", "kind"), [(1, 1.0, summation.Gauss), (2, 1.0, summation.Gauss), (2, 10.0, None)])
def test_a_gauss_transform_is_chosen_unless_most_rows_would_miss_the_tolerance(d, beta, kind):
    """The radius of normal tokens says that some rows might; the sample says how many."""
    flow = af.EuclideanAttention(af.Head.identity(d), af.Softmax(beta))
    tokens = np.random.default_rng(0).standard_normal((10_000, d))

    assert type(chosen(flow, tokens, 1e-10)) is (kind or summation.Dense)


def test_the_share_of_direct_rows_is_that_of_a_velocity():
    tokens = np.random.default_rng(0).uniform(-5, 5, (20_000, 1))
    problem = choice._problem(af.EuclideanAttention(af.Head.identity(1)), tokens, 1)
    kernel = choice.gauss.GaussKernel(problem.queries, problem.keys, problem.factor)
    columns = np.ones((len(tokens), 1))
    sums = kernel.sums(slice(None), slice(None), columns)[:, 0]
    error = kernel.unit_error * kernel.column_factors.sum()
    exact = float(np.mean(2 * error > 1e-10 * (sums - error)))

    found = choice.direct_share(problem, choice.gauss.GaussKernel, kernel.unit_error, 1e-10, len(tokens))

    assert 0.02 < exact < 0.98
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / choice.ROWS_TRIED) + 0.02


def test_attention_that_xla_sums_is_left_to_it_for_fewer_tokens_only():
    """Sinkhorn and ALiBi take longer for all pairs, so that expansions pay earlier."""
    tokens = af.initial.sphere(1500, 2, rng=0)
    alibi = af.SphereAttention(af.Head.identity(2), af.Softmax(30.0), af.masks.causal & af.masks.alibi(0.01))
    sinkhorn = af.SphereAttention(af.Head.identity(2), af.Sinkhorn(30.0))

    assert type(chosen(alibi, tokens, 1e-10)) is not summation.Dense
    assert type(chosen(sinkhorn, tokens, 1e-10)) is summation.Fourier
    assert type(chosen(sphere_flow(2, 30.0, af.masks.causal), tokens, 1e-10)) is summation.Dense


def test_tokens_in_many_places_are_not_all_put_into_groups(monkeypatch):
    """In d = 8 hardly any of the sampled tokens shares a group, so that the whole is not tried."""
    sizes = []
    formed = lambda problem, tolerance: sizes.append(len(problem.keys)) or choice_formed(problem, tolerance)
    monkeypatch.setattr(choice.heavy_tokens, "formed", formed)

    assert type(chosen(sphere_flow(8, 10.0), af.initial.sphere(30_000, 8, rng=0), 1e-10)) is summation.Dense
    assert max(sizes) <= choice.SAMPLE


def test_a_million_tokens_are_not_all_looked_at(monkeypatch):
    monkeypatch.setattr(choice.gauss, "GaussKernel", pytest.fail)
    monkeypatch.setattr(choice.heavy_tokens, "formed", lambda problem, _: _formed(problem))
    _formed = lambda problem: pytest.fail("all tokens") if len(problem.keys) > 10**4 else choice_formed(problem, 1e-10)
    tokens = np.tile(af.initial.sphere(10**5, 3, rng=0), (3, 1))

    assert type(chosen(sphere_flow(3, 100.0), tokens, 1e-10)) is summation.Harmonics


def test_without_libraries_all_pairs_are_summed(monkeypatch):
    monkeypatch.setattr(choice, "is_found", lambda module: False)

    assert type(chosen(sphere_flow(2, 100.0), af.initial.sphere(20_000, 2, rng=0), 1e-10)) is summation.Dense


def test_the_tolerance_follows_the_solver():
    flow, tokens = sphere_flow(2, 100.0), af.initial.sphere(20_000, 2, rng=0)

    assert with_method(flow, tokens, rtol=1e-6).summation == summation.Fourier(1e-8)
    assert with_method(flow, tokens).summation == summation.Fourier(1e-10)
    own = sphere_flow(2, 100.0, summation=summation.Automatic(1e-5))
    assert with_method(own, tokens, rtol=1e-6).summation == summation.Fourier(1e-5)
    forced = sphere_flow(2, 100.0, summation=summation.Dense())
    assert with_method(forced, tokens).summation == summation.Dense()


def test_a_grid_with_more_modes_takes_longer():
    tokens = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    problems = [
        choice._problem(af.EuclideanAttention(af.Head.identity(3), af.Softmax(beta)), tokens, 1) for beta in (0.1, 1.0)
    ]

    narrow, wide = (choice.seconds(summation.Gauss(), problem, 2000) for problem in problems)

    assert 0 < 1.1 * narrow < wide < np.inf
