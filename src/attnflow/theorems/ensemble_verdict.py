"""The verdicts of one statement on all runs of an ensemble: shares with their intervals, and the worst run."""

import dataclasses
import math
from typing import Any

from attnflow.analyse.rate_intervals import CONFIDENCE
from attnflow.theorems.verdict import Answer, Verdict

WORST_FIRST: tuple[Answer, ...] = ("fails", "undecided", "holds", "not_applicable")


@dataclasses.dataclass(frozen=True)
class EnsembleVerdict:
    """The answers of a statement on the runs of an ensemble.

    Shares are among the runs to which the statement applies.
    """

    runs: tuple[int, ...]
    """The numbers of the runs."""
    verdicts: tuple[Verdict, ...]
    """The verdict on each run."""

    @property
    def id(self) -> str:
        """The name of the statement."""
        return self.verdicts[0].id

    @property
    def paper(self) -> str:
        """The publication of the statement."""
        return self.verdicts[0].paper

    @property
    def statement(self) -> str:
        """The statement in a sentence."""
        return self.verdicts[0].statement

    @property
    def counts(self) -> dict[Answer, int]:
        """The number of runs with each answer."""
        return {answer: sum(one.verdict == answer for one in self.verdicts) for answer in WORST_FIRST}

    @property
    def applies(self) -> int:
        """The number of runs to which the statement applies."""
        return len(self.verdicts) - self.counts["not_applicable"]

    @property
    def verdict(self) -> Answer:
        """The worst answer of all runs; `not_applicable` where it applies to none."""
        return next(answer for answer in WORST_FIRST if self.counts[answer])

    @property
    def worst(self) -> int:
        """The number of the run with the worst answer, among equals with the largest miss of the tolerance."""
        return self.runs[self._worst_place()]

    def share(self, answer: Answer) -> float:
        """The share of an answer among the runs to which the statement applies; NaN where there is none."""
        return self.counts[answer] / self.applies if self.applies else math.nan

    def interval(self, answer: Answer) -> tuple[float, float]:
        """Wilson's 95 % interval of the share of runs with this answer; (0, 1) where it applies to no run."""
        from scipy.stats import binomtest

        if not self.applies:
            return 0.0, 1.0
        low, high = binomtest(self.counts[answer], self.applies).proportion_ci(CONFIDENCE, method="wilson")
        return float(low), float(high)

    def __repr__(self) -> str:
        return f"{self.id}: {self.verdict}. {self.explanation()}"

    def explanation(self) -> str:
        """The shares as a sentence, with the worst run; that of the verdict where there is one run."""
        if len(self.verdicts) == 1:
            return self.verdicts[0].explanation()
        of_worst = f"run {self.worst + 1} (index {self.worst}): {self.verdicts[self._worst_place()].explanation()}"
        if not self.applies:
            return f"It applies to none of {len(self.runs)} runs; {of_worst}"
        shares = "; ".join(self._share_in_words(answer) for answer in WORST_FIRST[:3] if self.counts[answer])
        return f"Of {self.applies} runs to which it applies (of {len(self.runs)}), {shares}; worst is {of_worst}"

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        plain = {"id": self.id, "paper": self.paper, "statement": self.statement, "verdict": self.verdict}
        shares = {
            answer: {"share": self.share(answer), "interval": list(self.interval(answer))}
            for answer in WORST_FIRST[:3]
            if self.applies
        }
        answers = {str(run): one.verdict for run, one in zip(self.runs, self.verdicts, strict=True)}
        counts = {"runs": len(self.runs), "applies": self.applies, "counts": dict(self.counts), "shares": shares}
        return plain | counts | {"worst": self.worst, "verdicts": answers, "explanation": self.explanation()}

    def _worst_place(self) -> int:
        return min(range(len(self.verdicts)), key=lambda place: _rank(self.verdicts[place]))

    def _share_in_words(self, answer: Answer) -> str:
        low, high = self.interval(answer)
        word = "is undecided" if answer == "undecided" else answer
        return f"it {word} in {100 * self.share(answer):.0f}% ({100 * low:.0f}% to {100 * high:.0f}%)"


def _rank(verdict: Verdict) -> tuple[int, float]:
    """The place of the answer in `WORST_FIRST`, then minus the amount by which the tolerance is missed."""
    measured = verdict.measurement
    if measured is None or math.isnan(measured.value):
        return WORST_FIRST.index(verdict.verdict), 0.0
    sign = 1.0 if measured.compare == "at most" else -1.0
    return WORST_FIRST.index(verdict.verdict), sign * (measured.tolerance - measured.value)
