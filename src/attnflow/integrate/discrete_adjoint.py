"""Adaptive steps of Tsit5 as a function with a reverse derivative: the discrete adjoint of an explicit method.

A step of length h from y at time t has the stages and the end

    Y_i = y + h sum_{j<i} a_ij k_j,    k_i = f(t + c_i h, Y_i),    y' = y + h sum_i b_i k_i.

With ^ for the derivative of a loss, given that in y', the stages are taken in reverse,

    k^_i = h (b_i y'^ + sum_{j>i} a_ji Y^_j),    Y^_i = (df/dY)^T k^_i,    y^ = y'^ + sum_i Y^_i,

and (df/dw)^T k^_i are added up for the weights w. The lengths of steps are constants, but for the last step, which ends
at the last time. Rejected steps have no part in it.

f(t, Y) is given as a function of Y and of an output A(t, Y), which is nearly all of the work. Of the latest steps y and
the A of the stages are kept, so that the reverse run evaluates no sum over tokens again. Of earlier steps only the
first of every segment of `_kept_steps` is kept, from which the segment is run again.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens

NODES = [0.0, *diffrax.Tsit5.tableau.c.tolist()]  # c_i; the last stage is the first of the next step
STAGES = [row.tolist() for row in diffrax.Tsit5.tableau.a_lower]  # a_ij of the stages after the first; the last are b_i
ERROR = diffrax.Tsit5.tableau.b_error.tolist()
ERROR_ORDER = 5.0
FIRST_LENGTH = 0.01  # of a step, which is shortened until its error is small
SMALL_STATE = 2**19  # bytes of tokens, up to which more steps are kept


class Field(eqx.Module):
    """A velocity rate(y, A) of tokens y and an output A(t, y)."""

    output: Callable
    rate: Callable

    @classmethod
    def of(cls, output: Callable, rate: Callable, time: AnyArray, tokens: Tokens) -> "Field":
        """Functions whose arrays, also those in closures, are leaves of the field."""
        output = eqx.filter_closure_convert(output, time, tokens)
        return cls(output, eqx.filter_closure_convert(rate, tokens, tokens))


class StepControl(NamedTuple):
    """Tolerances of a step, and the largest number of steps."""

    rtol: float
    atol: float
    max_steps: int


class _Steps(NamedTuple):
    """Accepted steps: the time elapsed at the beginning of each and, in rings, tokens and outputs of the latest."""

    elapsed: AnyArray  # (max_steps,)
    tokens: AnyArray  # (kept, n, d)
    outputs: tuple  # six arrays like `tokens`
    starts: AnyArray  # tokens at every step number that is a multiple of `kept`

    @classmethod
    def empty(cls, tokens: Tokens, max_steps: int) -> "_Steps":
        kept = _kept_steps(tokens)
        ring = jnp.zeros((kept, *tokens.shape), tokens.dtype)
        starts = jnp.zeros((-(-max_steps // kept), *tokens.shape), tokens.dtype)
        return cls(jnp.zeros(max_steps, tokens.dtype), ring, (ring,) * len(STAGES), starts)

    def with_step(self, number: AnyArray, elapsed: AnyArray, tokens: Tokens, outputs: list) -> "_Steps":
        """The steps and one more, which is written again if it is rejected."""
        kept = _kept_steps(tokens)
        starts = _set(self.starts, number // kept, tokens, number % kept == 0)
        steps = self.in_rings(number % kept, tokens, outputs)
        return steps._replace(elapsed=_set(self.elapsed, number, elapsed), starts=starts)

    def in_rings(self, place: AnyArray, tokens: Tokens, outputs: list) -> "_Steps":
        """The steps with the tokens and outputs of one step written to one place of the ring buffers."""
        rings = tuple(_set(ring, place, output) for ring, output in zip(self.outputs, outputs, strict=True))
        return self._replace(tokens=_set(self.tokens, place, tokens), outputs=rings)


class _AdjointState(NamedTuple):
    tokens: Tokens
    output: Tokens  # A at the tokens, which is that of the first stage
    elapsed: AnyArray
    target: AnyArray  # time elapsed at the end of the next step
    control: Any
    taken: AnyArray  # numbers of steps
    accepted: AnyArray
    steps: _Steps | None


def integrated(field: Field, first: Tokens, start: AnyArray, end: AnyArray, control: StepControl) -> Tokens:
    """The tokens at time `end`, with reverse derivatives in the arrays of the field, the tokens and both times."""
    return _integrated((field, first, start, end), control)


def _last_tokens(arguments: tuple, control: StepControl) -> Tokens:
    return _run(arguments, control, is_kept=False).tokens


def _forward(perturbed: Any, arguments: Any, control: StepControl) -> tuple:
    del perturbed
    last = _run(arguments, control, is_kept=True)
    return last.tokens, (last.steps, last.accepted)


def _backward(residuals: tuple, cotangent: Tokens, perturbed: tuple, arguments: tuple, control: StepControl) -> tuple:
    steps, count = residuals
    field, first, start, end = arguments
    weights, rest = eqx.partition(field, perturbed[0])
    direction = jnp.where(end < start, -1, 1).astype(first.dtype)
    kept = _kept_steps(first)

    def place_in_time(number):
        """Time and length of a step."""
        time = start + direction * steps.elapsed[number]
        following = start + direction * steps.elapsed[jnp.minimum(number + 1, control.max_steps - 1)]
        return time, jnp.where(number == count - 1, end, following) - time

    def again(segment, rings):
        """The rings with the steps of a segment, which is not the last."""
        tokens = steps.starts[segment]
        output = field.output(place_in_time(segment * kept)[0], tokens)

        def step(carry):
            place, tokens, output, rings = carry
            time, length = place_in_time(segment * kept + place)
            following, outputs, _ = _step(field.rate, _evaluated(field, output), time, length, tokens)
            rings = rings.in_rings(place, tokens, outputs)
            return place + 1, following, field.output(time + length, following), rings

        is_last = segment == (count - 1) // kept
        first_place = jnp.where(is_last, kept, 0)
        buffers = lambda carry: jax.tree.leaves(carry[3])
        carry = (first_place, tokens, output, rings)
        return eqxi.while_loop(lambda carry: carry[0] < kept, step, carry, buffers=buffers, kind="lax")[3]

    def pull_segment(carry):
        segment, rings, sums = carry
        rings = again(segment, rings)

        def pull_step(carry):
            number, (of_tokens, of_weights, of_start, _) = carry
            place = number % kept
            outputs = [ring[place] for ring in rings.outputs]

            def end_of_step(weights, time, length, tokens):
                field = eqx.combine(weights, rest)
                output_at = lambda number, *at: _with_value(outputs[number], field.output, *at)
                return _step(field.rate, output_at, time, length, tokens)[0]

            pull = jax.vjp(end_of_step, weights, *place_in_time(number), rings.tokens[place])[1]
            change, of_time, of_length, of_tokens = pull(of_tokens)
            of_end = jnp.where(number == count - 1, of_length, carry[1][3])
            return number - 1, (of_tokens, jax.tree.map(jnp.add, of_weights, change), of_start + of_time, of_end)

        last = jnp.minimum(count, (segment + 1) * kept) - 1
        sums = jax.lax.while_loop(lambda carry: carry[0] >= segment * kept, pull_step, (last, sums))[1]
        return segment - 1, rings, sums

    zero = jnp.zeros((), first.dtype)
    sums = (cotangent, jax.tree.map(jnp.zeros_like, weights), zero, zero)
    carry = ((count - 1) // kept, steps, sums)
    of_tokens, of_weights, of_start, of_end = jax.lax.while_loop(lambda carry: carry[0] >= 0, pull_segment, carry)[2]
    return of_weights, of_tokens, of_start - of_end, of_end


_integrated: Any = eqx.filter_custom_vjp(_last_tokens)
_integrated.def_fwd(_forward)
_integrated.def_bwd(_backward)


def _run(arguments: tuple, control: StepControl, is_kept: bool) -> _AdjointState:
    field, first, start, end = arguments
    direction, span = jnp.where(end < start, -1, 1).astype(first.dtype), jnp.abs(end - start)
    controller = diffrax.PIDController(rtol=control.rtol, atol=control.atol)
    begin, none = jnp.zeros_like(span), jnp.zeros((), int)
    target, of_controller = controller.init(None, begin, span, first, FIRST_LENGTH, None, None, ERROR_ORDER)  # type: ignore
    # A next step of a few rounding errors of the time is joined to this one.
    joined = lambda target: jnp.where(target > span * (1 - 100 * jnp.finfo(span.dtype).eps), span, target)

    def body(state: _AdjointState) -> _AdjointState:
        time, length = start + direction * state.elapsed, direction * (state.target - state.elapsed)
        tokens, outputs, rates = _step(field.rate, _evaluated(field, state.output), time, length, state.tokens)
        output = field.output(time + length, tokens)
        error = length * _combination(ERROR, [*rates, field.rate(tokens, output)])
        error = jnp.where(jnp.isnan(error), jnp.inf, error)
        is_accepted, elapsed, target, _, of_controller, _ = controller.adapt_step_size(
            state.elapsed, state.target, state.tokens, tokens, None, error, ERROR_ORDER, state.control
        )
        steps = state.steps
        if steps is not None:
            steps = steps.with_step(state.accepted, state.elapsed, state.tokens, outputs)
        elapsed = jnp.minimum(elapsed, span)
        keep = lambda new, old: jnp.where(is_accepted, new, old)
        return _AdjointState(
            keep(tokens, state.tokens),
            keep(output, state.output),
            elapsed,
            joined(target),
            of_controller,
            state.taken + 1,
            state.accepted + is_accepted,
            steps,
        )

    steps = _Steps.empty(first, control.max_steps) if is_kept else None
    state = _AdjointState(first, field.output(start, first), begin, joined(target), of_controller, none, none, steps)
    goes_on = lambda state: (state.elapsed < span) & (state.taken < control.max_steps)
    buffers = lambda state: jax.tree.leaves(state.steps)
    state = eqxi.while_loop(goes_on, body, state, buffers=buffers, kind="lax")
    words = "`flow_map` needs more than `max_steps` steps."
    return state._replace(tokens=eqx.error_if(state.tokens, state.elapsed < span, words))


def _step(rate: Callable, output_at: Callable, time: AnyArray, length: AnyArray, tokens: Tokens) -> tuple:
    """The tokens after a step, and A and k of its stages; `output_at` gives A of a stage by number, time and tokens."""
    outputs, rates, at = [], [], tokens
    for number, (node, row) in enumerate(zip(NODES, STAGES, strict=False)):
        outputs.append(output_at(number, time + node * length, at))
        rates.append(rate(at, outputs[-1]))
        at = tokens + length * _combination(row, rates)
    return at, outputs, rates


def _evaluated(field: Field, first: Tokens) -> Callable:
    """A of the stages, of which the first is known."""
    return lambda number, *at: field.output(*at) if number else first


@eqx.filter_custom_jvp
def _with_value(value: Tokens, function: Callable, *at: Any) -> Tokens:
    """`value`, which is that of the function, with the derivatives of the function."""
    del function, at
    return value


@_with_value.def_jvp
def _with_value_and_derivative(primals: tuple, tangents: tuple) -> tuple:
    apply = lambda function, *at: function(*at)
    return primals[0], eqx.filter_jvp(apply, primals[1:], tangents[1:])[1]


def _combination(factors: list, arrays: list) -> AnyArray:
    return functools.reduce(jnp.add, [factor * array for factor, array in zip(factors, arrays, strict=True)])


def _kept_steps(tokens: Tokens) -> int:
    return 64 if tokens.nbytes <= SMALL_STATE else 24


def _set(array: Any, place: AnyArray, value: AnyArray, is_set: Any = True) -> Any:
    return eqxi.buffer_at_set(array, place, value, pred=is_set)
