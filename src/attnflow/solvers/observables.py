"""Observables: quantities computed during a run, which need no storage of tokens.

An observable is any function of (time, tokens) written with jax.numpy that returns an array. The functions here are
the common ones; their sums over pairs are computed in blocks, and for many tokens by fast sums and k-d trees.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Scalar, Tokens
from attnflow._common.checks import require_finite_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter
from attnflow.model.fast_sums import observed
from attnflow.model.native import host_calls

__all__ = ["ClosePairs", "Energy", "diameter", "largest_norm", "mean_cosine", "order_parameter"]

PAIRS_PER_BLOCK = 2**20  # 8 MB in float64


def mean_cosine(time: Scalar, tokens: Tokens) -> AnyArray:
    """The mean of <x_i, x_j> over distinct pairs of unit vectors: 1 if all tokens coincide.

    Examples
    --------
    >>> import numpy as np
    >>> float(mean_cosine(0.0, np.array([[1.0, 0.0], [-1.0, 0.0]])))
    -1.0
    """
    del time
    n = len(tokens)
    total = jnp.sum(jnp.sum(tokens, axis=0) ** 2) - jnp.sum(tokens**2)
    return total / max(n * (n - 1), 1)


def order_parameter(time: Scalar, tokens: Tokens) -> AnyArray:
    """The length of the mean token.

    Examples
    --------
    >>> import numpy as np
    >>> float(order_parameter(0.0, np.array([[1.0, 0.0], [-1.0, 0.0]])))
    0.0
    """
    del time
    return jnp.linalg.norm(jnp.mean(tokens, axis=0))


def diameter(time: Scalar, tokens: Tokens) -> AnyArray:
    """The largest distance between two tokens.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(diameter(0.0, np.eye(2))), 6)
    1.414214
    """
    del time
    if _is_for_host(tokens):
        return _on_host("diameter", observed.diameter, tokens)
    farthest = lambda token: jnp.max(jnp.linalg.norm(tokens - token[None], axis=-1))
    return jnp.max(_over_tokens(farthest, tokens))


def largest_norm(time: Scalar, tokens: Tokens) -> AnyArray:
    """The length of the longest token.

    Examples
    --------
    >>> import numpy as np
    >>> float(largest_norm(0.0, np.array([[3.0, 4.0], [1.0, 0.0]])))
    5.0
    """
    del time
    return jnp.max(jnp.linalg.norm(tokens, axis=-1))


class Energy(Module):
    """The energy n^-2 sum_ij e^{beta (<x_i, x_j> - 1)}, in (0, 1] on the sphere: 2 beta e^{-beta} times E_beta.

    Clusters of masses m_q far apart have energy sum_q m_q^2 / n^2.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> energy = {"energy": af.observables.Energy(beta=1.0)}
    >>> af.simulate(flow, np.eye(2), [0.0, 9.0], observables=energy, progress=False).energy.values.round(4)
    array([0.6839, 1.    ])
    """

    beta: AnyArray = eqx.field(converter=parameter)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")

    def __call__(self, time: Scalar, tokens: Tokens) -> AnyArray:
        """The energy of a configuration."""
        del time
        if _is_for_host(tokens):
            return _on_host("energy", observed.energy, tokens, self.beta)
        row = lambda token: jnp.mean(jnp.exp(self.beta * (tokens @ token - 1)))
        return jnp.mean(_over_tokens(row, tokens))


class ClosePairs(Module):
    """The fraction of distinct pairs with <x_i, x_j> above `cosine`, the published measure of clustering.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> pairs = {"close_pairs": af.observables.ClosePairs(cosine=0.9)}
    >>> af.simulate(flow, np.eye(2), [0.0, 9.0], observables=pairs, progress=False).close_pairs.values
    array([0., 1.])
    """

    cosine: AnyArray = eqx.field(default=0.999, converter=parameter)

    def __check_init__(self):
        require_finite_number(self.cosine, "cosine")

    def __call__(self, time: Scalar, tokens: Tokens) -> AnyArray:
        """The fraction for a configuration, without pairs of a token with itself."""
        del time
        if _is_for_host(tokens):
            return _on_host("close pairs", observed.close_pairs, tokens, self.cosine)
        n = len(tokens)
        row = lambda token: jnp.sum(tokens @ token > self.cosine)
        selves = jnp.sum(jnp.sum(tokens**2, axis=-1) > self.cosine)
        return (jnp.sum(_over_tokens(row, tokens)) - selves) / max(n * (n - 1), 1)


def _is_for_host(tokens: Tokens) -> bool:
    """Whether tokens are so many that fast sums and k-d trees in NumPy are faster than all pairs."""
    return len(tokens) >= observed.LEAST_TOKENS and host_calls.reason_unavailable() is None


def _on_host(name: str, function: Callable, tokens: Tokens, *numbers: AnyArray) -> AnyArray:
    """`function(tokens, *numbers)`, a number, where all tokens are finite."""

    def computed(tokens, *numbers):
        found = function(tokens.astype(float), *map(float, numbers)) if np.isfinite(tokens.sum()) else np.nan
        return np.asarray(found)

    tokens = jnp.asarray(tokens)
    return host_calls.call(name, computed, jax.ShapeDtypeStruct((), tokens.dtype), tokens, *numbers)


def _over_tokens(function, tokens: Tokens) -> AnyArray:
    batch = max(1, PAIRS_PER_BLOCK // len(tokens))
    return jax.lax.map(function, tokens, batch_size=min(batch, len(tokens)))
