"""The aggregation equation with the logarithmic kernel, beside which attention is put: all mass meets in finite time.

In R^d, without noise (the drift of Patlak, Keller and Segel),

    d mu/dt + div(mu v) = 0,    v(x) = - int (x - y) / |x - y|^2 dmu(y),

tokens attract each other with the force 1 / distance. The mean m is constant. Since <x - y, x - y> / |x - y|^2 = 1, the
second moment M = int |x - m|^2 dmu falls at the rate 1 - sum_i m_i^2, m_i being the masses of atoms, which is 1 while
there are none. So all mass is at its mean at T* = M(0), if atoms form only there, as they do for the uniform disc,
whose radius is (R^2 - 2t)^{1/2}. For n tokens the rate is 1 - 1/n at first, and lower after tokens have met.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import DOP853
from scipy.spatial.distance import pdist, squareform

from attnflow._common.checks import (
    InputError,
    require_positive_number,
    require_resolvable,
    require_times,
    require_tokens,
)
from attnflow._common.memory import require_array_memory
from attnflow._common.progress import Progress, reporting
from attnflow.results.descriptions import described


@dataclass(frozen=True)
class Atoms:
    """Tokens that have met stand as one atom: its place, its mass, and the atom of every token."""

    places: np.ndarray
    masses: np.ndarray
    of_token: np.ndarray

    def of_tokens(self) -> np.ndarray:
        """The place of every token."""
        return self.places[self.of_token]

    def second_moment(self) -> float:
        """sum m |x - mean|^2."""
        return float(self.masses @ np.sum((self.places - self.masses @ self.places) ** 2, axis=1))


def aggregate(
    tokens: Any, times: Any, *, merge: float = 1e-3, rtol: float = 1e-7, progress: Progress = None
) -> xr.Dataset:
    """Move tokens by x_i' = -(1/n) sum_j (x_i - x_j) / |x_i - x_j|^2; tokens that meet go on as one.

    Parameters
    ----------
    tokens
        First tokens, (n, d), all different.
    times
        Times at which the tokens are saved, increasing.
    merge
        Distance, over the root of the first second moment, at which two atoms become one.
    rtol
        Tolerance of a step (DOP853 of SciPy).
    progress
        A callback with the share of time done and a sentence; None for a bar on terminals.

    Returns
    -------
    xarray.Dataset
        `tokens` over time, the number of `atoms`, `second_moment`, `predicted_time` T* = M(0), the time of the law, and
        `collapse_time`, at which all tokens were one atom, infinite if the last time comes first.

    Examples
    --------
    Two tokens at the distance r are drawn together at the rate 1/r in total, and meet at r^2 / 2.

    >>> import attnflow as af
    >>> run = af.mean_field.aggregate([[0.0, 0.0], [1.0, 0.0]], [0.0, 1.0])
    >>> round(float(run.collapse_time), 4), float(run.predicted_time)
    (0.5, 0.25)
    """
    places, saved = require_tokens(tokens), require_times(times)
    require_positive_number(merge, "merge")
    require_resolvable(rtol, "float64")
    if places.ndim != 2 or len(places) < 2:
        raise InputError(f"`tokens` must have the shape (n, d) with n at least 2, but it is {places.shape}.")
    require_array_memory(len(places), len(places), what=f"The distances of {len(places)} tokens")
    if pdist(places).min() == 0:
        raise InputError("`tokens` must be different from each other, but two are equal. Move one of them.")
    atoms = Atoms(places, np.full(len(places), 1 / len(places)), np.arange(len(places)))
    with reporting(progress) as report:
        return _followed(atoms, saved, merge * np.sqrt(atoms.second_moment()), rtol, report)


def _velocity(masses: np.ndarray, d: int):
    """The velocity of atoms as a function of time and a vector of their places."""

    def velocity(_: float, vector: np.ndarray) -> np.ndarray:
        places = vector.reshape(-1, d)
        squares = squareform(pdist(places, "sqeuclidean"))
        np.fill_diagonal(squares, np.inf)
        weights = masses / squares
        return (weights @ places - weights.sum(axis=1)[:, None] * places).ravel()

    return velocity


def _followed(atoms: Atoms, times: np.ndarray, distance: float, rtol: float, report: Any) -> xr.Dataset:
    """The dataset of a run: segments between meetings, each integrated anew."""
    first, time, kept, d = atoms, float(times[0]), [atoms], atoms.places.shape[1]
    collapse = np.inf
    while len(kept) < len(times) and len(atoms.places) > 1:
        solver = DOP853(
            _velocity(atoms.masses, d),
            time,
            atoms.places.ravel(),
            float(times[-1]),
            rtol=rtol,
            atol=1e-3 * rtol * distance,
        )
        while solver.status == "running" and pdist(solver.y.reshape(-1, d)).min() > distance:
            solver.step()
            until = int(np.searchsorted(times, solver.t, side="right"))
            for one in times[len(kept) : until]:
                state = solver.y if one == solver.t else solver.dense_output()(one)
                kept.append(Atoms(state.reshape(-1, d), atoms.masses, atoms.of_token))
            report((solver.t - times[0]) / (times[-1] - times[0]), f"t = {solver.t:.4g}, {len(atoms.places)} atoms")
        time, moved = float(solver.t), Atoms(solver.y.reshape(-1, d), atoms.masses, atoms.of_token)
        if solver.status == "failed":
            raise InputError("Steps became too short before tokens met. Use a larger `merge` or `rtol`.")
        atoms = _merged(moved, distance)
        collapse = time if len(atoms.places) == 1 else np.inf
    kept += [atoms] * (len(times) - len(kept))  # a single atom stays where it is
    return _dataset(first, kept, times, collapse, {"merge": distance, "rtol": rtol})


def _merged(atoms: Atoms, distance: float) -> Atoms:
    """The atoms with those within a distance of each other, pair by pair, put at their centres of mass."""
    while len(atoms.places) > 1:
        apart = squareform(pdist(atoms.places))
        np.fill_diagonal(apart, np.inf)
        keep, gone = sorted(divmod(int(apart.argmin()), len(apart)))
        if apart[keep, gone] > distance:
            break
        places, masses = atoms.places.copy(), atoms.masses.copy()
        masses[keep] = atoms.masses[keep] + atoms.masses[gone]
        places[keep] = (atoms.masses[[keep, gone]] @ atoms.places[[keep, gone]]) / masses[keep]
        labels = np.where(atoms.of_token == gone, keep, atoms.of_token)
        labels = labels - (labels > gone)
        atoms = Atoms(np.delete(places, gone, axis=0), np.delete(masses, gone), labels)
    return atoms


def _dataset(first: Atoms, kept: list[Atoms], times: np.ndarray, collapse: float, settings: dict) -> xr.Dataset:
    variables = {
        "tokens": (("time", "token", "coordinate"), np.stack([one.of_tokens() for one in kept])),
        "atoms": (("time",), [len(one.places) for one in kept]),
        "second_moment": (("time",), [one.second_moment() for one in kept]),
        "predicted_time": ((), times[0] + first.second_moment()),
        "collapse_time": ((), collapse),
    }
    ended = f"All tokens met at t = {collapse:.6g}." if np.isfinite(collapse) else f"Reached t = {times[-1]:.6g}."
    return described(xr.Dataset(variables, {"time": times}, settings | {"outcome": ended}))
