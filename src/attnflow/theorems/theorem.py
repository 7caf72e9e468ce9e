"""Theorems: the record of a result and of its hypotheses, which `predict` and `verify` share."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from attnflow.analyse.spectra import Spectrum, spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems.hypotheses import score_matrix, value_matrix, without_perceptron
from attnflow.theorems.simplest_flow import simplest
from attnflow.theorems.spectral_hypotheses import SpectralHypothesis, Weights
from attnflow.theorems.verdict import Hypothesis, is_true


def _nothing(*_) -> tuple[Hypothesis, ...]:
    return ()


@dataclasses.dataclass(frozen=True)
class Theorem:
    """A theorem, lemma or conjecture with its hypotheses on the flow, on V and Q^T K, and on the first tokens.

    `predict` adds a limit and a rate (`Rule`), `verify` a measurement, an example and a control (`Statement`).
    """

    id: str
    paper: str
    says: str
    setting: Callable[[AbstractDynamics], Sequence[Hypothesis]] = _nothing
    """Hypotheses on the space, the heads, the attention, the mask and the dimension."""
    spectral: tuple[SpectralHypothesis, ...] = ()
    """Hypotheses on V and B = beta Q^T K, which are constant matrices if the setting holds."""
    start: Callable[[AbstractDynamics, np.ndarray], Sequence[Hypothesis]] = _nothing
    """Hypotheses on the first tokens (n, d); evaluated only if all others hold."""
    for_almost_every_start: bool = True
    """Whether the first tokens violate `start` with probability zero. Otherwise nothing follows without them."""
    proved: bool = True
    """False for conjectures and observations."""

    def hypotheses(self, flow: AbstractDynamics, tokens: np.ndarray | None) -> tuple[Hypothesis, ...]:
        """The hypotheses, measured on a flow and its first tokens (None: tokens in general position).

        They are measured on the simplest flow with the same velocities. Where the flow lives in another space nothing
        else is measured. No theorem is about flows with a perceptron.
        """
        flow = simplest(flow, None if tokens is None else len(tokens))
        if flow.perceptron is not None:
            return (without_perceptron(flow),)
        setting = tuple(self.setting(flow))
        if any(one.kind == "space" and not one.holds for one in setting):
            return setting
        weights = weights_of(flow) if self.spectral else None
        known = (*setting, *(hypothesis(weights) for hypothesis in self.spectral if weights is not None))
        return (*known, *self._on_start(flow, tokens)) if all(one.holds for one in known) else known

    def _on_start(self, flow: AbstractDynamics, tokens: np.ndarray | None) -> tuple[Hypothesis, ...]:
        if tokens is None:
            return (
                () if self.for_almost_every_start else (is_true("first tokens known (pass `tokens`)", False, "start"),)
            )
        return tuple(dataclasses.replace(one, kind="start") for one in self.start(flow, tokens))


def weights_of(flow: AbstractDynamics) -> Weights | None:
    """V and B = beta Q^T K of a flow; None where V changes in time.

    Several heads have one V, the sum, but no one B: it is then zero, and the hypothesis of one head is not met.
    """
    value, scores = value_matrix(flow), score_matrix(flow)
    if not np.all(np.isfinite(value)):
        return None
    found = _spectrum(np.ascontiguousarray(value, dtype=float).tobytes(), len(value))
    return Weights(found, scores if np.all(np.isfinite(scores)) else np.zeros_like(value))


@functools.lru_cache(maxsize=4)
def _spectrum(entries: bytes, size: int) -> Spectrum:
    """The spectrum of a matrix by its entries; many theorems ask for that of the same V."""
    return spectrum(np.frombuffer(entries).reshape(size, size))
