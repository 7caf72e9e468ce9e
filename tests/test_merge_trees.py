"""Whole merge trees against SciPy's integration of the plain equations, in which nobody is ever put together."""

import numpy as np
import pytest
from scipy.integrate import DOP853

import attnflow as af

MERGE = RTOL = 1e-6


def plain_velocity(tokens, beta, masses, is_softmax):
    """Written out."""
    scores = beta * (tokens @ tokens.T - 1)
    weights = masses * np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True) if is_softmax else masses.sum()
    pulls = weights @ tokens
    return pulls - np.sum(pulls * tokens, axis=1, keepdims=True) * tokens


class Tree:
    """Clusters as sets of tokens, with the log t at which their centres came within the merging distance."""

    def __init__(self, masses):
        self.masses, self.log_times = masses, {}
        self.clusters = [frozenset([token]) for token in range(len(masses))]

    def gaps(self, tokens):
        """Between centres of mass."""
        centres = [np.average(tokens[list(one)], axis=0, weights=self.masses[list(one)]) for one in self.clusters]
        found = np.linalg.norm(np.subtract(np.expand_dims(centres, 1), centres), axis=2)
        np.fill_diagonal(found, np.inf)
        return found

    def join(self, tokens, time):
        """The two nearest."""
        gaps = self.gaps(tokens)
        pair = np.unravel_index(np.argmin(gaps), gaps.shape)
        new = self.clusters[pair[0]] | self.clusters[pair[1]]
        self.clusters = [one for index, one in enumerate(self.clusters) if index not in pair] + [new]
        self.log_times[new] = np.log(time)


def exact_tree(tokens, beta, masses, is_softmax, end):
    """Merges before `end`, each moment by bisection in the solver's dense output."""
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


def tree_of(found, n):
    """The same of a dataset."""
    home, log_times = {token: frozenset([token]) for token in range(n)}, {}
    names = zip(found["first"].values, found["second"].values, strict=True)
    for (first, second), log_time in zip(names, found.merge_log_time.values, strict=True):
        new = home[first] | home[second]
        home |= dict.fromkeys(new, new)
        log_times[new] = log_time
    return log_times


def largest_error(found, exact, beta):
    """Over what `coalesce` states: beta (rtol + merge) a merge in log t, and 0.01 rtol / merge in t."""
    errors = [
        abs(found[cluster] - log_time) / (beta * (RTOL + MERGE) * place + 0.01 * RTOL / MERGE * np.exp(-log_time))
        for place, (cluster, log_time) in enumerate(exact.items(), 1)
    ]
    return max(errors)


@pytest.mark.parametrize("shortcuts", [True, False])
@pytest.mark.parametrize(
    ("n", "d", "beta", "rule", "heaviest", "seed", "last"),
    [
        (28, 10, 10.76, af.Softmax, 1.0, 10, 7.2),  # three meet within a unit of time, four times
        (15, 5, 5.32, af.Unnormalised, 1.0, 56, 7.0),
        (20, 2, 5.0, af.Unnormalised, 100.0, 25, 6.0),
        (16, 10, 15.52, af.Unnormalised, 100.0, 51, 8.0),
        (20, 3, 20.0, af.Softmax, 10.0, 1, 6.0),
    ],
)
def test_the_tree_is_the_one_of_the_plain_equations(n, d, beta, rule, heaviest, seed, last, shortcuts):
    tokens = af.initial.sphere(n, d, rng=seed)
    masses = np.random.default_rng(seed).choice([1.0, heaviest], size=n)
    attention = rule(beta) if rule is af.Softmax else rule(beta, offset=1.0)
    flow = af.SphereAttention(af.Head.identity(d), attention, masses=masses)
    exact = exact_tree(tokens, beta, masses, rule is af.Softmax, np.exp(last))
    assert len(exact) > n / 3
    found = tree_of(af.coalesce(flow, tokens, shortcuts=shortcuts, progress=False), n)
    assert exact.keys() == {cluster for cluster, log_time in found.items() if log_time < last}
    assert largest_error(found, exact, beta) < 3
    moved = af.coalesce(flow, tokens, perturb=1e-3, rng=0, shortcuts=shortcuts, progress=False)
    elsewhere = tree_of(moved, n)
    assert not exact.keys() <= elsewhere.keys() or largest_error(elsewhere, exact, beta) > 3
