"""Whole merge trees against SciPy's integration of the plain equations, in which no tokens are merged."""

import numpy as np
import pytest
from scipy.integrate import DOP853
from tests.helpers.coalescing import largest_error, merge_tree, plain_velocity

import attnflow as af

MERGE = 1e-6


class Tree:
    """Clusters as sets of tokens, with the log t at which their centres came within the merging distance."""

    def __init__(self, masses):
        self.masses, self.log_times = masses, {}
        self.clusters = [frozenset([token]) for token in range(len(masses))]

    def gaps(self, tokens):
        """Distances between centres of mass."""
        centres = [np.average(tokens[list(one)], axis=0, weights=self.masses[list(one)]) for one in self.clusters]
        found = np.linalg.norm(np.subtract(np.expand_dims(centres, 1), centres), axis=2)
        np.fill_diagonal(found, np.inf)
        return found

    def join(self, tokens, time):
        """Merge the two nearest clusters."""
        gaps = self.gaps(tokens)
        pair = np.unravel_index(np.argmin(gaps), gaps.shape)
        new = self.clusters[pair[0]] | self.clusters[pair[1]]
        self.clusters = [one for index, one in enumerate(self.clusters) if index not in pair] + [new]
        self.log_times[new] = np.log(time)


def exact_tree(tokens, beta, masses, is_softmax, end):
    """Merges before `end`, each time by bisection in the solver's dense output."""
    shape, tree = tokens.shape, Tree(masses)
    slope = lambda _, flat: plain_velocity(flat.reshape(shape), beta, masses, is_softmax).ravel()
    solver = DOP853(slope, 0.0, tokens.ravel(), end, rtol=1e-13, atol=1e-15)
    while solver.status == "running" and len(tree.clusters) > 1:
        solver.step()
        begin, at = solver.t_old, solver.dense_output()
        while len(tree.clusters) > 1 and tree.gaps(solver.y.reshape(shape)).min() <= MERGE:
            late = solver.t
            while late - begin > 1e-11 * late:
                middle = (begin + late) / 2
                is_met = tree.gaps(at(middle).reshape(shape)).min() <= MERGE
                begin, late = (begin, middle) if is_met else (middle, late)
            tree.join(at(late).reshape(shape), late)
            begin = late
    return tree.log_times


@pytest.mark.parametrize("shortcuts", [True, False])
@pytest.mark.parametrize(
    ("n", "d", "beta", "rule", "heaviest", "seed", "last"),
    [
        (28, 10, 10.76, af.Softmax, 1.0, 10, 7.2),  # three merge within a unit of time, four times
        (15, 5, 5.32, af.Unnormalised, 1.0, 56, 7.0),
        (20, 2, 5.0, af.Unnormalised, 100.0, 25, 6.0),
        (16, 10, 15.52, af.Unnormalised, 100.0, 51, 8.0),
        (20, 3, 20.0, af.Softmax, 10.0, 1, 6.0),
    ],
)
def test_the_merge_tree_is_that_of_the_plain_equations(n, d, beta, rule, heaviest, seed, last, shortcuts):
    tokens = af.initial.sphere(n, d, rng=seed)
    masses = np.random.default_rng(seed).choice([1.0, heaviest], size=n)
    attention = rule(beta) if rule is af.Softmax else rule(beta, offset=1.0)
    flow = af.SphereAttention(af.Head.identity(d), attention, masses=masses)
    exact = exact_tree(tokens, beta, masses, rule is af.Softmax, np.exp(last))
    assert len(exact) > n / 3
    found = merge_tree(af.coalesce(flow, tokens, shortcuts=shortcuts, progress=False))
    assert exact.keys() == {cluster for cluster, log_time in found.items() if log_time < last}
    assert largest_error(found, exact, beta) < 3
    moved = af.coalesce(flow, tokens, perturb=1e-3, rng=0, shortcuts=shortcuts, progress=False)
    elsewhere = merge_tree(moved)
    assert not exact.keys() <= elsewhere.keys() or largest_error(elsewhere, exact, beta) > 3


def start_with_close_pairs(rng):
    """Every third token begins 1e-5 to 1e-3 from the one before, with masses from 1 to 55."""
    n, d, beta = int(rng.integers(15, 40)), int(rng.integers(5, 11)), float(rng.uniform(20, 40))
    tokens = rng.normal(size=(n, d))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    for token in range(1, n, 3):
        way = rng.normal(size=d)
        tokens[token] = tokens[token - 1] + 10 ** rng.uniform(-4.9, -3) * way / np.linalg.norm(way)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return tokens, beta, np.exp(rng.uniform(0, 4, size=n))


def test_velocities_of_close_pairs_are_computed_again_where_a_step_ends_elsewhere(monkeypatch):
    tokens, beta, masses = start_with_close_pairs(np.random.default_rng(52071))
    flow = af.SphereAttention(af.Head.identity(tokens.shape[1]), af.Unnormalised(beta, offset=1.0), masses=masses)
    exact = exact_tree(tokens, beta, masses, False, np.exp(4.5))
    found = merge_tree(af.coalesce(flow, tokens, log_end=6.0, progress=False))
    assert exact.keys() <= found.keys()
    assert largest_error(found, exact, beta) < 6
    monkeypatch.setattr("attnflow.coalescence.relaxation.NEIGHBOUR_DISTANCE", 0.0)
    inexact = merge_tree(af.coalesce(flow, tokens, log_end=6.0, progress=False))
    assert largest_error(inexact, exact, beta) > 6


def test_a_small_merging_distance_costs_no_accuracy():
    """Two begin 3e-8 apart, so that tokens merge at 3e-9: the other merge times are as accurate."""
    tokens = af.initial.sphere(8, 3, rng=4)
    tokens[1] = tokens[0] + [0.0, 3e-8, 0.0]
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(15.0))
    found = af.coalesce(flow, tokens, progress=False)
    exact = af.coalesce(flow, tokens, shortcuts=False, rtol=1e-10, progress=False)
    assert found.attrs["merge"] < 1e-8
    found, exact = merge_tree(found), merge_tree(exact)
    assert found.keys() == exact.keys()
    assert largest_error(found, exact, 15.0) < 3


def start_with_pairs_of_all_gaps(rng):
    """Up to 27 tokens, most in pairs 1e-5 to 0.16 apart, with masses that differ by up to e^8."""
    n, d = int(rng.integers(8, 28)), int(rng.integers(2, 7))
    beta = float(np.exp(rng.uniform(np.log(4), np.log(60))))
    tokens = rng.normal(size=(n, d))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    if rng.random() < 0.7:
        for token in range(1, n, int(rng.integers(2, 6))):
            way = rng.normal(size=d)
            tokens[token] = tokens[token - 1] + 10 ** rng.uniform(-4.9, -0.8) * way / np.linalg.norm(way)
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return tokens, beta, np.exp(rng.uniform(0, rng.choice([0.0, 2.0, 5.0, 8.0]), size=n))


def test_a_step_in_which_all_tokens_would_be_fast_is_done_without_subcycling():
    """Slow tokens that fast ones perturb become fast; here no slow token was left, and the step failed."""
    tokens, beta, masses = start_with_pairs_of_all_gaps(np.random.default_rng(1048))
    flow = af.SphereAttention(af.Head.identity(tokens.shape[1]), af.Unnormalised(beta, offset=1.0), masses=masses)
    found = merge_tree(af.coalesce(flow, tokens, progress=False))
    exact = exact_tree(tokens, beta, masses, False, np.exp(5.5))
    assert exact.keys() <= found.keys()
    assert largest_error(found, exact, beta) < 3
