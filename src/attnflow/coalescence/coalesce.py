"""`coalesce`: through every metastable state, to times of order e^beta.

Tokens that have met become one with their mass, which is exact for a full mask up to the merging
distance, and the clock follows the fastest relative change: a step is measured in units of
1 / sigma, where sigma is the largest |v_i - v_j| / |x_i - x_j| of nearest neighbours. A closing gap then
shrinks by a factor in a few steps whether it takes a second or e^200 of them. Time itself is carried as
its logarithm. While two clusters close in, their speed grows exponentially; within a step the clock slows down
as it will grow, to second order, so that the motion is nearly uniform and the time a step takes is an integral
known beforehand.

Most of the way nothing has to be stepped through: a pair that has become far faster than everybody else is
alone with itself, and its meeting is two integrals over an angle (`meeting`); a few that are about to fall on each
other run through short steps of their own within one of the others (`sprint`, `course`); slow tokens need no stages of
their own (`stride`). All are held to the tolerance of a step, and the result tells the largest error of a meeting.

A causal mask is not served: a later token cannot be put together with an earlier one, since tokens between
them see the one and not the other.
"""

import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.progress import Bar, Progress, shown
from attnflow._common.seeds import Rng, seed_sequence
from attnflow._common.threads import one_blas_thread
from attnflow.coalescence.cluster_state import HeavyTokens
from attnflow.coalescence.integrator import Journey
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Causal, Full
from attnflow.model.normalisation import Post
from attnflow.model.validation import require_flow, require_one_configuration

LEAST_MERGE = 1e-10  # below, differences of coordinates have no digits left
USUAL_MERGE = 1e-6
FINEST, COARSEST = 1e-13, 1e-2  # of rtol: below, rounding; above, steps that jump over each other
EARLIEST = -100.0  # of `until`: nobody has moved by then
ON_SPHERE = 1e-12  # nearer tokens stay as they are, so that a run of recorded ones is the same
FARTHEST = 0.1  # of `perturb`: beyond, it would be another start


def coalesce(
    flow: AbstractDynamics,
    tokens: Any,
    *,
    until: float = np.inf,
    merge: float | None = None,
    rtol: float = 1e-6,
    perturb: float | None = None,
    rng: Rng = None,
    shortcuts: bool = True,
    max_steps: int = 1_000_000,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Follow tokens on the sphere through every metastable state, to one cluster or to a time however long.

    Parameters
    ----------
    flow
        `SphereAttention` with one constant head, softmax or unnormalised attention and a full mask; masses are kept.
        Where V is no multiple of I a long plateau is not passed but ends the run: what others do to a token is lost in
        the rounding of V x.
    tokens
        First tokens (n, d).
    until
        Natural logarithm of the last time; infinity for one cluster or rest. To be given, or `budget`, where V or Q^T K
        is not symmetric: tokens may circle for ever. One cluster ends a run even before; where V is no multiple of I
        it would still be carried on, by x' = P_x V x.
    merge
        Distance within which tokens become one, at their centre of mass; of three that come together the third joins
        where it is so near to the centre of the two. None: 1e-6, or a tenth of the smallest gap if that is less.
    rtol
        Error of a step over the gap to the nearest other token, or over 10,000 merging distances where that is more. It
        makes log t wrong by about beta * (rtol + merge) for every merge so far, and t by 10,000 rtol times the unit of
        time in which the pair falls, 1 under softmax: in 100 random runs with 4,964 merges none was off by more
        (`benchmarks/merge_errors.py`), while close pairs of different masses can be by a few times that. Of merges
        nearer in time than this it may decide which is first. Who starts nearer than that to an unstable equilibrium,
        such as antipodes, leaves it at a time that rtol decides.
    perturb
        Move the first tokens at random by this much, for starts that rest in an unstable equilibrium. The dataset's
        `initial_tokens` are those it has moved; `perturbed` tells by how much and with which seed.
    rng
        Seed of `perturb`.
    shortcuts
        Follow a pair that is far faster than all others to its meeting at once, those about to fall in short steps of
        their own, and slow tokens at the mean of two velocities, where that costs less than `rtol`. Without, everybody
        is looked at in every step: slower, the same to the error above.
    max_steps, budget
        End after so many steps or seconds with what exists.
    progress
        A callback with the share of merges done and a sentence; None for a bar on terminals.

    Returns
    -------
    A dataset over `state` (`log_time`, `tokens`, `clusters`, `energy` in (0, 1], and `level`, the sum of squared shares
    of clusters) and over `merge` (`merge_log_time`, `first` and `second` as the smallest tokens of who met, their
    masses, energy and level before and after, `log_duration` of the plateau before, their `angle` as it began, and
    `predicted_log_duration`, which an isolated pair would take; besides, known as it began, `foreseen_log_duration` of
    the soonest of all pairs, `foreseen_error` of that, and `rival_log_duration` of the next one). `meetings` of them
    were followed at once, none with more than `meeting_error` in a place; in `sprints` of the steps some tokens had
    shorter ones. States that together hold more than 20 million numbers are thinned out.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    >>> long = coalesce(flow, af.initial.on_circle(np.array([0.0, 1.0, 2.5])))
    >>> long.clusters.values[-1], bool(long.log_time[-1] > 25)
    (np.int64(1), True)
    """
    tokens = _require_served(flow, tokens)
    until = _require_limits(flow, until, rtol, max_steps, budget)
    perturbed = {}
    if perturb is not None:
        tokens, perturbed = _perturbed(tokens, perturb, rng)
    merge = _merging_distance(tokens, merge)
    show = shown(progress)
    journey = Journey(flow, tokens, merge, rtol, until, shortcuts)
    try:
        with one_blas_thread():
            outcome = journey.travel(max_steps, budget, show)
    finally:
        if isinstance(show, Bar):
            show.close()
    limits = {"until": until, "shortcuts": shortcuts, "max_steps": max_steps}
    return journey.dataset(tokens, outcome).assign_attrs(limits=json.dumps(limits), **perturbed)


def _require_limits(flow: AbstractDynamics, until: Any, rtol: Any, max_steps: Any, budget: Any) -> float:
    """Everything that ends a run or a step; returns `until`."""
    require_count(max_steps, "max_steps")
    require_positive_number(rtol, "rtol", "Use 1e-6.")
    if not FINEST <= rtol <= COARSEST:
        raise InputError(f"`rtol` must lie between {FINEST:g} and {COARSEST:g}, but it is {rtol:g}. Use 1e-6.")
    if budget is not None:
        require_positive_number(budget, "budget", "Use seconds, or None.")
    if not isinstance(until, int | float | np.number) or not until >= EARLIEST:
        raise InputError(
            f"`until` must be the logarithm of a time, at least {EARLIEST:g}, or infinity, but it is {until!r}. "
            "Use np.log(1e9)."
        )
    head: Any = flow.heads[0]
    turning = [
        name
        for name, matrix in (("V", np.asarray(head.value_matrix)), ("Q^T K", np.asarray(head.query_key)))
        if not np.allclose(matrix, matrix.T)
    ]
    if turning and np.isinf(until) and budget is None:
        raise InputError(
            f"`until` or `budget` must be given for this flow: {turning[0]} is not symmetric, so tokens may circle for "
            "ever. Pass the logarithm of the last time, or seconds."
        )
    return float(until)


def _require_served(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    require_flow(flow)
    reasons = {
        "under a mask tokens in one place see different others, and part again": not isinstance(flow.mask, Full),
        "tokens must move on the sphere without lengths of their own": not (
            isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
        ),
        "noise would part tokens that have met": flow.noise is not None,
        "an MLP is not supported": flow.mlp is not None,
        "frozen tokens would have to stay apart from moving ones": flow.frozen is not None,
        "it takes one head, whose scores alone say who is fastest": len(flow.heads) != 1,
        "it takes constant weights, since its steps follow the speed and not the time": not isinstance(
            flow.heads[0], Head
        ),
        "attention must be softmax or unnormalised": not isinstance(flow.attention, Softmax | Unnormalised),
    }
    broken = [reason for reason, is_so in reasons.items() if is_so]
    if broken:
        instead = "stream" if isinstance(flow.mask, Causal) and len(broken) == 1 else "simulate"
        raise InputError(f"`coalesce` does not serve this flow: {broken[0]}. Use `{instead}`.")
    tokens = require_one_configuration(flow, tokens)
    lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
    return np.where(np.abs(lengths - 1) < ON_SPHERE, tokens, tokens / lengths)


def _perturbed(tokens: np.ndarray, size: float, rng: Rng) -> tuple[np.ndarray, dict[str, str]]:
    """Tokens moved at random, and the attribute that tells so."""
    require_positive_number(size, "perturb", "Use 1e-6, or None.")
    if size > FARTHEST:
        raise InputError(f"`perturb` must be at most {FARTHEST:g}, a small push, but it is {size:g}. Use 1e-6.")
    seed = seed_sequence(rng)
    moved = tokens + size * np.random.default_rng(seed).normal(size=tokens.shape)
    # Entropy has 128 bits, more than some readers' integers.
    told = {"amount": float(size), "seed": str(seed.entropy), "spawn_key": list(seed.spawn_key)}
    return moved / np.linalg.norm(moved, axis=1, keepdims=True), {"perturbed": json.dumps(told)}


def _merging_distance(tokens: np.ndarray, merge: float | None) -> float:
    gaps = HeavyTokens.alone(tokens).distinct().gaps[0]
    smallest = float(gaps.min())
    if merge is None:
        merge = min(USUAL_MERGE, smallest / 10)
        if merge < LEAST_MERGE:
            raise InputError(
                f"Two tokens are only {smallest:.2g} apart, too close to follow. Put them in one place or apart."
            )
        return merge
    require_positive_number(merge, "merge", "Use 1e-6.")
    if merge < LEAST_MERGE:
        raise InputError(f"`merge` must be at least {LEAST_MERGE:g}, where floats have digits, but it is {merge:g}.")
    if merge >= smallest:
        raise InputError(f"`merge` must be below the smallest gap at the start, {smallest:.3g}, but it is {merge:g}.")
    return float(merge)
