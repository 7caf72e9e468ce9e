"""Names and settings in result files of version 0.1.0, and those that replaced them."""

import json

import xarray as xr

VARIABLES = {
    # of runs of `coalesce`
    "meetings": "quadrature_merges",
    "meeting_error": "quadrature_error",
    "sprints": "subcycled_steps",
    "foreseen_log_duration": "forecast_log_duration",
    "foreseen_error": "forecast_error",
    "rival_log_duration": "runner_up_log_duration",
    # of runs of `stream`
    "piece_bend": "piece_log_compression",
}
DIMENSIONS = {"part": "component"}  # of `piece_start` in runs of `stream`
# Entries of the attribute `limits` of runs of `coalesce`.
LIMITS = {"until": "log_end"}


def with_present_names(run: xr.Dataset) -> xr.Dataset:
    """The dataset with every former name replaced; numbers stay as they are."""
    run = run.rename_vars({old: new for old, new in VARIABLES.items() if old in run.variables})
    if "piece_start" in run:
        run = run.rename_dims({old: new for old, new in DIMENSIONS.items() if old in run.dims})
    solver = json.loads(run.attrs.get("solver", "null"))
    if isinstance(solver, dict) and solver.get("is") == "StochasticHeun":  # whose steps were no geodesics
        run = run.assign_attrs(solver=json.dumps({**solver, "geodesic": solver.get("geodesic", False)}))
    if "limits" not in run.attrs:
        return run
    limits = {LIMITS.get(name, name): value for name, value in json.loads(run.attrs["limits"]).items()}
    return run.assign_attrs(limits=json.dumps(limits))
