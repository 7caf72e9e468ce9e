"""Attention outputs by a fast sum, as part of a compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.checks import InputError
from attnflow.model.attention import AbstractAttention, Sinkhorn, scale_of
from attnflow.model.fast_sums.problem import Positions, SumProblem, slope_of
from attnflow.model.fast_sums.summation import AbstractFastSum
from attnflow.model.masks import AbstractMask
from attnflow.model.native import host_calls


class FastSum(eqx.Module):
    """A method of summation, and the pairs of tokens under one head that it serves."""

    method: AbstractFastSum
    attention: AbstractAttention
    mask: AbstractMask
    queries: Tokens
    keys: Tokens
    masses: AnyArray | None
    log_scale: AnyArray | None


@eqx.filter_custom_jvp
def outputs(pairs: FastSum, values: Tokens) -> AnyArray:
    """sum_j w_ij values_j for every token i."""
    rule, positions = pairs.attention.exponential(), Positions.of(pairs.mask)
    assert rule is not None  # checked by `require_summation`
    assert positions is not None
    factor = jnp.asarray(rule.factor, float)
    if pairs.log_scale is not None:
        factor = factor * scale_of(pairs.log_scale, values.dtype)
    sweeps = pairs.attention.sweeps() if isinstance(pairs.attention, Sinkhorn) else 0
    numbers = jnp.stack([jnp.asarray(x, float) for x in (factor, rule.factor * rule.offset, slope_of(pairs.mask))])
    masses = jnp.ones_like(values[:, 0]) if pairs.masses is None else pairs.masses

    method, is_normalised = (
        pairs.method,
        rule.relative,
    )  # not `pairs`: the function outlives its trace

    def computed(queries, keys, values, masses, numbers):
        arrays: Any = [np.asarray(array, np.float64) for array in (queries, keys, values, masses)]
        if not all(np.isfinite(array.sum()) for array in (*arrays, numbers)):
            return np.full_like(values, np.nan)  # a step that failed, which the solver rejects
        factor, log_divisor, slope = map(float, numbers)
        masked = Positions(positions.earlier, positions.later, positions.itself, slope)
        settings = {"is_normalised": is_normalised, "sweeps": sweeps, "log_divisor": log_divisor}
        queries, keys, values, masses = arrays
        return method.outputs(SumProblem(queries, keys, values, masses, factor, masked, **settings))

    name = f"{method!r} {is_normalised} {sweeps} {positions}"
    shape = jax.ShapeDtypeStruct(values.shape, values.dtype)
    return host_calls.call(name, computed, shape, pairs.queries, pairs.keys, values, masses, numbers)


@outputs.def_jvp
def _no_derivative(primals: Any, tangents: Any) -> Any:
    del tangents
    raise InputError(
        f"`summation.{type(primals[0].method).__name__}` has no derivatives. Use `summation.Dense()` to differentiate."
    )
