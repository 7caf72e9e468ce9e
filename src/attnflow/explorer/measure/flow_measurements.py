"""Measurements on tokens that a flow moves."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnflow.analyse import clusters
from attnflow.experiments.centres import renyi_centres
from attnflow.experiments.gathering import parallel_subspaces
from attnflow.experiments.run_summary import model_name
from attnflow.explorer.measure import attention_image, prediction_check, second_curve
from attnflow.explorer.measure.cluster_colours import cluster_distance
from attnflow.explorer.measure.cosine_histogram import cosine_histogram
from attnflow.explorer.measure.measurements import AbstractMeasurements, clusters_of_parts
from attnflow.explorer.measure.model_facts import model_facts
from attnflow.explorer.recording import Frame
from attnflow.model.dynamics import AbstractDynamics
from attnflow.solvers.base import AbstractSolver
from attnflow.theorems.limit_theorems import CODIMENSION_K


@dataclass(frozen=True, eq=False)
class FlowMeasurements(AbstractMeasurements):
    """Measurements on the tokens of one run of a flow."""

    flow: AbstractDynamics
    solver: AbstractSolver | None  # None for a coalescing run
    first: Frame
    is_log: bool = False
    """Whether times are log t, as in coalescing runs."""
    statement: str = ""
    """Id of the statement by which the scenario is judged, where it applies."""
    parts: tuple[int, ...] = ()
    """Number of tokens of each prompt."""

    @property
    def name(self) -> str:
        """Space, attention, mask and number of heads."""
        return model_name(self.flow)

    @property
    def heads(self) -> int:
        """Number of attention heads."""
        return len(self.flow.heads)

    @cached_property
    def size(self) -> float:
        """The radius of the sphere, or the largest length of the first tokens."""
        if self.flow.is_on_sphere:
            return 1.0
        return float(np.linalg.norm(self.first.tokens, axis=-1).max()) or 1.0

    @cached_property
    def distance(self) -> float:
        """A distance that is small against those of the first tokens, yet large enough to show clusters early."""
        return cluster_distance(self.first.tokens, self.size)

    def facts(self) -> dict[str, Any]:
        """Spectrum of V, Renyi centres and prediction of the model."""
        return {
            "centres": renyi_centres(self.flow, self.first.tokens),
            "closeness": self.distance,
            "isLayered": False,
            "model": self.name,
            **model_facts(self.flow, self.solver, self.first.full_tokens, self.statement),
        }

    def numbers(self, frame: Frame) -> dict[str, Any]:
        """Number of clusters, energy or size, histogram of cosines, parallel subspaces."""
        tokens = frame.tokens
        return {
            "clusters": self._count(tokens) if frame.clusters is None else frame.clusters,
            "height": second_curve.value(self.flow, tokens, self.first.tokens),
            "cosines": cosine_histogram(tokens),
            "planes": self.subspaces(tokens),
            "clustersOf": clusters_of_parts(tokens, self.parts, self.distance),
        }

    def attention_image(self, frame: Frame, max_side: int = attention_image.MAX_SIDE) -> np.ndarray | None:
        """P(t), averaged over heads and reduced to at most `max_side` rows and columns; None without heads."""
        if not self.heads:
            return None
        return attention_image.attention_image(self.flow, self._in_flow_time(frame), max_side)

    def attention_row(self, frame: Frame, token: int, image: np.ndarray | None) -> list[list[float]]:
        """The largest weights in a row of P(t); none without heads."""
        if not self.heads:
            return []
        return attention_image.attended_tokens(self.flow, self._in_flow_time(frame), token, image)

    def verdict(
        self, predicted: list[str], times: np.ndarray, tokens: np.ndarray, *, is_complete: bool = False
    ) -> dict[str, str]:
        """Comparison by the theorems' own measurements; for a coalescing run, by its number of clusters."""
        if self.is_log:
            return prediction_check.check_cluster_count(self._count(tokens[-1]), float(times[-1]))
        if self.statement == CODIMENSION_K.id:
            return prediction_check.check_subspaces(self.flow, times, tokens, self.size, is_complete=is_complete)
        return prediction_check.check_limit(
            self.flow, predicted, times, tokens, solver=self.solver, is_complete=is_complete
        )

    def subspaces(self, tokens: np.ndarray) -> dict[str, Any] | None:
        """The parallel lines or planes on which rescaled tokens lie: points x with <row, x> = level for every row."""
        # Three times as wide as at the end of a run, to show them early.
        groups = parallel_subspaces(self.flow, tokens, 0.03 * self.size)
        return None if groups is None else {"rows": groups.rows.tolist(), "levels": groups.levels.tolist()}

    def _count(self, tokens: np.ndarray) -> int:
        return int(clusters.labels(tokens, self.distance).max()) + 1

    def _in_flow_time(self, frame: Frame) -> Frame:
        """The frame at a time of the flow; attention in a coalescing run does not depend on time."""
        return frame._replace(time=0.0) if self.is_log else frame
