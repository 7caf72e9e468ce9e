"""Measurements on a control that takes tokens to targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.analyse import clusters
from attnflow.control.steering import Steering
from attnflow.explorer.measure.attention_image import MAX_SIDE
from attnflow.explorer.measure.cosine_histogram import cosine_histogram
from attnflow.explorer.measure.measurements import AbstractMeasurements
from attnflow.explorer.measure.prediction_check import verdict_fields
from attnflow.explorer.recording import Frame
from attnflow.explorer.steer_scenarios import frames

PREDICTION = {
    "limit": "unknown",
    "limits": ["unknown"],
    "words": "every token arrives at its target",
    "says": "The control is constructed: strips or caps that contain one token take it along a great circle. All other "
    "tokens have velocity zero.",
    "proved": True,
}


@dataclass(frozen=True, eq=False)
class ControlMeasurements(AbstractMeasurements):
    """Measurements on frames of n tokens and their n targets."""

    found: Steering

    @property
    def run(self) -> None:
        """Always None: the dataset is computed from `found.run` when a file is asked for."""

    def frames(self) -> list[Frame]:
        """Tokens and targets over the time of the control."""
        return frames(self.found)

    @property
    def name(self) -> str:
        """The number of pieces."""
        pieces = len(self.found.control.pieces)
        return f"A perceptron in {pieces} piece{'s' if pieces > 1 else ''}"

    @property
    def heads(self) -> int:
        """Number of attention heads: zero, since a perceptron moves the tokens."""
        return 0

    @property
    def parts(self) -> tuple[int, ...]:
        """The tokens are one prompt."""
        return ()

    @property
    def distance(self) -> float:
        """Distance of one cluster on the page."""
        return 0.01

    @property
    def targets(self) -> int:
        """One for each token."""
        return len(self.found.targets)

    @property
    def pieces(self) -> list[list[float]]:
        """Start, end and token of every piece."""
        times = self.found.control.times
        tokens = [int(piece.name.rsplit(" ", 1)[-1]) for piece in self.found.control.pieces]
        return [list(one) for one in zip(times[:-1].tolist(), times[1:].tolist(), tokens, strict=True)]

    def facts(self) -> dict[str, Any]:
        """Number of targets and the pieces of the control; no theorem on clusters applies."""
        return {
            "centres": [],
            "closeness": self.distance,
            "isLayered": False,
            "model": self.name,
            "value": "no attention",
            "eigenvalues": [],
            "leading": None,
            "height": "distance",  # mean, to the targets; two words have no room beside the number
            "isEstimated": False,
            "isSphere": True,
            "prediction": PREDICTION,
            "steering": {"targets": self.targets, "pieces": self.pieces},
        }

    def numbers(self, frame: Frame) -> dict[str, Any]:
        """Number of clusters, mean distance to the targets, and cosines of the tokens."""
        tokens, targets = np.split(frame.tokens, 2)
        return {
            "clusters": int(clusters.labels(tokens, self.distance).max()) + 1,
            "height": float(np.linalg.norm(tokens - targets, axis=1).mean()),
            "cosines": cosine_histogram(tokens),
            "planes": None,
            "clustersOf": None,
        }

    def attention_image(self, frame: Frame, max_side: int = MAX_SIDE) -> None:
        """None: there is no attention."""

    def attention_row(self, frame: Frame, token: int, image: np.ndarray | None) -> list[list[float]]:
        """No weights."""
        return []

    def verdict(
        self, predicted: list[str], times: np.ndarray, tokens: np.ndarray, *, is_complete: bool = False
    ) -> dict[str, str]:
        """The number of tokens at their targets, the time and its gap to the speed limit."""
        first, last = np.split(tokens[-1], 2)
        distances = np.linalg.norm(first - last, axis=1)
        found = self.found
        return verdict_fields(
            "none",
            f"{int(np.sum(distances < 1e-6))} of {len(first)} tokens are at their targets; the largest distance is "
            f"{distances.max():.2g}",
            f"the whole control takes {found.gap:.3g} times the least that the operator norms of its weights allow",
        )
