"""How long the prediction with frozen attention is accurate, depending on the law and size of the tokens and beta."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.memory import require_array_memory
from attnflow.analyse import frozen_attention
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model.attention import Softmax
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.sweeps.grids import computed_cells
from attnflow.sweeps.studies.robustness import interval, laws_by_name

LONGEST = 1000.0  # time; with V = I tokens come to rest as e^{-t}, to rounding before t = 40


def frozen_validity(
    laws: Sequence[str] = ("gaussian", "box", "ball"),
    sizes: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
    betas: Sequence[float] = (0.25, 1.0, 4.0),
    *,
    n: int = 12,
    d: int = 2,
    seeds: int = 8,
    tolerance: float = 0.05,
    end: float = 6.0,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
) -> xr.Dataset:
    """The time until which Z' = (P(0) - I) Z is within `tolerance` of the rescaled flow with V = I.

    Only beta |z|^2 matters. Where it is small attention is nearly uniform until e^{2t} beta |z|^2 is of order one;
    where it is large every row attends to its best match from the start. Near one the prediction fails first.

    Parameters
    ----------
    laws
        Of the first tokens: "gaussian", "box", "ball" or "shell", all with mean squared coordinate one.
    sizes
        Factors on the first tokens.
    betas
        Inverse temperatures.
    seeds
        Starts of each kind, two or more.
    end
        Last time, at most 1000; where the error is below `tolerance` until then, the time is `end` and counts as a
        lower bound.
    workers
        Number of local processes. By default cells are computed in this one.
    n, d
        Tokens, and their coordinates.
    tolerance
        Relative error that counts as accurate.
    confidence
        Level of the intervals of the mean.
    seed
        Seed of the first tokens.

    Returns
    -------
    `valid_until` over (law, size, beta, seed) and `valid_until_interval` over (law, size, beta, bound) with
    bounds low, mean, high.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.frozen_validity(("box",), sizes=(0.25, 1.0), betas=(1.0,), n=6, seeds=2)
    >>> found.sizes["size"]
    2
    """
    chosen = laws_by_name(laws)
    require_count(seeds, "seeds", least=2)
    require_positive_number(tolerance, "tolerance")
    require_positive_number(end, "end")
    if end > LONGEST:
        raise InputError(f"`end` must be at most {LONGEST:g}, but it is {end:g}: tokens come to rest before t = 40.")
    require_array_memory(len(chosen), len(sizes), len(betas), seeds, what=f"{seeds} starts of each kind")
    starts = [law(n, d, rng=seed, runs=seeds) for law in chosen.values()]
    cells = itertools.product(starts, sizes, betas)
    results = computed_cells(
        _times_of_validity,
        ((size * start, float(beta), tolerance, end) for start, size, beta in cells),
        workers=workers,
    )
    found = np.reshape(results, (len(chosen), len(sizes), len(betas), seeds))
    axes = {"law": list(chosen), "size": list(sizes), "beta": list(betas)}
    variables = {
        "valid_until": ((*axes, "seed"), found),
        "valid_until_interval": ((*axes, "bound"), interval(found, confidence)),
    }
    coordinates = axes | {"bound": ["low", "mean", "high"]}
    return xr.Dataset(variables, coordinates, {"tolerance": tolerance, "end": end, "n": n, "d": d})


def _times_of_validity(tokens: np.ndarray, beta: float, tolerance: float, end: float) -> np.ndarray:
    flow = RescaledAttention(Head.identity(tokens.shape[-1]), Softmax(beta))
    run = simulate(flow, tokens, np.linspace(0, end, 241), progress=False)
    matrices = np.stack([attention_matrix(flow, one) for one in tokens])
    until = frozen_attention.valid_until(frozen_attention.error(matrices, run), tolerance)
    return np.minimum(until.values, end)
