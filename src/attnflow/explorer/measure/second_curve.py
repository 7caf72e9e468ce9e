"""The second curve over time, beside the number of clusters: energy, order or size of the tokens."""

import numpy as np

from attnflow.analyse import energy
from attnflow.model.dynamics import AbstractDynamics

LARGEST_BETA = 1e12  # beyond it, rounding of <x, y> changes beta <x, y> by more than 1e-4
MAX_ENERGY_TOKENS = 1_000  # of more tokens, the energy is estimated from so many


def name(flow: AbstractDynamics) -> str:
    """What the curve shows: "energy" on the sphere ("order" at beta = 0), "size" elsewhere."""
    if not flow.is_on_sphere:
        return "size"
    return "order" if flow.beta == 0 else "energy"


def is_estimated(flow: AbstractDynamics, n: int) -> bool:
    """Whether the curve is estimated from some of n tokens."""
    return name(flow) == "energy" and n > MAX_ENERGY_TOKENS


def value(flow: AbstractDynamics, tokens: np.ndarray, first_tokens: np.ndarray) -> float | None:
    """The curve's value: energy in (0, 1], length of the mean token, or mean length over that of the first tokens.

    At beta = 0 the energy of all configurations is the same, so that the length of the mean is shown.
    """
    if not np.all(np.isfinite(tokens)):
        return None
    shown = name(flow)
    if shown == "order":
        return float(np.linalg.norm(tokens.mean(axis=0)))
    if shown == "energy" and abs(flow.beta or 0.0) > LARGEST_BETA:
        return None
    if shown == "energy":
        return estimated_energy(tokens, 1.0 if flow.beta is None else flow.beta)  # hardmax has no beta
    first_size = float(np.mean(np.linalg.norm(first_tokens, axis=-1))) or 1.0
    return float(np.mean(np.linalg.norm(tokens, axis=-1))) / first_size


def estimated_energy(tokens: np.ndarray, beta: float) -> float:
    """The energy in (0, 1]; of many tokens an unbiased estimate from the pairs of evenly chosen ones.

    Examples
    --------
    >>> round(estimated_energy(np.repeat([[1.0, 0.0], [-1.0, 0.0]], 1500, axis=0), beta=40.0), 3)  # two clusters
    0.5
    """
    n = len(tokens)
    chosen = tokens[:: -(-n // MAX_ENERGY_TOKENS)]
    with np.errstate(over="ignore"):  # for beta < -355 the energy may exceed all floats
        m, chosen_energy = len(chosen), float(energy.normalised(chosen, beta))
    if m == n:
        return chosen_energy
    # E = 1/n + (1 - 1/n) p, where 1/n is the share of a token with itself and p the mean over distinct pairs.
    mean_of_pairs = (m * chosen_energy - 1) / (m - 1)
    return 1 / n + (1 - 1 / n) * mean_of_pairs
