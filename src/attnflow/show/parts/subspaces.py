"""Affine subspaces {x : R x = c} of R^2 and R^3 as lines and polygons inside a box."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.linalg import null_space


@dataclass(frozen=True)
class AffineSubspace:
    """The points x with rows @ x = levels, and the colour in which they are drawn."""

    rows: np.ndarray
    levels: np.ndarray
    colour: Any
    label: str = ""


def draw_subspaces(axes: Axes, subspaces: tuple[AffineSubspace, ...], box: np.ndarray) -> None:
    """Draw subspaces within a box (d, 2): lines, and planes as faint polygons."""
    for subspace in subspaces:
        dimension = box.shape[0] - len(subspace.rows)
        corners = line_in_box(subspace, box) if dimension == 1 else plane_in_box(subspace, box)
        if len(corners) == 0:
            continue
        if dimension == 1:
            axes.plot(*corners.T, color=subspace.colour, linewidth=1.3, alpha=0.75, zorder=1.2, label=subspace.label)
        else:
            faces: Any = Poly3DCollection([corners], facecolor=subspace.colour, edgecolor=subspace.colour, alpha=0.16)
            faces.set(label=subspace.label, linewidth=0.7)
            axes.add_collection(faces)


def line_in_box(subspace: AffineSubspace, box: np.ndarray) -> np.ndarray:
    """The two ends of a line inside a box, shape (2, d); empty where the line misses the box.

    Examples
    --------
    >>> line = AffineSubspace(np.array([[0.0, 1.0]]), np.array([0.5]), "k")
    >>> line_in_box(line, np.array([[0.0, 1.0], [0.0, 1.0]])).tolist()
    [[0.0, 0.5], [1.0, 0.5]]
    """
    point = np.linalg.lstsq(subspace.rows, subspace.levels, rcond=None)[0]
    direction = null_space(subspace.rows)[:, 0]
    moves = np.abs(direction) > 1e-9  # coordinates that change along the line
    if np.any((point[~moves] < box[~moves, 0]) | (point[~moves] > box[~moves, 1])):
        return np.empty((0, len(box)))
    crossings = np.sort((box[moves] - point[moves, None]) / direction[moves, None], axis=1)
    first, last = crossings[:, 0].max(), crossings[:, 1].min()
    ends = point + np.array([[first], [last]]) * direction
    ends = ends[np.lexsort(ends.T[::-1])]
    return ends if first < last else np.empty((0, len(box)))


def plane_in_box(subspace: AffineSubspace, box: np.ndarray) -> np.ndarray:
    """Corners (k, 3), in cyclic order, of the polygon in which a plane cuts a box."""
    normal, level = subspace.rows[0], subspace.levels[0]
    corners = np.array(list(itertools.product(*box)))
    crossings = []
    for one, other in itertools.combinations(range(8), 2):
        if np.sum(corners[one] != corners[other]) == 1:  # an edge
            heights = corners[[one, other]] @ normal - level
            if heights[0] * heights[1] < 0:
                share = heights[0] / (heights[0] - heights[1])
                crossings.append(corners[one] + share * (corners[other] - corners[one]))
    if len(crossings) < 3:
        return np.empty((0, 3))
    points = np.array(crossings)
    in_plane = null_space(normal[None])  # two orthonormal vectors of the plane
    around = (points - points.mean(axis=0)) @ in_plane
    return points[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
