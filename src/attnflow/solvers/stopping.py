"""Stopping conditions, which are checked after every accepted step."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.checks import require_count, require_positive_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter
from attnflow.model.spaces import Euclidean, Sphere


class AbstractStop(Module):
    """A condition that ends a run before its last time."""

    @abc.abstractmethod
    def is_met(self, space: Euclidean | Sphere, before: Tokens, tokens: Tokens, duration: AnyArray) -> AnyArray:
        """Whether the condition holds after a step of length `duration` from `before` to `tokens`."""

    @abc.abstractmethod
    def sentence(self) -> str:
        """The condition in words, to follow 'stopped at t = ...: '."""


class Clustered(AbstractStop):
    """All tokens lie within `tolerance` (angle or distance) of at most `count` centres.

    The centres are the first token, then the first token farther than the tolerance from all centres so far, and so on.
    `count` groups of diameter at most the tolerance always satisfy the condition, whatever the order of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 99.0], stop=af.Clustered(tolerance=0.1), progress=False)
    >>> bool(run.final_time < 99)
    True
    """

    tolerance: AnyArray = eqx.field(default=1e-3, converter=parameter)
    count: int = eqx.field(default=1, static=True)

    def __check_init__(self):
        require_positive_number(self.tolerance, "tolerance")
        require_count(self.count, "count")

    def is_met(self, space, before, tokens, duration):
        """Whether `count` centres cover all tokens; each centre is the first token not yet covered."""
        del before, duration

        def cover(_, covered):
            centre = tokens[jnp.argmin(covered)][None]
            return covered | (space.distance(tokens, centre) <= self.tolerance)

        covered = jax.lax.fori_loop(0, self.count, cover, jnp.zeros(len(tokens), bool))
        return jnp.all(covered)

    def sentence(self):
        """The number of clusters and the tolerance."""
        clusters = "one cluster" if self.count == 1 else f"at most {self.count} clusters"
        return f"{clusters} within {float(self.tolerance):g}"


class Settled(AbstractStop):
    """No token moves faster than `speed`, on average over a step.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 99.0], stop=af.Settled(speed=1e-6), progress=False)
    >>> bool(run.final_time < 99)
    True
    """

    speed: AnyArray = eqx.field(default=1e-8, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.speed, "speed")

    def is_met(self, space, before, tokens, duration):
        """Whether the largest displacement over the duration is at most `speed`."""
        del space
        fastest = jnp.max(jnp.linalg.norm(tokens - before, axis=-1))
        return fastest <= self.speed * duration

    def sentence(self):
        """The speed."""
        return f"settled, no token faster than {float(self.speed):g}"


class Diverged(AbstractStop):
    """Some token is farther than `distance` from the origin.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[1.0]], [0.0, 99.0], stop=af.Diverged(distance=10.0), progress=False)
    >>> bool(abs(run.final_tokens.item()) > 10)
    True
    """

    distance: AnyArray = eqx.field(default=1e6, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.distance, "distance")

    def is_met(self, space, before, tokens, duration):
        """Whether the largest length is above `distance`."""
        del space, before, duration
        return jnp.max(jnp.linalg.norm(tokens, axis=-1)) > self.distance

    def sentence(self):
        """The distance."""
        return f"diverged, a token is farther than {float(self.distance):g} from the origin"
