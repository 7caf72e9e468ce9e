"""`stream` and `append`: causal attention token by token. The method is described in `attnflow.streaming`."""

import dataclasses
import logging
import time
from fractions import Fraction
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
from attnflow.results import provenance
from attnflow.solvers.status import Status
from attnflow.streaming import stream_dataset
from attnflow.streaming.exact_time import component_count
from attnflow.streaming.token_field import TokenField
from attnflow.streaming.token_paths import TokenPath, TokenPaths
from attnflow.streaming.token_solver import TokenSolution, TokenSolver

log = logging.getLogger(__name__)
# Smaller coefficients are lost in the rounding of coordinates of order one; beyond 1e-3 the last coefficients of a
# piece do not estimate its error.
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = 1e-13, 1e-3
MIN_SECONDS_FOR_FIRST_TOKEN = 1.0  # whatever the budget: without the first token there is nothing to return


def stream(
    flow: AbstractDynamics,
    tokens: Any,
    times: Any,
    *,
    tolerance: float = 1e-9,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Solve causal attention one token after the other, to times up to the largest float.

    Parameters
    ----------
    flow
        `SphereAttention` (without lengths) or `EuclideanAttention` with constant heads, softmax or unnormalised
        attention, and a mask that hides later tokens. Masses and frozen tokens are allowed.
    tokens
        Initial tokens (n, d).
    times
        Increasing times to save at, the first being the start; `numpy.geomspace` suits long ones.
    tolerance
        Largest size of the last Legendre coefficients of a piece of a path, absolute on the sphere, relative to
        max(1, |x|) in R^d. Errors of paths are of this size times the growth of perturbations under the flow.
    budget
        Seconds after which tokens that have not reached the last time are left out; the first one has one second in
        any case. The tokens before are returned, and `append` adds the missing ones.
    progress
        A callback with the fraction of tokens done and a sentence; None for a bar on terminals.

    Returns
    -------
    A dataset like that of `simulate`, with the paths as piecewise polynomials: the number of `pieces` of every token,
    and of each piece `piece_start` (a sum of floats), `piece_length`, the Legendre coefficients `piece_series` and the
    parameter `piece_log_compression` of the time change within it.

    Examples
    --------
    Two tokens at a right angle merge at beta = 32 after about e^32 / 32.

    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=32.0), af.masks.causal)
    >>> run = stream(flow, np.eye(2), [0.0, 2e12, 4e12])
    >>> np.round(run.tokens[1:, 1, 0].values, 3)
    array([0.052, 1.   ])
    """
    tokens, times = require_supported(flow, tokens), require_times(times)
    problem = _Problem(flow, tokens, times, require_tolerance(tolerance))
    paths = TokenPaths.none(flow.dimension, component_count(float(np.abs(times).max())))
    return _completed(problem, paths, 0, budget, progress)


def append(run: xr.Dataset, tokens: Any, *, budget: float | None = None, progress: Progress = None) -> xr.Dataset:
    """Add tokens after those of a finished run of `stream`, whose paths stay as they are.

    Parameters
    ----------
    run
        A dataset made by `stream`, or one read by `load`.
    tokens
        The tokens to add, (m, d); they have mass one and are not frozen.
    budget, progress
        As for `stream`.

    Returns
    -------
    The dataset that `stream` gives for all tokens at once, bit for bit.

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
    flow: AbstractDynamics = provenance.flow_of(run)
    if isinstance(flow.attention, Unnormalised):
        raise InputError(
            "`append` does not support unnormalised attention: it divides by the number of all tokens, so that added "
            "tokens would slow down those of `run`. Use `stream` with all tokens."
        )
    recorded = stream_dataset.arguments(run)
    tokens = np.concatenate([recorded["tokens"], _require_more(run, tokens)])
    flow = stream_dataset.extended(flow, len(tokens))
    problem = _Problem(flow, require_supported(flow, tokens), recorded["times"], recorded["tolerance"])
    return _completed(problem, paths, int(run.rejected_steps), budget, progress)


@dataclasses.dataclass(frozen=True)
class _Problem:
    """A flow, its initial tokens, the times to save at, and the tolerance of a piece."""

    flow: AbstractDynamics
    tokens: np.ndarray
    times: np.ndarray
    tolerance: float

    def solve_token(self, index: int, paths: TokenPaths, deadline: float) -> TokenSolution:
        """The solution for one token, given the paths of all before it."""
        flow, token, span = self.flow, self.tokens[index], (float(self.times[0]), float(self.times[-1]))
        point = token / np.linalg.norm(token) if flow.is_on_sphere else token
        is_frozen = flow.frozen is not None and bool(np.asarray(flow.frozen)[index])
        if is_frozen or (flow.is_on_sphere and flow.dimension == 1):  # the sphere of R^1 is two points
            return TokenSolution(TokenPath.constant(point, span, paths.components), 0, Status.REACHED)
        field = TokenField.of(flow, index, len(self.tokens))
        solver = TokenSolver(field, paths, Fraction(span[0]), Fraction(span[1]), self.tolerance)
        return solver.solve(point, deadline)


def _completed(
    problem: _Problem, paths: TokenPaths, rejected: int, budget: float | None, progress: Progress
) -> xr.Dataset:
    """The dataset of all tokens, of which the first have paths already; of fewer where the budget is spent."""
    if budget is not None:
        require_positive_number(budget, "budget", "It is a number of seconds; None is no limit.")
    started, n, status = time.monotonic(), len(problem.tokens), Status.REACHED
    seconds = np.inf if budget is None else budget
    try:
        with reporting(progress) as report:
            for index in range(len(paths), n):
                allowed = max(seconds, MIN_SECONDS_FOR_FIRST_TOKEN) if index == 0 else seconds
                solution = problem.solve_token(index, paths, started + allowed)
                rejected, status = rejected + solution.rejected, solution.status
                if status != Status.REACHED:
                    break
                paths = paths.with_path(solution.path)
                report((index + 1) / n, f"token {index + 1} of {n}")
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    log.info("stream: %d of %d tokens in %.2f s, %s", len(paths), n, time.monotonic() - started, status.name)
    ending = stream_dataset.StreamEnding(status, rejected, problem.tolerance)
    return stream_dataset.dataset(problem.flow, problem.tokens, problem.times, paths, ending)


def require_tolerance(tolerance: float) -> float:
    """The tolerance of a piece, if it can be met."""
    require_positive_number(tolerance, "tolerance", "Use 1e-9.")
    if not SMALLEST_TOLERANCE <= tolerance <= LARGEST_TOLERANCE:
        raise InputError(
            f"`tolerance` must lie between {SMALLEST_TOLERANCE:g} and {LARGEST_TOLERANCE:g}, but it is {tolerance:g}. "
            "Use 1e-9."
        )
    return float(tolerance)


def _require_more(run: xr.Dataset, tokens: Any) -> np.ndarray:
    tokens, d = require_tokens(tokens), run.sizes["coordinate"]
    if tokens.ndim != 2 or tokens.shape[1] != d:
        raise InputError(f"`tokens` must have shape (m, {d}), as those of `run`, but the shape is {tokens.shape}.")
    return tokens


def require_supported(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    """The tokens of a flow that `stream` can solve; other flows are refused with the reason."""
    require_flow(flow)
    has_no_lengths = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
    reasons = {
        "tokens must move on the sphere without lengths of their own, or in R^d": not (
            has_no_lengths or isinstance(flow, EuclideanAttention)
        ),
        "noise has no smooth paths": flow.noise is not None,
        "an MLP is not supported": flow.mlp is not None,
        "a perceptron is not supported": flow.perceptron is not None,
        "weights must not change in time": any(not isinstance(head, Head) for head in flow.heads),
        "attention must be softmax or unnormalised": not isinstance(flow.attention, Softmax | Unnormalised),
    }
    broken = [reason for reason, applies in reasons.items() if applies]
    if broken:
        raise InputError(f"`stream` does not support this flow: {broken[0]}. Use `simulate`.")
    tokens = require_one_configuration(flow, tokens)
    _require_causal(flow, len(tokens))
    return tokens


def _require_causal(flow: AbstractDynamics, n: int) -> None:
    """Raise unless the mask hides all later tokens."""
    tokens = np.arange(n)
    with double():
        visible = flow.mask.visible(tokens[:, None], tokens[None, :])
    later = np.argwhere(np.triu(np.ones((n, n), bool) if visible is None else np.asarray(visible), 1))
    if len(later):
        raise InputError(
            f"`stream` solves for tokens in their order, but under this mask token {later[0, 0] + 1} sees "
            f"token {later[0, 1] + 1}, which comes later. Use `masks.causal`, or `simulate`."
        )
