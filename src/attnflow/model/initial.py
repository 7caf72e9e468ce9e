"""Laws of the first tokens, drawn with NumPy.

Every law takes `rng` (None, an integer, a Generator or a SeedSequence) and `runs`: with
``runs=R`` the result has shape (R, n, d), and run i equals the result for
``rng=numpy.random.SeedSequence(seed, spawn_key=(i,))``. A range of run numbers, such as
``runs=range(10, 20)``, gives these runs alone.

`n` is the number of tokens and `d` that of their coordinates.
"""

from collections.abc import Callable

import numpy as np

from attnflow._common.checks import (
    InputError,
    require_all_finite,
    require_count,
    require_finite_number,
    require_positive_number,
)
from attnflow._common.memory import require_array_memory
from attnflow._common.seeds import Rng, run_seeds, seed_sequence, takes_rng

__all__ = [
    "ball",
    "box",
    "circle",
    "equiangular",
    "gaussian",
    "hemisphere",
    "on_circle",
    "sphere",
    "with_antipodes",
    "with_duplicates",
]


@takes_rng
def box(
    n: int, d: int, low: float = -5.0, high: float = 5.0, *, rng: Rng = None, runs: int | range | None = None
) -> np.ndarray:
    """Tokens uniform in the box [low, high]^d.

    Examples
    --------
    >>> tokens = box(4, 2, low=0.0, high=1.0, rng=0, runs=3)
    >>> tokens.shape, bool(tokens.min() >= 0), bool(tokens.max() <= 1)
    ((3, 4, 2), True, True)
    """
    require_finite_number(low, "low")
    require_finite_number(high, "high")
    if not low < high:
        raise InputError(f"`low` must be below `high`, but they are {low} and {high}.")
    return _draw(lambda generator: generator.uniform(low, high, (n, d)), n, d, rng, runs)


@takes_rng
def ball(n: int, d: int, radius: float = 1.0, *, rng: Rng = None, runs: int | range | None = None) -> np.ndarray:
    """Tokens uniform in the ball of the given radius around the origin.

    Examples
    --------
    >>> bool(np.linalg.norm(ball(5, 3, radius=2.0, rng=0), axis=1).max() <= 2)
    True
    """
    require_positive_number(radius, "radius")

    def law(generator):
        lengths = radius * generator.random((n, 1)) ** (1 / d)
        return lengths * _directions(generator, n, d)

    return _draw(law, n, d, rng, runs)


@takes_rng
def gaussian(n: int, d: int, deviation: float = 1.0, *, rng: Rng = None, runs: int | range | None = None) -> np.ndarray:
    """Tokens with independent Gaussian coordinates of the given standard deviation.

    Examples
    --------
    >>> round(float(gaussian(1000, 2, deviation=3.0, rng=0).std()), 1)
    3.0
    """
    require_positive_number(deviation, "deviation")
    return _draw(lambda generator: generator.normal(scale=deviation, size=(n, d)), n, d, rng, runs)


@takes_rng
def sphere(n: int, d: int, *, rng: Rng = None, runs: int | range | None = None) -> np.ndarray:
    """Tokens uniform on the unit sphere of R^d.

    Examples
    --------
    >>> np.linalg.norm(sphere(3, 5, rng=0), axis=1).round(12)
    array([1., 1., 1.])
    """
    return _draw(lambda generator: _directions(generator, n, d), n, d, rng, runs)


@takes_rng
def hemisphere(n: int, d: int, *, rng: Rng = None, runs: int | range | None = None) -> np.ndarray:
    """Tokens uniform on the open half of the unit sphere with positive last coordinate.

    Examples
    --------
    >>> bool(hemisphere(8, 3, rng=0)[:, -1].min() > 0)
    True
    """

    def law(generator):
        tokens = _directions(generator, n, d)
        tokens[:, -1] = np.abs(tokens[:, -1])
        return tokens

    return _draw(law, n, d, rng, runs)


@takes_rng
def circle(n: int, d: int = 2, *, rng: Rng = None, runs: int | range | None = None) -> np.ndarray:
    """Tokens uniform on the unit circle in the plane of the first two coordinates of R^d.

    Examples
    --------
    >>> np.linalg.norm(circle(3, rng=0), axis=1).round(12)
    array([1., 1., 1.])
    """
    require_count(d, "d", least=2)

    def law(generator):
        angles = generator.uniform(0, 2 * np.pi, n)
        return on_circle(angles, d)

    return _draw(law, n, d, rng, runs)


def on_circle(angles: np.ndarray, d: int = 2) -> np.ndarray:
    """Points with the given angles on the unit circle in the plane of the first two coordinates of R^d.

    Examples
    --------
    >>> on_circle(np.array([0.0, np.pi / 2])).round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    angles = np.asarray(angles, dtype=float)
    tokens = np.zeros((*angles.shape, d))
    tokens[..., 0], tokens[..., 1] = np.cos(angles), np.sin(angles)
    return tokens


def equiangular(n: int, d: int, cosine: float = 0.0) -> np.ndarray:
    """n unit vectors any two of which have the same inner product.

    A cosine of -1/(n-1) gives the regular simplex, 0 an orthonormal system; d >= n is always sufficient.

    Examples
    --------
    >>> tokens = equiangular(3, 4, cosine=0.5)
    >>> (tokens @ tokens.T).round(12)
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 0.5],
           [0.5, 0.5, 1. ]])
    """
    require_count(n, "n")
    require_count(d, "d")
    least = -1.0 if n == 1 else -1 / (n - 1)
    if not least - 1e-12 <= cosine <= 1:
        raise InputError(f"`cosine` of {n} equiangular tokens must be in [{least:.6g}, 1], but it is {cosine}.")
    require_array_memory(n, max(3 * n, d), what=f"{n} equiangular tokens in dimension {d}")
    gram = cosine + (1 - cosine) * np.eye(n)
    sizes, vectors = np.linalg.eigh(gram)
    sizes = np.where(sizes < 1e-12, 0, sizes)
    rank = int(np.sum(sizes > 0))
    if d < rank:
        raise InputError(f"{n} tokens with common cosine {cosine:g} need d >= {rank}, but `d` is {d}.")
    tokens = np.zeros((n, d))
    tokens[:, :rank] = (vectors * np.sqrt(sizes))[:, sizes > 0]
    return tokens


def with_duplicates(tokens: np.ndarray, count: int) -> np.ndarray:
    """The tokens, followed by copies of the first `count` of them.

    Examples
    --------
    >>> with_duplicates(np.eye(2), 1)
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    return _followed_by(tokens, count, 1.0)


def with_antipodes(tokens: np.ndarray, count: int) -> np.ndarray:
    """The tokens, followed by the antipodes of the first `count` of them.

    Examples
    --------
    >>> with_antipodes(np.array([[0.6, 0.8]]), 1)
    array([[ 0.6,  0.8],
           [-0.6, -0.8]])
    """
    return _followed_by(tokens, count, -1.0)


def _followed_by(tokens: np.ndarray, count: int, factor: float) -> np.ndarray:
    tokens = np.asarray(tokens, dtype=float)
    require_all_finite(tokens, "tokens", ("run", "token", "coordinate")[-tokens.ndim :])
    require_count(count, "count", least=0)
    n = tokens.shape[-2]
    if count > n:
        raise InputError(f"`count` must be at most the number of tokens, {n}, but it is {count}.")
    return np.concatenate([tokens, factor * tokens[..., :count, :]], axis=-2)


def _draw(law: Callable, n: int, d: int, rng: Rng, runs: int | range | None) -> np.ndarray:
    require_count(n, "n")
    require_count(d, "d")
    numbers = _run_numbers(runs)
    count = 1 if numbers is None else len(numbers)
    require_array_memory(2, count, n, d, what=f"Drawing {count * n} tokens in dimension {d}")  # and their directions
    seed = seed_sequence(rng)
    if numbers is None:
        return law(np.random.default_rng(seed))
    return np.stack([law(np.random.default_rng(child)) for child in run_seeds(seed, numbers)])


def _run_numbers(runs: int | range | None) -> range | None:
    """The numbers of the runs; None for a single draw."""
    if runs is None:
        return None
    if isinstance(runs, range):
        if len(runs) == 0 or min(runs) < 0:
            raise InputError(f"`runs` must hold run numbers, 0 or more, but it is {runs!r}.")
        return runs
    require_count(runs, "runs")
    return range(runs)


def _directions(generator: np.random.Generator, n: int, d: int) -> np.ndarray:
    vectors = generator.normal(size=(n, d))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
