"""`coalesce`: the public function. The method is described in the docstring of the package."""

import dataclasses
import json
import logging
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress, reporting
from attnflow._common.renamed import renamed_argument
from attnflow._common.seeds import Rng, takes_rng
from attnflow._common.threads import one_blas_thread
from attnflow.coalescence.hand_over import HandOver
from attnflow.coalescence.integrator import Integrator
from attnflow.coalescence.request import CoalescingRequest, Perturbation
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import flow_of

log = logging.getLogger(__name__)


@takes_rng
@renamed_argument("until", "log_end")
def coalesce(
    flow: AbstractDynamics | xr.Dataset,
    tokens: Any = None,
    *,
    gather: float | None = None,
    log_end: float = np.inf,
    merge: float | None = None,
    rtol: float = 1e-6,
    perturb: float | None = None,
    rng: Rng = None,
    shortcuts: bool = True,
    max_steps: int = 1_000_000,
    budget: float | None = None,
    progress: Progress = None,
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
        First tokens (n, d). Without them `flow` is a run of `simulate`: the clusters of its last tokens are the first
        tokens, with their masses, at its last time; forces that are lost in the tolerance of `simulate` act from there.
        `leaf` in the result is then the cluster of every token of that run, `leaf_radius` the largest distance of a
        token from the centre of its cluster, and `leaf_change` bounds the change of attention outputs by it over |V|.
    gather
        Largest gap between neighbouring tokens of a cluster of such a run. None: 1e-3. Clusters that are too wide for
        their centres to stand for them, within a hundredth of any velocity, are divided; tokens between two clusters
        are then leaves of their own. More than 4,000 leaves are refused.
    log_end
        Logarithm of the end time. By default the run ends at one cluster or at an equilibrium. Required (or `budget`)
        if V or Q^T K is not symmetric, since periodic orbits are then possible. A run ends at one cluster even before
        `log_end`; if V is not a multiple of I that cluster would still move, by x' = P_x V x.
    merge
        Distance at which tokens merge, at their centre of mass. A third token merges when it is within this distance of
        the centre of the first two. None: 1e-6, or a tenth of the smallest gap if that is less.
    rtol
        Relative tolerance of a step, measured against ``max(nearest gap, min(1e4 * merge, 0.01))``. The k-th merge then
        has ``|error of log t| <= k beta (rtol + merge)``, and ``|error of t| <= 1e4 rtol`` in units of the pair's
        closing time, which is 1 for softmax. Merges closer in time than this may be reported in either order. In 100
        random runs with 4,964 merges no error was larger (`benchmarks/merge_errors.py`); close pairs of different
        masses can exceed it by a small factor. A start closer than this to an unstable equilibrium, such as antipodal
        tokens, leaves it at a time that depends on `rtol`.
    perturb
        Standard deviation of a random displacement of the first tokens, for starts at an unstable equilibrium. The
        dataset's `initial_tokens` are the displaced ones; its attribute `perturbed` has the amount and the seed.
    rng
        Seed of `perturb`.
    shortcuts
        Use the accelerations: isolated pairs by quadrature, subcycling of fast groups, trapezoidal steps for slow
        tokens. False integrates all tokens with one step size; results agree to the error above. It is faster
        for 2,000 tokens on the circle at beta = 100.
    max_steps, budget
        Largest number of steps and of seconds; the run then ends with the states and merges so far.
    progress
        A callback with the share of merges done and a sentence; None for a bar on terminals.

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
    start = None
    if tokens is None:
        start = HandOver.of(flow, gather)
        flow, tokens = start.flow, start.positions
    elif isinstance(flow, xr.Dataset):
        raise InputError("`coalesce` takes a flow and tokens, or a run alone, but a run and tokens are given.")
    elif gather is not None:
        raise InputError("`gather` finds the clusters of a run of `simulate`, but tokens are given. Leave it out.")
    request = CoalescingRequest.of(
        flow,
        tokens,
        log_start=-np.inf if start is None else start.log_time,
        log_end=log_end,
        merge=merge,
        rtol=rtol,
        perturb=perturb,
        rng=rng,
        shortcuts=shortcuts,
        max_steps=max_steps,
        budget=budget,
    )
    long = integrated(request, budget, progress)
    if start is None:
        return long
    return long.assign(leaf=("first_token", start.leaves), leaf_radius=start.radius, leaf_change=start.change)


def integrated(request: CoalescingRequest, budget: float | None = None, progress: Progress = None) -> xr.Dataset:
    """The dataset of a checked request."""
    integrator = Integrator(request)
    log.info("coalesce: %d tokens, %s", len(request.tokens), integrator.accelerations)
    with reporting(progress) as report, one_blas_thread():
        run = integrator.run(budget, report)
    log.info("coalesce: %s", run.attrs["outcome"])
    return run


def repeated(run: xr.Dataset, changes: dict[str, Any]) -> xr.Dataset:
    """The run recorded in a dataset of `coalesce`, integrated again; `changes` replace its arguments.

    The recorded tokens are the displaced ones: a recorded perturbation is carried over, not applied again.
    """
    recorded = {"merge": run.attrs["merge"], "rtol": run.attrs["rtol"], "tokens": run.initial_tokens.values}
    limits = json.loads(run.attrs["limits"])
    if not {"log_end", "shortcuts", "max_steps"} <= limits.keys():
        raise InputError("The recorded `limits` of a coalescing run must be log_end, shortcuts and max_steps.")
    recorded |= limits | ({} if "flow" in changes else {"flow": flow_of(run)})
    arguments = recorded | changes
    budget, progress = arguments.pop("budget", None), arguments.pop("progress", None)
    request = CoalescingRequest.of(**arguments, budget=budget)
    if "perturbed" in run.attrs and not {"tokens", "perturb"} & changes.keys():
        perturbation = Perturbation(**json.loads(run.attrs["perturbed"]))
        request = dataclasses.replace(request, perturbation=perturbation)
    return integrated(request, budget, progress)
