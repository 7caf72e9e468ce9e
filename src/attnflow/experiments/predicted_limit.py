"""`ComparedLimit`: the predicted limit of a run, beside what the run shows and what `verify` says of the prediction."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import xarray as xr

from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import solver_of
from attnflow.solvers.layers import Layers
from attnflow.theorems.prediction.limit_rules import statements_of
from attnflow.theorems.prediction.limits import WORDS, fulfils
from attnflow.theorems.prediction.predict import predict
from attnflow.theorems.verdict import Verdict


class ComparedLimit(NamedTuple):
    """A predicted limit with its source, the answer of the run, and the reason for the answer."""

    predicted: str
    answer: str
    """Such as "agrees"; empty where nothing is predicted."""
    reason: str = ""

    @property
    def says(self) -> str:
        """The comparison in a sentence."""
        return f"{self.predicted}: {self.answer}{self.reason}" if self.answer else self.predicted


def compared_limit(flow: AbstractDynamics, run: xr.Dataset, shown: str, verdicts: Sequence[Verdict]) -> ComparedLimit:
    """The predicted limit of one run beside the word for the limit `shown` and the verdicts on all statements.

    Where a statement about the limit applies, its verdict decides. Without one a run that shows something else does
    not contradict the prediction: limits take time.
    """
    solver = solver_of(run)
    prediction = predict(flow, run.initial_tokens.values, solver)
    if not prediction.results:
        return ComparedLimit(f"{WORDS[prediction.limit]}. {prediction.says}", "")
    result = prediction.results[0]
    of_limit = [one for one in verdicts if one.id in statements_of(result.id) and one.verdict != "not_applicable"]
    paper = of_limit[0].paper if of_limit else result.paper
    # A statement of `verify` that applies to layers is about layers; all other results are about continuous time.
    about = " for continuous time" if isinstance(solver, Layers) and not of_limit else ""
    proved = f"proved{about}" if prediction.proved else "not proved"
    predicted = f"{WORDS[prediction.limit]} ({proved}, {paper})"
    known = {one.id for result in prediction.results for one in verdicts if one.id in statements_of(result.id)}
    if any(one.verdict == "fails" and one.id in known for one in verdicts):
        return ComparedLimit(predicted, "differs")
    is_shown = fulfils(prediction.limit, shown)
    # Layers that are too long for a limit of continuous time do not come nearer to it.
    late = ("not shown" if about else "not reached", f" at t = {float(run.final_time):.4g}")
    if any(one.verdict == "undecided" for one in of_limit):
        why = f"; {of_limit[0].id}: {of_limit[0].explanation().removesuffix('.')}"
        answer, when = ("undecided", "") if is_shown else late
        return ComparedLimit(predicted, answer, when + why)
    if of_limit or is_shown:
        return ComparedLimit(predicted, "agrees")
    return ComparedLimit(predicted, *late)


def counted_limits(compared: Sequence[ComparedLimit]) -> str:
    """The predicted limits of the runs of an ensemble, with the number of runs that give each answer."""
    counts = Counter((one.predicted, one.answer) for one in compared)
    said = {predicted: [] for predicted, _ in counts}
    for (predicted, answer), count in counts.most_common():
        said[predicted].append(f"{answer} in {count}" if answer else f"in {count}")
    return "\n".join(f"{predicted}: {', '.join(words)} of {len(compared)} runs" for predicted, words in said.items())
