"""Notes on runs with layer normalisation whose attention output vanishes.

Under `Peri` and `NGPT` only A / |A| of the attention output A counts, which changes at once where A passes
zero. If A points back to A = 0 from both sides, as it can for a V of rank one, the token stays at A = 0, its velocity
changes sign at every step, and an adaptive step never meets its tolerance.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.plain import evenly_spaced
from attnflow._common.precision import cast, double
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.flows import SphereAttention
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver

# Times `rtol`, of the largest |A|: tokens that stay at A = 0 have 5 and less, others 1e5 and more.
VANISHING_OUTPUT = 100.0
ATTEMPTS = 200  # steps per run; smooth runs of the same length take tens, runs that stay at A = 0 take thousands
SEARCHED_TIMES = 100  # saved times at which |A| is computed to find when it vanished


def normalisation_notes(flow: AbstractDynamics, solver: AbstractSolver, run: xr.Dataset) -> list[str]:
    """Sentences on vanishing attention outputs; most runs have none."""
    if not isinstance(flow, SphereAttention):
        return []
    if not (flow.normalisation.takes_output_direction and isinstance(solver, Adaptive)):
        return []
    note = _direction_note(flow, solver, run)
    return [note] if note else []


def _named(number: list[int]) -> str:
    return f"Run {number[0] + 1} (index {number[0]}): " if number else ""


def _direction_note(flow: SphereAttention, solver: Adaptive, run: xr.Dataset) -> str:
    """Sentences on the token whose attention output vanishes while the steps are tiny, or an empty text."""
    attempts = (run.steps + run.rejected_steps).values
    number = [int(np.argmax(attempts))] if "run" in run.dims else []  # the run with the most steps shows it best
    one = run.isel(run=number[0]) if number else run
    count, end = int(np.max(attempts)), float(one.final_time)
    token = vanishing_output(flow, solver, one.final_tokens.values, end, count)
    if token is None:
        return ""
    vanished = _vanished(flow, one, token, VANISHING_OUTPUT * float(solver.rtol))
    return _named(number) + vanishing_words(flow, token, vanished, count, end)


def vanishing_output(
    flow: AbstractDynamics, solver: AbstractSolver, tokens: np.ndarray, time: float, attempts: int
) -> int | None:
    """The token whose attention output is zero within the tolerance, if so many steps were attempted; else None."""
    if not isinstance(flow, SphereAttention) or not isinstance(solver, Adaptive) or attempts < ATTEMPTS:
        return None
    if not flow.normalisation.takes_output_direction:
        return None
    shares = _output_shares(flow, tokens, time)
    token = int(np.argmin(shares))
    return token if shares[token] < VANISHING_OUTPUT * float(solver.rtol) else None


def vanishing_words(flow: SphereAttention, token: int, since: float, attempts: int, end: float) -> str:
    """Sentences on a token whose attention output has been zero since a time."""
    return (
        f"By t = {since:.3g} the attention output A of token {token + 1} is zero within the tolerance, "
        f"and steps are tiny: {attempts} were attempted up to t = {end:.3g}. The direction A/|A| of "
        f"{type(flow.normalisation).__name__} jumps where A passes zero, as for a V of rank one. "
        "`Adaptive(min_step=1e-3)` integrates it with an error of about `min_step`."
    )


def _vanished(flow: SphereAttention, run: xr.Dataset, token: int, smallest: float) -> float:
    """The first saved time from which |A| of the token stays below `smallest`, or that of the end."""
    first = float(run.final_time)
    if "tokens" in run:
        times = run.time.values[run.time.values <= first]
        for place in evenly_spaced(len(times), SEARCHED_TIMES)[::-1]:
            if not _output_shares(flow, run.tokens.values[place], times[place])[token] < smallest:
                break
            first = float(times[place])
    return first


def _output_shares(flow: SphereAttention, tokens: np.ndarray, time: float) -> np.ndarray:
    """|A| of every token over the largest of them."""
    with double():
        state = State(jnp.asarray(tokens, "float64"))
        lengths = np.asarray(_output_lengths(cast(flow, "float64"), jnp.asarray(time, "float64"), state))
    return lengths / max(float(lengths.max()), np.finfo(float).tiny)


@eqx.filter_jit
def _output_lengths(flow, time, state):
    return flow.output_lengths(time, state)
