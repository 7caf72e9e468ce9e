"""Observed limits: which of the words in `limits` a finished run shows, measured on its tokens."""

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.analyse import clusters, polytope
from attnflow.analyse.spectra import SPECTRAL_TOLERANCE, Spectrum, spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.validation import require_flow
from attnflow.results.provenance import solver_of
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.layers import Layers
from attnflow.theorems import hypotheses as given
from attnflow.theorems.prediction.limits import ObservedLimit, Quantity
from attnflow.theorems.prediction.views import both_views, size_of_tokens

PLACE_DISTANCE = 0.02  # over the first spread of the tokens (on the sphere: its radius); closer tokens are in one place
FACE_DISTANCE = 1e-4  # over the first spread; tokens of a settled run are closer than that to their face
LATE_SHARE = 0.8  # of the time; tokens that move less than PLACE_DISTANCE from then on have settled
FEWEST_TIMES = 5  # of a run, so that its last part holds two
REST_MOVE = 1e-12  # over the size of the tokens; projecting tokens onto the sphere rounds them
SHRINKING_POWER = -0.25  # of t; under V = -I tokens shrink like t^(-1/2)


def observed_limit(flow: AbstractDynamics, run: xr.Dataset, solver: AbstractSolver | None = None) -> ObservedLimit:
    """The limit that one run shows. Directions come from the spectrum of V; all else is measured on the tokens.

    In R^d the rescaled tokens z = e^{-tV} x are measured, whether the run holds x or z; after k layers they are
    z = (residual I + step V)^{-k} x. `solver` is that of the run, the recorded one by default; without either, the
    run is taken to be in continuous time.
    """
    return observed_limits(flow, run, solver)[0]


def observed_limits(
    flow: AbstractDynamics, run: xr.Dataset, solver: AbstractSolver | None = None
) -> list[ObservedLimit]:
    """The limit that each run of an ensemble shows."""
    require_flow(flow)
    if not isinstance(run, xr.Dataset) or "tokens" not in run or run.sizes["time"] < FEWEST_TIMES:
        raise InputError(
            f"`run` must be a dataset of `simulate` with the tokens at {FEWEST_TIMES} or more times. "
            "Simulate with `keep_tokens=True` and more times."
        )
    if flow.perceptron is not None:
        raise InputError("`flow` has a perceptron, so the spectrum of V does not say where its tokens go.")
    value = given.value_matrix(flow)
    if not np.all(np.isfinite(value)):
        raise InputError("`flow` has weights that change in time, so no one spectrum says where its tokens go.")
    times, tokens = run.time.values, run.tokens.values
    ensemble = tokens if tokens.ndim == 4 else tokens[None]
    found = spectrum(value)
    if solver is None and "solver" in run.attrs:
        solver = solver_of(run)
    layers = solver if isinstance(solver, Layers) else None

    def classified(one: np.ndarray) -> ObservedLimit:
        if not np.all(np.isfinite(one)):
            return _lost(one)
        return _on_sphere(found, times, one) if flow.is_on_sphere else _in_space(flow, found, times, one, layers)

    return [classified(one) for one in ensemble]


def _lost(tokens: np.ndarray) -> ObservedLimit:
    return ObservedLimit(
        "undecided", {Quantity.SHARE_OF_LOST_TIMES: float(np.mean(~np.isfinite(tokens).all(axis=(1, 2))))}
    )


def _in_space(
    flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray, layers: Layers | None
) -> ObservedLimit:
    seen, rescaled, log_size = both_views(flow, found, times - times[0], tokens, layers)
    move = float(np.ptp(tokens, axis=0).max())
    if move <= REST_MOVE * np.abs(tokens).max():
        return ObservedLimit("at-rest", {Quantity.LARGEST_MOVE: move})
    power = _power_of_time(times - times[0], log_size)
    if power <= SHRINKING_POWER and log_size[-1] < log_size[0] - np.log(2):
        sizes = {Quantity.SIZE_OF_X: float(np.exp(log_size[-1])), Quantity.FIRST_SIZE: float(np.exp(log_size[0]))}
        return ObservedLimit("zero", sizes | _decay(times - times[0], log_size))
    if not np.all(np.isfinite(rescaled)):
        return _lost(rescaled)
    if not found.is_leading_real:
        return _turning_in_space(found, seen)
    return _growing_in_space(flow, found, times, rescaled)


def _growing_in_space(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> ObservedLimit:
    """The limit where a real eigenvalue leads: by the leading part of the tokens, otherwise by all coordinates."""
    if found.leading.value.real > SPECTRAL_TOLERANCE * found.scale and found.leading.block == 1:
        # Along eigenvalues below zero z diverges, so the leading part alone decides.
        return _hyperplanes(found, times, tokens) if found.is_leading_simple else _polytope(flow, found, times, tokens)
    size, late = size_of_tokens(tokens[-1]), _late_move(times, tokens)
    if size > 10 * size_of_tokens(tokens[0]) and late > PLACE_DISTANCE:
        return ObservedLimit("diverging", {Quantity.SIZE_OF_Z: size, Quantity.FIRST_SIZE: size_of_tokens(tokens[0])})
    return _points(tokens, late)


def _hyperplanes(found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> ObservedLimit:
    """Hyperplanes, where phi_1^*(z) has settled at three values or fewer, and fewer than there are tokens."""
    coordinate = tokens @ found.left
    spread = np.ptp(coordinate[0]) or 1.0
    labels = clusters.labels(coordinate[-1][:, None] / spread, PLACE_DISTANCE)
    groups = int(labels.max()) + 1
    widest = max(float(np.ptp(coordinate[-1][labels == label])) for label in range(groups)) / spread
    late = _late_move(times, coordinate[..., None])
    is_shown = groups <= 3 and groups < tokens.shape[1] and widest <= 2 * PLACE_DISTANCE and late <= PLACE_DISTANCE
    return ObservedLimit(
        "hyperplanes" if is_shown else "undecided",
        {Quantity.HYPERPLANES: groups, Quantity.WIDEST_GROUP: widest, Quantity.LATE_MOVE: late},
    )


def _polytope(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> ObservedLimit:
    """A polytope, where the leading part has settled in the set S = {|Au|^2 = max_v <Au, Av>} of its own hull."""
    space, coordinates = _leading_part(found, tokens)
    scores = given.score_matrix(flow)
    scores = space.T @ ((scores + scores.T) / 2) @ space
    late = _late_move(times, coordinates)
    corners = _corners(coordinates[-1], max(np.ptp(coordinates[0], axis=0).max(), 1e-300))
    largest = np.abs(np.einsum("ni,ij,nj->n", corners, scores, corners)).max() or 1.0
    residual = float(polytope.residual_of_s(coordinates[-1], corners, scores).max()) / largest
    whole = space.shape[1] == tokens.shape[-1]
    word = "polytope" if whole else "polytope-times-hyperplane"
    is_shown = late <= PLACE_DISTANCE and residual <= 2 * PLACE_DISTANCE
    numbers = {Quantity.VERTICES: float(len(corners)), Quantity.RESIDUAL_OF_S: residual, Quantity.LATE_MOVE: late}
    return ObservedLimit(word if is_shown else "undecided", numbers)


def _corners(tokens: np.ndarray, spread: float) -> np.ndarray:
    """The vertices of the hull of the places of tokens, without places on a face between others."""
    corners = polytope.limit_vertices(tokens, PLACE_DISTANCE * spread)
    for index in range(len(corners) - 1, -1, -1):
        others = np.delete(corners, index, axis=0)
        if len(others) > 1 and polytope.distance_to_hull(others, corners[index]) <= FACE_DISTANCE * spread:
            corners = others
    return corners


def _leading_part(found: Spectrum, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of L', and the tokens' coordinates in it along the other generalised eigenvectors."""
    space = found.leading_space
    covectors = spectrum(found.matrix.T).leading_space
    return space, tokens @ covectors @ np.linalg.inv(space.T @ covectors)


def _turning_in_space(found: Spectrum, seen: np.ndarray) -> ObservedLimit:
    """Rotation, where the directions of x in L' turn together from one saved time to the next."""
    _, coordinates = _leading_part(found, seen)
    lengths = np.linalg.norm(coordinates, axis=-1, keepdims=True)
    directions = coordinates / np.where(lengths > 0, lengths, 1)
    turn = float(np.linalg.norm(np.diff(directions[-3:], axis=0), axis=-1).mean())
    is_shown = turn > PLACE_DISTANCE and _turn_together(directions[-3:])
    return ObservedLimit("rotation" if is_shown else "undecided", {Quantity.TURN: turn})


def _turn_together(coordinates: np.ndarray) -> bool:
    """Whether most tokens turn in one sense and by similar angles; tokens that gather turn in both senses.

    `coordinates` (times, n, 2) are those in the plane of a complex pair; in more dimensions the sense is not defined.
    """
    if coordinates.shape[-1] != 2:
        return True
    places = coordinates[..., 0] + 1j * coordinates[..., 1]
    angles = np.sum(np.angle(places[1:] * places[:-1].conj()), axis=0)
    low, middle, high = np.quantile(angles, [0.1, 0.5, 0.9])
    return bool(abs(middle) > PLACE_DISTANCE and high - low < abs(middle))


def _on_sphere(found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> ObservedLimit:
    last = tokens[-1]
    move = float(np.ptp(tokens, axis=0).max())
    if move <= REST_MOVE * np.abs(tokens).max():
        is_one = np.linalg.norm(last - last[0], axis=-1).max() <= PLACE_DISTANCE
        return ObservedLimit("point-at-rest" if is_one else "at-rest", {Quantity.LARGEST_MOVE: move})
    late = _late_move(times, tokens, scale=1.0)
    if found.is_leading_simple:
        xi = found.right
        from_poles = float(np.minimum(np.linalg.norm(last - xi, axis=-1), np.linalg.norm(last + xi, axis=-1)).max())
        if from_poles <= PLACE_DISTANCE:
            return ObservedLimit("poles", {Quantity.FROM_POLES: from_poles, Quantity.LATE_MOVE: late})
    if (
        not found.is_leading_real
        and late > PLACE_DISTANCE
        and _turn_together(tokens[_is_late(times)] @ found.leading_space)
    ):
        share = float(np.mean(np.sum((tokens[-1] @ found.leading_space) ** 2, axis=-1)))
        return ObservedLimit("rotation", {Quantity.SHARE_IN_TURNING_SPACE: share, Quantity.LATE_MOVE: late})
    spread = float(np.linalg.norm(last - last[0], axis=-1).max())
    if spread <= PLACE_DISTANCE and late <= PLACE_DISTANCE:
        return _one_point(found, tokens, spread)
    return _points(tokens, late, scale=1.0) if late <= PLACE_DISTANCE else _cloud(found, tokens, late)


def _one_point(found: Spectrum, tokens: np.ndarray, spread: float) -> ObservedLimit:
    space, last = found.largest_block_space, tokens[-1]
    from_start = float(np.linalg.norm(last - tokens[0, 0], axis=-1).max())
    from_space = float(np.linalg.norm(last - last @ space @ space.T, axis=-1).max())
    numbers = {Quantity.SPREAD: spread, Quantity.FROM_FIRST_TOKEN: from_start, Quantity.FROM_LEADING_SPACE: from_space}
    if 2 <= space.shape[1] < tokens.shape[-1] and from_space <= PLACE_DISTANCE:
        return ObservedLimit("point-of-subspace", numbers)
    return ObservedLimit("first-token" if from_start <= PLACE_DISTANCE else "point", numbers)


def _cloud(found: Spectrum, tokens: np.ndarray, late: float) -> ObservedLimit:
    """A cloud, where tokens do not settle and their share in L exceeds that of uniform tokens by a standard error.

    The squared length in an m-dimensional L of a uniform unit vector has mean m/d and variance 2m(d-m) / (d^2 (d+2)).
    """
    space, d = found.largest_block_space, tokens.shape[-1]
    m, half = space.shape[1], tokens[len(tokens) // 2 :, 1:]
    share = float(np.mean(np.sum((half @ space) ** 2, axis=-1))) if half.size else np.nan
    error = np.sqrt(2 * m * (d - m) / (d**2 * (d + 2)) / max(half.shape[1], 1))
    is_cloud = share > m / d + error if m < d else _groups(tokens[-1], PLACE_DISTANCE) > tokens.shape[1] / 2
    word = "cloud-around-subspace" if m > 1 else "clouds-around-poles"
    numbers = {
        Quantity.SHARE_IN_LEADING_SPACE: share,
        Quantity.SHARE_OF_UNIFORM_TOKENS: m / d,
        Quantity.LATE_MOVE: late,
    }
    return ObservedLimit(word if is_cloud and found.leading.value.real < 0 else "undecided", numbers)


def _points(tokens: np.ndarray, late: float, scale: float | None = None) -> ObservedLimit:
    """One or several points, where tokens have settled in at most half as many places as there are tokens."""
    scale = scale or np.ptp(tokens[0], axis=0).max() or 1.0
    count = _groups(tokens[-1] / scale, PLACE_DISTANCE)
    numbers = {Quantity.PLACES: float(count), Quantity.LATE_MOVE: late}
    if late > PLACE_DISTANCE or count > max(tokens.shape[1] / 2, 1):
        return ObservedLimit("undecided", numbers)
    return ObservedLimit("point" if count == 1 else "several-points", numbers)


def _groups(tokens: np.ndarray, distance: float) -> int:
    return int(clusters.labels(tokens, distance).max()) + 1


def _late_move(times: np.ndarray, tokens: np.ndarray, scale: float | None = None) -> float:
    """The largest distance of tokens from their last places in the last fifth of the time, over `scale`."""
    scale = scale or float(np.ptp(tokens[0], axis=0).max()) or 1.0
    return float(np.linalg.norm(tokens[_is_late(times)] - tokens[-1], axis=-1).max()) / scale


def _is_late(times: np.ndarray) -> np.ndarray:
    """The times of the last fifth of a run, the last two at least."""
    late = times >= times[0] + LATE_SHARE * (times[-1] - times[0])
    late[-2:] = True
    return late


def _power_of_time(elapsed: np.ndarray, log_size: np.ndarray) -> float:
    """The power p in size ~ t^p over the second half of the time."""
    middle = int(np.clip(np.searchsorted(elapsed, elapsed[-1] / 2), 1, len(elapsed) - 2))
    return float((log_size[-1] - log_size[middle]) / np.log(elapsed[-1] / elapsed[middle]))


def _decay(elapsed: np.ndarray, log_size: np.ndarray) -> dict[Quantity, float]:
    """The power of t or the rate of e^{-rate t}, whichever fits the sizes of the second half of the time better."""
    late = elapsed >= elapsed[-1] / 2
    fits = {}
    for quantity, variable in ((Quantity.POWER_OF_TIME, np.log(elapsed[late])), (Quantity.RATE, -elapsed[late])):
        slope, rest = np.polyfit(variable, log_size[late], 1) if late.sum() > 2 else (0.0, 0.0)
        fits[quantity] = float(np.sum((log_size[late] - slope * variable - rest) ** 2)), float(slope)
    if late.sum() <= 2 or fits[Quantity.POWER_OF_TIME] <= fits[Quantity.RATE]:
        return {Quantity.POWER_OF_TIME: _power_of_time(elapsed, log_size)}
    return {Quantity.RATE: fits[Quantity.RATE][1]}
