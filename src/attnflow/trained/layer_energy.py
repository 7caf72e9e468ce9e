"""Interaction energy of a prompt's tokens by layer: where it falls, in which half of the block, and in which pairs.

It is measured on the directions, u = x / |x|: the energy n^-2 sum_ij e^{beta (<u_i, u_j> - 1)} is in (0, 1],
and 1 only where all directions agree. The idealised flow raises it at every step.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_finite_number, require_positive_lengths
from attnflow._common.threads import one_blas_thread

BETAS = (1.0, 4.0, 16.0)
HALVES = ("attention", "mlp")


class Fall(NamedTuple):
    """A half of a block after which the energy is lower than before."""

    beta: float
    layer: int
    """Counted from 0, as the model's blocks are."""
    half: str
    """"attention" or "mlp", each with the norm that belongs to it."""
    change: float
    pairs: tuple[tuple[int, int, float], ...]
    """Tokens i < j and their share of the fall, the largest first."""


def directions(tokens: Any) -> np.ndarray:
    """Tokens divided by their lengths."""
    tokens = np.asarray(tokens, dtype=float)
    require_positive_lengths(tokens, "tokens")
    return tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)


def pair_energies(tokens: Any, beta: float) -> np.ndarray:
    """n^-2 e^{beta (<u_i, u_j> - 1)} of every pair, (..., n, n); their sum is the energy.

    Examples
    --------
    >>> float(pair_energies([[2.0, 0.0], [0.0, 3.0]], beta=0.0).sum())
    1.0
    """
    require_finite_number(beta, "beta")
    return _of_cosines(_cosines(tokens), beta)


def energies_of(units: np.ndarray, betas: Sequence[float]) -> np.ndarray:
    """The energy of one configuration of unit vectors (n, d) at every beta.

    Examples
    --------
    >>> energies_of(np.eye(2), [0.0, np.log(2)])
    array([1.  , 0.75])
    """
    cosines = units @ units.T
    return np.array([np.exp(beta * (cosines - 1)).mean() for beta in betas])


def by_layer(run: xr.Dataset, betas: Sequence[float] = BETAS) -> xr.Dataset:
    """`energy` over (beta, time), and its change by each half of each block, `change` over (beta, layer, half).

    Parameters
    ----------
    run
        `model.trajectory(prompt, sublayers=True)`.
    betas
        Inverse temperatures.
    """
    cosines = _cosines(_stream(run))
    energies = np.stack([_of_cosines(cosines, beta).sum(axis=(-1, -2)) for beta in betas])
    changes = np.diff(energies, axis=1).reshape(len(betas), -1, 2)
    return xr.Dataset(
        {"energy": (("beta", "time"), energies[:, ::2]), "change": (("beta", "layer", "half"), changes)},
        {"beta": np.asarray(betas, dtype=float), "time": run.time.values, "half": np.array(HALVES, dtype=object)},
    )


def falls(run: xr.Dataset, betas: Sequence[float] = BETAS, most_pairs: int = 5) -> list[Fall]:
    """Every half of a block that lowers the energy by more than rounding, with the pairs that lower it most."""
    cosines, energy_falls = _cosines(_stream(run)), []
    precision = 16 * np.finfo(run.tokens.dtype).eps  # smaller changes are rounding
    for beta in betas:
        changes = np.diff(_of_cosines(cosines, beta), axis=0)
        for step in np.flatnonzero(changes.sum(axis=(1, 2)) < -precision * (1 + abs(beta))):
            total = float(changes[step].sum())
            energy_falls.append(
                Fall(float(beta), int(step) // 2, HALVES[step % 2], total, _largest_falls(changes[step], most_pairs))
            )
    return energy_falls


def _cosines(tokens: Any) -> np.ndarray:
    """The cosines of all pairs, (..., n, n)."""
    units = directions(tokens)
    with one_blas_thread():
        return units @ np.swapaxes(units, -1, -2)


def _of_cosines(cosines: np.ndarray, beta: float) -> np.ndarray:
    return np.exp(beta * (cosines - 1)) / cosines.shape[-1] ** 2


def _largest_falls(changes: np.ndarray, most: int) -> tuple[tuple[int, int, float], ...]:
    """Pairs whose energy fell most, each counted once with both its entries."""
    first, second = np.triu_indices(len(changes), 1)
    shares = 2 * changes[first, second] / changes.sum()
    order = np.argsort(-shares, kind="stable")[:most]
    return tuple((int(first[one]), int(second[one]), float(shares[one])) for one in order if shares[one] > 0)


def _stream(run: xr.Dataset) -> np.ndarray:
    """States before the first block, after each attention half and after each block, in order."""
    if "after_attention" not in run:
        raise InputError(
            "`run` does not hold the tokens between attention and MLP. Make it with `model.trajectory(..., "
            "sublayers=True)`."
        )
    whole, halfway = run.tokens.values, run.after_attention.values
    stream = np.empty((2 * len(halfway) + 1, *whole.shape[1:]))
    stream[::2], stream[1::2] = whole, halfway
    return stream
