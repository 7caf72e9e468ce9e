"""Where layer normalisation sits: it sets how fast a token turns and how its length grows.

A token is x = r theta. The direction turns with the tangent part of A / s, where A is
what attention sends and s the scheme's speed factor; r grows where the scheme lets it.
Facts of arXiv:2510.22026.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Radii, Scalar, Tokens
from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.precision import parameter


class AbstractNormalisation(eqx.Module):
    """A scheme: the factor A is divided by, and whether tokens have lengths."""

    has_radii: ClassVar[bool]

    @abc.abstractmethod
    def slowness(self, time: Scalar, radii: Radii | None, pull: Tokens) -> AnyArray:
        """The speed factor s of every token, broadcast against its coordinates."""

    def radius_is_free(self, time: Scalar) -> AnyArray | bool:
        """Whether lengths change at `time`, for schemes with radii."""
        del time
        return True

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Times strictly between `start` and `end` at which the scheme changes."""
        del start, end
        return np.empty(0)


class Post(AbstractNormalisation):
    """Post-LN: tokens stay on the sphere and turn with A itself."""

    has_radii: ClassVar[bool] = False

    def slowness(self, time, radii, pull):
        """One."""
        del time, radii
        return jnp.ones((), pull.dtype)


class Pre(AbstractNormalisation):
    """Pre-LN: s = r, and r' = <theta, A>."""

    has_radii: ClassVar[bool] = True

    def slowness(self, time, radii, pull):
        """The lengths."""
        del time, pull
        return _columns(radii)


class Mix(AbstractNormalisation):
    """Mix-LN: `Post` until `switch`, then `Pre`."""

    switch: AnyArray = eqx.field(converter=parameter)
    has_radii: ClassVar[bool] = True

    def __check_init__(self):
        require_positive_number(self.switch, "switch")

    def slowness(self, time, radii, pull):
        """One before the switch, the lengths after it."""
        return jnp.where(time < self.switch, jnp.ones((), pull.dtype), _columns(radii))

    def radius_is_free(self, time):
        """Only after the switch."""
        return time >= self.switch

    def jumps(self, start, end):
        """The switch."""
        switch = float(self.switch)
        return np.array([switch]) if start < switch < end else np.empty(0)


class Peri(AbstractNormalisation):
    """Peri-LN: s = r |A|, and r' = <theta, A> / |A|."""

    has_radii: ClassVar[bool] = True

    def slowness(self, time, radii, pull):
        """Length of the token times length of what it receives."""
        del time
        return _columns(radii) * _lengths(pull)


class NGPT(AbstractNormalisation):
    """nGPT: s = |A| / alpha, tokens stay on the sphere."""

    alpha: AnyArray = eqx.field(default=0.2, converter=parameter)
    has_radii: ClassVar[bool] = False

    def __check_init__(self):
        require_positive_number(self.alpha, "alpha")

    def slowness(self, time, radii, pull):
        """Length of what the token receives, over alpha."""
        del time, radii
        return _lengths(pull) / self.alpha


class Sqrt(AbstractNormalisation):
    """LayerNorm scaling: s = sqrt(t + 1), tokens stay on the sphere."""

    has_radii: ClassVar[bool] = False

    def slowness(self, time, radii, pull):
        """Grows with the root of time."""
        del radii
        return jnp.sqrt(jnp.asarray(time, pull.dtype) + 1)


def _lengths(vectors: Tokens) -> AnyArray:
    """Lengths as a column, never quite zero: a pull of nothing then stays nothing when divided by it."""
    return jnp.maximum(jnp.linalg.norm(vectors, axis=-1, keepdims=True), jnp.finfo(vectors.dtype).tiny)


def _columns(radii: Radii | None) -> AnyArray:
    """Lengths as a column; the schemes that ask for them always have them."""
    if radii is None:
        raise InputError("This normalisation needs the lengths of the tokens.")
    return radii[:, None]
