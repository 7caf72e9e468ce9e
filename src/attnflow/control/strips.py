"""Strips |<gamma, x> - c| < delta that contain the path of one token and no other token; caps where there is none."""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.linalg import null_space

from attnflow.control.weight_schedules import Piece
from attnflow.model.perceptron import Perceptron

FILLED_SHARE = 0.75  # of the largest free half-width; the rest is a margin for rounding
WIDEST_ANGLE = 2.6  # radians of one motion on the sphere: its duration tends to infinity at pi
LEAST_HALF_WIDTH = 1e-4  # of a strip: rounding errors of <gamma, x> are 1e-12 of it
WIDEST_CAP_ARC = 1.5  # radians of a motion inside a cap, which is then less than a hemisphere around its middle
DIRECTIONS = 64  # random normals that are tried where the dimension leaves a choice


@dataclass(frozen=True)
class Strip:
    """The strip |<normal, x> - offset| < half_width around the path from `start` to `end`; a cap for the offset one."""

    start: np.ndarray
    end: np.ndarray
    normal: np.ndarray
    offset: float
    half_width: float
    duration: float
    room: float
    """Share that is used of the distance between the path and the nearest other token, in <normal, x>."""

    def piece(self, name: str) -> Piece:
        """The piece of a control that takes a token from `start` to `end` at speed one, by one unit of "hat"."""
        direction = (self.end - self.start) / np.linalg.norm(self.end - self.start)
        inner = self.normal[None] / self.half_width
        perceptron = Perceptron(direction[:, None], inner, [-self.offset / self.half_width], "hat")
        return Piece(self.duration, perceptron, name=name)


def strip(space: str, start: np.ndarray, end: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> Strip:
    """The widest strip found; its room is zero where another token blocks all of them.

    On the sphere the normal is orthogonal to both points and the strip contains their great circle; in R^d it is
    orthogonal to their difference. A great circle through a point also contains its antipode: if a token is there, all
    strips are blocked, and a cap around the path is taken if no other token is in it.
    """
    is_sphere = space == "sphere"
    chord = float(np.linalg.norm(end - start))
    if is_sphere and 2 * np.arcsin(min(chord / 2, 1.0)) > WIDEST_ANGLE:
        return Strip(start, end, np.zeros_like(start), 0.0, 0.0, np.inf, 0.0)
    basis = null_space(np.array([start, end]) if is_sphere else (end - start)[None])
    heights = (others if is_sphere else others - start) @ basis
    normal, free = _widest(heights, rng)
    gamma = basis @ normal
    offset = 0.0 if is_sphere else float(gamma @ start)
    duration = 2 * np.arctanh(chord / 2) if is_sphere else chord
    width = FILLED_SHARE * free
    found = Strip(start, end, gamma, offset, width, float(duration), width)
    cap = _cap(start, end, others) if is_sphere and width < LEAST_HALF_WIDTH else None
    return cap or found


def _cap(start: np.ndarray, end: np.ndarray, others: np.ndarray) -> Strip | None:
    """The cap around the middle m of the path that ends between it and the nearest other token, None without room.

    With <m, x> <= 1 the hat function of (<m, x> - 1)/delta is (<m, x> - 1 + delta)_+ / delta: the field of `cap_mover`
    over delta, so that the path takes delta times the integral there.
    """
    middle = (start + end) / np.linalg.norm(start + end)
    half = float(np.arcsin(min(np.linalg.norm(end - start) / 2, 1.0)))
    free = np.cos(half) - float((others @ middle).max(initial=0.0))
    if 2 * half > WIDEST_CAP_ARC or free < LEAST_HALF_WIDTH:
        return None
    edge = np.cos(half) - FILLED_SHARE * free
    time = quad(lambda s: 1 / ((np.cos(s) - edge) * np.cos(s)), -half, half, epsabs=1e-13, epsrel=1e-13)[0]
    return Strip(start, end, middle, 1.0, 1 - edge, float((1 - edge) * time), FILLED_SHARE * free)


def _widest(heights: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """The unit vector g that makes the least |<g, height>| largest among random ones, and that least value."""
    count = heights.shape[1]
    normals = np.ones((1, 1)) if count == 1 else rng.normal(size=(DIRECTIONS, count))
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    free = np.abs(normals @ heights.T).min(axis=1, initial=1.0)
    best = int(np.argmax(free))
    return normals[best], float(free[best])
