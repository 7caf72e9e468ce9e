"""A passage: a prompt's way through the real layers of a trained model. Time is the layer.

Nothing is computed between two layers. The page lets tokens glide from one to the next, for the eye only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import json_value
from attnflow.explorer.measure import panels
from attnflow.explorer.measure.subject import AbstractSubject
from attnflow.explorer.recording import Moment
from attnflow.model.heads import Head
from attnflow.models.prompt import PER_TOKEN
from attnflow.trained import measures

THEORY = {
    "limit": "unknown",
    "limits": ["unknown"],
    "words": "no theorem speaks of whole layers",
    "says": "Biases, norms and the MLP act beside attention. A flow with the heads of one layer alone is closer to the "
    "theorems; `attnflow ladder` tells which part of a layer keeps words apart.",
    "proved": False,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Passage(AbstractSubject):
    """A result of `Model.trajectory`, as directions: tokens divided by their lengths."""

    run: xr.Dataset
    heads_of_layers: tuple[list[Head], ...] = ()
    """For the spectra of V; none where only the result is at hand."""

    @cached_property
    def tokens(self) -> np.ndarray:
        """Directions, (layer, token, coordinate); the first are those that enter layer 1."""
        return measures.directions(self.run).values

    @cached_property
    def _measured(self) -> xr.Dataset:
        return measures.of_tokens(self.run)

    @cached_property
    def _attention(self) -> np.ndarray | None:
        """The mean over heads, (layer, token, source)."""
        return self.run.attention.values.mean(axis=1, dtype=float) if "attention" in self.run else None

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.tokens) - 1

    @property
    def words(self) -> tuple[str, ...]:
        """That the tokens are."""
        return tuple(str(word) for word in self.run.word.values)

    @property
    def name(self) -> str:
        """Of the model."""
        return f"{self.run.attrs['model']}, {self.layers} layers"

    @property
    def heads(self) -> int:
        """Of each layer."""
        return self.run.sizes.get("head", 1)

    @property
    def distance(self) -> float:
        """The chord of the angle within which `attnflow prompt` has tokens in one cluster."""
        return 2 * float(np.sin(measures.ANGLE / 2))

    def moments(self) -> list[Moment]:
        """The tokens before the first and after each layer."""
        return [Moment(layer, float(layer), tokens) for layer, tokens in enumerate(self.tokens)]

    def as_shown(self) -> xr.Dataset:
        """The result with directions for its tokens."""
        return self.run.assign(tokens=measures.directions(self.run), initial_tokens=(PER_TOKEN, self.tokens[0]))

    def facts(self) -> dict[str, Any]:
        """Of the model."""
        return {
            "centres": [],
            "closeness": self.distance,
            "isLayered": True,
            "model": self.name,
            "value": "one a head and layer",
            "eigenvalues": [],
            "leading": None,
            "height": "mean cosine",
            "isEstimated": False,
            "isSphere": True,
            "prediction": THEORY,
        }

    def numbers(self, moment: Moment) -> dict[str, Any]:
        """Clusters, mean cosine, cosines, and the spectra of the layer that brought the tokens here."""
        layer = int(moment.time)
        return {
            "clusters": int(self._measured.clusters[layer]),
            "height": json_value(float(self._measured.mean_cosine[layer])),
            "cosines": panels.cosine_histogram(self.tokens[layer]),
            "planes": None,
            "eigenvalues": [panels.eigenvalues_of(head) for head in self._heads_at(layer)],
        }

    def image(self, moment: Moment, most: int = panels.SIDE) -> np.ndarray | None:
        """The attention of the layer that brought the tokens here; at the start that of the first, which comes next."""
        if self._attention is None:
            return None
        weights = self._attention[max(int(moment.time), 1) - 1]
        return panels.columns_summed(weights[panels.middles(len(weights), min(len(weights), most))], most)

    def row(self, moment: Moment, token: int, image: np.ndarray | None) -> list[list[float]]:
        """A row of that attention."""
        return [] if self._attention is None else panels.largest(self._attention[max(int(moment.time), 1) - 1][token])

    def verdict(self, promised: list[str], times: np.ndarray, tokens: np.ndarray) -> dict[str, str]:
        """What has become of the mean cosine; nothing was promised."""
        first, now = (float(self._measured.mean_cosine[int(layer)]) for layer in (times[0], times[-1]))
        where = f"after layer {times[-1]:.0f}" if times[-1] else "before the first layer"
        if len(self.words) < 2:
            return {"answer": "none", "says": "There is one token only."}
        before = f"; before the first it was {first:.2f}" if times[-1] else ""
        return {"answer": "none", "says": f"The mean cosine of two tokens is {now:.2f} {where}{before}."}

    def _heads_at(self, layer: int) -> list[Head]:
        return self.heads_of_layers[max(layer, 1) - 1] if self.heads_of_layers else []
