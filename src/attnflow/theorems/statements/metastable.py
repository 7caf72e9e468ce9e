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
from attnflow.theorems.hypotheses import (
    beta_of,
    self_attention,
)
from attnflow.theorems.measurements import diameters, offset_of, on_a_path, present
from attnflow.theorems.statement import Computation, Instance, OnCoalescing, Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, above, is_true

WIDEST = 1 / 16  # caps must be smaller than this
MOST_DECADES = 30.0  # collapse is looked for down to squared distances of 2 e^{-30}, which float64 can tell from 0
MOST_CAPS = 64


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

    Groupings by single linkage into 2 to 64 groups are tried, and for each a range of widths.
    """
    nothing = Caps(np.zeros(len(tokens), int), tokens[:1], np.nan, 1.0, -np.inf)
    if len(tokens) < 2 or not (np.isfinite(beta) and beta > 0):
        return nothing
    tree = linkage(pdist(tokens))
    groupings = [fcluster(tree, count, "maxclust") - 1 for count in range(2, min(len(tokens), MOST_CAPS) + 1)]
    candidates = [_caps_of(tokens, labels, beta) for labels in groupings if labels.max() > 0]
    return max(candidates, key=lambda found: found.margin, default=nothing)


def _caps_of(tokens: np.ndarray, labels: np.ndarray, beta: float) -> Caps:
    means = np.array([tokens[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    if lengths.min() < 1e-6:  # a group all around the sphere has no centre
        return Caps(labels, means, np.nan, 1.0, -np.inf)
    centres = means / lengths
    least = max(float((1 - np.sum(tokens * centres[labels], axis=1)).max()), 1e-12)
    if least >= WIDEST:
        return Caps(labels, centres, least, 1.0, -np.inf)
    widths = np.geomspace(least * (1 + 1e-9), WIDEST * (1 - 1e-9), 100)
    between = clusters.angle(pdist(centres).min())
    nearest = np.cos(np.maximum(between - 2 * np.arccos(1 - 2 * widths), 0.0))
    margins = 1 - nearest - 8 * widths - np.log(2 * len(tokens) ** 2 / widths) / beta
    best = int(np.argmax(margins))
    return Caps(labels, centres, float(widths[best]), float(nearest[best]), float(margins[best]))


def _caps_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    margin = caps(tokens, beta_of(flow)).margin
    return (
        *self_attention(flow),
        weights_at_most_one(flow),
        above("beta > 1", beta_of(flow), 1.0, "in beta"),
        above("first tokens in separated caps", margin, 0.0, "of gamma"),
    )


def weights_at_most_one(flow: AbstractDynamics) -> Hypothesis:
    """As the paper has it: time runs by e^{-beta} slower."""
    says = "unnormalised weights e^{beta (<x, y> - 1)}, that is, offset 1"
    return is_true(says, not isinstance(flow.attention, Unnormalised) or offset_of(flow) == 1.0)


def _log_leaving_time(found: Caps, beta: float) -> float:
    """log T2: until then no token leaves its cap of twice the width."""
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
    """lambda: below the statement's bounds, and small enough for float64 to see e^{-lambda beta}."""
    n, width = len(found.labels), found.width
    with np.errstate(over="ignore"):
        speed = np.exp((1 - found.cosine) * beta) * (beta - 1) * width / (beta**2 * n**2 * np.e)
    first = speed * (1 - np.exp(-found.margin * beta))
    second = 1 - found.cosine - np.log(2 * n**2 / (1 - 8 * width)) / beta - 8 * width
    return float(min(0.99 * first, 0.99 * second, MOST_DECADES / beta))


def collapse_time(found: Caps, beta: float) -> float:
    """T1: from then on tokens of one cap are together, for the exponent that is looked for."""
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
    """`lasts`: states are kept where something changes, so the last one before the time in question is good for it."""
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
        open="" if late.any() else f"nothing is known of the tokens between log t = {start:.3g} and their leaving",
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


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(
        id="caps-hold",
        paper="arXiv:2410.06833",
        says="Tokens that start in separated caps stay in caps of twice the width for a time exponential in beta.",
        hypotheses=_caps_hypotheses,
        measure=_caps_hold,
        coalescing=OnCoalescing(_caps_hold_for_long),
        example=_caps_example,
        control=_caps_control,
    ),
    Statement(
        id="caps-collapse",
        paper="arXiv:2410.06833",
        says="Tokens of one separated cap are together, up to an error exponentially small in beta, soon after.",
        hypotheses=_caps_hypotheses,
        measure=_caps_collapse,
        coalescing=OnCoalescing(_caps_stay_collapsed),
        example=_caps_example,
        control=_caps_control,
    ),
)
