"""Statements about metastable clusters on the sphere: caps that hold and collapse."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from attnflow.analyse import clusters
from attnflow.model import initial
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.theorems.hypotheses import beta_above, beta_of, self_attention
from attnflow.theorems.measurements import diameters, offset_of, on_a_path, present
from attnflow.theorems.statement import Instance, OnCoalescing, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, is_true

LARGEST_WIDTH = 1 / 16  # of a cap, by the theorem


class Caps(NamedTuple):
    """Caps {<x, w_q> >= 1 - width} that hold the first tokens."""

    labels: np.ndarray
    centres: np.ndarray
    width: float
    cosine: float
    """alpha: largest inner product between points of different caps of twice the width."""
    margin: float
    """gamma: the tokens are separated when it is above zero."""


def caps(tokens: np.ndarray, beta: float) -> Caps:
    """The caps with the largest margin gamma = 1 - alpha - 8 width - log(2 n^2 / width) / beta.

    All groupings by single linkage into 2 to 64 groups are compared, each with a range of widths.
    """
    unseparated = Caps(np.zeros(len(tokens), int), tokens[:1], np.nan, 1.0, -np.inf)
    if len(tokens) < 2 or not (np.isfinite(beta) and beta > 0):
        return unseparated
    tree = linkage(pdist(tokens))
    groupings = [fcluster(tree, count, "maxclust") - 1 for count in range(2, min(len(tokens), 64) + 1)]
    candidates = [_caps_of(tokens, labels, beta) for labels in groupings if labels.max() > 0]
    return max(candidates, key=lambda found: found.margin, default=unseparated)


def _caps_of(tokens: np.ndarray, labels: np.ndarray, beta: float) -> Caps:
    means = np.array([tokens[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    if lengths.min() < 1e-6:  # a group all around the sphere has no centre
        return Caps(labels, means, np.nan, 1.0, -np.inf)
    centres = means / lengths
    least = max(float((1 - np.sum(tokens * centres[labels], axis=1)).max()), 1e-12)
    if least >= LARGEST_WIDTH:
        return Caps(labels, centres, least, 1.0, -np.inf)
    widths = np.geomspace(least * (1 + 1e-9), LARGEST_WIDTH * (1 - 1e-9), 100)
    between = clusters.angle(pdist(centres).min())
    nearest = np.cos(np.maximum(between - 2 * np.arccos(1 - 2 * widths), 0.0))
    margins = 1 - nearest - 8 * widths - np.log(2 * len(tokens) ** 2 / widths) / beta
    best = int(np.argmax(margins))
    return Caps(labels, centres, float(widths[best]), float(nearest[best]), float(margins[best]))


def _caps_setting(flow: AbstractDynamics) -> Sequence[Hypothesis]:
    return (*self_attention(flow), weights_at_most_one(flow), beta_above(flow, 1.0))


def _separated(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (above("first tokens in separated caps", caps(tokens, beta_of(flow)).margin, 0.0, "of gamma"),)


def weights_at_most_one(flow: AbstractDynamics) -> Hypothesis:
    """Unnormalised weights are e^{beta (<x, y> - 1)}, as in the paper; softmax weights always qualify."""
    says = "unnormalised weights e^{beta (<x, y> - 1)}, that is, offset 1"
    return is_true(says, not isinstance(flow.attention, Unnormalised) or offset_of(flow) == 1.0)


def _log_leaving_time(found: Caps, beta: float) -> float:
    """log T2: up to time T2 no token leaves its cap of twice the width."""
    return float(np.log(found.width / len(found.labels)) + (1 - found.cosine) * beta)


@on_a_path
def _caps_hold(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    return _held(flow, run.initial_tokens.values, _log(times - times[0]), tokens)


def _caps_hold_for_long(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    return _held(flow, run.initial_tokens.values, run.log_time.values, run.tokens.values)


def _held(flow: AbstractDynamics, first: np.ndarray, log_times: np.ndarray, tokens: np.ndarray) -> Measurement:
    beta = beta_of(flow)
    found = caps(first, beta)
    end = _log_leaving_time(found, beta)
    depths = 1 - np.sum(tokens[log_times <= end] * found.centres[found.labels], axis=-1)
    return Measurement(
        quantity="largest 1 - <x_i, w> of a token and its cap, over twice the cap's width",
        value=float(depths.max() / (2 * found.width)),
        tolerance=1.0,
        why=f"the statement's own bound, up to log t = {end:.4g}",
    )


def _collapse_exponent(found: Caps, beta: float) -> float:
    """lambda: below the bounds of the theorem, and at most 30 / beta, so that float64 resolves e^{-lambda beta}."""
    n, width = len(found.labels), found.width
    with np.errstate(over="ignore"):
        speed = np.exp((1 - found.cosine) * beta) * (beta - 1) * width / (beta**2 * n**2 * np.e)
    first = speed * (1 - np.exp(-found.margin * beta))
    second = 1 - found.cosine - np.log(2 * n**2 / (1 - 8 * width)) / beta - 8 * width
    return float(min(0.99 * first, 0.99 * second, 30.0 / beta))


def collapse_time(found: Caps, beta: float) -> float:
    """T1: from this time on the squared distances within a cap are at most 2 e^{-lambda beta}."""
    n, exponent = len(found.labels), _collapse_exponent(found, beta)
    return float(2 * n * np.exp(8 * found.width * beta) + np.e * n * exponent * beta**2 / (beta - 1))


@on_a_path
def _caps_collapse(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    return _collapsed(flow, run.initial_tokens.values, _log(times - times[0]), tokens)


def _caps_stay_collapsed(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    return _collapsed(flow, run.initial_tokens.values, run.log_time.values, run.tokens.values, lasts=True)


def _collapsed(
    flow: AbstractDynamics, first: np.ndarray, log_times: np.ndarray, tokens: np.ndarray, lasts: bool = False
) -> Measurement:
    """The largest squared distance within a cap between T1 and T2.

    `lasts`: the run saves a state whenever something changes, so the last state before T1 is that at T1.
    """
    beta = beta_of(flow)
    found = caps(first, beta)
    start = float(np.log(collapse_time(found, beta)))
    late = (log_times >= start) & (log_times <= _log_leaving_time(found, beta))
    if lasts and not late.any() and log_times[-1] >= start:
        late[np.flatnonzero(log_times < start)[-1]] = True
    groups = [tokens[late][:, found.labels == label] for label in range(found.labels.max() + 1)]
    widest = max(diameters(group).max(initial=0.0) for group in groups)
    return Measurement(
        quantity="largest squared distance within a cap",
        value=float(widest**2) if late.any() else np.nan,
        tolerance=2 * float(np.exp(-_collapse_exponent(found, beta) * beta)),
        why=f"the statement's own bound, from log t = {start:.3g} on",
        open="" if late.any() else f"no saved time lies between log t = {start:.3g} and the end of the bound",
    )


def _log(times: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(times)


def _caps_example() -> Instance:
    poles = np.repeat([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], 4, axis=0)
    tokens = poles + 0.05 * np.random.default_rng(0).normal(size=(8, 3))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    flow = SphereAttention(Head.identity(3), Softmax(30.0))
    end = 1.1 * collapse_time(caps(tokens, 30.0), 30.0)
    return Instance(flow, tokens, np.linspace(0, end, 101))


def _caps_control() -> Instance:
    return dataclasses.replace(_caps_example(), tokens=initial.sphere(8, 3, rng=0))


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="caps-hold",
            paper="arXiv:2410.06833",
            says="Tokens that start in separated caps stay in caps of twice the width for a time exponential in beta.",
            setting=_caps_setting,
            start=_separated,
        ),
        _caps_hold,
        _caps_example,
        _caps_control,
        OnCoalescing(_caps_hold_for_long),
    ),
    Statement(
        Theorem(
            id="caps-collapse",
            paper="arXiv:2410.06833",
            says="Tokens of one separated cap soon coincide, up to an error exponentially small in beta.",
            setting=_caps_setting,
            start=_separated,
        ),
        _caps_collapse,
        _caps_example,
        _caps_control,
        OnCoalescing(_caps_stay_collapsed),
    ),
)
