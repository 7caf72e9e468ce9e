"""Plateaus of a coalescing run whose length was known in advance, from the formula for an isolated pair."""

import numpy as np
import xarray as xr

MIN_LOG_GROWTH = 1.0  # of log t: the forecast plateau multiplies the time so far by e or more
MIN_LOG_LEAD = 2.0  # of log t: the runner-up pair would need e^2 times as long, so that it changes little
MAX_FORECAST_ERROR = 0.5  # of log t: a forecast with a larger error makes no statement


def is_forecast(run: xr.Dataset) -> np.ndarray:
    """For each merge of a run, whether the length of the plateau before it was forecast as the plateau began.

    The choice uses only what is known at the beginning of the plateau, never its length: the pair that merges first
    needs long compared with the time so far, all other pairs need far longer, and the error of the formula is small.
    No forecast is made for more than 400 clusters.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    >>> run = af.coalesce(flow, af.initial.on_circle(np.array([0.0, 1.0, 2.5])))
    >>> is_forecast(run).tolist()
    [True, True]
    """
    log_start = np.concatenate([[-np.inf], run.merge_log_time.values[:-1]])[: run.sizes["merge"]]
    log_duration = run.forecast_log_duration.values
    with np.errstate(invalid="ignore"):
        is_long = log_duration - log_start >= MIN_LOG_GROWTH
        is_isolated = run.runner_up_log_duration.values - log_duration >= MIN_LOG_LEAD
    is_precise = run.forecast_error.values <= MAX_FORECAST_ERROR
    return np.isfinite(log_duration) & is_long & is_isolated & is_precise
