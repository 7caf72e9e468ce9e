"""Whether the tails that the box of a first density cuts off decide how the law moves.

Weights e^{beta <Q x, K y>} grow with the distance, so that a tail with little mass may have most of the weight of all
pairs: of a Gaussian law of variance s on the line where |beta| s > 1, whose energy is infinite. The law of the box then
moves otherwise than the whole law, however many nodes there are and however wide the box is.
"""

from typing import Any

import numpy as np

from attnflow.mean_field.circle_field import beta_of, constant_heads
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.model.flows import EuclideanAttention

OUTER = 0.05  # part of the box, next to its edge, that is the outer one
CUT = 1e-3  # first density in the outer part, over its largest value, below which the box may cut off a tail
DECISIVE = 0.5  # share of the weight of all pairs from which on a sentence is written
ENERGY_OF_TAILS = 1e-3  # share of the energy from which on it is that of the box


def outer_nodes(grid: LabelGrid, masses: np.ndarray) -> np.ndarray:
    """Which nodes are at the edge of a box that may cut off a tail; none if the density does not fall towards it."""
    centre, half = (grid.high + grid.low) / 2, (grid.high - grid.low) / 2
    is_outer = (np.abs(grid.points - centre) / half).max(axis=-1) > 1 - OUTER
    density = masses / grid.weights
    falls = bool(is_outer.any()) and density[is_outer].max() < CUT * density.max()
    return (is_outer & falls).ravel()


def pair_share(flow: Any, times: np.ndarray, places: np.ndarray, shares: np.ndarray, outer: np.ndarray) -> float:
    """The largest share of outer nodes in int int e^{beta <Q x, K y>} dmu(x) dmu(y), over heads and saved times.

    In the plane, where pairs are many, the first and the last time; of rescaled flows the time 0, where z = x.
    """
    if not outer.any():
        return 0.0
    if not isinstance(flow, EuclideanAttention):
        places = places[:1] if times[0] == 0 else places[:0]
    elif flow.dimension > 1:
        places = places[[0, -1]]
    products = [beta_of(flow) * np.asarray(head.query_key) for head in constant_heads(flow)]
    return max((_share(x @ product @ x.T, shares, outer) for x in places for product in products), default=0.0)


def _share(scores: np.ndarray, shares: np.ndarray, outer: np.ndarray) -> float:
    logs = np.log(np.maximum(shares, np.finfo(float).tiny))
    exponents = scores + logs + logs[:, None]
    weights = np.exp(exponents - exponents.max())
    return float(weights[outer].sum() / weights.sum())


def sentence(share: float) -> str:
    """A warning that names the share of the edge in the weight of all pairs; empty where it is small."""
    if share < DECISIVE:
        return ""
    return (
        f" The edge of the box, where the first density is small, has {100 * share:.0f} % of the weight of all pairs: "
        "if the box cuts off a tail, this is not the law with the tail. Take a narrower first law or a smaller beta."
    )
