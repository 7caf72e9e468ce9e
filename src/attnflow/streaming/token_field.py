"""One token among others whose places are given: its velocity and how that changes with its own place.

Everything is for several moments at once, along the first axis. A token on the sphere is described by its
central projection y on the plane that touches the sphere at `centre`, where

    y' = rho (E^T u - (u, centre) y),    rho = sqrt(1 + |y|^2),

for the pull u and an orthonormal basis E of the plane. What a token sends to itself along itself drops out of this
formula, and is left out of u: alone among distant tokens a token moves at e^-2beta, and rounding must not be faster.
"""

import dataclasses
from typing import Any

import numpy as np

from attnflow._common.precision import double
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics


@dataclasses.dataclass(frozen=True)
class Pull:
    """What one head sends to a token from itself and from others."""

    scores: np.ndarray
    """beta Q^T K."""
    value: np.ndarray
    own_value: np.ndarray
    """V, less the multiple of I that only pulls along the token."""
    log_weights: np.ndarray
    """Logarithms of what every other token counts for besides its score."""
    own_log_weight: float
    """The same of the token itself; minus infinity where it does not see itself."""
    log_divisor: float | None
    """Of unnormalised attention; None for softmax."""

    def offer(self, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What others (moments, tokens, d) show to every place: keys beta Q^T K x and values V x."""
        return others @ self.scores.T, others @ self.value.T

    def at(self, places: np.ndarray, offered: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The pull (moments, d) on a token at `places`, and its derivative (moments, d, d)."""
        keys, values = offered
        own_key = places @ (self.scores + self.scores.T).T
        own_pull = places @ self.own_value.T
        shares, own_share = self._shares(
            np.matmul(keys, places[:, :, None])[..., 0], np.sum(own_key * places, axis=1) / 2
        )
        pull = np.matmul(shares[:, None, :], values)[:, 0] + own_share * own_pull
        if self.log_divisor is None:  # a covariance: far out in R^d its two terms would cancel to nothing but rounding
            mean_key = np.matmul(shares[:, None, :], keys)[:, 0] + own_share * own_key
            keys, own_key = keys - mean_key[:, None, :], own_key - mean_key
            values, own_pull = values - pull[:, None, :], own_pull - pull
        slope = np.matmul((shares[:, :, None] * values).transpose(0, 2, 1), keys)
        slope += own_share[:, :, None] * (own_pull[:, :, None] * own_key[:, None, :] + self.own_value)
        return pull, slope

    def rounding(self, place: np.ndarray, offered: tuple[np.ndarray, np.ndarray]) -> float:
        """How much of the pull on a token at `place`, when others are where they are first, is rounding of scores.

        Zero where one token has all weight beyond doubt, and for unnormalised attention, which does not come so far.
        """
        if self.log_divisor is not None:
            return 0.0
        keys, values = offered[0][0], np.concatenate([offered[1][0], (self.own_value @ place)[None]])
        scores = np.append(keys @ place + self.log_weights, place @ self.scores @ place + self.own_log_weight)
        doubt = np.finfo(float).eps * float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
        weights = np.exp((scores - scores.max()) / (1 + 4 * doubt))
        weights /= weights.sum()
        return doubt * float(weights @ np.abs(values - weights @ values).max(axis=1))

    def _shares(self, scores: np.ndarray, own_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logs, own = scores + self.log_weights, own_scores + self.own_log_weight
        if self.log_divisor is not None:
            return np.exp(logs - self.log_divisor), np.exp(own - self.log_divisor)[:, None]
        most = np.maximum(logs.max(axis=1, initial=-np.inf), own)
        shares, own_share = np.exp(logs - most[:, None]), np.exp(own - most)
        total = shares.sum(axis=1) + own_share
        return shares / total[:, None], (own_share / total)[:, None]


@dataclasses.dataclass(frozen=True)
class LoneToken:
    """The equation of token `index` of a flow, given those that it sees."""

    pulls: tuple[Pull, ...]
    is_on_sphere: bool
    seen: np.ndarray
    """The other tokens that it sees."""

    @classmethod
    def of(cls, flow: AbstractDynamics, index: int, n: int) -> "LoneToken":
        """Read off a flow that `stream` serves."""
        everyone = np.arange(n)
        with double():
            row = np.asarray(index)
            visible, extra = flow.mask.visible(row, everyone), flow.mask.log_weight(row, everyone)
        visible = np.ones(n, bool) if visible is None else np.asarray(visible)
        seen = everyone[visible & (everyone < index)]
        masses = np.ones(n) if flow.masses is None else np.asarray(flow.masses, dtype=float)
        logs = np.log(masses) + (0.0 if extra is None else np.asarray(extra, dtype=float))
        own = float(logs[index]) if visible[index] else -np.inf
        is_on_sphere = flow.is_on_sphere
        pulls = tuple(
            _pull(flow.attention, head, is_on_sphere, logs[seen], own, float(masses.sum())) for head in flow.heads
        )
        return cls(pulls, is_on_sphere, seen)

    def offers(self, others: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """What others at given places show to every head."""
        return [pull.offer(others) for pull in self.pulls]

    def rounding(self, place: np.ndarray, offers: list) -> float:
        """How much of the velocity at `place` is rounding of scores; on the sphere these are no larger than beta."""
        if self.is_on_sphere:
            return 0.0
        return sum(pull.rounding(place, offered) for pull, offered in zip(self.pulls, offers, strict=True))

    def velocity(self, chart: "Chart", y: np.ndarray, offers: list) -> tuple[np.ndarray, np.ndarray]:
        """y' at y (moments, dimensions of the chart), and its derivative."""
        places = chart.places(y)
        found = [pull.at(places, offered) for pull, offered in zip(self.pulls, offers, strict=True)]
        pull = np.sum([one for one, _ in found], axis=0)
        slope = np.sum([one for _, one in found], axis=0)
        return chart.seen(y, places, pull, slope) if self.is_on_sphere else (pull, slope)


@dataclasses.dataclass(frozen=True)
class Chart:
    """Points near `centre` by their central projections y, or in R^d by their differences."""

    centre: np.ndarray
    basis: np.ndarray | None
    """Orthonormal columns across `centre`; None in R^d."""

    @classmethod
    def around(cls, centre: np.ndarray, is_on_sphere: bool) -> "Chart":
        """The chart in which `centre` is zero."""
        return cls(centre, tangent_basis(centre) if is_on_sphere else None)

    def places(self, y: np.ndarray) -> np.ndarray:
        """The points (moments, d) that y stands for."""
        if self.basis is None:
            return self.centre + y
        return (self.centre + y @ self.basis.T) / _stretch(y)

    def seen(self, y: np.ndarray, places: np.ndarray, pull: np.ndarray, slope: np.ndarray) -> tuple:
        """y' and its derivative, from the pull and its derivative in R^d."""
        assert self.basis is not None
        rho, along = _stretch(y), (pull @ self.centre)[:, None]
        turn, back = pull @ self.basis - along * y, (y / rho)[:, None, :]
        # d place / d y = (E - place y^T / rho) / rho
        change = np.matmul(slope, self.basis - places[:, :, None] * back)
        slopes = np.matmul(self.basis.T, change) - y[:, :, None] * np.matmul(self.centre, change)[:, None, :]
        slopes += turn[:, :, None] * back
        diagonal = np.arange(y.shape[1])
        slopes[:, diagonal, diagonal] -= rho * along
        return rho * turn, slopes


def _stretch(y: np.ndarray) -> np.ndarray:
    return np.sqrt(1 + np.sum(y * y, axis=1, keepdims=True))


def tangent_basis(point: np.ndarray) -> np.ndarray:
    """Orthonormal columns (d, d - 1) across a unit vector: a reflection that takes it to a coordinate axis.

    Examples
    --------
    >>> tangent_basis(np.array([0.6, 0.8])).ravel()
    array([-0.8,  0.6])
    """
    sign = 1.0 if point[0] >= 0 else -1.0
    mirror = point.copy()
    mirror[0] += sign
    reflection = np.eye(len(point)) - np.outer(mirror, mirror) / (1 + abs(point[0]))
    return reflection[:, 1:]


def _pull(rule: Any, head: Any, is_on_sphere: bool, logs: np.ndarray, own: float, total_mass: float) -> Pull:
    assert isinstance(rule, Softmax | Unnormalised)  # the door has asked
    beta, value = float(rule.beta), np.asarray(head.value_matrix, dtype=float)
    # With the leading eigenvalue taken out its eigenspace, in which nothing else may pull, feels no rounding.
    along = float(np.linalg.eigvals(value).real.max()) if is_on_sphere else 0.0
    divisor = beta * float(rule.offset) + np.log(total_mass) if isinstance(rule, Unnormalised) else None
    scores = beta * np.asarray(head.query_key, dtype=float)
    return Pull(scores, value, value - along * np.eye(len(value)), logs, own, divisor)
