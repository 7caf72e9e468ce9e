"""Subjects: what the panels look at. Tokens that a flow moves are one, `passage` has another."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.experiments.run_summary import model_name
from attnflow.explorer.measure import panels
from attnflow.explorer.recording import Moment
from attnflow.model.dynamics import AbstractDynamics


class AbstractSubject(ABC):
    """Tokens that move, and all that can be said of them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the model, as a title."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """How many heads pull at a token."""

    @property
    @abstractmethod
    def distance(self) -> float:
        """Tokens within this distance are one cluster on the page."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is known before anything moves; see `started` in PROTOCOL.md."""

    @abstractmethod
    def numbers(self, moment: Moment) -> dict[str, Any]:
        """What is measured at one moment; see `panels` in PROTOCOL.md."""

    @abstractmethod
    def image(self, moment: Moment, most: int = panels.SIDE) -> np.ndarray | None:
        """The attention matrix, at most `most` tokens wide."""

    @abstractmethod
    def row(self, moment: Moment, token: int, image: np.ndarray | None) -> list[list[float]]:
        """The tokens that one attends to most, with their weights."""

    @abstractmethod
    def verdict(self, promised: list[str], times: np.ndarray, tokens: np.ndarray) -> dict[str, str]:
        """Whether what was seen so far agrees with the limits that `facts` promised."""


@dataclass(frozen=True)
class Flowing(AbstractSubject):
    """Tokens that a flow moves."""

    flow: AbstractDynamics
    solver: Any  # None of a run that coalesces
    first: Moment
    is_log: bool = False
    """Whether times are log t, as where tokens coalesce."""

    @property
    def name(self) -> str:
        """Space, attention, mask."""
        return model_name(self.flow)

    @property
    def heads(self) -> int:
        """How many there are."""
        return len(self.flow.heads)

    @property
    def distance(self) -> float:
        """Small against the distances that the first tokens have."""
        return panels.closeness(self.flow, self.first.tokens)

    def facts(self) -> dict[str, Any]:
        """Of the model, with what theory says of it."""
        first = self.first
        tokens = first.tokens if first.radii is None else first.tokens * first.radii[:, None]
        return {
            "centres": panels.centres_of(self.flow, first.tokens),
            "closeness": self.distance,
            "isLayered": False,
            "model": self.name,
            **panels.model_facts(self.flow, self.solver, tokens),
        }

    def numbers(self, moment: Moment) -> dict[str, Any]:
        """Clusters, energy or size, cosines, planes."""
        return panels.numbers_of(self.flow, moment, self.first.tokens)

    def image(self, moment: Moment, most: int = panels.SIDE) -> np.ndarray | None:
        """P(t)."""
        return panels.attention_image(self.flow, self._at(moment), most)

    def row(self, moment: Moment, token: int, image: np.ndarray | None) -> list[list[float]]:
        """A row of P(t)."""
        return panels.attended(self.flow, self._at(moment), token, image)

    def verdict(self, promised: list[str], times: np.ndarray, tokens: np.ndarray) -> dict[str, str]:
        """By the theorems' own measurements; where tokens coalesce, by their number."""
        if not self.is_log:
            return panels.verdict(self.flow, promised, times, tokens)
        count = panels.numbers_of(self.flow, Moment(0, 0.0, tokens[-1]), self.first.tokens)["clusters"]
        return panels.verdict_of_count(count, float(times[-1]))

    def _at(self, moment: Moment) -> Moment:
        """At the time that the flow has: weights of a run that coalesces do not depend on it."""
        return moment._replace(time=0.0) if self.is_log else moment
