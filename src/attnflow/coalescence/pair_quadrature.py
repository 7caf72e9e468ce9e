"""Meetings: two heavy tokens that have become far faster than all others, followed to where they meet at once.

Two tokens alone move on the arc between them: with theta the angle left, the way of each is its share of the closing
speed integrated over theta, and the time is the integral of one over that speed. Nothing has to be stepped through. The
others are not quite alone with themselves: along the way what they do to the pair and how far they move
is measured to first order and made good; what that leaves, of second order, is the error, and a meeting whose error is
above the tolerance is not used.
"""

import dataclasses

import numpy as np

from attnflow.analyse.clusters import angle
from attnflow.coalescence.cluster_state import HeavyTokens, Pull, Sums

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
GROWTH = 8.0  # of the logarithm of the speed in a part of the way: 8 nodes integrate e^(8 s) to 1e-9
PAST = 40.0  # of the logarithm of the speed: e^-40 of an integral is below rounding
SHRINKING = 1.2  # of the logarithm of the angle in a part of the way: 8 nodes integrate one over it to 1e-9
NEAR = 1 - 1e-3  # of the merging distance: where a meeting ends


def _integrals_to_nodes() -> np.ndarray:
    """The matrix that turns values at the nodes into integrals from -1 to each node."""
    powers = np.polynomial.legendre.legvander(NODES, len(NODES) - 1)
    ways = [
        np.polynomial.legendre.legval(NODES, np.polynomial.legendre.legint(row, lbnd=-1)) for row in np.eye(len(NODES))
    ]
    return np.linalg.solve(powers.T, np.array(ways)).T


TO_NODES = _integrals_to_nodes()


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Where everybody is when a pair has met, how long that takes, and how wrong it may be."""

    places: np.ndarray
    log_duration: float
    error: float
    """Of a place, what the first order leaves out."""


@dataclasses.dataclass(frozen=True)
class Duel:
    """Two tokens alone, at nodes along their way."""

    angles: np.ndarray
    widths: np.ndarray
    """Quadrature weights of the nodes, of integrals over the angle."""
    ways: np.ndarray
    """(2, nodes): the angle each has travelled."""
    ends: np.ndarray
    """(2,): the angle each has travelled when they meet."""

    @classmethod
    def of(cls, pull: Pull, masses: np.ndarray, first: float, last: float) -> "Duel":
        """From the angle `first` down to `last`."""
        edges = _edges(pull.beta, first, last)
        halves = (edges[:-1] - edges[1:]) / 2
        angles = ((edges[:-1] + edges[1:])[:, None] - 2 * halves[:, None] * NODES) / 2
        logs = log_speeds(pull, masses, angles)
        share = np.exp(logs[0] - np.logaddexp(*logs))
        before = np.concatenate([[0.0], np.cumsum(halves * (share @ WEIGHTS))])
        first_way = before[:-1, None] + halves[:, None] * (share @ TO_NODES.T)
        ways = np.stack([first_way, first - angles - first_way])
        widths = halves[:, None] * WEIGHTS
        ends = np.array([before[-1], first - last - before[-1]])
        return cls(angles.ravel(), widths.ravel(), ways.reshape(2, -1), ends)

    def displacement(self, strays: np.ndarray) -> np.ndarray:
        """Of the place they meet, when each is led astray by `strays` (2, nodes, d) a unit of the angle.

        They go on towards each other, each its share of what is left; one led astray moves the place by the other's.
        """
        left = self.ends[:, None] - self.ways
        shares = left / left.sum(axis=0)
        return np.einsum("pqd,pq,q->d", strays, shares[::-1], self.widths)


def log_speeds(pull: Pull, masses: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Logarithms of the speeds of two tokens alone towards each other, stacked."""
    first, second = np.log(masses)
    score, own = pull.beta * np.cos(angles), pull.beta
    towards = np.log(np.sin(angles)) + np.log(pull.value[0, 0])
    if pull.offset is not None:
        rest = towards + score - pull.offset - np.log(pull.total_mass)
        return np.stack([second + rest, first + rest])
    return towards + np.stack(
        [
            second + score - np.logaddexp(first + own, second + score),
            first + score - np.logaddexp(second + own, first + score),
        ]
    )


def _edges(beta: float, first: float, last: float) -> np.ndarray:
    """Angles from first to last between which neither speed nor angle changes by more than quadrature can follow."""
    whole = beta * (1 - np.cos(first))
    # From where e^-PAST of the time is left to where the tokens' shares of the speed change only the angle matters.
    early, late = (2 * np.arcsin(np.sqrt(np.clip(way / (2 * beta), 0, 1))) for way in (whole - PAST, PAST))
    bends = [angle for angle in (early, late) if whole > 2 * PAST and last < angle < first]
    fine = np.sort(np.concatenate([np.geomspace(first, last, 400), bends]))[::-1]
    growth = beta * (np.cos(fine) - np.cos(first))
    if bends:
        growth = np.minimum(growth, PAST) + np.maximum(growth - (whole - PAST), 0.0)
    stretch = growth / GROWTH + np.log(first / fine) / SHRINKING
    parts = int(np.ceil(stretch[-1]))
    return np.concatenate([[first], np.interp(np.arange(1, parts) * stretch[-1] / parts, stretch, fine), [last]])


def meeting(pull: Pull, heavy: HeavyTokens, pair: np.ndarray, sums: Sums, merge: float) -> Meeting:
    """Follow a pair to its meeting, and the others to first order; `sums` is what rows receive at the start."""
    ends, masses = heavy.places[pair], heavy.masses[pair]
    first = angle(np.linalg.norm(ends[0] - ends[1]))
    duel = Duel.of(pull, masses, float(first), float(angle(NEAR * merge)))
    towards = np.stack([_tangent(ends[0], ends[1]), _tangent(ends[1], ends[0])])
    paths, headings = _along(ends, towards, duel.ways)
    rest = np.delete(np.arange(len(heavy)), pair)
    logs = log_speeds(pull, masses, duel.angles)
    unit = np.logaddexp(*logs)  # speeds are in units of the pair's closing speed without others
    seen = _pair_velocities(pull, heavy.places[rest], heavy.masses[rest], masses, duel.angles, paths, headings, unit)
    closing = np.sum(seen * headings, axis=(0, 2))
    if closing.min() <= 0:  # others hold them apart
        return Meeting(heavy.places, np.inf, np.inf)
    strays = seen / closing[:, None] - np.exp(logs - unit)[..., None] * headings
    drift = _drift(pull, heavy, rest, pair, sums, paths, duel.widths / closing, unit)
    moved = np.empty_like(heavy.places)
    moved[rest] = heavy.places[rest] + drift
    moved[pair] = _along(ends, towards, duel.ends[:, None])[0][:, 0] + duel.displacement(strays)
    strayed = np.einsum("pqd,q->pd", strays, duel.widths)
    largest = float(np.linalg.norm(np.concatenate([strayed, drift]), axis=1).max())
    # Velocities depend on places through exponents: a displacement D changes them by up to 2 |B| D.
    error = largest * np.expm1(min(2 * pull.score_size * largest, 50.0))
    return Meeting(moved, float(np.logaddexp.reduce(np.log(duel.widths / closing) - unit)), float(error))


def _tangent(origin: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The unit vector at `origin` along the arc to `goal`."""
    difference = goal - origin
    way = difference - (difference @ origin) * origin
    return way / np.linalg.norm(way)


def _along(ends: np.ndarray, towards: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (2, nodes, d) and headings after ways on the arcs."""
    cosines, sines = np.cos(ways)[..., None], np.sin(ways)[..., None]
    ends, towards = ends[:, None], towards[:, None]
    return cosines * ends + sines * towards, cosines * towards - sines * ends


def _pair_velocities(
    pull: Pull,
    others: np.ndarray,
    other_masses: np.ndarray,
    masses: np.ndarray,
    angles: np.ndarray,
    paths: np.ndarray,
    headings: np.ndarray,
    unit: np.ndarray,
) -> np.ndarray:
    """Velocities (2, nodes, d) of the two along their way, the others standing still, in units e^unit."""
    speed = float(pull.value[0, 0])
    exponents = pull.beta * (paths @ others.T) + np.log(other_masses)
    partner = pull.beta * np.cos(angles) + np.log(masses[::-1])[:, None]
    if pull.offset is not None:
        divisor = np.full_like(partner, pull.offset + np.log(pull.total_mass))
    else:
        own = np.broadcast_to(pull.beta + np.log(masses)[:, None], partner.shape)
        divisor = np.logaddexp.reduce(np.concatenate([exponents, own[..., None], partner[..., None]], axis=-1), axis=-1)
    weights = np.exp(exponents - (divisor + unit)[..., None])
    pulls = weights @ others
    pulls -= np.sum(pulls * paths, axis=-1, keepdims=True) * paths
    return speed * (pulls + (np.exp(partner - divisor - unit) * np.sin(angles))[..., None] * headings)


def _drift(
    pull: Pull,
    heavy: HeavyTokens,
    rest: np.ndarray,
    pair: np.ndarray,
    sums: Sums,
    paths: np.ndarray,
    slowness: np.ndarray,
    unit: np.ndarray,
) -> np.ndarray:
    """How far the others move meanwhile, from where they stand."""
    places, best = heavy.places[rest], sums.best[rest]
    logs = np.log(heavy.masses[pair])[:, None, None]
    at_start = pull.beta * (heavy.places[pair] @ places.T) + logs[:, 0]
    on_way = pull.beta * (paths @ places.T) + logs
    top = np.maximum(best, on_way.max(axis=(0, 1)))
    start, way = np.exp(at_start - top), np.exp(on_way - top)
    speed = float(pull.value[0, 0])
    # Of what is received at the start the pair's part is taken off, and put on again where the pair has gone.
    base = np.exp(best - top)[:, None] * sums.pulls[rest] - speed * (start.T @ heavy.places[pair])
    weights = np.maximum(np.exp(best - top) * sums.weights[rest] - start.sum(axis=0), 0.0) + way.sum(axis=0)
    if pull.offset is not None:
        divisor = pull.offset + np.log(pull.total_mass)
    else:
        with np.errstate(divide="ignore"):  # weights of those too far away are zero
            divisor = np.logaddexp(pull.beta + np.log(heavy.masses[rest]), top + np.log(weights))
    factors = slowness[:, None] * np.exp(top - divisor - unit[:, None])
    found = factors.sum(axis=0)[:, None] * base
    for one in range(2):
        found += speed * ((factors * way[one]).T @ paths[one])
    return found - np.sum(found * places, axis=1, keepdims=True) * places
