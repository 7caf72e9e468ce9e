"""Statements about metastable clusters on the sphere: caps that hold, the time two clusters need, energy levels."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from attnflow import initial
from attnflow.analyse import cluster_tracks, clusters, energy
from attnflow.attention import Softmax, Unnormalised
from attnflow.dynamics import AbstractDynamics, SphereAttention
from attnflow.heads import Head
from attnflow.masks import Full
from attnflow.theorems.hypotheses import (
    attention_is,
    beta_of,
    distinct,
    mask_is,
    on_the_sphere,
    scores_are_inner_products,
    self_attention,
    value_is,
)
from attnflow.theorems.paths import diameters, offset_of, on_a_path, present
from attnflow.theorems.statement import Computation, Instance, Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

WIDEST = 1 / 16  # caps must be smaller than this
MOST_DECADES = 30.0  # collapse is looked for down to squared distances of 2 e^{-30}, which float64 can tell from 0
MOST_CAPS = 64
LEAST_PLATEAU = 0.05  # of log time


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
        _weights_at_most_one(flow),
        above("beta > 1", beta_of(flow), 1.0, "in beta"),
        above("first tokens in separated caps", margin, 0.0, "of gamma"),
    )


def _weights_at_most_one(flow: AbstractDynamics) -> Hypothesis:
    says = "unnormalised weights e^{beta (<x, y> - 1)}, that is, offset 1"
    return is_true(says, not isinstance(flow.attention, Unnormalised) or offset_of(flow) == 1.0)


def _leaving_time(found: Caps, beta: float) -> float:
    """T2: until then no token leaves its cap of twice the width."""
    with np.errstate(over="ignore"):
        return float(found.width / len(found.labels) * np.exp((1 - found.cosine) * beta))


@on_a_path
def _caps_hold(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    beta = beta_of(flow)
    found = caps(run.initial_tokens.values, beta)
    times, tokens = present(run)
    in_time = times - times[0] <= _leaving_time(found, beta)
    depths = 1 - np.sum(tokens[in_time] * found.centres[found.labels], axis=-1)
    return Measurement(
        quantity="largest 1 - <x_i, w> of a token and its cap, over twice the cap's width",
        value=float(depths.max() / (2 * found.width)),
        tolerance=1.0,
        why=f"the statement's own bound, up to t = {_leaving_time(found, beta):.3g}",
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
    beta = beta_of(flow)
    found = caps(run.initial_tokens.values, beta)
    times, tokens = present(run)
    start = collapse_time(found, beta)
    late = (times - times[0] >= start) & (times - times[0] <= _leaving_time(found, beta))
    groups = [tokens[late][:, found.labels == label] for label in range(found.labels.max() + 1)]
    widest = max(diameters(group).max(initial=0.0) for group in groups)
    return Measurement(
        quantity="largest squared distance within a cap",
        value=float(widest**2) if late.any() else np.nan,
        tolerance=2 * float(np.exp(-_collapse_exponent(found, beta) * beta)),
        why=f"the statement's own bound, from t = {start:.3g} on",
        open="" if late.any() else f"the run ends at t = {times[-1]:.3g}, before that",
    )


def _caps_example() -> Instance:
    poles = np.repeat([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], 4, axis=0)
    tokens = poles + 0.05 * np.random.default_rng(0).normal(size=(8, 3))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    flow = SphereAttention(Head.identity(3), Softmax(30.0))
    end = 1.1 * collapse_time(caps(tokens, 30.0), 30.0)
    return Instance(flow, tokens, np.linspace(0, end, 101))


def _caps_control() -> Instance:
    return dataclasses.replace(_caps_example(), tokens=initial.sphere(8, 3, rng=0))


# Two clusters


def _pair_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    extras = (flow.mlp, flow.noise, flow.frozen)
    angle = _angle(tokens) if len(tokens) == 2 else np.nan
    return (
        on_the_sphere(flow),
        is_true("no noise, MLP or frozen tokens", all(extra is None for extra in extras)),
        attention_is(flow, Softmax),
        mask_is(flow, Full),
        scores_are_inner_products(flow),
        value_is(flow),
        at_most("two tokens, with masses or without", abs(len(tokens) - 2), 0, "tokens"),
        distinct(tokens),
        above("not antipodal", np.pi - angle, 1e-6, "radians"),
        at_most("beta large for this angle", _next_order(angle, beta_of(flow)), 0.25, "of relative correction"),
    )


def _angle(tokens: np.ndarray) -> float:
    return float(clusters.angle(np.linalg.norm(tokens[0] - tokens[1])))


def _next_order(angle: float, beta: float) -> float:
    """What the leading order leaves out, relative: two more terms of the expansion in 1/beta."""
    sine, cosine = float(np.sin(angle)), float(np.cos(angle))
    if not sine > 0:
        return np.inf
    return float(2 * abs(cosine) / (beta * sine**2) + (2 * sine**2 + 8 * cosine**2) / (beta * sine**2) ** 2)


def merge_time(angle: float, beta: float, masses: Sequence[float] = (1.0, 1.0)) -> float:
    """Time two clusters at an angle need to meet: e^{beta (1 - cos)} / (beta (r + 1/r) sin^2), r the ratio of masses.

    Examples
    --------
    >>> round(merge_time(0.8, 40.0, (1.0, 3.0)))
    2706
    """
    ratio = masses[0] / masses[1]
    return float(np.exp(beta * (1 - np.cos(angle))) / (beta * (ratio + 1 / ratio) * np.sin(angle) ** 2))


@on_a_path
def _pair(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    first = _angle(run.initial_tokens.values)
    beta = beta_of(flow)
    masses = (1.0, 1.0) if flow.masses is None else [float(mass) for mass in np.asarray(flow.masses)]
    expected = merge_time(first, beta, masses)
    times, tokens = present(run)
    angles = np.array([_angle(snapshot) for snapshot in tokens])
    spacing = float(np.diff(times).max(initial=0.0)) / expected
    found = _crossing(times - times[0], angles, first / 2) / expected
    tolerance = 2 * _next_order(first, beta) + spacing
    # Not having met well after the predicted time is a miss; before it, it says nothing.
    is_early = np.isnan(found) and (times[-1] - times[0]) / expected < 1 + tolerance
    return Measurement(
        quantity=f"relative error of the time to half the angle, expected {expected:.4g}",
        value=np.nan if is_early else abs(np.nan_to_num(found, nan=np.inf) - 1),
        tolerance=tolerance,
        why="twice the next terms of the expansion in 1/beta, and the spacing of the saved times",
        open=f"the run ends at {(times[-1] - times[0]) / expected:.3g} of the predicted time" if is_early else "",
    )


def _crossing(times: np.ndarray, values: np.ndarray, level: float) -> float:
    """When falling values first pass a level, between saved times on a straight line; NaN if they do not."""
    below = np.flatnonzero(values < level)
    if len(below) == 0 or below[0] == 0:
        return np.nan
    last, now = below[0] - 1, below[0]
    return float(times[last] + (times[now] - times[last]) * (values[last] - level) / (values[last] - values[now]))


def _pair_example(angle: float = 0.8, beta: float = 40.0) -> Instance:
    masses = (1.0, 3.0)
    flow = SphereAttention(Head.identity(2), Softmax(beta), masses=np.array(masses))
    tokens = initial.on_circle(np.array([0.0, angle]))
    return Instance(flow, tokens, np.linspace(0, 1.3 * merge_time(angle, beta, masses), 261))


# Energy levels


def _staircase_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    beta = beta_of(flow)
    closest = float(clusters.angle(pdist(tokens).min())) if len(tokens) > 1 else np.nan
    # Pairs this far apart contribute less than 1/beta each.
    least = float(np.sqrt(2 * np.log(beta) / beta)) if np.isfinite(beta) and beta > 1 else np.nan
    return (
        *self_attention(flow),
        _weights_at_most_one(flow),
        above("beta > 1", beta, 1.0, "in beta"),
        at_most("d = 2", abs(flow.dimension - 2), 0, "dimensions"),
        above("first tokens sqrt(2 log beta / beta) apart", closest, least, "radians"),
    )


@on_a_path
def _staircase(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    beta = beta_of(flow)
    times, tokens = present(run)
    found = clusters.over_time(tokens, 0.5 / np.sqrt(beta)).values
    has_log_time = np.sum(times > 0) > 1
    stairs = cluster_tracks.plateaus(times, found.max(axis=1) + 1, LEAST_PLATEAU, log=True) if has_log_time else []
    middles = [int(np.searchsorted(times, np.sqrt(stair.start * stair.end))) for stair in stairs]
    heights = energy.normalised(tokens, beta).values
    errors = [abs(heights[at] - energy.level(np.bincount(found[at]))) for at in middles]
    return Measurement(
        quantity=f"largest distance of the energy on {len(stairs)} plateaus from sum_q m_q^2 / n^2",
        value=max(errors) if len(stairs) > 1 else np.nan,
        tolerance=1 / beta,
        why="neighbouring clusters at this distance still contribute up to 1/beta",
        open=f"{len(stairs)} plateaus were seen, a staircase needs two" if len(stairs) < 2 else "",
    )


def _staircase_example(beta: float = 40.0) -> Instance:
    flow = SphereAttention(Head.identity(2), Softmax(beta))
    tokens = initial.on_circle(np.cumsum([0.0, 0.5, 0.65, 0.8]))
    return Instance(flow, tokens, np.r_[0.0, np.geomspace(1e-2, 3e4, 160)])


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(
        id="caps-hold",
        paper="arXiv:2410.06833",
        says="Tokens that start in separated caps stay in caps of twice the width for a time exponential in beta.",
        hypotheses=_caps_hypotheses,
        measure=_caps_hold,
        example=_caps_example,
        control=_caps_control,
    ),
    Statement(
        id="caps-collapse",
        paper="arXiv:2410.06833",
        says="Tokens of one separated cap are together, up to an error exponentially small in beta, soon after.",
        hypotheses=_caps_hypotheses,
        measure=_caps_collapse,
        example=_caps_example,
        control=_caps_control,
    ),
    Statement(
        id="pair-merge-time",
        paper="leading order for large beta; compare arXiv:2410.06833 and arXiv:2512.01868",
        says="Two clusters at angle th meet after e^{beta (1 - cos th)} / (beta (r + 1/r) sin^2 th), "
        "r being the ratio of their masses.",
        hypotheses=_pair_hypotheses,
        measure=_pair,
        example=_pair_example,
        control=lambda: _pair_example(beta=4.0),
    ),
    Statement(
        id="staircase-levels",
        paper="arXiv:2410.06833",
        says="While clusters of m_q tokens wait to merge the normalised energy rests at sum_q m_q^2 / n^2, "
        "so a merge of a and b raises it by 2 m_a m_b / n^2.",
        hypotheses=_staircase_hypotheses,
        measure=_staircase,
        example=_staircase_example,
        control=lambda: _staircase_example(beta=4.0),
    ),
)
