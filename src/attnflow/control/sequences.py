r"""`interpolate_sequences`: layers of attention and ReLUs that map given sequences to given outputs exactly.

One block is a discrete layer x <- x + attention(x) + W (U x + b)_+ . For N sequences of tokens and outputs
y^j_1, ..., y^j_{m_j}, choose orthogonal unit vectors e and f. The program is:

1. Project (1 block): x <- s e + f with s = <e, x> + shift. A linear map is x = (x)_+ - (-x)_+, a constant (0 x + 1)_+.
2. Separate (1 block): queries <f, x_i> = 1 are those of all tokens, keys are <e, x_k>, and V = kappa e e^T. Every token
   of sequence j receives kappa a_j e, where a_j is the leader max_k s_k under hardmax, and a weighted mean under
   softmax. If all a_j differ, a large kappa makes the intervals of s of all sequences disjoint.
3. Collapse (a block for each group): the tokens of sequence j are divided into m_j groups of neighbours in s. The map
   s <- s - (s - l)_+ + (s - r)_+ is constant on [l, r] and an isometry on both sides: a group becomes a point.
4. Match (a block for each group, from the largest s to the smallest): the bump of three ReLUs around s adds y - x to
   the point at s. All other points are to its left, where the ReLUs are zero: `shift` keeps every <e, y> there too.

This is 2 sum_j m_j + 2 blocks, for hardmax and for softmax, whatever n. The theorem of arXiv:2502.02270 states
2 sum_j m_j + 2 N + 1 for hardmax and 2 sum_j m_j + 3 N for softmax; it is known here second-hand, and the construction
above is another one, within both numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import null_space

from attnflow._common.checks import InputError
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow.control.steering import with_targets
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.attention import AbstractAttention, Hardmax, Softmax
from attnflow.model.heads import Head
from attnflow.model.perceptron import Perceptron
from attnflow.solvers.layers import Layers

DIRECTIONS = 4096  # random e that are tried; the one with the best separated sequences is taken


@dataclass(frozen=True)
class SequenceInterpolation:
    """Blocks with the sequences (N, n, d) that they map; `wanted` holds the output of every token.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.interpolate_sequences(np.eye(2)[None], [np.ones((1, 2))], rng=0)
    >>> found.wanted.tolist(), found.blocks, found.terminal_error < 1e-9
    ([[[1.0, 1.0], [1.0, 1.0]]], 4, True)
    >>> found.run.sizes["time"]  # the start and the end of every block
    5
    """

    control: Schedule
    """The blocks, as a schedule of layers."""
    sequences: np.ndarray
    wanted: np.ndarray
    stated_blocks: int
    """The number of blocks that the theorem states."""

    @property
    def blocks(self) -> int:
        """The number of layers."""
        return len(self.control.pieces)

    @cached_property
    def run(self) -> xr.Dataset:
        """All sequences after every block, with the outputs as targets."""
        return with_targets(self.control.run(self.sequences, solver=Layers(1.0)), self.wanted)

    @property
    def terminal_error(self) -> float:
        """The largest distance of a last token from its output."""
        return float(np.linalg.norm(self.run.final_tokens.values - self.wanted, axis=-1).max())


@takes_rng
def interpolate_sequences(
    sequences: Any, outputs: Sequence[Any], attention: AbstractAttention | None = None, rng: Rng = None
) -> SequenceInterpolation:
    """Blocks in R^d, d >= 2, that map the tokens of sequence j onto all of its outputs.

    Which tokens go to which output follows from their order along a direction; `wanted` of the result has it.

    Parameters
    ----------
    sequences
        N sequences of n tokens, (N, n, d), different from each other.
    outputs
        For each sequence its outputs, (m_j, d), 1 <= m_j <= n.
    attention
        `Hardmax()`, the default, or `Softmax(beta)`.
    rng
        Seed of the directions that are tried.

    Examples
    --------
    >>> import attnflow as af
    >>> sequences = np.random.default_rng(0).normal(size=(2, 6, 3))
    >>> outputs = [np.eye(3)[:2], -np.eye(3)[:1]]
    >>> found = af.control.interpolate_sequences(sequences, outputs, rng=0)
    >>> found.blocks, found.stated_blocks, found.terminal_error < 1e-9
    (8, 11, True)
    """
    attention = Hardmax() if attention is None else attention
    if not isinstance(attention, Hardmax | Softmax):
        raise InputError(f"`attention` must be `Hardmax()` or `Softmax(beta)`, but it is {attention!r}.")
    tokens, ends = _checked(sequences, outputs)
    generator = np.random.default_rng(seed_sequence(rng))
    e, f = _directions(tokens, attention, generator)
    lowest = max(float(np.max(one @ e)) for one in ends) + 1.0
    pieces, s = _separated(tokens, e, f, attention, lowest)
    groups = [_groups(row, len(end)) for row, end in zip(s, ends, strict=True)]
    wanted = np.zeros_like(tokens)
    for j, of_sequence in enumerate(groups):
        for output, members in zip(ends[j], of_sequence, strict=True):
            wanted[j, members] = output
    collapsing, s = _collapsed(s, groups, e)
    pieces += [*collapsing, *_matched(s, groups, ends, e, f)]
    count = sum(map(len, ends))
    stated = 2 * count + (2 * len(ends) + 1 if isinstance(attention, Hardmax) else 3 * len(ends))
    return SequenceInterpolation(Schedule(tuple(pieces), "euclidean", attention), tokens, wanted, stated)


def _checked(sequences: Any, outputs: Sequence[Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    tokens, ends = np.asarray(sequences, float), [np.atleast_2d(np.asarray(one, float)) for one in outputs]
    if tokens.ndim != 3 or tokens.shape[-1] < 2 or not np.all(np.isfinite(tokens)) or len(ends) != len(tokens):
        raise InputError(
            "`sequences` must be finite numbers of shape (N, n, d), d >= 2, with N `outputs`, but the shape is "
            f"{tokens.shape} and there are {len(ends)} outputs."
        )
    for j, end in enumerate(ends):
        if end.shape[1:] != tokens.shape[2:] or not 1 <= len(end) <= tokens.shape[1]:
            raise InputError(
                f"outputs[{j}] must have shape (m, {tokens.shape[2]}) with 1 <= m <= {tokens.shape[1]}, but it is "
                f"{end.shape}: a sequence has no more outputs than tokens."
            )
    return tokens, ends


def _leaders(s: np.ndarray, attention: AbstractAttention) -> np.ndarray:
    """a_j: what every token of sequence j receives, if scores are s_k; s has the axes (N, n, ...)."""
    if not isinstance(attention, Softmax):
        return s.max(axis=1)
    weights = np.exp(float(attention.beta) * (s - s.max(axis=1, keepdims=True)))
    return (weights * s).sum(axis=1) / weights.sum(axis=1)


def _directions(tokens: np.ndarray, attention: AbstractAttention, rng: np.random.Generator) -> tuple[Any, Any]:
    """Orthogonal unit vectors e and f; e has the largest least difference of a_j relative to the widest sequence."""
    draws = rng.normal(size=(DIRECTIONS, tokens.shape[-1]))
    draws = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    s = tokens @ draws.T
    apart = np.diff(np.sort(_leaders(s, attention), axis=0), axis=0).min(axis=0, initial=np.inf)
    quality = apart / (1 + np.ptp(s, axis=1).max(axis=0))  # the inverse of kappa
    e = draws[int(np.argmax(quality))]
    if quality.max() <= 0:
        raise InputError("Two of the `sequences` have the same tokens, so that attention cannot tell them apart.")
    return e, null_space(e[None])[:, 0]


def _separated(
    tokens: np.ndarray, e: np.ndarray, f: np.ndarray, attention: AbstractAttention, lowest: float
) -> tuple[list[Piece], np.ndarray]:
    """The blocks that project and separate, and s of every token after them, all above `lowest`."""
    d, s = len(e), tokens @ e
    leaders = _leaders(s, attention)
    least = np.diff(np.sort(leaders)).min() if len(s) > 1 else 1.0
    kappa = (np.ptp(s, axis=1).max() + 1.0) / least
    # a_j grows by the shift as s does, so that s + kappa a_j grows by (1 + kappa) times the shift.
    shift = (lowest + 1.0 - (s + kappa * leaders[:, None]).min()) / (1 + kappa)
    change = np.outer(e, e) - np.eye(d)
    outer = np.concatenate([change, -change, (f + shift * e)[:, None]], axis=1)
    inner = np.concatenate([np.eye(d), -np.eye(d), np.zeros((1, d))])
    project = Perceptron(outer, inner, np.r_[np.zeros(2 * d), 1.0])
    head = Head(query=f[None], key=e[None], value=kappa * np.outer(e, e))
    pieces = [Piece(1.0, project, name="project"), Piece(1.0, heads=(head,), name="separate")]
    return pieces, s + shift + kappa * (leaders[:, None] + shift)


def _groups(s: np.ndarray, count: int) -> list[np.ndarray]:
    """The tokens in the order of s, cut into groups of about equal size, each at the widest gap nearby."""
    order, n = np.argsort(s), len(s)
    gaps, reach = np.diff(s[order]), n // (4 * count)
    middles = [round(k * n / count) for k in range(1, count)]
    cuts = [middle - reach + int(np.argmax(gaps[middle - reach - 1 : middle + reach])) for middle in middles]
    return np.split(order, cuts)


def _collapsed(s: np.ndarray, groups: list, e: np.ndarray) -> tuple[list[Piece], np.ndarray]:
    """The blocks s <- s - (s - l)_+ + (s - r)_+, one for each group, and s after them."""
    s, pieces = s.copy(), []
    for j, of_sequence in enumerate(groups):
        for members in of_sequence:
            left, right = s[j, members].min(), s[j, members].max()
            drift = Perceptron(np.outer(e, [-1.0, 1.0]), np.array([e, e]), [-left, -right])
            pieces.append(Piece(1.0, drift, name=f"collapse {j}"))
            s = s - np.maximum(s - left, 0) + np.maximum(s - right, 0)
    return pieces, s


def _matched(s: np.ndarray, groups: list, ends: list[np.ndarray], e: np.ndarray, f: np.ndarray) -> list[Piece]:
    """The blocks that move the points to their outputs, from the largest s to the smallest."""
    points = [
        (s[j, members[0]], j, output)
        for j, of_sequence in enumerate(groups)
        for members, output in zip(of_sequence, ends[j], strict=True)
    ]
    points = sorted(points, key=lambda point: -point[0])
    below = [*(place for place, _, _ in points[1:]), points[-1][0] - 1.0]
    pieces = []
    for (place, j, output), next_place in zip(points, below, strict=True):
        width = (place - next_place) / 2
        move = (output - place * e - f) / width
        bias = [-(place - width), -place, -(place + width)]
        bump = Perceptron(np.outer(move, [1.0, -2.0, 1.0]), np.array([e, e, e]), bias)
        pieces.append(Piece(1.0, bump, name=f"match {j}"))
    return pieces
