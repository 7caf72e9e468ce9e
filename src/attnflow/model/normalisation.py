"""Schemes of layer normalisation: the speed of a token's direction and the growth of its length.

A token is x = r theta. With the attention output A and the slowness s of the scheme, theta' is the tangent part of
A / s; schemes with lengths have r' = r <theta, A> / s. The schemes and s are those of arXiv:2510.22026.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Radii, Scalar, Tokens
from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter


class AbstractNormalisation(Module):
    """A scheme: its slowness, and whether tokens have lengths."""

    has_radii: ClassVar[bool]
    takes_output_direction: ClassVar[bool] = False
    """Whether only the direction A / |A| of the attention output counts: the field jumps where A passes zero."""

    @abc.abstractmethod
    def slowness(self, time: Scalar, radii: Radii | None, output: Tokens) -> AnyArray:
        """The slowness s by which the attention output of every token is divided, a scalar or a column."""

    def radius_is_free(self, time: Scalar) -> AnyArray | bool:
        """Whether lengths change at `time`, for schemes with lengths."""
        del time
        return True

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Times strictly between `start` and `end` at which the scheme changes."""
        del start, end
        return np.empty(0)


class Post(AbstractNormalisation):
    """Post-LN: s = 1, tokens stay on the sphere.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.Post())
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.964028
    """

    has_radii: ClassVar[bool] = False

    def slowness(self, time, radii, output):
        """One."""
        del time, radii
        return jnp.ones((), output.dtype)


class Pre(AbstractNormalisation):
    """Pre-LN: s = r, and r' = <theta, A>.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.Pre())
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.8493
    """

    has_radii: ClassVar[bool] = True

    def slowness(self, time, radii, output):
        """The lengths."""
        del time, output
        return _columns(radii)


class Mix(AbstractNormalisation):
    """Mix-LN: `Post` until `switch`, then `Pre`.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.Mix(switch=1.0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.936515
    """

    switch: AnyArray = eqx.field(converter=parameter)
    has_radii: ClassVar[bool] = True

    def __check_init__(self):
        require_positive_number(self.switch, "switch")

    def slowness(self, time, radii, output):
        """One before the switch, the lengths after it."""
        return jnp.where(time < self.switch, jnp.ones((), output.dtype), _columns(radii))

    def radius_is_free(self, time):
        """Only after the switch."""
        return time >= self.switch

    def jumps(self, start, end):
        """The switch."""
        switch = float(self.switch)
        return np.array([switch]) if start < switch < end else np.empty(0)


class Peri(AbstractNormalisation):
    """Peri-LN: s = r |A|, and r' = <theta, A> / |A|.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.Peri())
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.87226
    """

    has_radii: ClassVar[bool] = True
    takes_output_direction: ClassVar[bool] = True

    def slowness(self, time, radii, output):
        """The length of the token times the length of its attention output."""
        del time
        return _columns(radii) * _lengths(output)


class NGPT(AbstractNormalisation):
    """nGPT: s = |A| / alpha, tokens stay on the sphere.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.NGPT(alpha=2.0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.99954
    """

    alpha: AnyArray = eqx.field(default=0.2, converter=parameter)
    has_radii: ClassVar[bool] = False
    takes_output_direction: ClassVar[bool] = True

    def __check_init__(self):
        require_positive_number(self.alpha, "alpha")

    def slowness(self, time, radii, output):
        """The length of the attention output over alpha."""
        del time, radii
        return _lengths(output) / self.alpha


class Sqrt(AbstractNormalisation):
    """LayerNorm scaling: s = sqrt(t + 1), tokens stay on the sphere.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0), normalisation=af.Sqrt())
    >>> run = af.simulate(flow, np.eye(2), [0.0, 2.0], progress=False)
    >>> round(float(np.prod(run.final_tokens.values, axis=0).sum()), 6)  # cosine
    0.898446
    """

    has_radii: ClassVar[bool] = False

    def slowness(self, time, radii, output):
        """sqrt(t + 1)."""
        del radii
        return jnp.sqrt(jnp.asarray(time, output.dtype) + 1)


def _lengths(vectors: Tokens) -> AnyArray:
    """Lengths as a column, zeros replaced by the smallest float: a zero vector divided by its length stays zero."""
    return jnp.maximum(jnp.linalg.norm(vectors, axis=-1, keepdims=True), jnp.finfo(vectors.dtype).tiny)


def _columns(radii: Radii | None) -> AnyArray:
    """Lengths as a column, for schemes with lengths, whose states always have them."""
    if radii is None:
        raise InputError("This normalisation needs the lengths of the tokens.")
    return radii[:, None]
