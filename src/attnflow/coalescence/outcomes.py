"""Sentences on how a coalescing run ended; causes of early endings are in `results.outcome`."""

import numpy as np

from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField, ScaledVelocity
from attnflow.results.outcome import early_ending
from attnflow.results.provenance import ResultKind
from attnflow.solvers.status import Status


def time_words(log_time: float) -> str:
    """The words for a time in a sentence."""
    return "the start" if np.isneginf(log_time) else f"log t = {log_time:.6g}"


def of_several_clusters(status: Status, log_time: float, count: int, steps: int) -> str:
    """The sentence of a run that has several clusters at the end time, or at a limit or a failure before it."""
    if status == Status.REACHED:
        return f"Reached {time_words(log_time)} with {count} clusters, after {steps} steps."
    place = f"at {time_words(log_time)} with {count} clusters after {steps} steps"
    return early_ending(ResultKind.COALESCENCE, status, place)


def one_cluster(field: LogField, clusters: Clusters, merge_log_time: float | None, steps: int) -> str:
    """The sentence of a run that ended with one cluster; `merge_log_time` is of the last merge, None without one."""
    further = "" if field.is_value_scalar else " Its further motion x' = P_x V x is not integrated."
    if merge_log_time is not None:
        return f"One cluster since log t = {merge_log_time:.6g}, after {steps} steps.{further}"
    count = sum(map(len, clusters.members))
    if count == 1:
        return f"One token from the start: there is no other to merge with.{further}"
    return f"All {count} tokens coincide from the start; `perturb=1e-6` separates them.{further}"


def at_rest(
    field: LogField, clusters: Clusters, velocity: ScaledVelocity, log_time: float, largest_share: float
) -> str:
    """The sentence of a run that ended at rest, with motion below `largest_share` of the gaps while time doubled."""
    since = "from the start" if np.isneginf(log_time) else f"since {time_words(log_time)}"
    rest = f"At rest with {len(clusters)} clusters {since}: "
    if clusters.positions.shape[1] == 1:
        return rest + "for d = 1 the sphere has only two points."
    # Without V = c I, forces between clusters may be hidden by the rounding of V x.
    is_hidden = not field.is_value_scalar and velocity.term_size > 0
    caveat = (
        " It may be a metastable state: V is not a multiple of I, so that forces of order e^-beta are lost in the "
        "rounding of V x."
        if is_hidden
        else ""
    )
    if not velocity.is_equilibrium:
        moved = f"while time doubled, no cluster moved by more than {largest_share:.2g} of the gap to the nearest."
        return rest + moved + caveat
    if not field.is_plain_attraction:
        return rest + "all forces cancel." + caveat
    return rest + (
        "all forces cancel. Under attraction such an equilibrium is unstable; pass `perturb=1e-6` to leave it."
    )
