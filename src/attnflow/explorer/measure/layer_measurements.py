"""Measurements on a prompt that passes through the layers of a trained model. Time is the number of layers passed.

Nothing is computed between two layers; the page interpolates the positions for display only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import json_value
from attnflow.analyse import clusters
from attnflow.explorer.measure.attention_image import (
    MAX_SIDE,
    MOST_WEIGHTS,
    block_middles,
    largest_weights,
    summed_columns,
)
from attnflow.explorer.measure.cosine_histogram import cosine_histogram
from attnflow.explorer.measure.measurements import AbstractMeasurements, clusters_of_parts
from attnflow.explorer.measure.prediction_check import verdict_fields
from attnflow.explorer.pictures import picture_field
from attnflow.explorer.recording import Frame
from attnflow.trained import measures

PREDICTION = {
    "limit": "unknown",
    "limits": ["unknown"],
    "words": "no theorem covers whole layers",
    "says": "Besides attention, biases, norms and the MLP act on the tokens. A flow with the heads of one layer is "
    "closer to the theorems; `attnflow ladder` shows which part of a layer keeps the tokens apart.",
    "proved": False,
}


@dataclass(frozen=True, eq=False)
class LayerMeasurements(AbstractMeasurements):
    """Measurements on a result of `Model.trajectory`, whose tokens are divided by their lengths."""

    run: xr.Dataset
    spectra: Callable[[int], list] | None = None
    """Eigenvalues of V of the heads of a layer; None if only the result is available."""
    head: int | None = None
    """The head whose attention is shown; None for the mean of all."""

    @cached_property
    def tokens(self) -> np.ndarray:
        """Directions, axes (layer, token, coordinate); the first are the tokens that enter layer 1."""
        return measures.directions(self.run).values

    @cached_property
    def _measured(self) -> xr.Dataset:
        return measures.of_tokens(self.run)

    @cached_property
    def _attention(self) -> np.ndarray | None:
        """Attention of the chosen head, or averaged over heads, axes (layer, token, source)."""
        if "attention" not in self.run:
            return None
        weights = self.run.attention.values
        return weights.mean(axis=1, dtype=float) if self.head is None else weights[:, self.head].astype(float)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.tokens) - 1

    @property
    def words(self) -> tuple[str, ...]:
        """The words, or parts of words, of the tokens."""
        return tuple(str(word) for word in self.run.word.values)

    @property
    def name(self) -> str:
        """Name and depth of the model."""
        return f"{self.run.attrs['model']}, {self.layers} layers"

    @property
    def heads(self) -> int:
        """Number of heads over which attention is averaged."""
        return self.run.sizes.get("head", 1) if self.head is None else 1

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Number of tokens of each prompt."""
        if "prompt" not in self.run.coords:
            return (len(self.words),)
        return tuple(np.bincount(self.run.prompt.values).tolist())

    @property
    def distance(self) -> float:
        """The chord of the angle within which `attnflow prompt` puts tokens into one cluster."""
        return float(clusters.chord(measures.ANGLE))

    def frames(self) -> list[Frame]:
        """The tokens before the first layer and after each layer."""
        return [Frame(layer, float(layer), tokens) for layer, tokens in enumerate(self.tokens)]

    def facts(self) -> dict[str, Any]:
        """Name of the model and of its second curve; no theorem applies."""
        return {
            "centres": [],
            "closeness": self.distance,
            "isLayered": True,
            "model": self.name,
            "value": "one per head and layer",
            "eigenvalues": [],
            "leading": None,
            "height": "mean cosine",
            "isEstimated": False,
            "isSphere": True,
            "prediction": PREDICTION,
            "picture": self._picture,
        }

    @property
    def _picture(self) -> dict[str, Any] | None:
        """The image whose patches are the tokens."""
        if "picture" not in self.run:
            return None
        grid = int(self.run.attrs["patch_rows"]), int(self.run.attrs["patch_columns"])
        return picture_field(self.run.picture.values, grid, len(self.words) - grid[0] * grid[1])

    def numbers(self, frame: Frame) -> dict[str, Any]:
        """Number of clusters, mean cosine, histogram of cosines, and spectra of the layer that produced the tokens."""
        layer = int(frame.time)
        return {
            "clusters": int(self._measured.clusters[layer]),
            "height": json_value(float(self._measured.mean_cosine[layer])),
            "cosines": cosine_histogram(self.tokens[layer]),
            "planes": None,
            "eigenvalues": [] if self.spectra is None else self.spectra(max(layer, 1) - 1),
            "clustersOf": clusters_of_parts(self.tokens[layer], self.parts, self.distance),
        }

    def attention_image(self, frame: Frame, max_side: int = MAX_SIDE) -> np.ndarray | None:
        """Attention of the layer that produced the tokens; before the first layer, that of the first layer."""
        if self._attention is None:
            return None
        weights = self._attention[max(int(frame.time), 1) - 1]
        return summed_columns(weights[block_middles(len(weights), min(len(weights), max_side))], max_side)

    def attention_row(self, frame: Frame, token: int, image: np.ndarray | None) -> list[list[float]]:
        """The largest weights in a row of that attention."""
        if self._attention is None:
            return []
        # Of an image all weights, which are drawn on it.
        most = len(self.words) if "picture" in self.run else MOST_WEIGHTS
        return largest_weights(self._attention[max(int(frame.time), 1) - 1][token], most)

    def verdict(
        self, predicted: list[str], times: np.ndarray, tokens: np.ndarray, *, is_complete: bool = False
    ) -> dict[str, str]:
        """The mean cosine now and before the first layer; there is no prediction to compare with."""
        if len(self.words) < 2:
            return verdict_fields("none", "There is only one token")
        if len(self.parts) > 1:
            return verdict_fields("none", self._compared(int(times[-1])))
        first, last = (float(self._measured.mean_cosine[int(layer)]) for layer in (times[0], times[-1]))
        where = f"after layer {times[-1]:.0f}" if times[-1] else "before the first layer"
        before = f"; before the first layer it was {first:.2f}" if times[-1] else ""
        return verdict_fields("none", f"The mean cosine of two tokens is {last:.2f} {where}{before}")

    def _compared(self, layer: int) -> str:
        """The mean cosines within each prompt and between the two."""
        first = self.tokens[layer][: self.parts[0]]
        second = self.tokens[layer][self.parts[0] :]
        within = [_mean_cosine(one) for one in (first, second)]
        between = float(np.mean(first @ second.T))
        where = f"After layer {layer}" if layer else "Before the first layer"
        return (
            f"{where} the mean cosine of two tokens is {within[0]:.2f} within the first prompt, {within[1]:.2f} within "
            f"the second and {between:.2f} between the two"
        )


def _mean_cosine(directions: np.ndarray) -> float:
    """The mean of <x_i, x_j> over i != j; 1 for a single token."""
    n = len(directions)
    return float((np.sum(directions @ directions.T) - n) / (n * (n - 1))) if n > 1 else 1.0
