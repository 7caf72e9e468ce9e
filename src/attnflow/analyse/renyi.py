"""Renyi centres: the tokens around which later tokens of a causal flow cluster, their number, and captured tokens.

Tokens arrive in the order of their index. A token is a *Renyi centre* if it arrives farther than
delta from every earlier centre, a *strong* one if farther than delta from every earlier token
(arXiv:2411.04990). Strong centres are centres. The papers use delta = c beta^{-1/2}, c = 4.

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d); `query_key` is Q^T K, the identity if None,
and `angle` an angle on the circle.
"""

from typing import Any

import numpy as np
import scipy
import xarray as xr
from scipy.special import betainc, exp1

from attnflow._common.checks import (
    InputError,
    require_count,
    require_on_sphere,
    require_positive_number,
    require_square,
)
from attnflow.analyse.clusters import angles_between
from attnflow.analyse.snapshots import tokens_of

__all__ = [
    "cap_mass",
    "captured_fraction",
    "centres",
    "count",
    "expected_count_on_circle",
    "expected_strong_count",
    "interaction",
    "interaction_peak",
    "interaction_slope",
    "parking_constant",
    "separation",
    "strong_centres",
]


def separation(beta: float, c: float = 4.0) -> float:
    """delta = c beta^{-1/2}.

    Examples
    --------
    >>> separation(64.0)
    0.5
    """
    require_positive_number(beta, "beta")
    require_positive_number(c, "c")
    return float(c / np.sqrt(beta))


def centres(run: Any, delta: float, query_key: Any = None) -> xr.DataArray:
    """True for the Renyi centres of every snapshot; False throughout where tokens are not finite.

    Parameters
    ----------
    run
        Tokens on the unit sphere: a dataset, or an array of shape ([runs,] [times,] n, d).
    delta
        Least angle between centres.
    query_key
        Q^T K. Instead of the angle, arccos <Qx, Ky> is used then, x being the later token;
        scores above one count as angle zero. None: the angle.

    Examples
    --------
    >>> angles = np.array([0.0, 0.3, 0.6, 0.9])
    >>> centres(np.stack([np.cos(angles), np.sin(angles)], axis=1), delta=0.5).values
    array([ True, False,  True, False])
    """
    return _centres(run, delta, query_key, strong=False)


def strong_centres(run: Any, delta: float, query_key: Any = None) -> xr.DataArray:
    """True for the strong Renyi centres of every snapshot; arguments as for `centres`.

    Examples
    --------
    >>> angles = np.array([0.0, 0.3, 0.6, 0.9])
    >>> strong_centres(np.stack([np.cos(angles), np.sin(angles)], axis=1), delta=0.5).values
    array([ True, False, False, False])
    """
    return _centres(run, delta, query_key, strong=True)


def count(run: Any, delta: float, query_key: Any = None, *, strong: bool = False) -> xr.DataArray:
    """Number of centres; -1 where tokens are not finite.

    Examples
    --------
    >>> import attnflow as af
    >>> int(count(af.initial.on_circle(np.array([0.0, 0.1, 2.0])), delta=1.0))
    2
    """
    number = _centres(run, delta, query_key, strong).sum("token")
    # The first token is always a centre, so that no centre means no tokens.
    return number.where(number > 0, -1).rename("renyi_centres").assign_attrs(delta=delta)


def captured_fraction(
    run: Any,
    delta: float,
    radius: float | None = None,
    *,
    beta: float | None = None,
    query_key: Any = None,
    strong: bool = False,
    still: bool = False,
) -> xr.DataArray:
    """Share of the tokens within `radius` of a centre of the first snapshot, over time; NaN where not finite.

    Parameters
    ----------
    run
        Tokens over ([run,] time, token, coordinate).
    delta
        Least angle between centres.
    radius
        Angle within which a token counts as captured. None: beta^{-1/2}.
    beta
        Only for the default radius.
    query_key
        Geometry in which centres are found, as for `centres`; the radius is always an angle.
    strong
        Count around strong centres only.
    still
        True measures from the first positions of the centres, False from their current ones.

    Examples
    --------
    >>> import attnflow as af
    >>> tokens = af.initial.on_circle(np.array([0.0, 0.1, 2.0]))
    >>> captured_fraction(tokens[None], delta=1.0, radius=0.2).values
    array([1.])
    """
    radius = _radius(radius, beta)
    tokens = tokens_of(run)
    if "time" not in tokens.dims:
        tokens = tokens.expand_dims("time", axis=-3)
    tokens = tokens.transpose("time", ..., "token", "coordinate")
    is_centre = _centres(tokens[0], delta, query_key, strong).values
    shares = [_share_near(tokens.values[0] if still else now, is_centre, now, radius) for now in tokens.values]
    coordinates = {key: value for key, value in tokens.coords.items() if set(value.dims) <= set(tokens.dims[:-2])}
    fraction = xr.DataArray(np.stack(shares), coordinates, tokens.dims[:-2], "captured_fraction")
    return fraction.transpose(..., "time").assign_attrs(delta=delta, radius=radius)


def cap_mass(delta: float, d: int) -> float:
    """Share of the unit sphere of R^d within the angle `delta` of a point.

    Examples
    --------
    >>> cap_mass(np.pi / 2, 5)
    0.5
    """
    _require_angle(delta)
    require_count(d, "d")
    if d == 1 or delta >= np.pi:  # two points; or everything
        return 1.0 if delta >= np.pi else 0.5
    half = float(betainc((d - 1) / 2, 0.5, np.sin(delta) ** 2)) / 2
    return half if delta <= np.pi / 2 else 1 - half


def expected_strong_count(delta: float, d: int, n: int | None = None) -> float:
    """Mean number of strong centres among n uniform tokens: (1 - (1-p)^n) / p, p the cap's mass; 1/p for n = None.

    Token k is one if none of the k - 1 before it lies in its cap. In the limit it is pi/delta
    for d = 2 and 1/sin^2(delta/2) for d = 3.

    Examples
    --------
    >>> round(expected_strong_count(0.5, 2) * 0.5 / np.pi, 12)
    1.0
    """
    mass = cap_mass(delta, d)
    if n is None or mass == 1.0:
        return 1 / mass
    require_count(n, "n")
    return float(-np.expm1(n * np.log1p(-mass)) / mass)


def parking_constant(attempts: float = np.inf) -> float:
    """Covered share of a long line in random sequential parking, after `attempts` per length of a car.

    The integral of e^{-2 Ein(t)} from 0 to `attempts`, where Ein(t) is that of (1 - e^{-u})/u.
    Its limit is Renyi's parking constant.

    Examples
    --------
    >>> round(parking_constant(), 4)
    0.7476
    """
    until = min(float(attempts), 200.0)  # beyond, the tail of the integral has a closed form
    near, _ = scipy.integrate.quad(_arrival_rate, 0.0, min(until, 1.0), epsabs=1e-13)
    far, _ = scipy.integrate.quad(_arrival_rate, 1.0, until, epsabs=1e-13, limit=200) if until > 1 else (0.0, 0.0)
    # Ein(t) is log t + Euler's constant up to E1(t), which is below e^{-200} here.
    tail = np.exp(-2 * np.euler_gamma) * (1 / until - 1 / attempts) if attempts > until else 0.0
    return float(near + far + tail)


def expected_count_on_circle(delta: float, n: int | None = None) -> float:
    """Mean number of Renyi centres of n uniform tokens on the circle: random parking of length delta on 2 pi.

    For n = None it is the parking constant times 2 pi/delta, with an error that vanishes faster than
    exponentially in 1/delta. For finite n the number of tokens is taken as Poisson.

    Examples
    --------
    >>> round(expected_count_on_circle(0.1), 2)
    46.97
    """
    _require_angle(delta)
    places = 2 * np.pi / delta
    if n is not None:
        require_count(n, "n")
    return places * parking_constant(np.inf if n is None else n / places)


def interaction(angle: Any, beta: float) -> np.ndarray:
    """h(x) = e^{beta (cos x - 1)} sin x, the strength of the attraction by a token at angle x.

    Examples
    --------
    >>> float(interaction(np.pi / 2, beta=0.0))
    1.0
    """
    angle = np.asarray(angle, dtype=float)
    return np.exp(-2 * beta * np.sin(angle / 2) ** 2) * np.sin(angle)


def interaction_slope(angle: Any, beta: float) -> np.ndarray:
    """g = h': e^{beta (cos x - 1)} (cos x - beta sin^2 x).

    Examples
    --------
    >>> float(interaction_slope(0.0, beta=5.0))
    1.0
    """
    angle = np.asarray(angle, dtype=float)
    return np.exp(-2 * beta * np.sin(angle / 2) ** 2) * (np.cos(angle) - beta * np.sin(angle) ** 2)


def interaction_peak(beta: float) -> float:
    """tau*, the angle at which h is largest: cos tau* = (sqrt(4 beta^2 + 1) - 1) / (2 beta).

    Examples
    --------
    >>> round(interaction_peak(10.0), 6)
    0.313535
    """
    require_positive_number(beta, "beta")
    # Computed from the half angle, which keeps its digits where cos tau* is nearly one.
    return float(2 * np.arcsin(1 / np.sqrt(2 * beta + 1 + np.sqrt(4 * beta**2 + 1))))


def _centres(run: Any, delta: float, query_key: Any, strong: bool) -> xr.DataArray:
    _require_angle(delta)
    tokens = tokens_of(run)
    *lead, n, d = tokens.shape
    flat = tokens.values.reshape(-1, n, d)
    is_finite = np.all(np.isfinite(flat), axis=(1, 2))
    _require_geometry(flat[is_finite], query_key, d)
    is_centre = np.zeros(flat.shape[:2], bool)
    is_centre[is_finite] = _greedy(flat[is_finite], delta, query_key, strong)
    coordinates = {key: value for key, value in tokens.coords.items() if "coordinate" not in value.dims}
    name = "strong_renyi_centre" if strong else "renyi_centre"
    return xr.DataArray(is_centre.reshape(*lead, n), coordinates, tokens.dims[:-1], name, {"delta": delta})


def _greedy(flat: np.ndarray, delta: float, query_key: Any, strong: bool) -> np.ndarray:
    """Centres found token by token, for all snapshots at once, in memory of the size of the tokens."""
    keys = flat if query_key is None else flat @ np.asarray(query_key, dtype=float).T
    is_centre = np.zeros(flat.shape[:2], bool)
    for k in range(flat.shape[1]):
        if query_key is None:
            angles = angles_between(flat[:, :k], flat[:, k, None])
        else:
            angles = np.arccos(np.clip(np.einsum("rd,rjd->rj", flat[:, k], keys[:, :k]), -1, 1))
        near = angles <= delta
        is_centre[:, k] = ~np.any(near if strong else near & is_centre[:, :k], axis=1)
    return is_centre


def _share_near(centres_at: np.ndarray, is_centre: np.ndarray, tokens: np.ndarray, radius: float) -> np.ndarray:
    captured = np.zeros(tokens.shape[:-1], bool)
    for k in np.flatnonzero(is_centre.reshape(-1, is_centre.shape[-1]).any(axis=0)):
        runs = is_centre[..., k]  # only those that have this token as a centre
        captured[runs] |= angles_between(tokens[runs], centres_at[runs][:, k, None]) <= radius
    is_finite = np.all(np.isfinite(tokens), axis=(-2, -1))
    return np.where(is_finite, captured.mean(axis=-1), np.nan)


def _arrival_rate(attempts: float) -> float:
    if attempts == 0:
        return 1.0
    return float(np.exp(-2 * (exp1(attempts) + np.log(attempts) + np.euler_gamma)))


def _radius(radius: float | None, beta: float | None) -> float:
    if radius is None and beta is None:
        raise InputError("`radius` must be an angle, but it is None and so is `beta`. Pass one; beta gives beta^-1/2.")
    if radius is not None:
        require_positive_number(radius, "radius")
        return float(radius)
    require_positive_number(beta, "beta")
    return separation(float(beta or 0), c=1.0)


def _require_angle(delta: float) -> None:
    require_positive_number(delta, "delta", "Use `separation(beta)`.")


def _require_geometry(tokens: np.ndarray, query_key: Any, d: int) -> None:
    if query_key is None:
        require_on_sphere(tokens, "run")
        return
    require_square(query_key, "query_key")
    if np.shape(query_key) != (d, d):
        raise InputError(
            f"`query_key` must be {d} x {d} as tokens have {d} coordinates, but it is {np.shape(query_key)}."
        )
