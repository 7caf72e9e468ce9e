"""Verdicts: what a statement says of one instance, with the hypotheses and the number behind it."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from attnflow._common.plain import number_or_text

Answer = Literal["holds", "fails", "not_applicable", "undecided"]


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One thing a statement assumes, measured on the instance."""

    says: str
    """What is assumed, in a few words."""
    margin: float
    """By how much it holds: above zero it does, below zero it is missed by that much."""
    unit: str = ""
    """What the margin is measured in, for readers."""

    @property
    def holds(self) -> bool:
        """Whether the margin is above zero; NaN is not."""
        return bool(self.margin > 0)


def is_true(says: str, condition: bool) -> Hypothesis:
    """A hypothesis that is met or not, without a distance."""
    return Hypothesis(says, math.inf if condition else -math.inf)


def at_most(says: str, value: float, limit: float, unit: str = "") -> Hypothesis:
    """value <= limit; equality counts as met."""
    return Hypothesis(says, math.nextafter(limit - value, math.inf), unit)


def above(says: str, value: float, limit: float, unit: str = "") -> Hypothesis:
    """value > limit."""
    return Hypothesis(says, value - limit, unit)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The quantity a statement is judged by."""

    quantity: str
    """What was measured, in a few words."""
    value: float
    tolerance: float
    why: str
    """The reason for the tolerance."""
    compare: Literal["at most", "at least"] = "at most"
    open: str = ""
    """Not empty: what finite time or float64 leaves open, so that missing the tolerance decides nothing."""
    unsettled: str = ""
    """Not empty: why the limit is not reached yet, so that even meeting the tolerance decides nothing."""

    @property
    def met(self) -> bool:
        """Whether the value is within the tolerance; NaN is not."""
        return bool(self.value <= self.tolerance if self.compare == "at most" else self.value >= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a statement says of one instance."""

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
        found = f"{measured.quantity} is {measured.value:.3g} ({measured.compare} {measured.tolerance:.3g})"
        still = f"; {measured.unsettled or measured.open}" if self.verdict == "undecided" else ""
        return found + still + "."

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; infinities become words."""
        plain: dict[str, Any] = dataclasses.asdict(self) | {"explanation": self.explanation()}
        plain["hypotheses"] = [
            dataclasses.asdict(one) | {"holds": one.holds, "margin": number_or_text(one.margin)}
            for one in self.hypotheses
        ]
        if self.measurement is not None:
            measured = self.measurement
            plain["measurement"] |= {
                "value": number_or_text(measured.value),
                "tolerance": number_or_text(measured.tolerance),
            }
            plain["measurement"]["met"] = measured.met
        return plain


def judge(hypotheses: Sequence[Hypothesis], measurement: Measurement | None) -> Answer:
    """`not_applicable` without the hypotheses; else what the measurement says."""
    if not all(hypothesis.holds for hypothesis in hypotheses):
        return "not_applicable"
    if measurement is None or math.isnan(measurement.value):
        return "undecided"
    if measurement.unsettled:
        return "undecided"
    if measurement.met:
        return "holds"
    return "undecided" if measurement.open else "fails"


def _missed(hypothesis: Hypothesis) -> str:
    if math.isinf(hypothesis.margin) or math.isnan(hypothesis.margin):
        return f"not met: {hypothesis.says}"
    return f"not met: {hypothesis.says}, missed by {-hypothesis.margin:.3g} {hypothesis.unit}".rstrip()
