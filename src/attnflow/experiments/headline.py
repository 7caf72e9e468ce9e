"""The headline of a run: the model in words, and the outcome that its tokens show, both computed from the run."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.analyse import order
from attnflow.experiments.gathering import Gathering, cluster_distance, counted, gathering
from attnflow.experiments.model_words import model_words
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.results.members import without_single_axis
from attnflow.results.provenance import solver_of
from attnflow.solvers.layers import Layers
from attnflow.theorems.prediction.limits import ObservedLimit, Quantity
from attnflow.theorems.prediction.observed_limits import FEWEST_TIMES, observed_limit
from attnflow.theorems.prediction.observed_limits import PLACE_DISTANCE as SETTLED_MOVE

MAX_HULL_TOKENS = 500  # tokens in R^d with d > 3 up to which the hull of the limit is computed: a few seconds


@dataclass(frozen=True)
class RunOutcome:
    """What the tokens of one run show at its end."""

    says: str
    """The outcome without its time."""
    gathered: Gathering | None
    """The groups of tokens; None for a run that failed or whose tokens are spread by noise."""
    is_settled: bool
    """Whether no token moved noticeably in the last fifth of the time, as far as that is known."""
    has_failed: bool = False
    mean_length: float | None = None
    """Length of the mean of all tokens, of a run with noise on the sphere."""


def headline(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """The model of a run, or of an ensemble, and the outcome that it shows.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(3))
    >>> headline(flow, af.simulate(flow, af.initial.sphere(20, 3, rng=0), np.linspace(0, 20, 11), progress=False))
    '20 tokens on the sphere, softmax attention, beta = 1, V = I: one cluster at t = 20'
    """
    return ": ".join(headline_parts(flow, run))


def headline_parts(flow: AbstractDynamics, run: xr.Dataset) -> tuple[str, str]:
    """The two parts of a headline: model and outcome."""
    words, solver = model_words(flow, run.sizes["token"]), solver_of(run)
    if isinstance(solver, Layers):
        words += f", layers of step {float(solver.step):g}"
    return words, outcome_words(flow, run)


def coalescing_headline(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """The model of a run of `coalesce`, the number of its merges, and the clusters that are left."""
    return ": ".join(coalescing_parts(flow, run))


def coalescing_parts(flow: AbstractDynamics, run: xr.Dataset) -> tuple[str, str]:
    """The two parts of the headline of a run of `coalesce`: model and outcome."""
    merges, left = run.sizes["merge"], counted(int(run.clusters[-1]), dimension=0)
    words = f"{merges} merge{'' if merges == 1 else 's'}, {left} at log t = {float(run.log_time[-1]):.4g}"
    return model_words(flow, run.sizes["token"]), words


def outcome_words(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """The outcome of a run with its time; of an ensemble, what all its runs show, or the range of their counts."""
    distance, run = cluster_distance(flow, run), without_single_axis(run)
    if "run" not in run.dims:
        return f"{outcome_of(flow, run, distance).says} at {_time(run)}"
    members = [run.isel(run=index) for index in range(run.sizes["run"])]
    outcomes = [outcome_of(flow, member, distance) for member in members]
    said = {outcome.says for outcome in outcomes}
    if len(said) == 1:
        return f"{said.pop()} in each of {len(members)} runs at {_time(run)}"
    return f"{_range_words(outcomes)} in {len(members)} runs at {_time(run)}"


def outcome_of(flow: AbstractDynamics, run: xr.Dataset, distance: float) -> RunOutcome:
    """The outcome of one run; tokens within `distance` are one cluster."""
    final = run.final_tokens.values.astype(float)
    if bool(run.failed) or not np.all(np.isfinite(final)):
        return RunOutcome("failed", None, False, has_failed=True)
    if flow.noise is not None and flow.is_on_sphere:
        length = float(order.mean_length(final))
        return RunOutcome(f"mean of the tokens of length {length:.2f}", None, False, mean_length=length)
    gathered, limit = gathering(flow, final, distance), shown_limit(flow, run)
    says = _words_of_limit(flow, limit, gathered)
    return RunOutcome(says if is_settled(limit) else f"not settled, {says}", gathered, is_settled(limit))


def is_settled(limit: ObservedLimit | None) -> bool:
    """Whether tokens have stopped moving, as far as an observed limit tells."""
    return limit is None or limit.numbers.get(Quantity.LATE_MOVE, 0.0) <= SETTLED_MOVE


def shown_limit(flow: AbstractDynamics, run: xr.Dataset) -> ObservedLimit | None:
    """The limit that one run shows; None where its tokens were kept at too few times or no theory is about it."""
    is_small = flow.is_on_sphere or flow.dimension <= 3 or run.sizes["token"] <= MAX_HULL_TOKENS
    if flow.noise is not None or "tokens" not in run or not is_small:
        return None
    kept = run.isel(time=np.isfinite(run.tokens).all(("token", "coordinate")).values)
    if kept.sizes["time"] < FEWEST_TIMES:
        return None
    try:
        return observed_limit(flow, kept)
    except InputError:  # weights that change in time
        return None


def _words_of_limit(flow: AbstractDynamics, limit: ObservedLimit | None, gathered: Gathering) -> str:
    """The observed limit in words; the number of groups is that of `gathered`."""
    numbers = {} if limit is None else limit.numbers
    x = "x = e^(tV) z" if isinstance(flow, RescaledAttention) else ""  # z itself may rest, or grow
    word = "" if limit is None else limit.limit
    if word in ("at-rest", "point-at-rest"):
        return f"no token moves, {gathered.words}"
    if word == "zero":
        return f"{x + ' of ' if x else ''}size {numbers[Quantity.SIZE_OF_X]:.2g}, falling like {_decay_words(numbers)},"
    if word == "diverging":
        return f"rescaled tokens of size {numbers[Quantity.SIZE_OF_Z]:.2g}, first {numbers[Quantity.FIRST_SIZE]:.2g}"
    if word == "rotation":
        return f"{x + ' rotates' if x else 'tokens rotate'}, {gathered.words}"
    if word == "first-token" and gathered.count == 1:
        return f"{gathered.words}, where the first token started,"
    if word == "polytope" and gathered.dimension == 0 and numbers[Quantity.VERTICES] > 2:
        return f"{gathered.words}, hull with {numbers[Quantity.VERTICES]:.0f} vertices,"
    return gathered.words


def _decay_words(numbers: Mapping[Quantity, float]) -> str:
    if Quantity.RATE in numbers:
        return f"e^(-{numbers[Quantity.RATE]:.2f} t)"
    return f"t^{numbers[Quantity.POWER_OF_TIME]:.2f}"


def _range_words(outcomes: list[RunOutcome]) -> str:
    """The least and the largest number of groups, or length of the mean, and how many failed or are not settled."""
    parts = []
    shown = [outcome.gathered for outcome in outcomes if outcome.gathered is not None]
    for dimension in sorted({one.dimension for one in shown}):
        counts = [one.count for one in shown if one.dimension == dimension]
        words = counted(max(counts), dimension)
        parts.append(words if min(counts) == max(counts) else f"{min(counts)} to {words}")
    lengths = [outcome.mean_length for outcome in outcomes if outcome.mean_length is not None]
    if lengths:
        least, largest = (f"{length:.2f}" for length in (min(lengths), max(lengths)))
        parts.append(f"mean of the tokens of length {least if least == largest else f'{least} to {largest}'}")
    said = [" or ".join(parts)]
    failed = sum(outcome.has_failed for outcome in outcomes)
    moving = sum(outcome.gathered is not None and not outcome.is_settled for outcome in outcomes)
    said += [f"{count} {words}" for count, words in ((failed, "failed"), (moving, "not settled")) if count]
    return ", ".join(said) + ("," if len(said) > 1 else "")


def _time(run: xr.Dataset) -> str:
    """The final time of a run, or the least and the largest of an ensemble."""
    times = np.atleast_1d(run.final_time.values).astype(float)
    least, most = times.min(), times.max()
    return f"t = {least:.4g}" if np.isclose(least, most) else f"t = {least:.4g} to {most:.4g}"
