"""Exact solutions and plain equations with which `coalesce` is compared."""

import numpy as np
from scipy.integrate import quad

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.step_problem import Partition, StepProblem
from attnflow.coalescence.subcycling import Tolerances, fast_tokens

CIRCLE = af.initial.on_circle
THREE_KINDS_BETA = 30.0


def flow(beta, d=2, **options):
    """Softmax attention with Q = K = V = I."""
    return af.SphereAttention(af.Head.identity(d), af.Softmax(beta), **options)


def exact_log_time(angle, beta, ratio=1.0, merge=1e-6):
    """Logarithm of the time in which two clusters on the circle, of a ratio of masses, come within `merge`.

    The angle between them decreases at the sum of their two speeds, so that the time is one integral over the angle. It
    is divided by e^{beta (1 - cos angle)}, which may overflow; its logarithm is added again.
    """

    def slowness(theta):
        far = np.exp(beta * (np.cos(theta) - 1))
        shares = ratio / (1 + ratio * far) + 1 / (ratio + far)
        return np.exp(beta * (np.cos(angle) - np.cos(theta))) / (np.sin(theta) * shares)

    points = [1e-4, 1e-2, 0.1, *np.linspace(0.2, angle, 12)[:-1]]
    found = quad(slowness, 2 * np.arcsin(merge / 2), angle, points=points, limit=2000, epsabs=0, epsrel=1e-10)[0]
    return float(np.log(found)) + beta * (1 - np.cos(angle))


def plain_velocity(tokens, beta, masses, is_softmax):
    """Velocity of all tokens under Q = K = V = I, offset 1 where unnormalised; tokens need not be of length one."""
    weights = masses * np.exp(beta * (tokens @ tokens.T - 1))
    weights /= weights.sum(axis=1, keepdims=True) if is_softmax else masses.sum()
    pulls = weights @ tokens
    return pulls - np.sum(pulls * tokens, axis=1, keepdims=True) * tokens / np.sum(tokens**2, axis=1, keepdims=True)


def merge_tree(run):
    """Clusters of a run of `coalesce` as sets of tokens, with the log t at which each formed."""
    home = {token: frozenset([token]) for token in range(run.sizes["token"])}
    log_times = {}
    names = zip(run["first"].values, run["second"].values, strict=True)
    for (first, second), log_time in zip(names, run.merge_log_time.values, strict=True):
        new = home[first] | home[second]
        home |= dict.fromkeys(new, new)
        log_times[new] = float(log_time)
    return log_times


def largest_error(found, exact, beta, rtol=1e-6, merge=1e-6):
    """Largest error of a merge time over the stated one, of `found` among all merges of `exact`, both merge trees.

    The stated error is beta (rtol + merge) a merge in log t, and 10,000 rtol in t. It is infinite where a cluster never
    formed.
    """
    stated = lambda place, log_time: beta * (rtol + merge) * place + 1e4 * rtol * np.exp(-log_time)
    places = enumerate(exact.items(), 1)
    return max(abs(found.get(one, np.inf) - log_time) / stated(place, log_time) for place, (one, log_time) in places)


def first_problem(clusters, beta, tolerances, fast=None) -> tuple[StepProblem, Partition]:
    """The problem of the first step of clusters under softmax attention; `fast` rows are selected where not given."""
    field = LogField.of(flow(beta, clusters.positions.shape[1]), float(clusters.masses.sum()))
    velocity = field.velocity(clusters.positions, clusters.masses)
    closing = np.linalg.norm(velocity.mantissa - velocity.mantissa[clusters.nearest.indices], axis=1)
    rows = fast_tokens(field, clusters, closing, tolerances.merge) if fast is None else fast
    return StepProblem.of(field, clusters, velocity, closing, rows, tolerances)


def three_kinds(seed):
    """The first step of sixteen tokens on S^2; for the seeds in use it has fast, staged and trapezoidal tokens.

    The subcycle's own tolerance is so small that errors of fast tokens are those of the coupling.
    """
    tolerances = Tolerances(rtol=1e-12, gap_floor=0.01, merge=1e-6)
    return first_problem(Clusters.singletons(af.initial.sphere(16, 3, rng=seed)), THREE_KINDS_BETA, tolerances)
