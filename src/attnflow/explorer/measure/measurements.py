"""Interface of what the panels measure on a run."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from attnflow.analyse import clusters
from attnflow.explorer.measure.attention_image import MAX_SIDE
from attnflow.explorer.recording import Frame


class AbstractMeasurements(ABC):
    """What the panels measure on the tokens of one run: moved by a flow, or by the layers of a trained model."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the model, as a title."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """Number of attention heads."""

    @property
    @abstractmethod
    def parts(self) -> tuple[int, ...]:
        """Number of tokens of each prompt; empty where there is none."""

    @property
    @abstractmethod
    def distance(self) -> float:
        """Distance within which two tokens belong to one cluster on the page."""

    @property
    def targets(self) -> int:
        """Number of rows of a frame, the last ones, that are targets of the other tokens."""
        return 0

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is known of the model before it runs; fields of `started` in PROTOCOL.md."""

    @abstractmethod
    def numbers(self, frame: Frame) -> dict[str, Any]:
        """Numbers measured on one frame; fields of `panels` in PROTOCOL.md."""

    @abstractmethod
    def attention_image(self, frame: Frame, max_side: int = MAX_SIDE) -> np.ndarray | None:
        """The attention matrix, reduced to at most `max_side` rows and columns."""

    @abstractmethod
    def attention_row(self, frame: Frame, token: int, image: np.ndarray | None) -> list[list[float]]:
        """The tokens with the largest attention weights in the row of `token`, with their weights."""

    @abstractmethod
    def verdict(
        self, predicted: list[str], times: np.ndarray, tokens: np.ndarray, *, is_complete: bool = False
    ) -> dict[str, str]:
        """Comparison of a run with the limits predicted in `facts`; `is_complete` if nothing more will follow."""


def clusters_of_parts(tokens: np.ndarray, parts: tuple[int, ...], distance: float) -> list[int] | None:
    """Number of clusters of each prompt by itself; None where there is only one."""
    if len(parts) < 2:
        return None
    ends = np.cumsum(parts)[:-1]
    return [int(clusters.labels(part, distance).max()) + 1 for part in np.split(tokens, ends)]
