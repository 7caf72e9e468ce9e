"""Descriptions of the variables in result files: `long_name` and `units`, as the CF conventions have them.

All quantities are dimensionless, which the conventions write as the unit 1, except for angles.
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow.model.heads import Head, PiecewiseHead
from attnflow.results.provenance import ResultKind, kind_of, recorded_flow

COPY = "copy_of"  # attribute of the variables that repeat a part of the recorded flow; `load` leaves them out
MAX_COPIED_ENTRIES = 2**20  # of a matrix of all heads, 8 MB; larger ones are in the record of the flow alone

LONG_NAMES = {
    # all runs
    "run": "index of the run",
    "time": "time",
    "tokens": "tokens at the saved times",
    "radius": "lengths of the tokens at the saved times",
    "initial_tokens": "first tokens",
    "final_tokens": "last tokens",
    "final_radius": "lengths of the last tokens",
    "final_time": "last time",
    "steps": "number of accepted steps",
    "rejected_steps": "number of rejected steps",
    "drift": "largest distance from the sphere before a projection to it",
    "status": "how the run ended; flag_meanings names the values",
    "failed": "whether the run ended in a failure",
    # of `stream`
    "pieces": "number of polynomial pieces of the path of each token",
    "piece_start": "start of each piece as a sum of floats",
    "piece_length": "length of each piece in time",
    "piece_log_compression": "parameter of the change of time within each piece",
    "piece_series": "Legendre coefficients of each piece",
    # of `coalesce`
    "log_time": "logarithm of time",
    "clusters": "number of clusters",
    "energy": "interaction energy",
    "level": "sum of squared mass fractions of the clusters",
    "merge_log_time": "logarithm of the time of each merge",
    "first": "smallest index of a token in the first of the two merging clusters",
    "second": "smallest index of a token in the second of the two merging clusters",
    "mass_of_first": "mass of the first of the two merging clusters",
    "mass_of_second": "mass of the second of the two merging clusters",
    "angle": "angle between the two merging clusters as the plateau before the merge began",
    "log_duration": "logarithm of the duration of the plateau before the merge",
    "predicted_log_duration": "logarithm of the time that the two clusters alone would need",
    "forecast_log_duration": "logarithm of the shortest time that two clusters alone would need, of all pairs",
    "forecast_error": "error of forecast_log_duration",
    "runner_up_log_duration": "logarithm of the second shortest time that two clusters alone would need",
    "energy_before": "interaction energy before the merge",
    "energy_after": "interaction energy after the merge",
    "level_before": "sum of squared mass fractions before the merge",
    "level_after": "sum of squared mass fractions after the merge",
    "quadrature_merges": "number of merges integrated as isolated pairs",
    "quadrature_error": "largest error of positions at merges integrated as isolated pairs",
    "subcycled_steps": "number of steps in which fast tokens were subcycled",
    "leaf": "cluster, and leaf of the merge tree, of every token of the run that was continued",
    "leaf_change": "bound on the change of attention outputs by merging the tokens of clusters, relative to |V|",
    "leaf_radius": "largest distance of a token from the centre of its cluster",
    # of `mean_field.evolve`
    "density": "density of tokens",
    "mode": "index k of the Fourier mode, or degree l of the spherical harmonic",
    "azimuthal_mode": "order m of the spherical harmonic",
    "cosine": "real part of the coefficient: int cos(k theta) dmu on the circle, int Re Y_lm dmu on the sphere",
    "sine": "minus the imaginary part: int sin(k theta) dmu on the circle, int Im Y_lm dmu on the sphere",
    "polar": "polar angle from the last axis",
    "azimuth": "angle in the plane of the first two axes",
    "place": "places of the nodes, which move with the velocity",
    "mass": "mass of each node",
    "label": "first coordinate of each node at the start",
    "second_label": "second coordinate of each node at the start",
    "box": "corners of the box of the first density",
    "order": "length of the mean token",
    "entropy": "-int rho log rho",
    "free_energy": "-entropy / kappa minus interaction energy",
    "least_density": "least value of the density",
    "resolution": "largest of the last tenth of the coefficients",
    "atoms": "number of tokens that have not met, each group of those that have counted once",
    "second_moment": "mean squared distance from the mean",
    "predicted_time": "time at which all mass of the law is at its mean",
    "collapse_time": "time at which all tokens have met",
    "kappa": "inverse strength of the noise",
    "moments": "int cos(k theta) dmu",
    "growth_rate": "largest growth rate of a perturbation other than a rotation",
    "is_stable": "whether all perturbations other than rotations decay",
    "residual": "largest error of the fixed-point equation",
    "mean": "mean of the law",
    "covariance": "covariance of the law",
    "blow_up_time": "time at which the covariance is infinite",
    # of prompts
    "id": "number of the word in the vocabulary",
    "word": "word of the prompt",
    "after_attention": "tokens after the attention half of each layer",
    "attention": "attention weights",
    "normed_tokens": "last tokens after the last norm of the model",
}
ANGLES = {"angle", "polar", "azimuth"}  # in radians


def described(run: xr.Dataset) -> xr.Dataset:
    """The dataset with a long name and a unit on every variable; those that a variable has already are kept."""
    variables = {name: values.copy(deep=False) for name, values in run.variables.items()}
    for name, values in variables.items():
        values.attrs = _description(str(name), values, kind_of(run)) | values.attrs
    return run.assign_coords({name: variables[name] for name in run.coords}).assign(
        {name: variables[name] for name in run.data_vars}
    )


def _description(name: str, values: xr.Variable, kind: ResultKind | None) -> dict[str, str]:
    long_name = (
        "layer" if name == "time" and kind is ResultKind.PROMPT else LONG_NAMES.get(name, name.replace("_", " "))
    )
    is_text = values.dtype.kind in "OSUT"
    return {"long_name": long_name} | ({} if is_text else {"units": "rad" if name in ANGLES else "1"})


def with_copies_of_flow(run: xr.Dataset) -> xr.Dataset:
    """The dataset with beta, Q^T K and V of the recorded flow as variables that any program can read."""
    flow = recorded_flow(run)
    copies: dict[str, Any] = {}
    if flow is not None and flow.beta is not None:
        copies["flow_beta"] = _copy((), flow.beta, "inverse temperature beta")
    weights = [] if flow is None else [one for index, head in enumerate(flow.heads) for one in _constant(index, head)]
    if weights and len(weights) * weights[0][2].dimension ** 2 <= MAX_COPIED_ENTRIES:
        numbers, times, heads = zip(*weights, strict=True)
        square = ("flow_weights", "flow_row", "flow_column")
        copies["flow_head"] = _copy(square[:1], numbers, "index of the head")
        copies["flow_from_time"] = _copy(square[:1], times, "time from which the weights act")
        copies["flow_query_key"] = _copy(square, [head.query_key for head in heads], "Q^T K of the head")
        copies["flow_value"] = _copy(square, [head.value_matrix for head in heads], "V of the head")
    return run.assign({name: copy for name, copy in copies.items() if name not in run.variables})


def _constant(index: int, head: Any) -> list[tuple[int, float, Head]]:
    """The constant weights of a head, each with the index of the head and the time from which it acts."""
    if isinstance(head, Head):
        return [(index, -np.inf, head)]
    if isinstance(head, PiecewiseHead):
        return [(index, time, piece) for time, piece in zip([-np.inf, *head.switches], head.heads, strict=True)]
    return []  # drawn again after every period, or a Python function


def _copy(dimensions: tuple[str, ...], values: Any, long_name: str) -> xr.Variable:
    attributes = {"long_name": long_name, "units": "1", COPY: "the attribute flow"}
    return xr.Variable(dimensions, np.asarray(values), attributes)


def without_copies(run: xr.Dataset) -> xr.Dataset:
    """The dataset without the variables that `with_copies_of_flow` has added."""
    return run.drop_vars([name for name, values in run.variables.items() if COPY in values.attrs])
