"""What `coalesce` is asked for: its checked arguments as one record."""

import dataclasses
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.coalescence.cluster_state import Clusters
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.masks import Causal, Full
from attnflow.model.normalisation import Post
from attnflow.model.validation import require_flow, require_one_configuration

MIN_MERGE = 1e-10  # merging distance: below, differences of coordinates have less than six digits
# Scores beta <Q x, K y> have rounding errors of 2e-16 of their size. At 1e8 these are a fiftieth of the usual rtol of
# 1e-6; from 1e9 on, error estimates are of rounding and steps become too short.
MAX_SCORE = 1e8
RTOL_RANGE = (1e-13, 1e-2)  # below is rounding; above, steps pass over merges


@dataclasses.dataclass(frozen=True)
class Accelerations:
    """Which parts of the method are used to save steps; results agree without them to the stated error."""

    pair_quadrature: bool = True
    """Isolated pairs are integrated by quadrature."""
    slow_partition: bool = True
    """Slow tokens that move little are advanced by the trapezoidal rule."""
    subcycling: bool = True
    """Fast tokens have small steps of their own within a step of the slow ones."""

    @classmethod
    def none(cls) -> "Accelerations":
        """All tokens are integrated with one step size."""
        return cls(False, False, False)


@dataclasses.dataclass(frozen=True)
class Perturbation:
    """A random displacement of the first tokens: its standard deviation and its seed."""

    amount: float
    seed: str
    """The seed as text: the entropy has 128 bits, more than the integers of some readers of JSON."""
    spawn_key: list[int]


@dataclasses.dataclass(frozen=True)
class CoalescingRequest:
    """The arguments of one run."""

    flow: AbstractDynamics
    tokens: np.ndarray
    """After the perturbation."""
    log_end: float
    merge: float
    rtol: float
    max_steps: int
    accelerations: Accelerations
    perturbation: Perturbation | None = None
    log_start: float = -np.inf
    """The logarithm of the time at which the first tokens are given; minus infinity is the time zero."""

    @classmethod
    def of(
        cls,
        flow: AbstractDynamics,
        tokens: Any,
        *,
        log_end: float,
        merge: float | None,
        rtol: float,
        shortcuts: bool,
        max_steps: int,
        perturb: float | None = None,
        rng: Rng = None,
        budget: float | None = None,
        log_start: float = -np.inf,
    ) -> "CoalescingRequest":
        """Check the arguments of `coalesce`; raises ValueError with what to do instead."""
        tokens = _require_supported(flow, tokens)
        _require_limits(flow, log_end, rtol, max_steps, budget)
        perturbation = None
        if perturb is not None:
            tokens, perturbation = _perturbed(tokens, perturb, rng)
        merge = _merging_distance(tokens, merge)
        accelerations = Accelerations() if shortcuts else Accelerations.none()
        return cls(flow, tokens, float(log_end), merge, rtol, max_steps, accelerations, perturbation, float(log_start))


def _require_limits(flow: AbstractDynamics, log_end: Any, rtol: Any, max_steps: Any, budget: Any) -> None:
    """Check what ends a run or a step."""
    require_count(max_steps, "max_steps")
    require_positive_number(rtol, "rtol", "Use 1e-6.")
    finest, coarsest = RTOL_RANGE
    if not finest <= rtol <= coarsest:
        raise InputError(f"`rtol` must lie between {finest:g} and {coarsest:g}, but it is {rtol:g}. Use 1e-6.")
    if budget is not None:
        require_positive_number(budget, "budget", "Use seconds, or None.")
    earliest = -100.0  # before e^-100 no coordinate changes
    if not isinstance(log_end, int | float | np.number) or not log_end >= earliest:
        raise InputError(
            f"`log_end` must be the logarithm of a time, at least {earliest:g}, or infinity, but it is {log_end!r}. "
            "Use np.log(1e9)."
        )
    head: Any = flow.heads[0]
    matrices = {"V": np.asarray(head.value_matrix), "Q^T K": np.asarray(head.query_key)}
    asymmetric = [name for name, matrix in matrices.items() if not np.allclose(matrix, matrix.T)]
    if asymmetric and np.isinf(log_end) and budget is None:
        raise InputError(
            f"`log_end` or `budget` must be given for this flow: {asymmetric[0]} is not symmetric, so that periodic "
            "orbits are possible. Pass the logarithm of the end time, or seconds."
        )


def _require_supported(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    """Check that the method supports the flow; return its tokens with length one."""
    require_flow(flow)
    is_on_plain_sphere = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
    reasons = {
        "under a mask, tokens at one position see different tokens and separate again": not isinstance(flow.mask, Full),
        "tokens must move on the sphere without lengths of their own": not is_on_plain_sphere,
        "noise would separate merged tokens": flow.noise is not None,
        "an MLP is not supported": flow.mlp is not None,
        "a perceptron is not supported": flow.perceptron is not None,
        "frozen tokens could not merge with moving ones": flow.frozen is not None,
        "it takes one head, whose scores alone determine the speeds": len(flow.heads) != 1,
        "it takes constant weights, since its steps follow the speed and not the time": not flow.is_constant,
        "attention must be softmax or unnormalised": not isinstance(flow.attention, Softmax | Unnormalised),
    }
    broken = [reason for reason, is_broken in reasons.items() if is_broken]
    if broken:
        instead = "stream" if isinstance(flow.mask, Causal) and len(broken) == 1 else "simulate"
        raise InputError(f"`coalesce` does not support this flow: {broken[0]}. Use `{instead}`.")
    head: Any = flow.heads[0]
    rule: Any = flow.attention
    score = float(rule.beta) * float(np.linalg.norm(np.asarray(head.query_key), 2))
    if score > MAX_SCORE:
        raise InputError(
            f"beta |Q^T K| must be at most {MAX_SCORE:g} for `coalesce`, but it is {score:g}: rounding errors of "
            "larger scores exceed the tolerance of a step. Use a smaller `beta`."
        )
    tokens = require_one_configuration(flow, tokens)
    lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
    # Lengths within rounding are left as they are, so that a run of recorded tokens has the same bits.
    return np.where(np.abs(lengths - 1) < 1e-12, tokens, tokens / lengths)


def _perturbed(tokens: np.ndarray, amount: float, rng: Rng) -> tuple[np.ndarray, Perturbation]:
    """Tokens displaced at random, and the record of it."""
    require_positive_number(amount, "perturb", "Use 1e-6, or None.")
    largest = 0.1  # beyond, it would be another start
    if amount > largest:
        raise InputError(
            f"`perturb` must be at most {largest:g}, a small displacement, but it is {amount:g}. Use 1e-6."
        )
    seed = seed_sequence(rng)
    moved = tokens + amount * np.random.default_rng(seed).normal(size=tokens.shape)
    perturbation = Perturbation(float(amount), str(seed.entropy), list(seed.spawn_key))
    return moved / np.linalg.norm(moved, axis=1, keepdims=True), perturbation


def _merging_distance(tokens: np.ndarray, merge: float | None) -> float:
    """The merging distance asked for, or the default, which is below the smallest gap."""
    smallest = float(Clusters.singletons(tokens).merge_duplicates().nearest.distances.min())
    if merge is None:
        merge = min(1e-6, smallest / 10)
        if merge < MIN_MERGE:
            raise InputError(
                f"Two tokens are only {smallest:.2g} apart, too close to resolve. Make them equal, or move them apart."
            )
        return merge
    require_positive_number(merge, "merge", "Use 1e-6.")
    if merge < MIN_MERGE:
        raise InputError(
            f"`merge` must be at least {MIN_MERGE:g}, since smaller gaps are lost in rounding, but it is {merge:g}. "
            "Use 1e-6."
        )
    if merge >= smallest:
        raise InputError(
            f"`merge` must be below the smallest gap at the start, {smallest:.3g}, but it is {merge:g}. "
            f"Use {smallest / 10:.1g}."
        )
    return float(merge)
