"""Limits: the words for where tokens go, and which of them a finished run shows."""

import dataclasses

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow._common.checks import InputError
from attnflow.analyse import clusters, polytope
from attnflow.analyse.spectra import SPECTRAL_TOLERANCE, Spectrum, spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention
from attnflow.model.validation import require_flow
from attnflow.theorems import hypotheses as given

WORDS = {
    "at-rest": "no token moves",
    "polytope": "points of a polytope",
    "polytope-times-hyperplane": "polytope times a free subspace",
    "hyperplanes": "at most three parallel hyperplanes",
    "boolean": "attention of zeros and ones",
    "leaders": "the leaders",
    "zero": "all to zero",
    "diverging": "rescaled tokens diverge",
    "first-token": "all at the first token's start",
    "point": "one point",
    "point-of-subspace": "one point of L",
    "poles": "+xi and -xi",
    "cloud-around-subspace": "a cloud around L",
    "clouds-around-poles": "two clouds around +xi and -xi",
    "rotation": "rotation",
    "several-points": "several points",
    "undecided": "undecided at this time",
    "unknown": "nothing known",
}

# A run shows more than it was promised: a cloud may be as small as a point, and a point may be a special one.
FULFILLED_BY = {
    "point": ("first-token", "point-of-subspace", "poles"),
    "point-of-subspace": ("first-token",),
    "clouds-around-poles": ("poles",),
    "leaders": ("polytope", "several-points", "hyperplanes"),
    "boolean": ("polytope", "hyperplanes"),
}

CLOSE = 0.02  # tokens this near, relative to their first spread (on the sphere: to its radius), are in one place
LATE = 0.8  # what moves less than CLOSE from this share of the time on has settled
FEWEST_TIMES = 5
AT_REST = 1e-12  # relative; bringing tokens back to the sphere rounds them
HALVING = -0.25  # power of t; tokens under V = -I shrink like t^(-1/2), and half of that is no accident


@dataclasses.dataclass(frozen=True)
class Shown:
    """Which limit a run shows, and the numbers that say so."""

    limit: str
    """One word of `WORDS`; "undecided" where the run has not got far enough."""
    numbers: dict[str, float]

    @property
    def says(self) -> str:
        """The limit and its numbers in a sentence."""
        return f"{WORDS[self.limit]} ({', '.join(f'{name} {value:.3g}' for name, value in self.numbers.items())})"


def fulfils(promised: str, shown: str) -> bool:
    """Whether a run that shows one limit does what another word promised.

    Examples
    --------
    >>> fulfils("point", "first-token"), fulfils("first-token", "point")
    (True, False)
    """
    return shown == promised or shown in FULFILLED_BY.get(promised, ())


def limit_shown(flow: AbstractDynamics, run: xr.Dataset) -> Shown:
    """The limit one run shows. Directions come from V's spectrum; everything else is measured on the tokens.

    In R^d the rescaled tokens z = e^{-tV} x are looked at, whether the run holds x or z.
    """
    return limits_shown(flow, run)[0]


def limits_shown(flow: AbstractDynamics, run: xr.Dataset) -> list[Shown]:
    """The limit each run of an ensemble shows."""
    require_flow(flow)
    if not isinstance(run, xr.Dataset) or "tokens" not in run or run.sizes["time"] < FEWEST_TIMES:
        raise InputError(
            f"`run` must be a dataset of `simulate` with the tokens at {FEWEST_TIMES} or more times. "
            "Simulate with `keep_tokens=True` and more times."
        )
    value = given.value_matrix(flow)
    if not np.all(np.isfinite(value)):
        raise InputError("`flow` has weights that change in time, so no one spectrum says where its tokens go.")
    times, tokens = run.time.values, run.tokens.values
    ensemble = tokens if tokens.ndim == 4 else tokens[None]
    found = spectrum(value)
    look = _on_sphere if flow.is_on_sphere else _in_space
    return [look(flow, found, times, one) if np.all(np.isfinite(one)) else _lost(one) for one in ensemble]


def _lost(tokens: np.ndarray) -> Shown:
    return Shown("undecided", {"share of times without tokens": float(np.mean(~np.isfinite(tokens).all(axis=(1, 2))))})


def _in_space(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> Shown:
    seen, rescaled, log_size = _both_views(flow, found, times - times[0], tokens)
    move = float(np.ptp(tokens, axis=0).max())
    if move <= AT_REST * np.abs(tokens).max():
        return Shown("at-rest", {"largest move": move})
    power = _power_of_time(times - times[0], log_size)
    if power <= HALVING and log_size[-1] < log_size[0] - np.log(2):
        sizes = {"size of x": float(np.exp(log_size[-1])), "at the start": float(np.exp(log_size[0]))}
        return Shown("zero", sizes | {"power of t": power})
    if not np.all(np.isfinite(rescaled)):
        return _lost(rescaled)
    if not found.is_leading_real:
        return _turning_in_space(found, seen)
    return _growing_in_space(flow, found, times, rescaled)


def _both_views(flow: AbstractDynamics, found: Spectrum, elapsed: np.ndarray, tokens: np.ndarray):
    """x up to a factor of time, z = e^{-tV} x, and the logarithm of x's size."""
    lead, d = found.leading.value.real, tokens.shape[-1]
    if isinstance(flow, EuclideanAttention):
        with np.errstate(over="ignore", invalid="ignore"):  # z may be too large for numbers; then it is not looked at
            rescaled = tokens @ _exponentials(-found.matrix, elapsed).transpose(0, 2, 1)
        return tokens, rescaled, np.log([max(_size(one), 1e-300) for one in tokens])
    seen = tokens @ _exponentials(found.matrix - lead * np.eye(d), elapsed).transpose(0, 2, 1)
    return seen, tokens, np.log([max(_size(one), 1e-300) for one in seen]) + lead * elapsed


def _exponentials(matrix: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """e^{tM} at times that start from zero, as products over the steps; equal steps share one exponential."""
    steps = np.round(np.diff(elapsed), 12)
    of_step = {step: expm(step * matrix) for step in np.unique(steps)}
    found = [np.eye(len(matrix))]
    for step in steps:
        found.append(of_step[step] @ found[-1])
    return np.stack(found)


def _growing_in_space(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> Shown:
    """A real eigenvalue leads: what its part of the tokens does, then what all of them do."""
    if found.leading.value.real > SPECTRAL_TOLERANCE * found.scale and found.leading.block == 1:
        # Along eigenvalues below zero z diverges whatever the leading part does: that one alone decides.
        return _hyperplanes(found, times, tokens) if found.is_leading_simple else _polytope(flow, found, times, tokens)
    size, late = _size(tokens[-1]), _late_move(times, tokens)
    if size > 10 * _size(tokens[0]) and late > CLOSE:
        return Shown("diverging", {"size of z": size, "at the start": _size(tokens[0])})
    return _points(tokens, late)


def _hyperplanes(found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> Shown:
    """phi_1^*(z) has settled in at most three places, fewer than there are tokens."""
    coordinate = tokens @ found.left
    spread = np.ptp(coordinate[0]) or 1.0
    labels = clusters.labels(coordinate[-1][:, None] / spread, CLOSE)
    groups = int(labels.max()) + 1
    widest = max(float(np.ptp(coordinate[-1][labels == label])) for label in range(groups)) / spread
    late = _late_move(times, coordinate[..., None])
    is_shown = groups <= 3 and groups < tokens.shape[1] and widest <= 2 * CLOSE and late <= CLOSE
    return Shown(
        "hyperplanes" if is_shown else "undecided", {"hyperplanes": groups, "widest": widest, "late move": late}
    )


def _polytope(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> Shown:
    """The leading part has settled in S = {|Au|^2 = max_v <Au, Av>} of its own hull."""
    space, coordinates = _leading_part(found, tokens)
    scores = given.score_matrix(flow)
    scores = space.T @ ((scores + scores.T) / 2) @ space
    late = _late_move(times, coordinates)
    corners = polytope.limit_vertices(coordinates[-1], CLOSE * max(np.ptp(coordinates[0], axis=0).max(), 1e-300))
    largest = np.abs(np.einsum("ni,ij,nj->n", corners, scores, corners)).max() or 1.0
    residual = float(polytope.residual_of_s(coordinates[-1], corners, scores).max()) / largest
    whole = space.shape[1] == tokens.shape[-1]
    word = "polytope" if whole else "polytope-times-hyperplane"
    is_shown = late <= CLOSE and residual <= 2 * CLOSE
    numbers = {"vertices": float(len(corners)), "residual of S": residual, "late move": late}
    return Shown(word if is_shown else "undecided", numbers)


def _leading_part(found: Spectrum, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of L', and the tokens' coordinates in it along the other generalised eigenvectors."""
    space = found.leading_space
    covectors = spectrum(found.matrix.T).leading_space
    return space, tokens @ covectors @ np.linalg.inv(space.T @ covectors)


def _turning_in_space(found: Spectrum, seen: np.ndarray) -> Shown:
    """Directions of x in L' turn on from one saved time to the next."""
    _, coordinates = _leading_part(found, seen)
    lengths = np.linalg.norm(coordinates, axis=-1, keepdims=True)
    directions = coordinates / np.where(lengths > 0, lengths, 1)
    turn = float(np.linalg.norm(np.diff(directions[-3:], axis=0), axis=-1).mean())
    return Shown("rotation" if turn > CLOSE else "undecided", {"turn from time to time": turn})


def _on_sphere(flow: AbstractDynamics, found: Spectrum, times: np.ndarray, tokens: np.ndarray) -> Shown:
    del flow
    last = tokens[-1]
    move = float(np.ptp(tokens, axis=0).max())
    if move <= AT_REST * np.abs(tokens).max():
        return Shown("at-rest", {"largest move": move})
    late = _late_move(times, tokens, scale=1.0)
    if found.is_leading_simple:
        xi = found.right
        away = float(np.minimum(np.linalg.norm(last - xi, axis=-1), np.linalg.norm(last + xi, axis=-1)).max())
        if away <= CLOSE:
            return Shown("poles", {"farthest from +-xi": away, "late move": late})
    if not found.is_leading_real and late > CLOSE:
        share = float(np.mean(np.sum((tokens[-1] @ found.leading_space) ** 2, axis=-1)))
        return Shown("rotation", {"share in L'": share, "late move": late})
    spread = float(np.linalg.norm(last - last[0], axis=-1).max())
    if spread <= CLOSE and late <= CLOSE:
        return _one_point(found, tokens, spread)
    return _points(tokens, late, scale=1.0) if late <= CLOSE else _cloud(found, tokens, late)


def _one_point(found: Spectrum, tokens: np.ndarray, spread: float) -> Shown:
    space, last = found.largest_block_space, tokens[-1]
    from_start = float(np.linalg.norm(last - tokens[0, 0], axis=-1).max())
    from_space = float(np.linalg.norm(last - last @ space @ space.T, axis=-1).max())
    numbers = {"spread": spread, "from x_1(0)": from_start, "from L": from_space}
    if 2 <= space.shape[1] < tokens.shape[-1] and from_space <= CLOSE:
        return Shown("point-of-subspace", numbers)
    return Shown("first-token" if from_start <= CLOSE else "point", numbers)


def _cloud(found: Spectrum, tokens: np.ndarray, late: float) -> Shown:
    """Tokens that do not settle lean towards L by more than a standard error of as many uniform ones."""
    space, d = found.largest_block_space, tokens.shape[-1]
    m, half = space.shape[1], tokens[len(tokens) // 2 :, 1:]
    share = float(np.mean(np.sum((half @ space) ** 2, axis=-1))) if half.size else np.nan
    error = np.sqrt(2 * m * (d - m) / (d**2 * (d + 2)) / max(half.shape[1], 1))
    is_cloud = share > m / d + error if m < d else _groups(tokens[-1], CLOSE) > tokens.shape[1] / 2
    word = "cloud-around-subspace" if m > 1 else "clouds-around-poles"
    numbers = {"share in L": share, "of uniform tokens": m / d, "late move": late}
    return Shown(word if is_cloud and found.leading.value.real < 0 else "undecided", numbers)


def _points(tokens: np.ndarray, late: float, scale: float | None = None) -> Shown:
    """Tokens have settled in fewer places than there are tokens."""
    scale = scale or np.ptp(tokens[0], axis=0).max() or 1.0
    count = _groups(tokens[-1] / scale, CLOSE)
    numbers = {"places": float(count), "late move": late}
    if late > CLOSE or count > max(tokens.shape[1] / 2, 1):
        return Shown("undecided", numbers)
    return Shown("point" if count == 1 else "several-points", numbers)


def _groups(tokens: np.ndarray, distance: float) -> int:
    return int(clusters.labels(tokens, distance).max()) + 1


def _late_move(times: np.ndarray, tokens: np.ndarray, scale: float | None = None) -> float:
    """How far tokens get from their last places in the last part of the run, relative to their first spread."""
    scale = scale or float(np.ptp(tokens[0], axis=0).max()) or 1.0
    late = times >= times[0] + LATE * (times[-1] - times[0])
    late[-2:] = True
    return float(np.linalg.norm(tokens[late] - tokens[-1], axis=-1).max()) / scale


def _power_of_time(elapsed: np.ndarray, log_size: np.ndarray) -> float:
    """The power p in size ~ t^p over the second half of the time."""
    middle = int(np.clip(np.searchsorted(elapsed, elapsed[-1] / 2), 1, len(elapsed) - 2))
    return float((log_size[-1] - log_size[middle]) / np.log(elapsed[-1] / elapsed[middle]))


def _size(tokens: np.ndarray) -> float:
    """Root of the mean squared length."""
    largest = float(np.abs(tokens).max()) or 1.0
    return largest * float(np.sqrt(np.mean(np.sum((tokens / largest) ** 2, axis=-1))))
