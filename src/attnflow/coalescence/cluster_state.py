"""Heavy tokens: clusters that move as one, with velocities in the log domain.

Two tokens in one place have one velocity, so under a full mask they stay together for ever: a
token whose mass is theirs replaces them exactly. At large beta velocities reach e^-1000, below the
smallest float; they are kept as e^logarithm times directions of size one.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.native.attention_sums import sums_of_others

FEW = 400  # heavy tokens up to which all pairs are looked at for the nearest
FLAT = 3  # dimensions up to which a tree finds the nearest of many faster
BLURRED = 1e-6  # so near each other cosines have no digits to tell who is nearest
SCALAR = 1e-12  # V closer to a multiple of I than this share is one

BALANCED = 1e-9  # share that is left of terms that cancel: rounding leaves 1e-16, a generic configuration much more


class Velocity(NamedTuple):
    """e^logarithm * directions, how large the terms are that add up to the directions, and what they come from."""

    directions: np.ndarray
    logarithm: float
    size_of_terms: float
    sums: "Sums"

    @property
    def log_speed(self) -> float:
        """Logarithm of the largest coordinate of any velocity."""
        with np.errstate(divide="ignore"):
            return self.logarithm + float(np.log(np.abs(self.directions).max()))

    @property
    def is_balanced(self) -> bool:
        """Whether the terms cancel to rounding: the configuration rests."""
        return bool(np.abs(self.directions).max(initial=0.0) <= BALANCED * self.size_of_terms)


@dataclasses.dataclass(frozen=True)
class HeavyTokens:
    """Places, masses, and which of the first tokens each one stands for."""

    places: np.ndarray
    masses: np.ndarray
    members: tuple[np.ndarray, ...]

    @classmethod
    def alone(cls, tokens: np.ndarray, masses: Any = None) -> "HeavyTokens":
        """Every token for itself."""
        given = np.ones(len(tokens)) if masses is None else np.asarray(masses, dtype=float)
        return cls(tokens, given, tuple(np.array([index]) for index in range(len(tokens))))

    def __len__(self) -> int:
        return len(self.places)

    def tokens(self) -> np.ndarray:
        """Where every first token is."""
        return self.places[self.labels()]

    def labels(self) -> np.ndarray:
        """For every first token the heavy one it belongs to."""
        found = np.empty(sum(map(len, self.members)), int)
        for index, members in enumerate(self.members):
            found[members] = index
        return found

    @functools.cached_property
    def gaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Distance to the nearest other, and which that is."""
        if len(self) == 1:
            return np.array([np.inf]), np.array([0])
        if len(self) > FEW and self.places.shape[1] <= FLAT:
            return _nearest_of(self.places)
        nearest = np.concatenate([self._nearest(rows) for rows in _blocks(len(self))])
        gaps = np.linalg.norm(self.places - self.places[nearest], axis=1)
        close = np.flatnonzero(gaps < BLURRED)
        if len(close) > 1:
            gaps[close], among = _nearest_of(self.places[close])
            nearest[close] = close[among]
        return gaps, nearest

    def _nearest(self, rows: np.ndarray) -> np.ndarray:
        cosines = self.places[rows] @ self.places.T
        cosines[np.arange(len(rows)), rows] = -np.inf
        return np.argmax(cosines, axis=1)

    def near(self, rows: np.ndarray, distance: float) -> np.ndarray:
        """Who is within a distance of some rows, with them."""
        cosines = self.places @ self.places[rows].T
        return np.union1d(rows, np.flatnonzero((cosines > 1 - distance**2 / 2).any(axis=1)))

    def moved_to(self, places: np.ndarray) -> "HeavyTokens":
        """The same tokens elsewhere, back on the sphere."""
        return dataclasses.replace(self, places=places / np.linalg.norm(places, axis=1, keepdims=True))

    def within(self, distance: float) -> list[np.ndarray]:
        """Groups of those that are no farther than `distance` from another of their group."""
        if self.gaps[0].min() > distance:
            return []
        near = np.flatnonzero(self.gaps[0] <= distance)
        if len(near) == 2:
            return [near]
        pairs = near[KDTree(self.places[near]).query_pairs(distance, output_type="ndarray")]
        graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(len(self), len(self)))
        found: Any = connected_components(graph, directed=False)[1]
        return [np.flatnonzero(found == one) for one in np.flatnonzero(np.bincount(found) > 1)]

    def joined(self, pairs: Iterable[tuple[int, int]]) -> "HeavyTokens":
        """Of each pair the second has joined the first, whose row is above, at their centre of mass; in this order."""
        places, masses, members = self.places.copy(), self.masses.copy(), list(self.members)
        home = np.arange(len(self))
        for one, other in pairs:  # the token with the smallest member stands for both, so that their order stays
            centre = masses[one] * places[one] + masses[other] * places[other]
            places[one], masses[one] = centre / np.linalg.norm(centre), masses[one] + masses[other]
            members[one] = np.sort(np.concatenate([members[one], members[other]]))
            home[home == other] = one
        kept = np.unique(home)
        found = HeavyTokens(places[kept], masses[kept], tuple(members[one] for one in kept))
        found._know_nearest(np.searchsorted(kept, home[self.gaps[1][kept]]))
        return found

    def _know_nearest(self, nearest: np.ndarray) -> None:
        """Who was nearest before some joined others still is, but for those who now are one with their nearest."""
        lost = np.flatnonzero(nearest == np.arange(len(self)))
        if len(self) > 1 and len(lost):
            nearest[lost] = self._nearest(lost)
        gaps = np.linalg.norm(self.places - self.places[nearest], axis=1)
        if len(self) > 1 and gaps.min() > BLURRED:
            self.__dict__["gaps"] = (gaps, nearest)

    def distinct(self) -> "HeavyTokens":
        """Those in one place as one."""
        return self.joined((int(group[0]), int(other)) for group in self.within(0.0) for other in group[1:])


def _nearest_of(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distances, pairs = map(np.asarray, KDTree(places).query(places, k=2))
    # Of tokens in one place the tree may name either first.
    itself = pairs[:, 0] == np.arange(len(places))
    return distances[:, 1], np.where(itself, pairs[:, 1], pairs[:, 0])


def _blocks(count: int) -> list[np.ndarray]:
    """Rows in turn, so many that their products with all others stay in the cache."""
    return np.array_split(np.arange(count), -(-count // FEW))


class Sums(NamedTuple):
    """What every row receives from the others, over e^best: pulls V x_j, weights, and the largest exponent of a row."""

    pulls: np.ndarray
    weights: np.ndarray
    best: np.ndarray

    def of(self, rows: np.ndarray) -> "Sums":
        """Of some rows."""
        return Sums(*(array[rows] for array in self))

    def replaced(self, rows: np.ndarray, fresh: "Sums") -> "Sums":
        """The same, but for some rows."""
        arrays = [array.copy() for array in self]
        for array, new in zip(arrays, fresh, strict=True):
            array[rows] = new
        return Sums(*arrays)


@dataclasses.dataclass(frozen=True)
class Pull:
    """The velocity of heavy tokens under one constant head on the sphere, everybody visible."""

    scores: np.ndarray
    """beta Q^T K."""
    value: np.ndarray
    offset: float | None
    """What is subtracted from the scores before e^(beta .), and no division by the row's sum; None for softmax."""
    total_mass: float
    is_scalar: bool
    """V = c I: what a token sends to itself has no tangent part."""
    value_size: float
    score_size: float

    @classmethod
    def of(cls, flow: AbstractDynamics, total_mass: float) -> "Pull":
        """Read off a flow that `coalesce` serves."""
        head: Any = flow.heads[0]
        rule = flow.attention
        assert isinstance(rule, Softmax | Unnormalised)  # the door has asked
        beta = float(rule.beta)
        offset = beta * float(rule.offset) if isinstance(rule, Unnormalised) else None
        value = np.asarray(head.value_matrix)
        mean = np.trace(value) / len(value)
        is_scalar = bool(np.abs(value - mean * np.eye(len(value))).max() <= SCALAR * max(abs(mean), 1e-300))
        scores = beta * np.asarray(head.query_key)
        sizes = (float(np.linalg.norm(matrix, 2)) for matrix in (value, scores))
        return cls(scores, value, offset, total_mass, is_scalar, *sizes)

    @property
    def beta(self) -> float:
        """Of scores beta <x, y> that attract, V being a positive multiple of I; NaN where they are anything else."""
        beta = float(self.scores[0, 0])
        is_plain = self.is_scalar and self.value[0, 0] > 0 and beta > 0
        return beta if is_plain and np.array_equal(self.scores, beta * np.eye(len(self.scores))) else np.nan

    def velocity(self, places: np.ndarray, masses: np.ndarray, rows: np.ndarray | None = None) -> Velocity:
        """At places near the sphere, of all tokens or of some rows; its part along each token is taken out."""
        chosen = slice(None) if rows is None else rows
        return self.velocity_of(self.sums(places, masses, rows), places[chosen], masses[chosen])

    def sums(self, places: np.ndarray, masses: np.ndarray, rows: np.ndarray | None = None) -> Sums:
        """What all tokens, or some rows, receive from the others."""
        chosen = np.arange(len(places)) if rows is None else rows
        queries = (places if rows is None else places[rows]) @ self.scores
        found, best = sums_of_others(queries, places, places @ self.value.T, np.log(masses), chosen)
        return Sums(found[:, :-1], found[:, -1], best)

    def _own_and_others(self, sums: Sums, places: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the weight of rows themselves and of what they receive."""
        own = np.sum((places @ self.scores) * places, axis=1) + np.log(masses)
        with np.errstate(divide="ignore"):  # two tokens that are NaN in a step too long
            return own, sums.best + np.log(sums.weights)

    def log_divisors(self, sums: Sums, places: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """Logarithms of what the pulls on the rows at `places`, that receive `sums`, are divided by."""
        return self._log_divisor(*self._own_and_others(sums, places, masses))

    def part_from(self, givers: np.ndarray, masses: np.ndarray, places: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        """The part of the velocities at `places` that comes from `givers`, over e^divisors; along themselves too."""
        exponents = (places @ self.scores) @ givers.T + np.log(masses)
        return np.exp(exponents - divisors[:, None]) @ (givers @ self.value.T)

    def velocity_of(self, sums: Sums, places: np.ndarray, masses: np.ndarray) -> Velocity:
        """Of the rows at `places` that receive `sums`."""
        own, others = self._own_and_others(sums, places, masses)
        logs = sums.best - self._log_divisor(own, others)
        scale = float(logs.max())
        factors = np.exp(logs - scale)
        pulls, sizes = factors[:, None] * sums.pulls, factors * sums.weights
        if not self.is_scalar:
            scale, pulls, sizes = self._with_own(places, own, others, scale, pulls, sizes)
        along = np.sum(places * pulls, axis=1) / np.sum(places * places, axis=1)
        return Velocity(pulls - along[:, None] * places, scale, float(sizes.max() * self.value_size), sums)

    def _log_divisor(self, own: np.ndarray, others: np.ndarray) -> np.ndarray:
        if self.offset is not None:
            return np.full_like(own, self.offset + np.log(self.total_mass))
        return np.logaddexp(own, others)

    def _with_own(
        self,
        places: np.ndarray,
        own: np.ndarray,
        others: np.ndarray,
        scale: float,
        pulls: np.ndarray,
        sizes: np.ndarray,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """What tokens send to themselves added, for a V that turns them."""
        logs = own - self._log_divisor(own, others)
        larger = max(scale, float(logs.max()))
        weights = np.exp(logs - larger)
        pulls = np.exp(scale - larger) * pulls + weights[:, None] * (places @ self.value.T)
        return larger, pulls, np.exp(scale - larger) * sizes + weights
