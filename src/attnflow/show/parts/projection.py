"""Tokens as points of two or three coordinates: their own, or principal components."""

from dataclasses import dataclass, replace

import numpy as np

from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.subspaces import AffineSubspace


@dataclass(frozen=True)
class Points:
    """Tokens as points of a picture."""

    values: np.ndarray
    """(time, token, axis)."""
    names: tuple[str, ...]
    """Names of the axes."""
    is_to_scale: bool
    """Whether all axes have one scale."""
    note: str = ""
    """Sentence for the caption."""
    axes: np.ndarray | None = None
    """Orthonormal columns of the axes; None for the coordinates."""

    def in_axes(self, subspaces: tuple[AffineSubspace, ...]) -> tuple[AffineSubspace, ...]:
        """Affine subspaces {x : R x = c} in the axes of the picture: R becomes R times the columns of the axes."""
        if self.axes is None:
            return subspaces
        return tuple(replace(subspace, rows=subspace.rows @ self.axes) for subspace in subspaces)

    def box(self, margin: float) -> np.ndarray:
        """Least and greatest value on each axis with a margin, a share of each side, shape (axis, 2)."""
        flat = self.values.reshape(-1, self.values.shape[-1])
        low, high = flat.min(axis=0), flat.max(axis=0)
        return np.stack([low - margin * (high - low), high + margin * (high - low)], axis=1)


def points_of(drawn: DrawnRun) -> Points:
    """Points of a run: the coordinates in dimension three or less, else two principal components.

    Rescaled tokens diverge along eigenvectors of V with negative real part, and to one scale the picture would be
    a line. Each axis then has its own scale, and tokens that do not diverge along a coordinate are rotated to their
    principal axes.
    """
    d = drawn.dimension
    if d > 3:
        return _principal_components(drawn)
    tokens = _all_tokens(drawn)
    axes = _principal_axes(tokens)
    coordinates = tuple(drawn.coordinate_name(index) for index in range(d))
    if drawn.is_sphere or not _is_long(_sides(tokens @ axes)):
        return Points(drawn.tokens, coordinates, is_to_scale=True)
    if _is_long(_sides(tokens)):
        return Points(drawn.tokens, coordinates, is_to_scale=False, note="Axes have different scales.")
    names = tuple(f"{_ordinal(index)} principal axis" for index in range(d))
    return Points(drawn.tokens @ axes, names, is_to_scale=False, note="Axes have different scales.", axes=axes)


def _principal_components(drawn: DrawnRun) -> Points:
    """The two principal components of the final tokens, or of all tokens if the final ones lie on a line or point."""
    first, final = drawn.tokens[0], drawn.tokens[-1]
    is_gathered = _spreads(final)[1] <= 1e-2 * _spreads(first)[0]
    axes = _principal_axes(_all_tokens(drawn) if is_gathered else final)[:, :2]
    values = drawn.tokens @ axes
    return Points(
        values,
        names=tuple(f"{_ordinal(index)} principal component" for index in range(2)),
        is_to_scale=not _is_long(_sides(values.reshape(-1, 2))),
        note=f"Principal components of {'all' if is_gathered else 'the final'} tokens.",
    )


def _all_tokens(drawn: DrawnRun) -> np.ndarray:
    """Tokens of at most 50 times as rows of one array, at most 20,000 of them: enough to find principal axes."""
    tokens = drawn.tokens[drawn.times_of_interest(50)].reshape(-1, drawn.dimension)
    return tokens[:: -(-len(tokens) // 20_000)]


def _principal_axes(tokens: np.ndarray) -> np.ndarray:
    """Principal axes as orthonormal columns, the longest first; the largest entry of each is positive."""
    axes = np.linalg.svd(_centred(tokens), full_matrices=False)[2]
    leading = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.sign(leading)).T


def _spreads(tokens: np.ndarray) -> np.ndarray:
    return np.linalg.svd(_centred(tokens), compute_uv=False)


def _centred(tokens: np.ndarray) -> np.ndarray:
    """Tokens minus their mean; the three rows of zeros change no axis and ensure that three axes exist."""
    return np.concatenate([tokens - tokens.mean(axis=0), np.zeros((3, tokens.shape[1]))])


def _sides(points: np.ndarray) -> np.ndarray:
    return np.ptp(points, axis=0)


def _is_long(sides: np.ndarray) -> bool:
    """Whether a box is more than eight times as long as wide; sides of zero, up to rounding, do not count."""
    longest, shortest = sides.max(), sides.min()
    return bool(1e-9 * longest < shortest < longest / 8)


def _ordinal(index: int) -> str:
    return ("1st", "2nd", "3rd")[index]
