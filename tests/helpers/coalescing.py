"""Exact solutions and plain equations with which `coalesce` is compared."""

import numpy as np
from scipy.integrate import quad

import attnflow as af

CIRCLE = af.initial.on_circle


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
