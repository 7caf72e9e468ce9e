"""The velocity of one token, and its Jacobian, given the positions of the earlier tokens.

Arrays hold several times along the first axis (the nodes of a piece). With scores S = beta Q^T K and the output
u = sum_j A_j V x_j of attention, a token in R^d moves at x' = u. A token on the sphere is described by its gnomonic
projection y on the tangent plane at `centre` c with orthonormal basis E:

    x = (c + E y) / rho,    y' = rho (E^T u - (u, c) y),    rho = sqrt(1 + |y|^2).

The part of u along x drops out of this formula. What a token sends to itself along itself is left out of u beforehand:
among distant tokens a token moves at a rate e^{-2 beta}, which the rounding of that contribution would hide.
"""

import dataclasses

import numpy as np

from attnflow._common.precision import double
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics, AnyHead
from attnflow.model.heads import Head
from attnflow.model.spaces import tangent_basis

KeysAndValues = tuple[np.ndarray, np.ndarray]
"""beta Q^T K x and V x of the earlier tokens for one head, each (times, tokens, d)."""


@dataclasses.dataclass(frozen=True)
class HeadField:
    """The output of one head at a token, from the token itself and from the earlier ones."""

    scores: np.ndarray
    """beta Q^T K."""
    value: np.ndarray
    own_value: np.ndarray
    """V minus the multiple of I that acts along the token only."""
    log_weights: np.ndarray
    """Logarithms of the weights of the earlier tokens besides their scores: masses and mask."""
    own_log_weight: float
    """The same for the token itself; minus infinity where the mask hides it from itself."""
    log_divisor: float | None
    """Logarithm of the divisor of unnormalised attention; None for softmax."""

    @classmethod
    def of(
        cls, flow: AbstractDynamics, head: AnyHead, log_weights: np.ndarray, own_log_weight: float, mass: float
    ) -> "HeadField":
        """The field of one head of a flow; `mass` is that of all tokens."""
        rule = flow.attention
        assert isinstance(rule, Softmax | Unnormalised)  # as `stream` requires
        assert isinstance(head, Head)
        beta, value = float(rule.beta), np.asarray(head.value_matrix, dtype=float)
        # With the leading eigenvalue subtracted, the token's own contribution in its eigenspace is an exact zero.
        along = float(np.linalg.eigvals(value).real.max()) if flow.is_on_sphere else 0.0
        log_divisor = beta * float(rule.offset) + np.log(mass) if isinstance(rule, Unnormalised) else None
        scores, own_value = beta * np.asarray(head.query_key, dtype=float), value - along * np.eye(len(value))
        return cls(scores, value, own_value, log_weights, own_log_weight, log_divisor)

    def keys_and_values(self, others: np.ndarray) -> KeysAndValues:
        """Keys beta Q^T K x and values V x of the other tokens (times, tokens, d)."""
        return others @ self.scores.T, others @ self.value.T

    def output(self, points: np.ndarray, seen: KeysAndValues) -> tuple[np.ndarray, np.ndarray]:
        """The output u (times, d) at a token in `points`, and du/dx (times, d, d).

        For softmax du/dx is the covariance of values and keys under A plus the own share times `own_value`;
        for unnormalised attention it is the second moment instead.
        """
        keys, values = seen
        own_key = points @ (self.scores + self.scores.T).T
        own_output = points @ self.own_value.T
        shares, own_share = self._shares(
            np.matmul(keys, points[:, :, None])[..., 0], np.sum(own_key * points, axis=1) / 2
        )
        output = np.matmul(shares[:, None, :], values)[:, 0] + own_share * own_output
        if self.log_divisor is None:  # centred first: far from the origin of R^d the two moments would cancel
            mean_key = np.matmul(shares[:, None, :], keys)[:, 0] + own_share * own_key
            keys, own_key = keys - mean_key[:, None, :], own_key - mean_key
            values, own_output = values - output[:, None, :], own_output - output
        jacobian = np.matmul((shares[:, :, None] * values).transpose(0, 2, 1), keys)
        jacobian += own_share[:, :, None] * (own_output[:, :, None] * own_key[:, None, :] + self.own_value)
        return output, jacobian

    def rounding(self, point: np.ndarray, seen: KeysAndValues) -> float:
        """The part of the output at `point`, at the first of the times, that is rounding of scores.

        It is zero where the margin of the largest score exceeds the rounding, so that one token has all weight,
        and for unnormalised attention, whose tokens diverge before their scores lose their digits.
        """
        if self.log_divisor is not None:
            return 0.0
        keys, values = seen[0][0], np.concatenate([seen[1][0], (self.own_value @ point)[None]])
        scores = np.append(keys @ point + self.log_weights, point @ self.scores @ point + self.own_log_weight)
        score_error = np.finfo(float).eps * float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
        weights = np.exp((scores - scores.max()) / (1 + 4 * score_error))
        weights /= weights.sum()
        return score_error * float(weights @ np.abs(values - weights @ values).max(axis=1))

    def _shares(self, scores: np.ndarray, own_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Attention A of the other tokens (times, tokens) and of the token itself (times, 1)."""
        logs, own = scores + self.log_weights, own_scores + self.own_log_weight
        if self.log_divisor is not None:
            return np.exp(logs - self.log_divisor), np.exp(own - self.log_divisor)[:, None]
        largest = np.maximum(logs.max(axis=1, initial=-np.inf), own)
        shares, own_share = np.exp(logs - largest[:, None]), np.exp(own - largest)
        total = shares.sum(axis=1) + own_share
        return shares / total[:, None], (own_share / total)[:, None]


@dataclasses.dataclass(frozen=True)
class TokenField:
    """The velocity of one token of a flow, given the earlier tokens that it sees."""

    heads: tuple[HeadField, ...]
    is_on_sphere: bool
    seen: np.ndarray
    """Indices of the earlier tokens that it sees."""

    @classmethod
    def of(cls, flow: AbstractDynamics, index: int, n: int) -> "TokenField":
        """The field of token `index` among the n tokens of a flow."""
        tokens = np.arange(n)
        with double():
            row = np.asarray(index)
            visible, extra = flow.mask.visible(row, tokens), flow.mask.log_weight(row, tokens)
        visible = np.ones(n, bool) if visible is None else np.asarray(visible)
        seen = tokens[visible & (tokens < index)]
        masses = np.ones(n) if flow.masses is None else np.asarray(flow.masses, dtype=float)
        logs = np.log(masses) + (0.0 if extra is None else np.asarray(extra, dtype=float))
        own = float(logs[index]) if visible[index] else -np.inf
        mass = float(masses.sum())
        heads = tuple(HeadField.of(flow, head, logs[seen], own, mass) for head in flow.heads)
        return cls(heads, flow.is_on_sphere, seen)

    def keys_and_values(self, others: np.ndarray) -> list[KeysAndValues]:
        """Keys and values of the other tokens (times, tokens, d) for each head."""
        return [head.keys_and_values(others) for head in self.heads]

    def rounding(self, point: np.ndarray, seen: list[KeysAndValues]) -> float:
        """The part of the velocity at `point` that is rounding of scores; zero on the sphere: scores are bounded."""
        if self.is_on_sphere:
            return 0.0
        return sum(head.rounding(point, one) for head, one in zip(self.heads, seen, strict=True))

    def velocity(self, chart: "Chart", y: np.ndarray, seen: list[KeysAndValues]) -> tuple[np.ndarray, np.ndarray]:
        """y' at y (times, dimensions of the chart), and its Jacobian."""
        points = chart.points(y)
        outputs, jacobians = zip(
            *(head.output(points, one) for head, one in zip(self.heads, seen, strict=True)), strict=True
        )
        output, jacobian = np.sum(outputs, axis=0), np.sum(jacobians, axis=0)
        return chart.velocity(y, points, output, jacobian) if self.is_on_sphere else (output, jacobian)


@dataclasses.dataclass(frozen=True)
class Chart:
    """Coordinates y around `centre`: the gnomonic projection on the sphere, the difference in R^d."""

    centre: np.ndarray
    basis: np.ndarray | None
    """Orthonormal columns E of the tangent plane; None in R^d."""

    @classmethod
    def around(cls, centre: np.ndarray, is_on_sphere: bool) -> "Chart":
        """The chart in which `centre` has y = 0."""
        return cls(centre, tangent_basis(centre) if is_on_sphere else None)

    def points(self, y: np.ndarray) -> np.ndarray:
        """The points (times, d) with coordinates y."""
        if self.basis is None:
            return self.centre + y
        return (self.centre + y @ self.basis.T) / _rho(y)

    def velocity(self, y: np.ndarray, points: np.ndarray, output: np.ndarray, jacobian: np.ndarray) -> tuple:
        """y' and dy'/dy on the sphere, from the output u and du/dx."""
        assert self.basis is not None
        rho, along = _rho(y), (output @ self.centre)[:, None]
        across, back = output @ self.basis - along * y, (y / rho)[:, None, :]  # y' = rho across
        # dx/dy = (E - x y^T / rho) / rho, hence `change` = rho du/dy.
        change = np.matmul(jacobian, self.basis - points[:, :, None] * back)
        slopes = np.matmul(self.basis.T, change) - y[:, :, None] * np.matmul(self.centre, change)[:, None, :]
        slopes += across[:, :, None] * back
        diagonal = np.arange(y.shape[1])
        slopes[:, diagonal, diagonal] -= rho * along
        return rho * across, slopes


def _rho(y: np.ndarray) -> np.ndarray:
    """sqrt(1 + |y|^2)."""
    return np.sqrt(1 + np.sum(y * y, axis=1, keepdims=True))
