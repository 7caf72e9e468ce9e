"""Heavy tokens: clusters that move as one, with velocities in the log domain.

Two tokens in one place have one velocity, so under a full mask they stay together for ever: a
token whose mass is theirs replaces them exactly. At large beta velocities reach e^-1000, below the
smallest float; they are kept as e^logarithm times directions of size one.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from attnflow.attention import Softmax, Unnormalised
from attnflow.dynamics import AbstractDynamics
from attnflow.fused import sums_of_others

FEW = 400  # heavy tokens up to which all pairs are looked at for the nearest
SCALAR = 1e-12  # V closer to a multiple of I than this share is one


class Velocity(NamedTuple):
    """e^logarithm * directions, and how large the terms are that add up to the directions."""

    directions: np.ndarray
    logarithm: float
    size_of_terms: float

    @property
    def log_speed(self) -> float:
        """Logarithm of the largest coordinate of any velocity."""
        with np.errstate(divide="ignore"):
            return self.logarithm + float(np.log(np.abs(self.directions).max()))

    @property
    def is_balanced(self) -> bool:
        """Whether the terms cancel to rounding: the configuration rests."""
        return bool(np.abs(self.directions).max(initial=0.0) <= BALANCED * self.size_of_terms)


BALANCED = (
    1e-9  # share of the terms that is left of them; rounding leaves 1e-16, a generic configuration a share of one
)


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

    def gaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Distance to the nearest other, and which that is."""
        if len(self) == 1:
            return np.array([np.inf]), np.array([0])
        if len(self) <= FEW:
            cosines = self.places @ self.places.T
            np.fill_diagonal(cosines, -np.inf)
            nearest = np.argmax(cosines, axis=1)
            return np.linalg.norm(self.places - self.places[nearest], axis=1), nearest
        distances, pairs = map(np.asarray, KDTree(self.places).query(self.places, k=2))
        # Of tokens in one place the tree may name either first.
        itself = pairs[:, 0] == np.arange(len(self))
        return distances[:, 1], np.where(itself, pairs[:, 1], pairs[:, 0])

    def moved_to(self, places: np.ndarray) -> "HeavyTokens":
        """The same tokens elsewhere, back on the sphere."""
        return dataclasses.replace(self, places=places / np.linalg.norm(places, axis=1, keepdims=True))

    def merged(self, distance: float) -> tuple["HeavyTokens", list[np.ndarray]]:
        """Those within `distance` as one, at their centre of mass; and who was put together."""
        pairs = np.asarray(KDTree(self.places).query_pairs(distance, output_type="ndarray"))
        graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(len(self), len(self)))
        found: Any = connected_components(graph, directed=False)[1]
        groups = sorted(
            (np.flatnonzero(found == one) for one in range(found.max() + 1)),
            key=lambda group: min(int(self.members[one][0]) for one in group),
        )
        masses = np.array([self.masses[group].sum() for group in groups])
        centres = np.stack([self.masses[group] @ self.places[group] for group in groups])
        members = tuple(np.sort(np.concatenate([self.members[one] for one in group])) for group in groups)
        whole = HeavyTokens(centres / np.linalg.norm(centres, axis=1, keepdims=True), masses, members)
        return whole, [group for group in groups if len(group) > 1]


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
        return cls(scores, value, offset, total_mass, is_scalar, float(np.linalg.norm(value, 2)))

    def velocity(self, places: np.ndarray, masses: np.ndarray) -> Velocity:
        """At places near the sphere; its part along each token is taken out."""
        queries = places @ self.scores
        own = np.sum(queries * places, axis=1) + np.log(masses)
        sums, best = sums_of_others(queries, places, places @ self.value.T, np.log(masses))
        with np.errstate(divide="ignore"):  # two tokens that are NaN in a step too long
            others = best + np.log(sums[:, -1])
        logs = best - self._log_divisor(own, others)
        scale = float(logs.max())
        weights = np.exp(logs - scale)
        pulls, sizes = weights[:, None] * sums[:, :-1], weights * sums[:, -1]
        if not self.is_scalar:
            scale, pulls, sizes = self._with_own(places, own, others, scale, pulls, sizes)
        along = np.sum(places * pulls, axis=1) / np.sum(places * places, axis=1)
        return Velocity(pulls - along[:, None] * places, scale, float(sizes.max() * self.value_size))

    def _log_divisor(self, own: np.ndarray, others: np.ndarray) -> Any:
        if self.offset is not None:
            return self.offset + np.log(self.total_mass)
        return np.logaddexp(own, others)

    def _with_own(self, places, own, others, scale, pulls, sizes):
        """What tokens send to themselves added, for a V that turns them."""
        logs = own - self._log_divisor(own, others)
        larger = max(scale, float(logs.max()))
        weights = np.exp(logs - larger)
        pulls = np.exp(scale - larger) * pulls + weights[:, None] * (places @ self.value.T)
        return larger, pulls, np.exp(scale - larger) * sizes + weights
