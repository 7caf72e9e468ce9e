"""Comparison of a run with the limit that was predicted for it."""

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.experiments.gathering import CLUSTER_DISTANCE, parallel_subspaces
from attnflow.explorer.measure.model_facts import has_small_spectra
from attnflow.model.dynamics import AbstractDynamics
from attnflow.solvers.base import AbstractSolver
from attnflow.theorems.hypotheses import value_matrix
from attnflow.theorems.prediction.evidence import in_words
from attnflow.theorems.prediction.limits import WORDS, fulfils
from attnflow.theorems.prediction.observed_limits import FEWEST_TIMES, observed_limit

MAX_TIMES = 80  # of a run that is compared with its prediction
SINGLE_LIMITS = frozenset({"point", "first-token", "point-of-subspace", "poles"})


def check_limit(
    flow: AbstractDynamics,
    predicted: list[str],
    times: np.ndarray,
    tokens: np.ndarray,
    *,
    solver: AbstractSolver | None = None,
    is_complete: bool = False,
) -> dict[str, str]:
    """Whether a run shows one of the predicted limits: agrees, not yet, differs, or nothing to compare.

    `solver` is that of the run; in discrete layers tokens of R^d are rescaled by the layers, not by e^{-tV}.
    Several results may apply to one flow; on the line, for instance, a polytope is a pair of hyperplanes.
    """
    if len(times) < FEWEST_TIMES:
        return verdict_fields("not-yet", "The run has only begun")
    if not has_small_spectra(flow):
        return verdict_fields("none", "The model is too large for the theorems to be checked here")
    run = xr.Dataset({"tokens": (("time", "token", "coordinate"), tokens)}, {"time": times})
    try:
        shown = observed_limit(flow, run, solver)
    except (InputError, np.linalg.LinAlgError):
        return verdict_fields("none", "For such a model the run alone does not show a limit")
    subject = "The whole run" if is_complete else "The run so far"
    evidence = in_words(shown, flow.is_on_sphere)
    answer = _answer(predicted, shown.limit)
    if shown.limit == "undecided":
        return verdict_fields(answer, "", evidence, says=f"{subject} is undecided ({evidence}).")
    is_line = flow.dimension == 1  # where a hyperplane is a point
    words = "at most three points" if is_line and shown.limit == "hyperplanes" else WORDS[shown.limit]
    return verdict_fields(answer, f"{subject} shows: {words}", evidence, limit=shown.limit)


def check_subspaces(
    flow: AbstractDynamics, times: np.ndarray, tokens: np.ndarray, size: float, *, is_complete: bool = False
) -> dict[str, str]:
    """Whether a run shows the conjecture on codimension k: at most three subspaces, k being the growing eigenvalues.

    `size` is the largest length of the first tokens.
    """
    if len(times) < FEWEST_TIMES:
        return verdict_fields("not-yet", "The run has only begun")
    growing = int(np.sum(np.real(np.linalg.eigvals(value_matrix(flow))) > 0))
    found = parallel_subspaces(flow, tokens[-1], CLUSTER_DISTANCE * size)
    subject = "The whole run" if is_complete else "The run so far"
    if found is None:
        return verdict_fields("not-yet", f"{subject} shows tokens on no few parallel subspaces")
    is_there = len(found.rows) == min(growing, flow.dimension)
    return verdict_fields("agrees" if is_there else "not-yet", f"{subject} shows: {found.words}")


def check_cluster_count(count: int, log_time: float) -> dict[str, str]:
    """Whether a coalescing run shows its limit, one cluster, which comes at last since merged tokens stay together."""
    answer = "agrees" if count == 1 else "not-yet"
    places = "one place" if count == 1 else f"{count} places"
    limit = "point" if count == 1 else "undecided"
    return verdict_fields(answer, f"The tokens are in {places} at log t = {log_time:.4g}", limit=limit)


def _answer(predicted: list[str], shown: str) -> str:
    if predicted == ["unknown"]:
        return "none"
    if any(fulfils(limit, shown) for limit in predicted):
        return "agrees"
    # Several points may be metastable: a single limit may still follow.
    is_metastable = shown == "several-points" and bool(SINGLE_LIMITS & set(predicted))
    return "not-yet" if is_metastable or shown == "undecided" else "differs"


def verdict_fields(
    answer: str, summary: str, evidence: str = "", says: str | None = None, limit: str = "undecided"
) -> dict[str, str]:
    """The fields of a verdict: the sentence in `says`, its parts in `summary` and `evidence`, the limit in one word."""
    sentence = f"{summary} ({evidence})." if evidence else f"{summary}."
    return {"answer": answer, "summary": summary, "evidence": evidence, "says": says or sentence, "limit": limit}
