"""An isolated pair of clusters, integrated to its merge by quadrature over the angle between them.

Two clusters without others move on the great circle through them. With theta the angle between them and w_1, w_2 their
speeds towards each other (`log_speeds`), d theta / dt = -(w_1 + w_2), so that the angle travelled by cluster p and the
time are integrals over theta:

    a_p = int w_p / (w_1 + w_2) d theta,      t = int 1 / (w_1 + w_2) d theta.

The other clusters enter to first order. Along the unperturbed paths of the pair, with the others at rest, the velocity
of the pair differs from w_p by a perturbation; the others meanwhile drift. Both displacements are added. What is left
is of second order: velocities depend on positions through exponents, so that a displacement D changes them by a factor
of up to e^{2 |B| D}, B = beta Q^T K. The error of the positions is estimated by D (e^{2 |B| D} - 1), D being the
largest of these displacements.
"""

import dataclasses

import numpy as np

from attnflow.analyse.clusters import angle as angle_of
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import AttentionSums, LogField

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
# Sizes of a panel that 8 nodes integrate to 1e-9: the integrands vary like e^(growth) and like 1 / theta.
PANEL_LOG_GROWTH = 8.0
PANEL_LOG_SHRINKAGE = 1.2
NEGLIGIBLE_LOG = 40.0  # contributions of e^-40 of an integral are below rounding
FINAL_DISTANCE = 1 - 1e-3  # of the merging distance, so that rounding does not leave the pair outside


def _integrals_to_nodes() -> np.ndarray:
    """The matrix that maps values at the nodes to integrals from -1 to each node."""
    powers = np.polynomial.legendre.legvander(NODES, len(NODES) - 1)
    integrals = [
        np.polynomial.legendre.legval(NODES, np.polynomial.legendre.legint(row, lbnd=-1)) for row in np.eye(len(NODES))
    ]
    return np.linalg.solve(powers.T, np.array(integrals)).T


INTEGRALS_TO_NODES = _integrals_to_nodes()


@dataclasses.dataclass(frozen=True)
class PairMerge:
    """Positions of all clusters when a pair has merged, the logarithm of the time, and the error of a position."""

    positions: np.ndarray
    log_duration: float
    error: float


@dataclasses.dataclass(frozen=True)
class IsolatedPair:
    """Two clusters without others, at quadrature nodes of the angle between them."""

    angles: np.ndarray
    weights: np.ndarray
    """Quadrature weights of integrals over the angle."""
    travelled: np.ndarray
    """(2, nodes): the angle that each has moved."""
    total: np.ndarray
    """(2,): the angle that each has moved at the end."""

    @classmethod
    def of(cls, field: LogField, masses: np.ndarray, first: float, last: float) -> "IsolatedPair":
        """From the angle `first` down to the angle `last`."""
        edges = _panel_edges(field.beta, first, last)
        halves = (edges[:-1] - edges[1:]) / 2
        angles = ((edges[:-1] + edges[1:])[:, None] - 2 * halves[:, None] * NODES) / 2
        logs = log_speeds(field, masses, angles)
        share = np.exp(logs[0] - np.logaddexp(*logs))  # w_1 / (w_1 + w_2)
        at_edges = np.concatenate([[0.0], np.cumsum(halves * (share @ WEIGHTS))])
        by_first = at_edges[:-1, None] + halves[:, None] * (share @ INTEGRALS_TO_NODES.T)
        travelled = np.stack([by_first, first - angles - by_first])
        weights = halves[:, None] * WEIGHTS
        total = np.array([at_edges[-1], first - last - at_edges[-1]])
        return cls(angles.ravel(), weights.ravel(), travelled.reshape(2, -1), total)

    def displacement(self, perturbation: np.ndarray) -> np.ndarray:
        """First-order shift of the merge position due to perturbing velocities (2, nodes, d) per unit of angle.

        After a shift of one cluster both still move the same shares of what is left: the merge position moves by the
        share of the other cluster.
        """
        left = self.total[:, None] - self.travelled
        shares = left / left.sum(axis=0)
        return np.einsum("pqd,pq,q->d", perturbation, shares[::-1], self.weights)


def log_speeds(field: LogField, masses: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Logarithms (2, ...) of the speeds of an isolated pair towards each other: c sin(theta) m_q e^{beta cos} / D_p."""
    first, second = np.log(masses)
    score, own = field.beta * np.cos(angles), field.beta
    log_sine = np.log(np.sin(angles)) + np.log(field.value_scale)
    if field.offset is not None:
        # Not by `log_divisor`: in this order of summation recorded runs repeat bit for bit.
        common = log_sine + score - field.offset - np.log(field.total_mass)
        return np.stack([second + common, first + common])
    return log_sine + np.stack(
        [
            second + score - field.log_divisor(first + own, second + score),
            first + score - field.log_divisor(second + own, first + score),
        ]
    )


def _panel_edges(beta: float, first: float, last: float) -> np.ndarray:
    """Edges of the panels from `first` to `last`, in each of which the integrands vary little enough."""
    whole = beta * (1 - np.cos(first))
    # Once e^-NEGLIGIBLE_LOG of the time is left, and until the shares of the two speeds change, only theta matters.
    early, late = (
        2 * np.arcsin(np.sqrt(np.clip(growth / (2 * beta), 0, 1)))
        for growth in (whole - NEGLIGIBLE_LOG, NEGLIGIBLE_LOG)
    )
    breaks = [angle for angle in (early, late) if whole > 2 * NEGLIGIBLE_LOG and last < angle < first]
    fine = np.sort(np.concatenate([np.geomspace(first, last, 400), breaks]))[::-1]
    growth = beta * (np.cos(fine) - np.cos(first))
    if breaks:
        growth = np.minimum(growth, NEGLIGIBLE_LOG) + np.maximum(growth - (whole - NEGLIGIBLE_LOG), 0.0)
    # Number of panels needed from the first angle to each angle of the fine grid.
    panels = growth / PANEL_LOG_GROWTH + np.log(first / fine) / PANEL_LOG_SHRINKAGE
    count = int(np.ceil(panels[-1]))
    inner = np.interp(np.arange(1, count) * panels[-1] / count, panels, fine)
    return np.concatenate([[first], inner, [last]])


def pair_merge(field: LogField, clusters: Clusters, pair: np.ndarray, sums: AttentionSums, merge: float) -> PairMerge:
    """Integrate a pair to its merge, the others to first order; `sums` are the attention sums at the start."""
    ends, masses = clusters.positions[pair], clusters.masses[pair]
    first = float(angle_of(np.linalg.norm(ends[0] - ends[1])))
    isolated = IsolatedPair.of(field, masses, first, float(2 * np.arcsin(FINAL_DISTANCE * merge / 2)))
    tangents = np.stack([_tangent(ends[0], ends[1]), _tangent(ends[1], ends[0])])
    paths, headings = _along_arcs(ends, tangents, isolated.travelled)
    rest = np.delete(np.arange(len(clusters)), pair)
    logs = log_speeds(field, masses, isolated.angles)
    log_unit = np.logaddexp(*logs)  # velocities are in units of the closing speed w_1 + w_2
    velocities = _pair_velocities(
        field, clusters.positions[rest], clusters.masses[rest], masses, isolated.angles, paths, headings, log_unit
    )
    closing = np.sum(velocities * headings, axis=(0, 2))
    if closing.min() <= 0:  # the others keep the pair apart
        return PairMerge(clusters.positions, np.inf, np.inf)
    perturbation = velocities / closing[:, None] - np.exp(logs - log_unit)[..., None] * headings
    drift = _drift(field, clusters, rest, pair, sums, paths, isolated.weights / closing, log_unit)
    positions = np.empty_like(clusters.positions)
    positions[rest] = clusters.positions[rest] + drift
    positions[pair] = _along_arcs(ends, tangents, isolated.total[:, None])[0][:, 0]
    positions[pair] += isolated.displacement(perturbation)
    perturbed = np.einsum("pqd,q->pd", perturbation, isolated.weights)
    largest = float(np.linalg.norm(np.concatenate([perturbed, drift]), axis=1).max())
    error = largest * np.expm1(min(2 * field.score_norm * largest, 50.0))
    log_duration = float(np.logaddexp.reduce(np.log(isolated.weights / closing) - log_unit))
    return PairMerge(positions, log_duration, float(error))


def _tangent(origin: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The unit tangent vector at `origin` of the arc to `goal`."""
    difference = goal - origin
    tangent = difference - (difference @ origin) * origin
    return tangent / np.linalg.norm(tangent)


def _along_arcs(ends: np.ndarray, tangents: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and unit velocities (2, nodes, d) after moving by `angles` (2, nodes) on the two arcs."""
    cosines, sines = np.cos(angles)[..., None], np.sin(angles)[..., None]
    ends, tangents = ends[:, None], tangents[:, None]
    return cosines * ends + sines * tangents, cosines * tangents - sines * ends


def _pair_velocities(
    field: LogField,
    others: np.ndarray,
    other_masses: np.ndarray,
    masses: np.ndarray,
    angles: np.ndarray,
    paths: np.ndarray,
    headings: np.ndarray,
    log_unit: np.ndarray,
) -> np.ndarray:
    """Velocities (2, nodes, d) of the pair on its unperturbed paths with the others at rest, divided by e^log_unit."""
    exponents = field.beta * (paths @ others.T) + np.log(other_masses)
    partner = field.beta * np.cos(angles) + np.log(masses[::-1])[:, None]
    own = np.broadcast_to(field.beta + np.log(masses)[:, None], partner.shape)
    log_divisor = field.log_divisor(np.logaddexp.reduce(exponents, axis=-1), own, partner)
    weights = np.exp(exponents - (log_divisor + log_unit)[..., None])
    forces = weights @ others
    forces -= np.sum(forces * paths, axis=-1, keepdims=True) * paths
    from_partner = (np.exp(partner - log_divisor - log_unit) * np.sin(angles))[..., None] * headings
    return field.value_scale * (forces + from_partner)


def _drift(
    field: LogField,
    clusters: Clusters,
    rest: np.ndarray,
    pair: np.ndarray,
    sums: AttentionSums,
    paths: np.ndarray,
    slowness: np.ndarray,
    log_unit: np.ndarray,
) -> np.ndarray:
    """Displacement of the other clusters during the merge, from their positions at the start.

    Of the attention sums at the start the pair's contribution is subtracted, and added again at each node of its paths.
    """
    positions, exponent = clusters.positions[rest], sums.max_exponent[rest]
    log_masses = np.log(clusters.masses[pair])[:, None, None]
    at_start = field.beta * (clusters.positions[pair] @ positions.T) + log_masses[:, 0]
    at_nodes = field.beta * (paths @ positions.T) + log_masses
    top = np.maximum(exponent, at_nodes.max(axis=(0, 1)))
    start, nodes = np.exp(at_start - top), np.exp(at_nodes - top)
    scale = field.value_scale
    base = np.exp(exponent - top)[:, None] * sums.values[rest] - scale * (start.T @ clusters.positions[pair])
    weights = np.maximum(np.exp(exponent - top) * sums.weights[rest] - start.sum(axis=0), 0.0) + nodes.sum(axis=0)
    with np.errstate(divide="ignore"):  # weights of distant clusters underflow to zero
        log_divisor = field.log_divisor(field.beta + np.log(clusters.masses[rest]), top + np.log(weights))
    factors = slowness[:, None] * np.exp(top - log_divisor - log_unit[:, None])
    drift = factors.sum(axis=0)[:, None] * base
    for member in range(2):
        drift += scale * ((factors * nodes[member]).T @ paths[member])
    return drift - np.sum(drift * positions, axis=1, keepdims=True) * positions
