"""Waits: the plateaus of a coalescing run whose length could be foreseen as they began."""

import numpy as np
import xarray as xr

LONG = 1.0  # of log t: a foreseen wait is e times as long as all the time before
ALONE = 2.0  # of log t: the next pair would take e^2 times as long
SURE = 0.5  # of log t: largest error of a forecast that says something


def foreseen(run: xr.Dataset) -> np.ndarray:
    """Whether each merge ends a plateau whose length was foreseen.

    That is decided by what is known as the plateau begins, never by how long it lasted: one pair should wait long
    compared with the time so far, all others far longer, and the formula's own error there is small. Of more than 400
    clusters nothing is foreseen.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    >>> run = af.coalesce(flow, af.initial.on_circle(np.array([0.0, 1.0, 2.5])))
    >>> foreseen(run).tolist()
    [True, True]
    """
    so_far = np.concatenate([[-np.inf], run.merge_log_time.values[:-1]])[: run.sizes["merge"]]
    wait = run.foreseen_log_duration.values
    with np.errstate(invalid="ignore"):
        is_long, is_alone = wait - so_far >= LONG, run.rival_log_duration.values - wait >= ALONE
    return np.isfinite(wait) & is_long & is_alone & (run.foreseen_error.values <= SURE)
