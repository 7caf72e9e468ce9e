"""The summary of a run: model, steps, clusters, rank of attention, outcome."""

import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow.analyse import attention_rank, clusters
from attnflow.experiments.gathering import cluster_distance, gathering
from attnflow.experiments.model_words import mask_words, value_words
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model import masks
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.normalisation import Post
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.token_by_token import TokenByToken

MAX_MATRIX_TOKENS = 2000  # n up to which the n x n attention matrix is formed: 32 MB


def summarise(flow: AbstractDynamics, run: xr.Dataset, last: np.ndarray | None = None) -> dict[str, Any]:
    """Clusters, attention rank, steps and outcome of a run, or of every run of an ensemble.

    `last` is the `final_matrix` of the (first) run, where the caller has formed it.
    """
    runs = run if "run" in run.dims else run.expand_dims("run")
    distance = cluster_distance(flow, run)
    ends = [runs.isel(run=index) for index in range(runs.sizes["run"])]
    groups = [gathering(flow, end.final_tokens.values, distance) for end in ends]
    is_ensemble = "run" in run.dims
    pick = (lambda values: values) if is_ensemble else (lambda values: values[0])
    return {
        "model": model_name(flow),
        "value": value_words(flow),
        "tokens": runs.sizes["token"],
        "dimension": runs.sizes["coordinate"],
        "runs": len(ends),
        "time": pick([float(end.final_time) for end in ends]),
        "steps": pick([int(end.steps) for end in ends]),
        "rejected_steps": pick([int(end.rejected_steps) for end in ends]),
        "clusters": pick([int(clusters.labels(end.final_tokens, distance).max()) + 1 for end in ends]),
        "groups": pick([group.count for group in groups]),
        "group_dimension": pick([group.dimension for group in groups]),
        "cluster_distance": distance,
        "attention_rank": pick([_rank(flow, end, last if index == 0 else None) for index, end in enumerate(ends)]),
        "rank_threshold": attention_rank.THRESHOLD,
        "solver": solver_name(solver_of(run)),
        "dtype": run.attrs["dtype"],
        "failed": int(np.sum(runs.failed)),
        "outcome": run.attrs["outcome"],
        "outcomes": json.loads(run.attrs["outcomes"]),
    }


def model_name(flow: AbstractDynamics) -> str:
    """The model in a few words: space, attention, mask, heads."""
    parts = [type(flow).__name__, type(flow.attention).__name__ if flow.heads else "no attention"]
    if flow.beta is not None and flow.heads:
        parts[-1] += f" beta = {flow.beta:g}"
    if not isinstance(flow.mask, masks.Full):
        parts.append(f"{mask_words(flow.mask)} mask")
    scheme = flow.normalisation if isinstance(flow, SphereAttention) else None
    extras = [scheme, flow.mlp, flow.perceptron, flow.noise]
    parts += [type(part).__name__ for part in extras if part is not None and not isinstance(part, Post)]
    parts.append(f"{len(flow.heads)} head{'' if len(flow.heads) == 1 else 's'}")
    return ", ".join(parts)


def solver_name(solver: AbstractSolver | TokenByToken) -> str:
    """The solver and its numbers."""
    if isinstance(solver, TokenByToken):
        return f"TokenByToken, tolerance {solver.tolerance:g}"
    names = [name for name in ("step", "residual", "rtol", "atol") if hasattr(solver, name)]
    numbers = [f"{name} {float(getattr(solver, name)):g}" for name in names]
    order = f" of order {solver.order}" if isinstance(solver, Adaptive) else ""
    stiff = ", implicit" if isinstance(solver, Adaptive) and solver.stiff else ""
    return ", ".join([type(solver).__name__ + order + stiff, *numbers])


def final_matrix(flow: AbstractDynamics, run: xr.Dataset) -> np.ndarray | None:
    """Attention at the end of one run; None when there are too many tokens to form it."""
    return _matrix(flow, run.final_tokens.values, float(run.final_time))


def first_matrix(flow: AbstractDynamics, run: xr.Dataset) -> np.ndarray | None:
    """Attention at the start of one run; None when there are too many tokens to form it."""
    return _matrix(flow, run.initial_tokens.values, float(run.time[0]))


def _matrix(flow: AbstractDynamics, tokens: np.ndarray, time: float) -> np.ndarray | None:
    is_formed = len(flow.heads) > 0 and len(tokens) <= MAX_MATRIX_TOKENS and np.all(np.isfinite(tokens))
    if not is_formed:
        return None
    matrix = attention_matrix(flow, tokens.astype(float), time)
    return matrix if np.all(np.isfinite(matrix)) else None


def _rank(flow: AbstractDynamics, run: xr.Dataset, last: np.ndarray | None) -> Any:
    """Rank of the attention matrix at the end: a number, one for each head, or None."""
    matrix = final_matrix(flow, run) if last is None else last
    if matrix is None:
        return None
    return attention_rank.rank(matrix).tolist()
