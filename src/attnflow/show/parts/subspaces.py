"""Affine subspaces {x : R x = c} inside a box: points, lines and planes, as they are drawn in R^2 and R^3."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.linalg import null_space

ON_PLANE = 1e-9


@dataclass(frozen=True)
class AffineSubspace:
    """The tokens x with rows @ x = levels, and its colour."""

    rows: np.ndarray
    levels: np.ndarray
    colour: Any
    label: str = ""


def draw_subspaces(axes: Axes, subspaces: tuple[AffineSubspace, ...], box: np.ndarray) -> None:
    """Draw subspaces within a box (d, 2): lines, and planes as faint polygons."""
    for flat in subspaces:
        dimension = box.shape[0] - len(flat.rows)
        corners = line_in_box(flat, box) if dimension == 1 else plane_in_box(flat, box)
        if len(corners) == 0:
            continue
        if dimension == 1:
            axes.plot(*corners.T, color=flat.colour, linewidth=1.3, alpha=0.75, zorder=1.2, label=flat.label)
        else:
            faces: Any = Poly3DCollection([corners], facecolor=flat.colour, edgecolor=flat.colour, alpha=0.16)
            faces.set(label=flat.label, linewidth=0.7)
            axes.add_collection(faces)


def line_in_box(flat: AffineSubspace, box: np.ndarray) -> np.ndarray:
    """The two ends of a line inside a box, shape (2, d); none where it passes by.

    Examples
    --------
    >>> line = AffineSubspace(np.array([[0.0, 1.0]]), np.array([0.5]), "k")
    >>> line_in_box(line, np.array([[0.0, 1.0], [0.0, 1.0]])).tolist()
    [[0.0, 0.5], [1.0, 0.5]]
    """
    point = np.linalg.lstsq(flat.rows, flat.levels, rcond=None)[0]
    direction = null_space(flat.rows)[:, 0]
    moves = np.abs(direction) > ON_PLANE
    if np.any((point[~moves] < box[~moves, 0]) | (point[~moves] > box[~moves, 1])):
        return np.empty((0, len(box)))
    crossings = np.sort((box[moves] - point[moves, None]) / direction[moves, None], axis=1)
    first, last = crossings[:, 0].max(), crossings[:, 1].min()
    ends = point + np.array([[first], [last]]) * direction
    ends = ends[np.lexsort(ends.T[::-1])]
    return ends if first < last else np.empty((0, len(box)))


def plane_in_box(flat: AffineSubspace, box: np.ndarray) -> np.ndarray:
    """Corners (k, 3), in turn, of the polygon that a plane cuts out of a box."""
    normal, level = flat.rows[0], flat.levels[0]
    corners = np.array(list(itertools.product(*box)))
    found = []
    for one, other in itertools.combinations(range(8), 2):
        if np.sum(corners[one] != corners[other]) == 1:  # an edge
            heights = corners[[one, other]] @ normal - level
            if heights[0] * heights[1] < 0:
                share = heights[0] / (heights[0] - heights[1])
                found.append(corners[one] + share * (corners[other] - corners[one]))
    if len(found) < 3:
        return np.empty((0, 3))
    points = np.array(found)
    flat_axes = null_space(normal[None])
    around = (points - points.mean(axis=0)) @ flat_axes
    return points[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
