"""Figures that are sweeps, at a small size: against single runs, a plain Euler loop, and their controls."""

import numpy as np
import pytest
from tests.helpers.sweeping import first_tokens_of

import attnflow as af
from attnflow.figures.entries import collapse_times, euler_steps, polytope_counts, random_weights
from attnflow.show.parts.composition import compose

EULER = {"n": 5, "steps": [0.5, 0.25, 0.125], "betas": [1.0], "end": 3.0, "saves": 4, "runs": 3, "seed": 0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("figure") / "euler.zarr"


@pytest.fixture(scope="module")
def euler(store):
    return euler_steps.compute_euler(False, **EULER, store=str(store))


def test_euler_steps_are_those_of_a_plain_loop(euler):
    """The first tokens are the same for every step; each run is repeated in NumPy."""
    starts = first_tokens_of(euler_steps.euler_spec(**EULER), {"solver": "tsit5", "beta": 1.0}, 3)
    same = first_tokens_of(euler_steps.euler_spec(**EULER), {"solver": "euler:0.5", "beta": 1.0}, 3)
    np.testing.assert_array_equal(starts, same)
    cosines = []
    for x in starts:
        saved = [_mean_cosine(x)]
        for step in range(1, 7):
            weights = np.exp(x @ x.T)
            output = weights @ x / weights.sum(axis=1, keepdims=True)
            moved = x + 0.5 * (output - (output * x).sum(axis=1, keepdims=True) * x)
            x = moved / np.linalg.norm(moved, axis=1, keepdims=True)
            saved += [_mean_cosine(x)] if step % 2 == 0 else []
        cosines.append(saved)
    np.testing.assert_allclose(euler.cosine.sel(solver="euler:0.5", beta=1.0), np.mean(cosines, axis=0), atol=1e-12)


def _mean_cosine(x):
    return (x @ x.T)[np.triu_indices(len(x), 1)].mean()


def test_the_difference_falls_like_the_step(euler):
    assert euler_steps.orders(euler)[1.0] == pytest.approx(1.0, abs=0.2)
    assert len(compose(euler_steps.draw_euler(euler)).axes) == 2


def test_a_figure_uses_what_its_store_has(euler, store):
    files = set((store / ".sweep/batches").iterdir())

    again = euler_steps.compute_euler(False, **EULER, store=str(store))

    assert again.identical(euler)
    assert set((store / ".sweep/batches").iterdir()) == files


def test_times_of_collapse_are_those_of_single_runs():
    settings = {"n": [4], "least_beta": 0.5, "largest_beta": 2.0, "betas": 2, "distance": 0.05, "end": 40.0,
                "runs": 3, "seed": 0}  # fmt: skip
    data = collapse_times.compute_collapse(False, **settings, store="")
    tokens = first_tokens_of(collapse_times.collapse_spec(**settings), {"beta": 2.0, "n": 4}, 3)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0), af.masks.causal)
    runs = af.simulate(flow, tokens, [0.0, 40.0], stop=af.Clustered(0.05), progress=False)
    expected = np.where(runs.final_time < 40, runs.final_time, np.nan)
    np.testing.assert_allclose(data.collapse_time.sel(n=4, beta=2.0), expected, rtol=1e-6)
    data.collapse_time[0, 0, :2] = np.nan
    late = int(data.collapse_time.isnull().sum())
    assert f"{late} of 6 runs have not collapsed" in collapse_times.collapse_sentence(data)
    assert "the median is after the end at β = 0.5" in collapse_times.collapse_sentence(data)
    assert len(compose(collapse_times.draw_collapse(data)).axes) == 1


def test_post_gathers_faster_than_pre_from_the_same_starts():
    settings = {"schemes": ["post", "pre"], "n": 6, "beta": 2.0, "end": 20.0, "saves": 9, "runs": 3, "seed": 0}
    data = collapse_times.compute_schemes(False, **settings, store="")
    first, last = data.apart.isel(time=0), data.apart.isel(time=-1)
    np.testing.assert_allclose(first[0], first[1], rtol=1e-12)
    assert last.sel(scheme="post") < last.sel(scheme="pre") / 100
    assert "post below 1e-12, pre" in collapse_times.schemes_sentence(data)
    assert len(compose(collapse_times.draw_schemes(data)).axes) == 1


def test_tokens_leave_the_eigenvector_for_random_weights_and_not_in_the_control():
    settings = {"n": 6, "d": 3, "value": "diagonal:2,1,0.5", "betas": [4.0], "matrices": 6, "end": 200.0, "runs": 5,
                "seed": 0}  # fmt: skip
    data = random_weights.compute_weights(False, **settings, store="")
    numbers = random_weights.weights_numbers(data)
    assert numbers["share of runs with a token away from +-xi, identity, beta = 4"] == 0
    assert numbers["share of runs with a token away from +-xi, gaussian, beta = 4"] > 0
    assert "0 of 6 in the control" in random_weights.weights_sentence(data)
    assert len(compose(random_weights.draw_weights(data)).axes) == 1


def test_counts_of_the_polytope_are_those_of_single_runs():
    settings = {"n": [6], "d": [2], "starts": ["box:-5,5", "ball:5"], "end": 12.0, "runs": 4, "seed": 0}
    data = polytope_counts.compute_polytope_counts(False, **settings, store="")
    cell = {"n": 6, "d": 2, "start": "ball:5"}
    tokens = first_tokens_of(polytope_counts.counts_spec(**settings), cell, 4)
    flow = af.RescaledAttention(af.Head.identity(2))
    ends = af.simulate(flow, tokens, [0.0, 12.0], progress=False).final_tokens.values
    counted = [len(af.polytope.limit_vertices(end, 0.01)) for end in ends]
    assert float(data.vertices_mean.sel(start="ball:5", d=2, n=6)) == np.mean(counted)
    assert len(compose(polytope_counts.draw_polytope_counts(data)).axes) == 1
