"""The sums of `pair_sums.Pairs` with their derivatives: along a direction by XLA, transposed by the native kernel."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.linear_maps import LinearMap
from attnflow._common.precision import cast
from attnflow.model.attention import Softmax, Unnormalised, scale_of
from attnflow.model.coordinates import SMALL_DIMENSION
from attnflow.model.masks import AbstractMask
from attnflow.model.native import attention_sums


def blocked_totals(pairs: Any, potentials: AnyArray | None, values: Tokens) -> AnyArray:
    """The sums over j of numerator_ij values_j, and as a last column the sums of the numerators."""
    if values.shape[1] <= SMALL_DIMENSION:
        # A column of ones gives the sums of the rows in the same product, so that they cost nothing for few columns.
        columns = jnp.concatenate([values, jnp.ones_like(values[:, :1])], axis=1)
        return pairs.map_rows(lambda block: pairs.numerators(block, potentials) @ columns)

    # Of 64 columns, a whole number of vectors, it would make 65, which costs more than a reduction of its own.
    def sums_and_total(block):
        numerators = pairs.numerators(block, potentials)
        return jnp.concatenate([numerators @ values, jnp.sum(numerators, axis=1, keepdims=True)], axis=1)

    return pairs.map_rows(sums_and_total)


@eqx.filter_custom_jvp
def fused_totals(pairs: Any, potentials: AnyArray | None, values: Tokens) -> AnyArray:
    """The result of `blocked_totals` from the native kernel."""
    rule, reach = pairs.attention.exponential(), pairs.mask.reach()
    assert rule is not None  # checked by `is_fusable`
    assert reach is not None
    scale = scale_of(pairs.log_scale, values.dtype) if pairs.log_scale is not None and rule.relative else None
    factor, log_columns = _factor_and_columns(pairs, potentials, values)
    return attention_sums.weighted_sums(
        pairs.queries,
        pairs.keys,
        values,
        log_columns,
        scale,
        factor=factor,
        reach=reach,
        relative=rule.relative,
    )


def _factor_and_columns(pairs: Any, potentials: AnyArray | None, values: Tokens) -> tuple:
    """f and c of the exponents f <q_i, k_j> + c_j; None for c = 0. A scale on the differences of scores is not in f."""
    rule = pairs.attention.exponential()
    assert rule is not None
    log_columns, factor = pairs.log_columns(potentials), rule.factor
    if rule.relative:
        return factor, log_columns
    if pairs.log_scale is not None:
        factor = factor * jnp.exp(pairs.log_scale)
    offsets = jnp.full_like(values[:, 0], -rule.factor * rule.offset)
    return factor, offsets if log_columns is None else log_columns + offsets


@fused_totals.def_jvp
def _totals_and_tangents(primals, tangents):
    """The sums, and their derivative by XLA, whose transpose is that of the native kernel."""
    if primals[0].attention.exponential().relative:
        return eqx.filter_jvp(blocked_totals, primals, tangents)
    return fused_totals(*primals), _native_tangents(primals, tangents)


@eqx.filter_custom_jvp
def averages(pairs: Any, potentials: AnyArray | None, values: Tokens) -> Tokens:
    """The averages o_i = sum_j w_ij v_j under weights w_ij, proportional to e^{l_ij}, whose rows have sum one."""
    return pairs.quotients(potentials, values)


@averages.def_jvp
def _averages_and_tangents(primals, tangents):
    """The averages, and their derivative as a covariance.

    With the derivatives l'_ij and v'_j,  o'_i = sum_j w_ij (l'_ij - m_i) (v_j - o_i) + sum_j w_ij v'_j,
    where m_i = sum_j w_ij l'_ij. The derivative of the quotient has the same value, but is the difference of two terms
    of size |l'| |v|, which grow like the squared length of the tokens: beyond 1e8 only their rounding error is left.
    """
    pairs, _, values = primals
    is_native = pairs.is_fusable() and pairs.log_scale is None and values.shape[1] <= attention_sums.MAX_COORDINATES
    return averages(*primals), (_native_tangents if is_native else _tangents_of_averages)(primals, tangents)


def _tangents_of_averages(primals: tuple, tangents: tuple) -> AnyArray:
    return eqx.filter_jvp(functools.partial(_with_derivative_of_averages, *primals), primals, tangents)[1]


def _with_derivative_of_averages(
    at: Any,
    potentials_at: AnyArray | None,
    values_at: Tokens,
    pairs: Any,
    potentials: AnyArray | None,
    values: Tokens,
) -> Tokens:
    """A function of its last three arguments whose derivative, not its value, is that of the averages at the first
    three, of which weights, o_i and v_j - o_i are functions: so that second derivatives contain theirs."""

    def of_block(block):
        rows = block[0]
        numerators = jnp.exp(at.log_numerators((rows, at.queries[rows]), potentials_at))
        weights = numerators / at.attention.denominator(jnp.sum(numerators, axis=-1, keepdims=True), 1.0)
        # A weight that underflows to zero has no part in the derivative, however large that of its score.
        logs = jnp.where(weights > 0, pairs.log_numerators(block, potentials), 0)
        logs = logs - jnp.sum(weights * logs, axis=-1, keepdims=True)
        deviations = values_at[None] - (weights @ values_at)[:, None]
        return jnp.sum((weights * logs)[:, :, None] * deviations, axis=1) + weights @ values

    return pairs.map_rows(of_block)


def _native_tangents(primals: tuple, tangents: tuple) -> AnyArray:
    """The derivative of averages, or of unnormalised sums, by XLA, with the transpose of the native kernel."""
    has_columns = _factor_and_columns(*primals)[1] is not None

    def factors(pairs, potentials, values):
        factor, columns = _factor_and_columns(pairs, potentials, values)
        columns = jnp.zeros_like(values[:, 0]) if columns is None else columns
        return jnp.asarray(factor, values.dtype) * pairs.queries, pairs.keys, values, columns

    given, changes = eqx.filter_jvp(factors, primals, tangents)
    changes = tuple(
        jnp.zeros_like(one) if change is None else change for one, change in zip(given, changes, strict=True)
    )
    is_relative = primals[0].attention.exponential().relative
    return _TANGENTS(
        given, changes, kind=type(primals[0]), mask=primals[0].mask, relative=is_relative, weighted=has_columns
    )


def _tangents_by_xla(primals, tangents, *, kind: Any, mask: AbstractMask, relative: bool, weighted: bool) -> AnyArray:
    """The derivative of the averages, or of the sums, of e^{<q_i, k_j> + c_j} v_j over the columns that a row sees."""
    if primals[0].ndim > 2:
        one = functools.partial(_tangents_by_xla, kind=kind, mask=mask, relative=relative, weighted=weighted)
        return jax.vmap(one)(primals, tangents)
    rule = cast(Softmax(1.0) if relative else Unnormalised(1.0), primals[0].dtype.name)
    of_arrays = lambda function: lambda q, k, v, c: function(kind(rule, mask, q, k), c, v)
    if not relative:
        return jax.jvp(of_arrays(blocked_totals), primals, tangents)[1]
    q, k, v, c = primals
    at: Any = functools.partial(_with_derivative_of_averages, kind(rule, mask, q, k), c, v)
    return jax.jvp(of_arrays(at), primals, tangents)[1]


def _pulled_back(primals, cotangents, *, kind: Any, mask: AbstractMask, relative: bool, weighted: bool) -> tuple:
    """The transpose of `_tangents_by_xla`, by the native kernel; its own derivatives are those of XLA's transpose."""
    static = {"kind": kind, "mask": mask, "relative": relative, "weighted": weighted}

    @jax.custom_jvp
    def pulled(primals: Any, cotangents: Any) -> Any:
        options = {"reach": mask.reach(), "relative": relative, "weighted": weighted}
        q, k, v, c = primals
        return attention_sums.pulled_back(q, k, v, c, cotangents, **options)

    @pulled.defjvp
    def _(given: Any, changes: Any):
        by_xla: Any = lambda primals, cotangents: jax.linear_transpose(
            lambda *tangents: _tangents_by_xla(primals, tangents, **static), *primals
        )(cotangents)
        return pulled(*given), jax.jvp(by_xla, given, changes)[1]

    return pulled(tuple(primals), cotangents)


_TANGENTS = LinearMap("attention_tangents", _tangents_by_xla, _pulled_back)
