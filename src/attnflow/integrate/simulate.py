"""`simulate`: from a model and its first tokens to a labelled dataset."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_positive_number
from attnflow._common.progress import Progress, Watch, reporting
from attnflow._common.seeds import Rng, takes_rng
from attnflow.integrate import ensemble, native_runs
from attnflow.integrate.native_problem import computed_by, reason_not_native
from attnflow.integrate.noise_notes import noise_notes
from attnflow.integrate.normalisation_notes import normalisation_notes
from attnflow.integrate.plan import Plan
from attnflow.integrate.request import DEFAULT_MEMORY, checked_request
from attnflow.integrate.score_resolution import resolution_note
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.fast_sums.choice import with_method
from attnflow.results import outcome, run_dataset
from attnflow.results.run_arrays import RunArrays
from attnflow.results.run_dataset import Request
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.status import Status
from attnflow.solvers.stopping import AbstractStop

log = logging.getLogger(__name__)


@takes_rng
def simulate(
    flow: AbstractDynamics,
    tokens: Any,
    times: Any,
    *,
    solver: AbstractSolver | None = None,
    observables: Mapping[str, Callable] | None = None,
    keep_tokens: bool = True,
    stop: AbstractStop | Sequence[AbstractStop] = (),
    budget: float | None = None,
    rng: Rng = None,
    dtype: str = "float64",
    memory: float = DEFAULT_MEMORY,
    progress: Progress = None,
) -> xr.Dataset:
    """Integrate a flow from the first tokens, and save tokens and observables at the given times.

    The solver chooses its own steps: the number of times changes memory, not accuracy. On the sphere every step ends
    with a projection to it; `drift` in the result is the largest distance from the sphere before a projection. A run
    that fails or stops early keeps what was computed, and the other runs of an ensemble continue.

    Parameters
    ----------
    flow
        The model.
    tokens
        Tokens at ``times[0]``: shape (n, d), or (runs, n, d) for an ensemble. Models
        whose tokens have lengths (`Pre`, `Mix`, `Peri`) take tokens of any length.
    times
        Increasing times to save at; the run starts at the first.
    solver
        `Adaptive()` by default, or `StochasticHeun()` if the flow has noise. The default tolerances are 1e-8 and
        1e-10, in float32 1e-5 and 1e-6. For hardmax, whose field jumps when the largest score changes, the default
        steps are at least 1e-5 long. Under `Peri` and `NGPT`, whose field jumps where the attention output of a token
        passes zero, steps can become tiny; ``attrs["outcome"]`` says so.
    observables
        Functions of (time, tokens), by name, whose values are saved at every time. They are compiled, and therefore
        written with jax.numpy: what only NumPy can compute is computed from the saved tokens afterwards.
    keep_tokens
        False saves only observables and the first and last tokens.
    stop
        One or more of `Clustered`, `Settled`, `Diverged`.
    budget
        Seconds of wall-clock time after which the run ends and what was computed is returned, at most one second
        late. Steps cannot be interrupted; a step is not begun if, at the duration of the last one, it would end later
        than that. Only compilation and the first step, whose duration is not known, can take longer.
    rng
        Seed of the noise: None, an integer, a Generator or a SeedSequence. Run i of an
        ensemble has the i-th seed spawned from it, whatever the number of runs.
    dtype
        "float64" or "float32".
    memory
        Bytes that the computation may use besides the result; ensembles are computed in chunks.
    progress
        None: a bar if standard error is a terminal. True or False: a bar or none.
        A function: called with the completed fraction and a sentence.

    Returns
    -------
    A dataset with `tokens` over ([run,] time, token, coordinate), the observables, `radius` if tokens have lengths,
    the first and last tokens, and for each run its last time, its steps and whether it failed. ``attrs["outcome"]``
    is the outcome in a sentence.

    Raises
    ------
    ValueError
        If an argument is not valid, before anything is computed.

    Examples
    --------
    Two orthogonal tokens on the circle converge to their midpoint.

    >>> import attnflow as af
    >>> import numpy as np
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=1.0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 20.0])
    >>> bool(np.allclose(run.tokens[-1], 0.5**0.5, atol=1e-6))
    True
    """
    request = checked_request(
        flow,
        tokens,
        times,
        solver=solver,
        observables=observables,
        keep_tokens=keep_tokens,
        stop=stop,
        rng=rng,
        dtype=dtype,
        memory=memory,
    )
    if budget is not None:
        require_positive_number(budget, "budget", "It is a number of seconds; None is no limit.")
    with reporting(progress) as report:
        return simulated(request, Watch(report, budget))


def simulated(request: Request, watch: Watch) -> xr.Dataset:
    """The dataset of a checked request."""
    rtol = float(request.solver.rtol) if isinstance(request.solver, Adaptive) else None
    # The request as it is records the flow that was asked for; the method of its sums is part of what computes it.
    summed = dataclasses.replace(request, flow=with_method(request.flow, request.tokens, rtol))
    reason = reason_not_native(summed)
    return _dataset(request, _integrated(summed, watch, reason), reason)


def _integrated(request: Request, watch: Watch, reason: str | None) -> RunArrays:
    """The runs by the native library, or by programs that XLA compiles if there is a reason not to use it."""
    runs, began = len(request.tokens) if request.is_ensemble else 1, time.monotonic()
    n, path = request.tokens.shape[-2], computed_by(reason)
    log.info("simulate: %d runs of %d tokens in %s, computed by %s", runs, n, request.dtype, path)
    results = native_runs.integrate(request, watch) if reason is None else ensemble.integrate(Plan.of(request), watch)
    early = {Status.OUT_OF_TIME: "out of time", Status.INTERRUPTED: "interrupted", Status.OUT_OF_STEPS: "out of steps"}
    counts = {words: int(np.sum(results.status == status)) for status, words in early.items()}
    ended = ", ".join(f"{count} {words}" for words, count in counts.items() if count) or "none"
    seconds = time.monotonic() - began
    log.info("simulate: %d steps in %.2f s; runs ended early: %s", results.accepted.sum(), seconds, ended)
    return results


def _dataset(request: Request, results: RunArrays, reason: str | None) -> xr.Dataset:
    run = run_dataset.labelled(results, request.times, request.tokens)
    sentences = outcome.sentences(results, request.stops)
    notes = (
        resolution_note(request.flow, run),
        *normalisation_notes(request.flow, request.solver, run),
        *noise_notes(request.flow, request.solver, run),
    )
    summary = " ".join(text for text in (outcome.summary(sentences, results.status), *notes) if text)
    return run.assign_attrs(run_dataset.attributes(request, summary, sentences, computed_by(reason)))
