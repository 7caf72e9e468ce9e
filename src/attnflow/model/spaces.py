"""The spaces tokens live in: what is tangent, how to come back, how far apart."""

import equinox as eqx
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens


class Euclidean(eqx.Module):
    """R^d: every direction is tangent and every point belongs."""

    def tangent_part(self, tokens: Tokens, vectors: Tokens) -> Tokens:
        """The vectors themselves."""
        del tokens
        return vectors

    def retract(self, tokens: Tokens) -> Tokens:
        """The tokens themselves."""
        return tokens

    def drift(self, tokens: Tokens) -> AnyArray:
        """How far the worst token lies outside the space: never, here."""
        return jnp.zeros((), tokens.dtype)

    def distance(self, first: AnyArray, second: AnyArray) -> AnyArray:
        """Length of the difference, over the last axis."""
        return jnp.linalg.norm(first - second, axis=-1)


class Sphere(eqx.Module):
    """The unit sphere of R^d; d = 2 is the circle."""

    def tangent_part(self, tokens: Tokens, vectors: Tokens) -> Tokens:
        """Each vector without its component along its token."""
        return vectors - jnp.sum(tokens * vectors, axis=-1, keepdims=True) * tokens

    def retract(self, tokens: Tokens) -> Tokens:
        """The nearest points of the sphere: each token divided by its length."""
        return tokens / jnp.linalg.norm(tokens, axis=-1, keepdims=True)

    def drift(self, tokens: Tokens) -> AnyArray:
        """How far the worst token lies from the sphere."""
        return jnp.max(jnp.abs(jnp.linalg.norm(tokens, axis=-1) - 1))

    def distance(self, first: AnyArray, second: AnyArray) -> AnyArray:
        """Angle between unit vectors, over the last axis.

        The arc sine of half the chord keeps all digits of small angles; the arc
        cosine of the inner product loses half of them.
        """
        chord = jnp.linalg.norm(first - second, axis=-1)
        return 2 * jnp.arcsin(jnp.clip(chord / 2, 0, 1))
