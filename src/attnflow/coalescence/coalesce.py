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
import warnings
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.progress import Progress, reporting
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
EARLIEST = -100.0  # of `log_end`: nobody has moved by then
ON_SPHERE = 1e-12  # nearer tokens stay as they are, so that a run of recorded ones is the same
FARTHEST = 0.1  # of `perturb`: beyond, it would be another start


def coalesce(
    flow: AbstractDynamics,
    tokens: Any,
    *,
    log_end: float = np.inf,
    merge: float | None = None,
    rtol: float = 1e-6,
    perturb: float | None = None,
    rng: Rng = None,
    shortcuts: bool = True,
    max_steps: int = 1_000_000,
    budget: float | None = None,
    progress: Progress = None,
    until: float | None = None,
) -> xr.Dataset:
    """Integrate tokens on the sphere through all metastable states, to one cluster or to a given logarithm of time.

    Tokens within the distance `merge` of each other become one cluster with the sum of their masses; time is carried as
    its logarithm. The equations, the accelerations and the error estimates are described in `attnflow.coalescence`.

    Parameters
    ----------
    flow
        `SphereAttention` with one constant head, softmax or unnormalised attention and a full mask; masses are kept.
        If V is not a multiple of I, the run ends at the first long plateau: forces of order e^-beta between tokens are
        lost in the rounding of V x.
    tokens
        First tokens (n, d).
    log_end
        Logarithm of the end time. By default the run ends at one cluster or at an equilibrium. Required (or `budget`)
        if V or Q^T K is not symmetric, since periodic orbits are then possible. A run ends at one cluster even before
        `log_end`; if V is not a multiple of I that cluster would still move, by x' = P_x V x.
    merge
        Distance at which tokens merge, at their centre of mass. A third token merges when it is within this distance of
        the centre of the first two. None: 1e-6, or a tenth of the smallest gap if that is less.
    rtol
        Relative tolerance of a step, measured against ``max(nearest gap, 1e4 * merge)``. The k-th merge then has
        ``|error of log t| <= k beta (rtol + merge)``, and ``|error of t| <= 1e4 rtol`` in units of the pair's closing
        time, which is 1 for softmax. Merges closer in time than this may be reported in either order. In 100 random
        runs with 4,964 merges no error was larger (`benchmarks/merge_errors.py`); close pairs of different masses can
        exceed it by a small factor. A start closer than this to an unstable equilibrium, such as antipodal tokens,
        leaves it at a time that depends on `rtol`.
    perturb
        Standard deviation of a random displacement of the first tokens, for starts at an unstable equilibrium. The
        dataset's `initial_tokens` are the displaced ones; its attribute `perturbed` has the amount and the seed.
    rng
        Seed of `perturb`.
    shortcuts
        Use the accelerations: isolated pairs by quadrature, subcycling of fast groups, trapezoidal steps for slow
        tokens. False integrates all tokens with one step size; results agree to the error above.
    max_steps, budget
        Largest number of steps and of seconds; the run then ends with the states and merges so far.
    progress
        A callback with the share of merges done and a sentence; None for a bar on terminals.
    until
        The former name of `log_end`, accepted in this release with a warning.

    Returns
    -------
    A dataset. Over `state`: `log_time`, `tokens`, the number of `clusters`, `energy` in (0, 1], and `level`, the sum of
    squared mass fractions of the clusters; states that hold more than 20 million numbers in all are thinned out.
    Over `merge`: `merge_log_time`; `first` and `second`, the smallest token of each of the two clusters; their masses;
    energy and level before and after; `log_duration` of the plateau before; their `angle` as it began, and
    `predicted_log_duration`, the time an isolated pair at that angle needs; `forecast_log_duration`, the shortest such
    time of all pairs as the plateau began, with `forecast_error`, and `runner_up_log_duration`, the second shortest.
    `quadrature_merges` merges were integrated as isolated pairs, with a position error of at most `quadrature_error`;
    `subcycled_steps` steps subcycled fast tokens.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    >>> long = coalesce(flow, af.initial.on_circle(np.array([0.0, 1.0, 2.5])))
    >>> long.clusters.values[-1], bool(long.log_time[-1] > 25)
    (np.int64(1), True)
    """
    if until is not None:
        warnings.warn(
            "`until` is now called `log_end`; the old name goes in the next release.", FutureWarning, stacklevel=2
        )
        log_end = until
    tokens = _require_served(flow, tokens)
    log_end = _require_limits(flow, log_end, rtol, max_steps, budget)
    perturbed = {}
    if perturb is not None:
        tokens, perturbed = _perturbed(tokens, perturb, rng)
    merge = _merging_distance(tokens, merge)
    journey = Journey(flow, tokens, merge, rtol, log_end, shortcuts)
    with reporting(progress) as report, one_blas_thread():
        outcome = journey.travel(max_steps, budget, report)
    limits = {"log_end": log_end, "shortcuts": shortcuts, "max_steps": max_steps}
    return journey.dataset(tokens, outcome).assign_attrs(limits=json.dumps(limits), **perturbed)


def _require_limits(flow: AbstractDynamics, log_end: Any, rtol: Any, max_steps: Any, budget: Any) -> float:
    """Everything that ends a run or a step; returns `log_end`."""
    require_count(max_steps, "max_steps")
    require_positive_number(rtol, "rtol", "Use 1e-6.")
    if not FINEST <= rtol <= COARSEST:
        raise InputError(f"`rtol` must lie between {FINEST:g} and {COARSEST:g}, but it is {rtol:g}. Use 1e-6.")
    if budget is not None:
        require_positive_number(budget, "budget", "Use seconds, or None.")
    if not isinstance(log_end, int | float | np.number) or not log_end >= EARLIEST:
        raise InputError(
            f"`log_end` must be the logarithm of a time, at least {EARLIEST:g}, or infinity, but it is {log_end!r}. "
            "Use np.log(1e9)."
        )
    head: Any = flow.heads[0]
    turning = [
        name
        for name, matrix in (("V", np.asarray(head.value_matrix)), ("Q^T K", np.asarray(head.query_key)))
        if not np.allclose(matrix, matrix.T)
    ]
    if turning and np.isinf(log_end) and budget is None:
        raise InputError(
            f"`log_end` or `budget` must be given for this flow: {turning[0]} is not symmetric, so that periodic "
            "orbits are possible. Pass the logarithm of the end time, or seconds."
        )
    return float(log_end)


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
