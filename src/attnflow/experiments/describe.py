"""`describe`: what a finished run shows, beside what theory says of it."""

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.fact_tables import html_table, text_table
from attnflow._common.plain import interval_texts
from attnflow.analyse.spectra import spectrum
from attnflow.experiments.convergence_rates import meeting
from attnflow.experiments.gathering import cluster_distance, gathering
from attnflow.experiments.headline import coalescing_headline, headline, is_settled, shown_limit
from attnflow.experiments.predicted_limit import compared_limit, counted_limits
from attnflow.integrate.evaluate import velocity
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.files import dataset_of
from attnflow.results.members import without_single_axis
from attnflow.results.provenance import ResultKind, flow_of, require_result, solver_of
from attnflow.solvers.layers import Layers
from attnflow.theorems.ensemble_verdict import EnsembleVerdict
from attnflow.theorems.hypotheses import value_matrix
from attnflow.theorems.prediction.limits import WORDS, ObservedLimit
from attnflow.theorems.prediction.observed_limits import LATE_SHARE
from attnflow.theorems.verdict import Verdict
from attnflow.theorems.verify import verify


@dataclasses.dataclass(frozen=True)
class Description:
    """What a run shows, as facts by name in the order in which they are printed."""

    headline: str
    facts: dict[str, str]
    verdicts: tuple[Any, ...]
    """The verdicts of `verify` on all statements; for an ensemble those with shares."""

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; statements that do not apply are left out."""
        applying = [one.as_dict() for one in self.verdicts if one.verdict != "not_applicable"]
        return {"headline": self.headline, **self.facts, "verdicts": applying}

    def __repr__(self) -> str:
        return text_table(self.facts, self.headline)

    def _repr_html_(self) -> str:
        return html_table(self.facts, self.headline)


def describe(source: Any) -> Description:
    """What a run of `simulate`, `stream` or `coalesce` shows: limit, clusters, rate, and the statements about it.

    Parameters
    ----------
    source
        A dataset, or the path of a saved one.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(3))
    >>> run = af.simulate(flow, af.initial.hemisphere(8, 3, rng=0), np.linspace(0, 20, 81), progress=False)
    >>> description = af.describe(run)
    >>> description.facts["limit shown"], description.facts["limit predicted"]
    ('one point', 'one point (proved, arXiv:2312.10794 Section 6): agrees')
    """
    if not isinstance(source, xr.Dataset | str | os.PathLike):
        raise InputError(
            f"`source` must be a dataset or the path of a saved one, but it is of type {type(source).__name__}. "
            "Tokens are described after `simulate`."
        )
    run = without_single_axis(dataset_of(source))
    kind = require_result(run, "the dataset")
    if kind is ResultKind.PROMPT:
        raise InputError("A prompt in a trained model has no flow. `attnflow prompt` measures it layer by layer.")
    flow, verdicts = flow_of(run), tuple(verify(run=run))
    facts = {"outcome": str(run.attrs["outcome"])} | _statement_facts(verdicts)
    if kind is ResultKind.COALESCENCE:
        return Description(coalescing_headline(flow, run), facts, verdicts)
    shown = _ensemble_facts(flow, run, verdicts) if "run" in run.dims else _run_facts(flow, run, verdicts)
    return Description(headline(flow, run), shown | facts, verdicts)


def _ensemble_facts(flow: AbstractDynamics, run: xr.Dataset, verdicts: Sequence[EnsembleVerdict]) -> dict[str, str]:
    """The limits of all runs, shown and predicted, counted."""
    members = [run.isel(run=index) for index in range(run.sizes["run"])]
    shown = [_word(shown_limit(flow, member)) for member in members]
    counted = ", ".join(f"{WORDS[word]} in {count}" for word, count in Counter(shown).most_common())
    compared = [
        compared_limit(flow, member, word, [one.verdicts[index] for one in verdicts])
        for index, (member, word) in enumerate(zip(members, shown, strict=True))
    ]
    return {"limits shown": f"{counted} of {len(members)} runs", "limits predicted": counted_limits(compared)}


def _run_facts(flow: AbstractDynamics, run: xr.Dataset, verdicts: Sequence[Verdict]) -> dict[str, str]:
    limit = shown_limit(flow, run)
    shown = _word(limit)
    groups = gathering(flow, run.final_tokens.values.astype(float), cluster_distance(flow, run))
    facts = {"limit shown": WORDS[shown], "limit predicted": compared_limit(flow, run, shown, verdicts).says}
    facts["tokens lie in"] = groups.words
    if is_settled(limit) and (settled := _settling_time(flow, run)) is not None:
        facts["settled at"] = f"t = {settled:.4g}, after which no token leaves the place of its cluster"
    if shown == "rotation" and flow.is_on_sphere:
        facts["rotation"] = _rotation(flow, run)
    return facts | (_rate_fact(flow, run) if flow.is_on_sphere and groups.count == 1 else {})


def _word(limit: ObservedLimit | None) -> str:
    return "undecided" if limit is None else limit.limit


def _settling_time(flow: AbstractDynamics, run: xr.Dataset) -> float | None:
    """The first saved time from which no token moves beyond the cluster distance; None if tokens still move.

    The last state is always near itself: tokens rest where they do so for the last fifth of the time at least.
    """
    if "tokens" not in run or flow.noise is not None:
        return None
    tokens = run.tokens.values
    kept = np.isfinite(tokens).all(axis=(1, 2))
    away = np.linalg.norm(tokens[kept] - tokens[kept][-1], axis=-1).max(axis=1) > cluster_distance(flow, run)
    times = run.time.values[kept]
    first = int(np.flatnonzero(away)[-1]) + 1 if away.any() else 0
    is_shown = first < len(times) - 1 and times[first] <= times[0] + LATE_SHARE * (times[-1] - times[0])
    return float(times[first]) if is_shown else None


def _rotation(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """The angular speed of the tokens at the end, beside the imaginary part of the leading eigenvalues of V."""
    speeds = np.linalg.norm(velocity(flow, run.final_tokens.values, float(run.final_time)), axis=-1)
    leading = abs(spectrum(value_matrix(flow)).leading.value.imag)
    measured = f"{speeds.mean():.4g} radians per unit of time, a mean over tokens"
    return f"{measured}; the leading eigenvalues of V have imaginary part {leading:.4g}"


def _rate_fact(flow: AbstractDynamics, run: xr.Dataset) -> dict[str, str]:
    """The fitted law by which the tokens meet, with its interval, beside the rate that a theorem gives."""
    if "tokens" not in run:
        return {}
    kept = np.isfinite(run.tokens.values).all(axis=(1, 2))
    solver = solver_of(run)
    layers = solver if isinstance(solver, Layers) else None
    met = meeting(flow, run.initial_tokens.values, run.time.values[kept], run.tokens.values[kept], layers=layers)
    if met.fit is None:
        return {}
    law = "power of t" if met.is_algebraic else "rate in sqrt(t + 1)" if met.has_root_of_time else "rate in t"
    source = "the linear part of a layer" if met.is_layered else "a theorem"
    expected = "no theorem gives it" if met.expected is None else f"{source} gives {met.expected:.4g}"
    rate, low, high = interval_texts(met.fit.rate, met.fit.low, met.fit.high)
    numbers = f"{rate} (95% interval {low} to {high})"
    return {"rate": f"1 - cosine of the farthest pair decays with the {law} {numbers}; {expected}"}


def _statement_facts(verdicts: Sequence[Any]) -> dict[str, str]:
    """The ids of the statements that apply, by answer."""
    answers = {name: [one.id for one in verdicts if one.verdict == name] for name in ("holds", "fails", "undecided")}
    return {f"statements: {name}": ", ".join(ids) for name, ids in answers.items() if ids}
