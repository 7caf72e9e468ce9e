"""The atlas: a grid of value matrices with the limit predicted for each and the limits that simulations show."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import (
    InputError,
    require_all_finite,
    require_count,
    require_known,
    require_positive_number,
)
from attnflow._common.memory import require_array_memory
from attnflow.analyse.spectra import Spectrum, spectrum
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks, values
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.solvers.adaptive import Adaptive
from attnflow.sweeps.grids import computed_cells
from attnflow.theorems.prediction.limits import fulfils
from attnflow.theorems.prediction.observed_limits import observed_limits
from attnflow.theorems.prediction.predict import predict

KINDS = {
    "eigenvalues": ("leading eigenvalue", "second eigenvalue"),
    "trace-determinant": ("trace", "determinant"),
}
SPACES = ("rescaled", "sphere-causal", "sphere")
# Limits are recognised from two digits; a cell that is still stiff after 20,000 steps is left undecided.
SOLVER = Adaptive(rtol=1e-6, atol=1e-8, max_steps=20_000)


def atlas(
    grid: Any = None,
    kind: str = "eigenvalues",
    *,
    d: int = 2,
    space: str = "rescaled",
    n: int = 12,
    runs: int = 4,
    beta: float = 1.0,
    eigenvectors: str = "standard",
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float, str], Any] | None = None,
) -> xr.Dataset:
    """Predicted and simulated limits over a grid of value matrices, with Q = K = I.

    Parameters
    ----------
    grid
        Values along both axes, or a pair of lists. None: 15 values from -2 to 2.
    kind
        "eigenvalues": leading (x) and second eigenvalue (y); cells in which the second would be larger are
        empty, and further eigenvalues follow at distances of 0.5. "trace-determinant": of 2 x 2 matrices,
        complex pairs included.
    space
        "rescaled", "sphere-causal" or "sphere".
    n, runs
        Tokens, and starts a cell.
    eigenvectors
        As in `values.from_spectrum`: "standard", "orthogonal" or "random".
    workers
        Number of local processes. By default cells are computed in this one.
    progress
        Called with the share done and a sentence.
    d
        Dimension, two or more.
    beta
        Inverse temperature.
    seed
        Seed of first tokens and random eigenvectors.

    Returns
    -------
    `predicted` and `proved` over (y, x), `simulated` over (y, x, run), `share` of decided runs that show the predicted
    limit, and `attrs["agreement"]`: its mean over cells with a prediction and a decided run. Its control,
    `attrs["agreement_exchanged"]`, is that mean where the predictions are exchanged at random among these cells.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.atlas([-1.0, 0.5, 1.0], n=6, runs=1)
    >>> found.predicted.sel(x=1.0, y=-1.0).item(), found.simulated.sel(x=1.0, y=-1.0).item()
    ('hyperplanes', 'hyperplanes')
    """
    across, up = require_atlas_arguments(grid, kind, d=d, space=space, n=n, runs=runs, beta=beta)
    tokens = (initial.gaussian if space == "rescaled" else initial.sphere)(n, d, rng=seed, runs=runs)
    shape = (len(up), len(across))
    matrices = {
        (row, column): value_at(float(across[column]), float(up[row]), kind, d, eigenvectors, seed)
        for row, column in np.ndindex(shape)
    }
    places = [place for place, value in matrices.items() if value is not None]
    found = computed_cells(
        _cell,
        [(matrices[place], space, beta, tokens) for place in places],
        words=lambda done: f"{done} of {len(places)} value matrices",
        workers=workers,
        progress=progress or False,
    )
    predicted, proved = np.full(shape, "", dtype="<U32"), np.zeros(shape, bool)
    simulated = np.full((*shape, runs), "", dtype="<U32")
    for place, (limit, is_proved, words) in zip(places, found, strict=True):
        predicted[place], proved[place], simulated[place] = limit, is_proved, words
    return _dataset(across, up, predicted, proved, simulated, kind, space, d, n, beta)


def value_at(
    across: float, up: float, kind: str = "eigenvalues", d: int = 2, eigenvectors: str = "standard", seed: int = 0
) -> np.ndarray | None:
    """The value matrix of a cell; None where the cell is empty.

    Examples
    --------
    >>> value_at(2.0, 1.0)
    array([[2., 0.],
           [0., 1.]])
    >>> value_at(0.0, 1.0, "trace-determinant")
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    if kind == "trace-determinant":
        roots = np.sort_complex(np.roots([1.0, -across, up]))[::-1]
        return values.from_spectrum(roots, eigenvectors, seed)
    if up > across:
        return None
    further = up - 0.5 * np.arange(1, d - 1)
    return values.from_spectrum([across, up, *further], eigenvectors, seed)


def _cell(value: np.ndarray, space: str, beta: float, tokens: np.ndarray) -> tuple[str, bool, list[str]]:
    """The limit predicted for a value matrix, whether it is proved, and the limits of the simulated runs."""
    flow = _flow(value, space, beta)
    end = end_time(spectrum(value), flow)
    run = simulate(flow, tokens, np.linspace(0, end, 41), solver=SOLVER, progress=False)
    prediction = predict(flow, tokens[0])
    return prediction.limit, prediction.proved, [observed.limit for observed in observed_limits(flow, run)]


def end_time(found: Spectrum, flow: AbstractDynamics) -> float:
    """A last time by which the slowest rate shows: of the leading eigenvalue, of the gap or of the rotation."""
    rate = max(abs(found.leading.value.real), 1e-3)
    if not isinstance(flow, RescaledAttention):
        return float(np.clip(30 / max(min(rate, found.gap), 1e-3), 30, 200))
    if not found.is_leading_real and found.leading.value.real >= 0:  # two turns show a rotation
        return float(np.clip(4 * np.pi / abs(found.leading.value.imag), 5, 20))
    return float(np.clip(max(12 / rate, 5 / found.gap), 6, 40))


def _flow(value: np.ndarray, space: str, beta: float) -> AbstractDynamics:
    head = Head(query=np.eye(len(value)), key=np.eye(len(value)), value=value)
    if space == "rescaled":
        return RescaledAttention(head, Softmax(beta))
    return SphereAttention(head, Softmax(beta), masks.causal if space == "sphere-causal" else masks.full)


def _dataset(across, up, predicted, proved, simulated, kind, space, d, n, beta) -> xr.Dataset:
    share = _share(predicted, simulated)
    is_counted = np.isfinite(share)
    names = KINDS[kind]
    attributes = {
        "agreement": float(share[is_counted].mean()) if is_counted.any() else np.nan,
        "agreement_exchanged": _exchanged_agreement(predicted, simulated, is_counted),
        "cells_with_promise": int(np.sum(_is_predicted(predicted))),
        "cells_compared": int(is_counted.sum()),
        "cells": int(np.sum(predicted != "")),
        "kind": kind,
        "space": space,
        "d": d,
        "n": n,
        "beta": beta,
    }
    variables = {
        "predicted": (("y", "x"), predicted),
        "proved": (("y", "x"), proved),
        "simulated": (("y", "x", "run"), simulated),
        "share": (("y", "x"), share),
    }
    coordinates = {"x": ("x", across, {"long_name": names[0]}), "y": ("y", up, {"long_name": names[1]})}
    return xr.Dataset(variables, coordinates, attributes)


def _is_predicted(predicted: np.ndarray) -> np.ndarray:
    return (predicted != "") & (predicted != "unknown")


def _share(predicted: np.ndarray, simulated: np.ndarray) -> np.ndarray:
    """The share of the decided runs of a cell that show the predicted limit; NaN without prediction or decided run."""
    share = np.full(predicted.shape, np.nan)
    for row, column in np.argwhere(_is_predicted(predicted)):
        words = [word for word in simulated[row, column] if word != "undecided"]
        if words:
            share[row, column] = np.mean([fulfils(str(predicted[row, column]), word) for word in words])
    return share


def _exchanged_agreement(predicted: np.ndarray, simulated: np.ndarray, is_counted: np.ndarray) -> float:
    """Agreement by chance: the expected one where each counted cell has the prediction of a random counted cell."""
    if not is_counted.any():
        return np.nan
    words, counts = np.unique(predicted[is_counted], return_counts=True)
    means = [_share(np.full_like(predicted, word), simulated)[is_counted].mean() for word in words]
    return float(np.average(means, weights=counts))


def _axes(grid: Any) -> tuple[np.ndarray, np.ndarray]:
    if grid is None:
        grid = np.linspace(-2, 2, 15)
    try:
        is_pair = len(grid) == 2 and not any(np.ndim(axis) == 0 for axis in grid)  # two numbers are two values
        pair = tuple(np.asarray(axis, float) for axis in grid) if is_pair else (np.asarray(grid, float),) * 2
    except (TypeError, ValueError):
        raise InputError(f"`grid` must be a list of numbers or a pair of such lists, but it is {grid!r}.") from None
    for axis in pair:
        if axis.ndim != 1 or len(axis) < 2:
            raise InputError(
                "`grid` must hold two or more numbers along each axis, but it has shape "
                f"{axis.shape}. Use numpy.linspace(-2, 2, 15), or a pair of lists."
            )
        require_all_finite(axis, "grid", ("position",))
    return pair[0], pair[1]


def require_atlas_arguments(
    grid: Any, kind: str, *, d: int, space: str, n: int, runs: int, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """The values along both axes, after a check of all arguments of `atlas` but the seed."""
    require_known(kind, KINDS, "kind")
    require_known(space, SPACES, "space")
    require_count(d, "d", least=2)
    require_count(n, "n", least=4)  # three tokens lie on three hyperplanes whatever they do
    require_count(runs, "runs")
    require_array_memory(runs, n, d, d, what=f"{runs} starts of {n} tokens in dimension {d}")
    require_positive_number(beta, "beta")
    if kind == "trace-determinant" and d != 2:
        raise InputError(
            f"Trace and determinant fix a spectrum only for d = 2, but `d` is {d}. Use kind='eigenvalues'."
        )
    return _axes(grid)
