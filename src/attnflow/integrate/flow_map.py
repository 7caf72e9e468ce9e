"""`flow_map`: the last tokens as a pure function of JAX, with derivatives in tokens, weights, beta and time."""

import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.checks import InputError
from attnflow._common.precision import cast
from attnflow.integrate.discrete_adjoint import Field, StepControl, integrated
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import PiecewiseHead, RedrawnHead
from attnflow.model.perceptron import PiecewisePerceptron
from attnflow.model.validation import require_flow

TOLERANCES = {"float64": (1e-8, 1e-10), "float32": (1e-4, 1e-6)}  # rtol and atol by the precision of the tokens


def flow_map(
    flow: AbstractDynamics,
    tokens: Tokens,
    end: AnyArray | float,
    *,
    start: AnyArray | float = 0.0,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 4096,
) -> AnyArray:
    """The tokens at time `end` that are `tokens` at time `start`, as a pure function for `jax.grad`, `jit` and `vmap`.

    It takes the steps of `Adaptive` without events, saved times or a dataset: `simulate` gives the same tokens within
    the tolerance. A flow is a pytree, so that derivatives in weights and beta are those of ``equinox.filter_grad``.
    Reverse mode is the discrete adjoint of the steps (`discrete_adjoint`): gradients are those of the numbers that the
    forward run gives, exact up to rounding, with the lengths of steps as constants. Up to 64 steps keep their attention
    outputs (24 of large configurations); where there are more, earlier ones are taken a second time. Forward mode and
    second derivatives are not defined.

    Parameters
    ----------
    flow
        The model, without noise and without lengths (Pre, Peri, Mix); weights are constant or smooth in time. Weights
        that jump are maps one after the other: ``flow_map(second, flow_map(first, tokens, 1.0), 2.0, start=1.0)``.
    tokens
        First tokens, (n, d). Their precision is that of the computation: set ``jax_enable_x64`` for float64.
    end, start
        Last and first time, `end` > `start`.
    rtol, atol
        Tolerances of a step. None: 1e-8 and 1e-10, in float32 1e-4 and 1e-6.
    max_steps
        Largest number of steps; a run that needs more raises an error.

    Examples
    --------
    >>> import jax, numpy as np, attnflow as af
    >>> flow = af.EuclideanAttention(af.Head(value=np.array([[0.5]])))
    >>> with jax.enable_x64(True):
    ...     last = af.flow_map(flow, np.array([[2.0]]), 1.0)  # one token grows like e^{t/2}
    ...     rate = jax.grad(lambda end: af.flow_map(flow, np.array([[2.0]]), end)[0, 0])(1.0)
    >>> round(float(last[0, 0]), 6), round(float(rate), 6)
    (3.297443, 1.648721)
    """
    require_flow(flow)
    _require_differentiable(flow)
    first = jnp.asarray(tokens)
    if first.ndim != 2 or first.shape[1] != flow.dimension:
        raise InputError(f"`tokens` must have the shape (n, {flow.dimension}), but it is {first.shape}.")
    usual = TOLERANCES.get(first.dtype.name)
    if usual is None:
        raise InputError(f"`tokens` must be floats of 32 or 64 bits, but they are {first.dtype.name}.")
    model = cast(flow, first.dtype.name)
    control = StepControl(usual[0] if rtol is None else rtol, usual[1] if atol is None else atol, max_steps)
    start, end = jnp.asarray(start, first.dtype), jnp.asarray(end, first.dtype)
    last = integrated(_field(model, start, first), first, start, end, control)
    # Steps leave the sphere by their error; the retraction brings the last tokens back.
    return flow.space.retract(last) if flow.is_on_sphere else last


def _field(flow: AbstractDynamics, time: AnyArray, tokens: Tokens) -> Field:
    """The velocity, on spheres as a function of the attention output: its projection costs little."""
    if isinstance(flow, SphereAttention):
        output = lambda time, tokens: flow.scaled_output(time, State(tokens))
        return Field.of(output, flow.rotation, time, tokens)
    return Field.of(
        lambda time, tokens: flow.velocity(time, State(tokens)).tokens, lambda _, output: output, time, tokens
    )


def _require_differentiable(flow: AbstractDynamics) -> None:
    """Raise InputError for what has no smooth path from first to last tokens."""
    jumping = (PiecewiseHead, RedrawnHead, PiecewisePerceptron)
    reasons = {
        "noise": flow.noise is not None,
        "lengths of tokens": flow.has_radii,
        "weights that jump in time": any(isinstance(part, jumping) for part in (*flow.heads, flow.perceptron)),
    }
    for words, is_so in reasons.items():
        if is_so:
            raise InputError(f"`flow_map` takes flows without {words}, but the flow has them.")
