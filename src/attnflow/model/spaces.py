"""The spaces in which tokens move: tangent vectors, retraction and distance; an orthonormal tangent basis."""

import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.module import Module
from attnflow.model.coordinates import sum_over_coordinates


class Euclidean(Module):
    """R^d: every vector is tangent and every point belongs to the space."""

    def tangent_part(self, tokens: Tokens, vectors: Tokens) -> Tokens:
        """The vectors themselves."""
        del tokens
        return vectors

    def retract(self, tokens: Tokens) -> Tokens:
        """The tokens themselves."""
        return tokens

    def exponential(self, tokens: Tokens, moves: Tokens) -> Tokens:
        """The ends of the straight lines from the tokens by the moves."""
        return tokens + moves

    def carried_back(self, tokens: Tokens, moves: Tokens, vectors: Tokens) -> Tokens:
        """Parallel transport of vectors from the end of each move to its beginning: the vectors themselves."""
        del tokens, moves
        return vectors

    def drift(self, tokens: Tokens) -> AnyArray:
        """Largest distance of a token from the space: zero."""
        return jnp.zeros((), tokens.dtype)

    def distance(self, first: AnyArray, second: AnyArray) -> AnyArray:
        """Length of the difference, over the last axis."""
        return jnp.linalg.norm(first - second, axis=-1)


class Sphere(Module):
    """The unit sphere of R^d; d = 2 is the circle."""

    def tangent_part(self, tokens: Tokens, vectors: Tokens) -> Tokens:
        """Each vector without its component along its token."""
        return vectors - sum_over_coordinates(tokens * vectors) * tokens

    def retract(self, tokens: Tokens) -> Tokens:
        """The nearest points of the sphere: each token divided by its length."""
        return tokens / jnp.sqrt(sum_over_coordinates(tokens**2))

    def exponential(self, tokens: Tokens, moves: Tokens) -> Tokens:
        """The ends of the great circles that leave the tokens along tangent vectors, of the lengths of these."""
        angles = _lengths(moves)
        return jnp.cos(angles) * tokens + jnp.sinc(angles / jnp.pi) * moves

    def carried_back(self, tokens: Tokens, moves: Tokens, vectors: Tokens) -> Tokens:
        """Parallel transport of tangent vectors from the end of each move to its beginning.

        The direction e = u / |u| of a move u has become e' = -sin|u| x + cos|u| e at its end; vectors orthogonal to it
        stay what they are.
        """
        angles = _lengths(moves)
        first = moves / jnp.where(angles > 0, angles, 1)
        last = jnp.cos(angles) * first - jnp.sin(angles) * tokens
        return vectors + sum_over_coordinates(vectors * last) * (first - last)

    def drift(self, tokens: Tokens) -> AnyArray:
        """Largest distance of a token from the sphere."""
        return jnp.max(jnp.abs(jnp.sqrt(sum_over_coordinates(tokens**2)) - 1))

    def distance(self, first: AnyArray, second: AnyArray) -> AnyArray:
        """Angle between unit vectors, over the last axis.

        The arc sine of half the chord keeps all digits of small angles; the arc
        cosine of the inner product loses half of them.
        """
        chord = jnp.linalg.norm(first - second, axis=-1)
        return 2 * jnp.arcsin(jnp.clip(chord / 2, 0, 1))


def _lengths(vectors: Tokens) -> AnyArray:
    """Lengths of shape (n, 1), whose derivative at zero is zero."""
    squares = sum_over_coordinates(vectors**2)
    is_zero = squares == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, squares)))


def tangent_basis(point: np.ndarray) -> np.ndarray:
    """Orthonormal columns, shape (d, d - 1), orthogonal to a unit vector.

    They are the columns but the first of the Householder reflection I - 2 w w^T / |w|^2 with w = x + sign(x_1) e_1,
    which maps x to -sign(x_1) e_1; |w|^2 = 2 (1 + |x_1|).

    Examples
    --------
    >>> tangent_basis(np.array([0.6, 0.8])).ravel()
    array([-0.8,  0.6])
    """
    sign = 1.0 if point[0] >= 0 else -1.0
    normal = point.copy()
    normal[0] += sign
    reflection = np.eye(len(point)) - np.outer(normal, normal) / (1 + abs(point[0]))
    return reflection[:, 1:]
