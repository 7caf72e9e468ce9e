"""Hypotheses with their margins, measurements with their tolerances, and the verdicts that follow from both."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from attnflow._common.fact_tables import html_rows, html_table
from attnflow._common.plain import number_or_text, text_with_error
from attnflow._common.rounding import ROUNDING

Answer = Literal["holds", "fails", "not_applicable", "undecided"]
SINGULARS = {f"{one}s": one for one in ("token", "dimension", "eigenvector", "eigenvalue")} | {"copies": "copy"}
Kind = Literal["space", "setting", "value", "isotropy", "scores", "start"]


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One assumption of a theorem, measured on an instance."""

    says: str
    """What is assumed, in a few words."""
    margin: float
    """By how much it holds: above zero it does, below zero it is missed by that much."""
    unit: str = ""
    """What the margin is measured in, for readers."""
    kind: Kind = "setting"
    """What it restricts: the space, the rest of the setting (heads, attention, mask, dimension), V ("isotropy" where V
    must be a multiple of I), the scores beta Q^T K, or the first tokens."""

    @property
    def holds(self) -> bool:
        """Whether the margin is above zero; NaN is not."""
        return bool(self.margin > 0)

    @property
    def shortfall(self) -> str:
        """By how much it is missed, such as "missed by 0.5 in beta"; empty where there is no finite distance."""
        if not math.isfinite(self.margin):
            return ""
        unit = SINGULARS.get(self.unit, self.unit) if self.margin == -1 else self.unit
        return f"missed by {0.0 - self.margin:.3g} {unit}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain values, for JSON; infinities become words."""
        return dataclasses.asdict(self) | {"holds": self.holds, "margin": number_or_text(self.margin)}


def is_true(says: str, condition: bool, kind: Kind = "setting") -> Hypothesis:
    """The hypothesis that a condition is true, without a distance."""
    return Hypothesis(says, math.inf if condition else -math.inf, kind=kind)


def at_most(says: str, value: float, limit: float, unit: str = "", kind: Kind = "setting") -> Hypothesis:
    """The hypothesis value <= limit; equality counts as met."""
    return Hypothesis(says, math.nextafter(limit - value, math.inf), unit, kind)


def above(says: str, value: float, limit: float, unit: str = "", kind: Kind = "setting") -> Hypothesis:
    """The hypothesis value > limit."""
    return Hypothesis(says, float(value - limit), unit, kind)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Whether the saved tokens of a run follow its flow."""

    follows: Hypothesis
    unsettled: str = ""
    """The reason why it cannot be decided; empty where it can."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The quantity that a conclusion is judged by."""

    quantity: str
    """What was measured, in a few words."""
    value: float
    tolerance: float
    why: str
    """The reason for the tolerance."""
    compare: Literal["at most", "at least"] = "at most"
    open: str = ""
    """What finite time or float64 leaves open, so that missing the tolerance decides nothing; else empty."""
    unsettled: str = ""
    """The reason why the limit is not reached yet, so that even meeting the tolerance decides nothing; else empty."""

    @property
    def met(self) -> bool:
        """Whether the value is within the tolerance; NaN is not."""
        return bool(self.value <= self.tolerance if self.compare == "at most" else self.value >= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer of a statement on one instance, with its hypotheses and its measurement."""

    id: str
    paper: str
    statement: str
    verdict: Answer
    hypotheses: tuple[Hypothesis, ...]
    measurement: Measurement | None = None
    note: str = ""

    @property
    def broken(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that the instance does not meet."""
        return tuple(hypothesis for hypothesis in self.hypotheses if not hypothesis.holds)

    def explanation(self) -> str:
        """The verdict as a sentence."""
        if self.verdict == "not_applicable":
            return "; ".join(_missed(hypothesis) for hypothesis in self.broken) + "."
        measured = self.measurement
        if measured is None:
            return self.note
        if math.isnan(measured.value):
            reason = measured.unsettled or measured.open
            return f"{measured.quantity} cannot be measured{f'; {reason}' if reason else ''}."
        compared = f"{measured.quantity} is {_value_text(measured)} ({measured.compare} {measured.tolerance:.3g})"
        undecided = f"; {measured.unsettled or measured.open}" if self.verdict == "undecided" else ""
        return compared + undecided + "."

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; infinities become words."""
        plain: dict[str, Any] = dataclasses.asdict(self) | {"explanation": self.explanation()}
        plain["hypotheses"] = [hypothesis.as_dict() for hypothesis in self.hypotheses]
        if self.measurement is not None:
            measured = self.measurement
            plain["measurement"] |= {
                "value": number_or_text(measured.value),
                "tolerance": number_or_text(measured.tolerance),
            }
            plain["measurement"]["met"] = measured.met
        return plain

    def __repr__(self) -> str:
        return f"{self.id}: {self.verdict}. {self.explanation()}"

    def _repr_html_(self) -> str:
        facts = {"statement": self.statement, "verdict": self.verdict.replace("_", " "), "why": self.explanation()}
        return html_table(facts | {"paper": self.paper}, self.id)


def judge(hypotheses: Sequence[Hypothesis], measurement: Measurement | None) -> Answer:
    """The answer: `not_applicable` where a hypothesis is not met, otherwise by the measurement."""
    if not all(hypothesis.holds for hypothesis in hypotheses):
        return "not_applicable"
    if measurement is None or math.isnan(measurement.value):
        return "undecided"
    if measurement.unsettled:
        return "undecided"
    if measurement.met:
        return "holds"
    return "undecided" if measurement.open else "fails"


class Verdicts(list):
    """A list of verdicts that prints as a table; statements that do not apply are counted below it.

    Examples
    --------
    >>> Verdicts([Verdict("wendel", "Wendel 1962", "...", "undecided", (), note="Too few runs.")])
    wendel: undecided. Too few runs.
    """

    @property
    def applying(self) -> list[Any]:
        """The verdicts of statements that apply."""
        return [one for one in self if one.verdict != "not_applicable"]

    @property
    def _rest(self) -> str:
        count = len(self) - len(self.applying)
        return f"{count} statement{' does' if count == 1 else 's do'} not apply." if count else ""

    def __repr__(self) -> str:
        lines = [repr(one) for one in self.applying]
        return "\n".join([*lines, *([self._rest] if self._rest else [])]) or "No statements."

    def _repr_html_(self) -> str:
        rows = [[one.id, one.verdict, f"{one.explanation()}\n{one.paper}"] for one in self.applying]
        return html_rows(("statement", "verdict", "why"), rows, f"{len(rows)} of {len(self)} statements apply")


def _value_text(measured: Measurement) -> str:
    """The value to three digits; zero with its error where it is below the rounding, and the tolerance is not."""
    is_resolved = measured.value == 0 or measured.tolerance <= ROUNDING
    return f"{measured.value:.3g}" if is_resolved else text_with_error(measured.value, ROUNDING)


def _missed(hypothesis: Hypothesis) -> str:
    return f"not met: {hypothesis.says}" + (f", {hypothesis.shortfall}" if hypothesis.shortfall else "")
