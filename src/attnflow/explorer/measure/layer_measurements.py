"""Measurements on a prompt that passes through the layers of a trained model. Time is the number of layers passed.

Nothing is computed between two layers; the page interpolates the positions for display only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import json_value
from attnflow.analyse import clusters
from attnflow.explorer.measure.attention_image import MAX_SIDE, block_middles, largest_weights, summed_columns
from attnflow.explorer.measure.cosine_histogram import cosine_histogram
from attnflow.explorer.measure.measurements import AbstractMeasurements
from attnflow.explorer.measure.model_facts import eigenvalues_of
from attnflow.explorer.measure.prediction_check import verdict_fields
from attnflow.explorer.recording import Frame
from attnflow.model.heads import Head
from attnflow.models.prompt import PER_TOKEN
from attnflow.trained import measures

PREDICTION = {
    "limit": "unknown",
    "limits": ["unknown"],
    "words": "no theorem covers whole layers",
    "says": "Besides attention, biases, norms and the MLP act on the tokens. A flow with the heads of one layer is "
    "closer to the theorems; `attnflow ladder` shows which part of a layer keeps the words apart.",
    "proved": False,
}


@dataclass(frozen=True, eq=False)
class LayerMeasurements(AbstractMeasurements):
    """Measurements on a result of `Model.trajectory`, whose tokens are divided by their lengths."""

    run: xr.Dataset
    heads_of_layers: tuple[list[Head], ...] = ()
    """Heads of every layer, for the spectra of V; empty if only the result is available."""

    @cached_property
    def tokens(self) -> np.ndarray:
        """Directions, axes (layer, token, coordinate); the first are the tokens that enter layer 1."""
        return measures.directions(self.run).values

    @cached_property
    def _measured(self) -> xr.Dataset:
        return measures.of_tokens(self.run)

    @cached_property
    def _attention(self) -> np.ndarray | None:
        """Attention averaged over heads, axes (layer, token, source)."""
        return self.run.attention.values.mean(axis=1, dtype=float) if "attention" in self.run else None

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
        """Number of heads of each layer."""
        return self.run.sizes.get("head", 1)

    @property
    def distance(self) -> float:
        """The chord of the angle within which `attnflow prompt` puts tokens into one cluster."""
        return float(clusters.chord(measures.ANGLE))

    def frames(self) -> list[Frame]:
        """The tokens before the first layer and after each layer."""
        return [Frame(layer, float(layer), tokens) for layer, tokens in enumerate(self.tokens)]

    def as_shown(self) -> xr.Dataset:
        """The result with directions in place of tokens."""
        return self.run.assign(tokens=measures.directions(self.run), initial_tokens=(PER_TOKEN, self.tokens[0]))

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
        }

    def numbers(self, frame: Frame) -> dict[str, Any]:
        """Number of clusters, mean cosine, histogram of cosines, and spectra of the layer that produced the tokens."""
        layer = int(frame.time)
        return {
            "clusters": int(self._measured.clusters[layer]),
            "height": json_value(float(self._measured.mean_cosine[layer])),
            "cosines": cosine_histogram(self.tokens[layer]),
            "planes": None,
            "eigenvalues": [eigenvalues_of(head) for head in self._heads_at(layer)],
        }

    def attention_image(self, frame: Frame, max_side: int = MAX_SIDE) -> np.ndarray | None:
        """Attention of the layer that produced the tokens; before the first layer, that of the first layer."""
        if self._attention is None:
            return None
        weights = self._attention[max(int(frame.time), 1) - 1]
        return summed_columns(weights[block_middles(len(weights), min(len(weights), max_side))], max_side)

    def attention_row(self, frame: Frame, token: int, image: np.ndarray | None) -> list[list[float]]:
        """The largest weights in a row of that attention."""
        return [] if self._attention is None else largest_weights(self._attention[max(int(frame.time), 1) - 1][token])

    def verdict(
        self, predicted: list[str], times: np.ndarray, tokens: np.ndarray, *, is_complete: bool = False
    ) -> dict[str, str]:
        """The mean cosine now and before the first layer; there is no prediction to compare with."""
        if len(self.words) < 2:
            return verdict_fields("none", "There is only one token")
        first, last = (float(self._measured.mean_cosine[int(layer)]) for layer in (times[0], times[-1]))
        where = f"after layer {times[-1]:.0f}" if times[-1] else "before the first layer"
        before = f"; before the first layer it was {first:.2f}" if times[-1] else ""
        return verdict_fields("none", f"The mean cosine of two tokens is {last:.2f} {where}{before}")

    def _heads_at(self, layer: int) -> list[Head]:
        return self.heads_of_layers[max(layer, 1) - 1] if self.heads_of_layers else []
