"""From tokens to the two or three coordinates that are drawn."""

from dataclasses import dataclass

import numpy as np

from attnflow.show.parts.drawn_run import DrawnRun

LONGEST_BOX = 8.0  # sides of a picture to one scale; a longer box shows a line
FLAT = 1e-9  # below this share of the longest side a side is no side
GATHERED = 1e-2  # final tokens closer than this share have no axes of their own
MOST_TIMES, MOST_ROWS = 50, 20_000  # that the principal axes are found from


@dataclass(frozen=True)
class Points:
    """Tokens as points of the picture."""

    values: np.ndarray  # (time, token, axis)
    names: tuple[str, ...]  # of the axes
    is_to_scale: bool  # whether all axes have one scale
    note: str = ""


def points_of(drawn: DrawnRun) -> Points:
    """The coordinates themselves where there are at most three, else two principal components.

    Tokens that run away along some direction, as rescaled ones do along eigenvectors
    with negative real part, would be a line to the eye: each axis has its own scale then,
    and unless they run along a coordinate they are turned to principal axes.
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
    return Points(drawn.tokens @ axes, names, is_to_scale=False, note="Axes have different scales.")


def _principal_components(drawn: DrawnRun) -> Points:
    """Two directions in which the final tokens differ most, or all tokens if the final ones agree."""
    first, final = drawn.tokens[0], drawn.tokens[-1]
    is_gathered = _spreads(final)[1] <= GATHERED * _spreads(first)[0]
    axes = _principal_axes(_all_tokens(drawn) if is_gathered else final)[:, :2]
    values = drawn.tokens @ axes
    return Points(
        values,
        names=tuple(f"{_ordinal(index)} principal component" for index in range(2)),
        is_to_scale=not _is_long(_sides(values.reshape(-1, 2))),
        note=f"Principal components of {'all' if is_gathered else 'the final'} tokens.",
    )


def _all_tokens(drawn: DrawnRun) -> np.ndarray:
    """Tokens of all times in one list, thinned out where there are many."""
    tokens = drawn.tokens[drawn.times_of_interest(MOST_TIMES)].reshape(-1, drawn.dimension)
    return tokens[:: -(-len(tokens) // MOST_ROWS)]


def _principal_axes(tokens: np.ndarray) -> np.ndarray:
    """Orthonormal columns, longest first; the largest entry of each is positive."""
    axes = np.linalg.svd(_centred(tokens), full_matrices=False)[2]
    leading = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.sign(leading)).T


def _spreads(tokens: np.ndarray) -> np.ndarray:
    return np.linalg.svd(_centred(tokens), compute_uv=False)


def _centred(tokens: np.ndarray) -> np.ndarray:
    """Tokens around their mean; rows of zeros change no axis and make enough of them exist."""
    return np.concatenate([tokens - tokens.mean(axis=0), np.zeros((3, tokens.shape[1]))])


def _sides(points: np.ndarray) -> np.ndarray:
    return np.ptp(points, axis=0)


def _is_long(sides: np.ndarray) -> bool:
    longest, shortest = sides.max(), sides.min()
    return bool(FLAT * longest < shortest < longest / LONGEST_BOX)


def _ordinal(index: int) -> str:
    return ("1st", "2nd", "3rd")[index]
