"""Heads whose weights change in time; each goes wherever a `Head` goes."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Scalar
from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.precision import parameter
from attnflow.model.heads import Head

LAWS = ("identity", "gaussian", "goe")
VALUE_LAWS = (*LAWS, "query_key", "minus_query_key")


class PiecewiseHead(eqx.Module):
    """Constant weights between switches: ``heads[0]`` until ``switches[0]``, and so on.

    Solvers step exactly onto the switches, so that no step mixes two sets of weights.
    """

    switches: AnyArray = eqx.field(converter=parameter)
    heads: tuple[Head, ...] = eqx.field(converter=tuple)

    def __init__(self, switches: Sequence[float] | AnyArray, heads: Sequence[Head]):
        self.switches = parameter(switches)
        self.heads = tuple(heads)
        is_sorted = self.switches.ndim == 1 and np.all(np.diff(self.switches) > 0)
        if not is_sorted or len(self.heads) != len(self.switches) + 1:
            raise InputError(
                "`switches` must increase and `heads` must be one longer, but there are "
                f"{np.size(self.switches)} switches and {len(self.heads)} heads."
            )
        shapes = {str(jax.tree.map(jnp.shape, head)) for head in self.heads}
        if len(shapes) > 1:
            raise InputError(
                "The heads of a `PiecewiseHead` must have matrices of the same shapes, "
                f"but there are {len(shapes)} different sets."
            )

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.heads[0].dimension

    def at(self, time: Scalar) -> Head:
        """The head in force at `time`; at a switch, the one that follows."""
        index = jnp.searchsorted(jnp.asarray(self.switches), time, side="right")
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *self.heads)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """The switches strictly between `start` and `end`."""
        switches = np.asarray(self.switches)
        return switches[(switches > start) & (switches < end)]


class TimeDependentHead(eqx.Module):
    """Weights given by a function from time to `Head`, written with jax.numpy.

    The function is not recorded in result files: to rerun one, the model is passed again.

    Examples
    --------
    >>> rotating = TimeDependentHead(lambda t: Head.identity(2), dimension=2)
    """

    function: Callable[[Scalar], Head] = eqx.field(static=True)
    dimension: int = eqx.field(static=True)

    def __check_init__(self):
        require_count(self.dimension, "dimension")

    def at(self, time: Scalar) -> Head:
        """The function's value."""
        return self.function(time)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """None: the function is taken to be smooth."""
        del start, end
        return np.empty(0)


class RedrawnHead(eqx.Module):
    """Random weights, drawn anew every `period`; `seed` fixes all of them.

    `query_key` and `value` are laws: "identity"; "gaussian", independent entries of
    variance 1/d; "goe", symmetric with spectrum filling [-2, 2]; and for `value` also
    "query_key" and "minus_query_key", V = Q^T K or its negative.
    """

    dimension: int = eqx.field(static=True)
    period: AnyArray = eqx.field(converter=parameter)
    seed: int = eqx.field(default=0, static=True)
    query_key: str = eqx.field(default="gaussian", static=True)
    value: str = eqx.field(default="gaussian", static=True)

    def __check_init__(self):
        require_count(self.dimension, "dimension")
        require_positive_number(self.period, "period")
        require_count(self.seed, "seed", least=0)
        require_known(self.query_key, LAWS, "query_key")
        require_known(self.value, VALUE_LAWS, "value")

    def at(self, time: Scalar) -> Head:
        """The weights of the period that `time` belongs to."""
        rng_key = jax.random.fold_in(jax.random.key(self.seed), self._period_index(time))
        for_scores, for_value = jax.random.split(rng_key)
        dtype = jnp.result_type(self.period)
        query_key = _draw(self.query_key, for_scores, self.dimension, dtype)
        if self.value in LAWS:
            value = _draw(self.value, for_value, self.dimension, dtype)
        else:
            value = query_key if self.value == "query_key" else -query_key
        return Head(query=query_key.T, key=jnp.eye(self.dimension, dtype=dtype), value=value)

    def _period_index(self, time: Scalar) -> AnyArray:
        # The quotient may round across a whole number; the products decide, as in `jumps`.
        index = jnp.floor(time / self.period)
        index = jnp.where((index + 1) * self.period <= time, index + 1, index)
        return jnp.where(index * self.period > time, index - 1, index).astype(jnp.int32)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Multiples of the period strictly between `start` and `end`."""
        period = float(self.period)
        multiples = np.arange(np.floor(start / period) + 1, np.ceil(end / period)) * period
        return multiples[(multiples > start) & (multiples < end)]


def _draw(law: str, rng_key: AnyArray, d: int, dtype) -> AnyArray:
    if law == "identity":
        return jnp.eye(d, dtype=dtype)
    # Drawn in single precision, so that the weights are the same in any precision.
    entries = jax.random.normal(rng_key, (d, d), jnp.float32).astype(dtype) / jnp.sqrt(d).astype(dtype)
    return entries if law == "gaussian" else (entries + entries.T) / jnp.sqrt(2).astype(dtype)
