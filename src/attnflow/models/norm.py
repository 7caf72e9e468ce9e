"""LayerNorm and RMSNorm, their gain and centring as part of matrices, and norms of queries and keys."""

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


class VectorNorm(eqx.Module):
    """The RMSNorm of queries or keys: those of each head by themselves, or of all heads as one vector.

    `whole` is the matrix (and `whole_bias` the bias) that gives the vector of all heads; None for heads by themselves.
    """

    gain: AnyArray  # (heads, 1, k)
    epsilon: float = eqx.field(static=True)
    whole: AnyArray | None = None  # (heads k, d)
    whole_bias: AnyArray | None = None  # (heads k,)

    def __call__(self, vectors: AnyArray, tokens: Tokens) -> AnyArray:
        """The vectors (heads, n, k) that heads made of these tokens, normalised."""
        if self.whole is None:
            squares = jnp.mean(jnp.square(vectors), axis=-1, keepdims=True)
        else:
            joined = tokens @ self.whole.T
            joined = joined if self.whole_bias is None else joined + self.whole_bias
            squares = jnp.mean(jnp.square(joined), axis=-1)[None, :, None]
        return self.gain * vectors / jnp.sqrt(squares + self.epsilon)

    def with_heads(self, numbers: np.ndarray) -> "VectorNorm":
        """The norm of these heads alone; its divisors stay the same."""
        return VectorNorm(self.gain[numbers], self.epsilon, self.whole, self.whole_bias)

    def of_mean_length(self, matrices: AnyArray) -> AnyArray:
        """diag(gain) M / r for the matrices M (heads, k, d), with r the root mean square of M x over isotropic tokens.

        For tokens x with covariance I the mean of |M x|^2 is |M|_F^2. These are the linear maps of that mean square.
        """
        parts = matrices if self.whole is None else np.asarray(self.whole)[None]
        r = np.sqrt(np.mean(np.sum(np.square(parts), axis=-1), axis=-1))
        return np.moveaxis(np.asarray(self.gain), 1, 2) * matrices / r[:, None, None]
