"""`stream` and `append`: causal attention token by token, to times far beyond those of a joint solver.

Under a causal mask token k depends on those before it and on nobody after it, so that it can be followed alone,
along the paths of its predecessors. One token has d unknowns: implicit steps (`collocation`) cost little, and once
a token rests they grow without bound, where a joint explicit solver follows the fastest rate of anyone for ever.
A path, once found, is the same bit for bit whatever comes after it: `append` adds tokens to a finished run and
does no work but theirs.

Tokens that have met are not made one, as `coalesce` does under a full mask. There two tokens in one place have one
velocity and stay together. Here the earlier one does not see the later one, and is the faster of the two when
something pulls both: having fewer companions, it divides the same pull by less. It runs ahead, and while it meets
another cluster, within a few units of time, the later ones lag behind by widths beta^-1/2 of the attraction, whatever
small distance they had met within. So every token keeps its own path.

On the sphere what a token sends to itself along itself is left out before it is rounded, so that a token alone among
distant ones moves at its e^-2beta exactly. Where V is no multiple of I the rest of what it sends to itself is rounded,
and drifts slower than 1e-16 are not resolved. Moments are finer than floats (`moments`): at t = 1e30 two clusters
still meet within a few units of time.
"""

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_positive_number, require_times, require_tokens
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.normalisation import Post
from attnflow.model.validation import require_flow, require_one_configuration
from attnflow.results import run_dataset
from attnflow.solvers.status import Status
from attnflow.streaming import stream_dataset
from attnflow.streaming.exact_time import parts_until
from attnflow.streaming.token_field import LoneToken
from attnflow.streaming.token_paths import Path, Paths
from attnflow.streaming.token_solver import Walk, Walked

FINEST, COARSEST = 1e-13, 1e-3
LEAST_FOR_FIRST = 1.0  # seconds that the first token has in any case: without it there is nothing to return


def stream(
    flow: AbstractDynamics,
    tokens: Any,
    times: Any,
    *,
    tolerance: float = 1e-9,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Follow the tokens of causal attention one after the other, to times as long as floats go.

    Parameters
    ----------
    flow
        `SphereAttention` (without lengths) or `EuclideanAttention` with constant heads, softmax or unnormalised
        attention, and a mask under which nobody sees later tokens. Masses and frozen tokens are kept.
    tokens
        First tokens (n, d).
    times
        Increasing times to save at, the first being the start; `numpy.geomspace` suits long ones.
    tolerance
        What a piece of a path leaves unresolved: the size of its last Legendre coefficients, absolute on the sphere,
        relative to the token in R^d. Errors of paths are of this size times how much the flow magnifies them.
    budget
        Seconds after which tokens that have not come to the end are left out; the first one has one second in any
        case. What exists is returned, and `append` goes on from there.
    progress
        A callback with the share of tokens done and a sentence; None for a bar on terminals.

    Returns
    -------
    A dataset like that of `simulate`, with the paths themselves besides: `pieces` of every token, and when each begins
    (`piece_start`, a sum of floats), its `piece_length` and its Legendre coefficients `piece_series`.

    Examples
    --------
    Two tokens a right angle apart at beta = 32 meet after about e^32 / 32.

    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=32.0), af.masks.causal)
    >>> run = stream(flow, np.eye(2), [0.0, 2e12, 4e12])
    >>> np.round(run.tokens[1:, 1, 0].values, 3)
    array([0.052, 1.   ])
    """
    tokens, times = require_served(flow, tokens), require_times(times)
    options = _options(tolerance, budget, progress)
    paths = Paths.none(flow.dimension, parts_until(float(np.abs(times).max())))
    return _continued(flow, tokens, times, paths, 0, options)


def append(run: xr.Dataset, tokens: Any, *, budget: float | None = None, progress: Progress = None) -> xr.Dataset:
    """A finished run of `stream` with more tokens after its own, whose paths stay as they are.

    Parameters
    ----------
    run
        A dataset made by `stream`, or one read by `load`.
    tokens
        The tokens to come, (m, d); they have mass one and move.
    budget, progress
        As for `stream`.

    Returns
    -------
    What `stream` would have given for all tokens at once, bit for bit.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=9.0), af.masks.causal)
    >>> tokens = af.initial.circle(4, rng=0)
    >>> longer = append(stream(flow, tokens[:3], [0.0, 1e6]), tokens[3:])
    >>> bool((longer.tokens == stream(flow, tokens, [0.0, 1e6]).tokens).all())
    True
    """
    paths = stream_dataset.paths_of(run)
    flow: AbstractDynamics = run_dataset.flow_of(run)
    if isinstance(flow.attention, Unnormalised):
        raise InputError(
            "`append` does not serve unnormalised attention: it divides by the number of all tokens, so that more of "
            "them slow down those that are there. Use `stream` with all tokens."
        )
    recorded = stream_dataset.arguments(run)
    everyone = np.concatenate([recorded["tokens"], _require_more(run, tokens)])
    flow = stream_dataset.extended(flow, len(everyone))
    options = _options(recorded["tolerance"], budget, progress)
    everyone = require_served(flow, everyone)
    return _continued(flow, everyone, recorded["times"], paths, int(run.rejected_steps), options)


@dataclasses.dataclass(frozen=True)
class _Options:
    tolerance: float
    budget: float | None
    progress: Progress

    def seconds(self, is_first: bool) -> float:
        """Until tokens must have come to the end."""
        budget = np.inf if self.budget is None else self.budget
        return max(budget, LEAST_FOR_FIRST) if is_first else budget


def _options(tolerance: float, budget: float | None, progress: Progress) -> _Options:
    require_positive_number(tolerance, "tolerance", "Use 1e-9.")
    if not FINEST <= tolerance <= COARSEST:
        raise InputError(
            f"`tolerance` must lie between {FINEST:g} and {COARSEST:g}, but it is {tolerance:g}. Use 1e-9."
        )
    if budget is not None:
        require_positive_number(budget, "budget", "It is a number of seconds; None is no limit.")
    return _Options(float(tolerance), budget, progress)


def _continued(
    flow: AbstractDynamics, tokens: np.ndarray, times: np.ndarray, paths: Paths, rejected: int, options: _Options
) -> xr.Dataset:
    """The run with the tokens that have no path yet followed too."""
    began, n, status = time.monotonic(), len(tokens), Status.REACHED
    try:
        with reporting(options.progress) as report:
            for index in range(len(paths), n):
                walked = _walked(flow, tokens, index, times, paths, options, began)
                rejected, status = rejected + walked.rejected, walked.status
                if status != Status.REACHED:
                    break
                paths = paths.followed_by(walked.path)
                report((index + 1) / n, f"token {index + 1} of {n}")
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return stream_dataset.dataset(
        flow, tokens, times, paths, stream_dataset.Ending(status, rejected, options.tolerance)
    )


def _walked(
    flow: AbstractDynamics,
    tokens: np.ndarray,
    index: int,
    times: np.ndarray,
    paths: Paths,
    options: _Options,
    began: float,
) -> Walked:
    """What became of one token."""
    span, is_on_sphere = (float(times[0]), float(times[-1])), flow.is_on_sphere
    place = tokens[index] / np.linalg.norm(tokens[index]) if is_on_sphere else tokens[index]
    is_frozen = flow.frozen is not None and bool(np.asarray(flow.frozen)[index])
    if is_frozen or (is_on_sphere and flow.dimension == 1):  # the sphere of R^1 is two points
        return Walked(Path.resting(place, span, paths.starts.shape[1]), 0, Status.REACHED)
    walk = Walk(LoneToken.of(flow, index, len(tokens)), place, paths, span, options.tolerance)
    return walk.to_the_end(began + options.seconds(is_first=len(paths) == 0))


def _require_more(run: xr.Dataset, tokens: Any) -> np.ndarray:
    tokens, d = require_tokens(tokens), run.sizes["coordinate"]
    if tokens.ndim != 2 or tokens.shape[1] != d:
        raise InputError(f"`tokens` must have shape (m, {d}), as those of `run`, but the shape is {tokens.shape}.")
    return tokens


def require_served(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    """The tokens of a flow that `stream` can follow; everything else is refused with the reason."""
    require_flow(flow)
    is_on_sphere = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
    reasons = {
        "tokens must move on the sphere without lengths of their own, or in R^d": not (
            is_on_sphere or isinstance(flow, EuclideanAttention)
        ),
        "noise has no path that is smooth between steps": flow.noise is not None,
        "an MLP is not supported": flow.mlp is not None,
        "weights must not change in time": any(not isinstance(head, Head) for head in flow.heads),
        "attention must be softmax or unnormalised": not isinstance(flow.attention, Softmax | Unnormalised),
    }
    broken = [reason for reason, is_so in reasons.items() if is_so]
    if broken:
        raise InputError(f"`stream` does not serve this flow: {broken[0]}. Use `simulate`.")
    tokens = require_one_configuration(flow, tokens)
    _require_order(flow, len(tokens))
    return tokens


def _require_order(flow: AbstractDynamics, n: int) -> None:
    """Nobody sees a later token."""
    everyone = np.arange(n)
    with double():
        visible = flow.mask.visible(everyone[:, None], everyone[None, :])
    ahead = np.argwhere(np.triu(np.ones((n, n), bool) if visible is None else np.asarray(visible), 1))
    if len(ahead):
        raise InputError(
            f"`stream` takes tokens one after the other, but under this mask token {ahead[0, 0]} sees "
            f"token {ahead[0, 1]}, which comes later. Use `masks.causal`, or `simulate`."
        )
