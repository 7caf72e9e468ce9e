"""LayerNorm and RMSNorm, and their gain and centring as part of the matrices that read normalised tokens."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Tokens


class Norm(eqx.Module):
    """LayerNorm, or RMSNorm where `centres` is False: x over its root mean square, times `gain`, plus `shift`.

    Examples
    --------
    >>> norm = Norm(gain=jnp.ones(2), shift=jnp.array([0.0, 5.0]), epsilon=1e-12, centres=True)
    >>> norm(jnp.array([[1.0, 3.0]])).tolist()
    [[-1.0, 6.0]]
    """

    gain: AnyArray
    shift: AnyArray | None
    epsilon: float = eqx.field(static=True)
    centres: bool = eqx.field(static=True)

    def __call__(self, tokens: Tokens) -> Tokens:
        """Normalise each token."""
        centred = self._centred(tokens)
        scaled = self.gain * centred / self.divisors(tokens)
        return scaled if self.shift is None else scaled + self.shift

    def divisors(self, tokens: Tokens) -> AnyArray:
        """The number that each token is divided by, (n, 1): its root mean square, epsilon included."""
        return jnp.sqrt(jnp.mean(jnp.square(self._centred(tokens)), axis=-1, keepdims=True) + self.epsilon)

    def _centred(self, tokens: Tokens) -> Tokens:
        return tokens - jnp.mean(tokens, axis=-1, keepdims=True) if self.centres else tokens

    def without_gain(self) -> "Norm":
        """The norm with gain one and no shift: it only centres (LayerNorm) and divides by the root mean square."""
        return Norm(np.ones_like(self.gain), None, self.epsilon, self.centres)

    def folded(self, matrices: AnyArray) -> AnyArray:
        """M diag(gain) C for matrices M of shape (..., k, d) that read normalised tokens.

        C is the projector that centres, I - 1 1^T / d, or the identity for RMSNorm. On tokens that are only divided
        by their root mean square, the result acts as M does after the norm, apart from the constant M shift.
        """
        scaled = matrices * self.gain
        return scaled - scaled.mean(axis=-1, keepdims=True) if self.centres else scaled
