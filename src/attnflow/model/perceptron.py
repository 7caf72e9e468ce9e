"""A drift of every token by itself, W sigma(U x + b), with weights that are constant or change in time."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Matrix, Scalar, Tokens
from attnflow._common.checks import InputError, require_all_finite, require_count, require_known, require_matrix
from attnflow._common.module import Module
from attnflow._common.precision import parameter
from attnflow.model.coordinates import mapped
from attnflow.model.mlp import MLP
from attnflow.model.schedules import piece_at, require_pieces, require_schedule, switches_between


def hat(values: AnyArray) -> AnyArray:
    """(1 - |y|)_+, which is (y + 1)_+ - 2 (y)_+ + (y - 1)_+, but zero exactly where |y| >= 1."""
    return jnp.maximum(1 - jnp.abs(values), 0)


class Perceptron(Module):
    """A perceptron as a term of a flow: x_i' = P_i( sum_h attention_h(x)_i + W sigma(U x_i + b) ).

    P_i is the projection to the tangent space on the sphere and absent in R^d. W = `outer` is d x p, U = `inner` is
    p x d, and b = `bias` has p entries; sigma acts on each of them. `MLP`, in contrast, acts on the attention output.
    A flow without heads, ``EuclideanAttention([], perceptron=...)``, is the neural ODE x' = W sigma(U x + b), and its
    discrete `Layers` are a residual network.

    `activation` is one of those of `MLP` or "hat", (1 - abs(y))_+, three ReLUs in one: (y + 1)_+ - 2 (y)_+ + (y - 1)_+.

    Examples
    --------
    The residual network x <- x + c sigma(a x + b) and its limit of many thin layers, x' = c sigma(a x + b).

    >>> import attnflow as af
    >>> flow = af.EuclideanAttention([], perceptron=af.Perceptron([[2.0]], [[1.0]], [0.5], "relu"))
    >>> af.velocity(flow, [[1.0], [-1.0]]).ravel()
    array([3., 0.])
    >>> layers = af.simulate(flow, [[1.0]], [0.0, 1.0], solver=af.Layers(step=1.0), progress=False)
    >>> layers.final_tokens.item()
    4.0
    """

    outer: Matrix = eqx.field(converter=parameter)
    inner: Matrix = eqx.field(converter=parameter)
    bias: AnyArray = eqx.field(converter=parameter)
    activation: str = eqx.field(default="relu", static=True)

    activations: ClassVar[dict] = MLP.activations | {"hat": hat}

    def __init__(
        self,
        outer: AnyArray,
        inner: AnyArray,
        bias: Sequence[float] | AnyArray | None = None,
        activation: str = "relu",
    ):
        self.outer, self.inner, self.activation = parameter(outer), parameter(inner), activation
        require_matrix(self.outer, "outer")
        require_matrix(self.inner, "inner")
        self.bias = np.zeros(len(self.inner)) if bias is None else parameter(bias)
        require_known(activation, self.activations, "activation")
        require_all_finite(self.bias, "bias", ("entry",) * self.bias.ndim)
        width, d = self.inner.shape
        if self.outer.shape != (d, width) or self.bias.shape != (width,):
            given = " x ".join(map(str, self.outer.shape))
            raise InputError(
                "The weights of a perceptron must match: `inner` is p x d, `outer` d x p, and `bias` has p entries, "
                f"but `inner` is {width} x {d}, `outer` {given}, and `bias` has the shape {self.bias.shape}."
            )

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.inner.shape[1]

    def __call__(self, tokens: Tokens) -> Tokens:
        """W sigma(U x + b) of every token x."""
        hidden = self.activations[self.activation](mapped(tokens, self.inner) + self.bias[None])
        return mapped(hidden, self.outer)

    def at(self, time: Scalar) -> "Perceptron":
        """The weights at `time`: the perceptron itself."""
        del time
        return self

    def jumps(self, start: float, end: float) -> np.ndarray:
        """No times: constant weights do not jump."""
        del start, end
        return np.empty(0)


class PiecewisePerceptron(Module):
    """Constant weights between switches: ``pieces[0]`` until ``switches[0]``, and so on.

    Solvers step exactly onto the switches, so that no step mixes two sets of weights.

    Examples
    --------
    >>> import attnflow as af
    >>> right, left = (af.Perceptron([[speed]], [[0.0]], [1.0]) for speed in (1.0, -2.0))
    >>> flow = af.EuclideanAttention([], perceptron=af.PiecewisePerceptron([1.0], [right, left]))
    >>> run = af.simulate(flow, [[0.0]], [0.0, 1.0, 2.0], progress=False)
    >>> run.tokens.values.round(6).ravel()
    array([ 0.,  1., -1.])
    >>> flow.perceptron.at(1.5).outer.item()
    -2.0
    """

    switches: AnyArray = eqx.field(converter=parameter)
    pieces: tuple[Perceptron, ...] = eqx.field(converter=tuple)

    def __init__(self, switches: Sequence[float] | AnyArray, pieces: Sequence[Perceptron]):
        require_pieces(pieces, Perceptron, "PiecewisePerceptron", "pieces")
        self.switches, self.pieces = parameter(switches), tuple(pieces)
        require_schedule(self.switches, self.pieces, "PiecewisePerceptron", "pieces")

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.pieces[0].dimension

    def at(self, time: Scalar) -> Perceptron:
        """The perceptron that acts at `time`; at a switch, the later of the two."""
        return piece_at(self.switches, self.pieces, time)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """The switches strictly between `start` and `end`."""
        return switches_between(self.switches, start, end)


class TimeDependentPerceptron(Module):
    """Weights given by a function from time to `Perceptron`, written with jax.numpy.

    The function is not recorded in result files: `rerun` needs the model as an argument.

    Examples
    --------
    x' = t relu(x) from x = 1 is e^{t^2 / 2}.

    >>> import attnflow as af
    >>> growing = TimeDependentPerceptron(lambda t: Perceptron(t * np.eye(1), np.eye(1)), dimension=1)
    >>> growing.at(3.0).outer.item()
    3.0
    >>> flow = af.EuclideanAttention([], perceptron=growing)
    >>> run = af.simulate(flow, [[1.0]], [0.0, 2.0], progress=False)
    >>> round(run.final_tokens.item(), 6)  # e^2
    7.389056
    """

    function: Callable[[Scalar], Perceptron] = eqx.field(static=True)
    """A function from a time to a `Perceptron`."""
    dimension: int = eqx.field(static=True)
    """d, the number of coordinates of a token."""

    def __check_init__(self):
        require_count(self.dimension, "dimension")

    def at(self, time: Scalar) -> Perceptron:
        """The function's value."""
        found = self.function(time)
        if not isinstance(found, Perceptron) or found.dimension != self.dimension:
            kind = f"of type {type(found).__name__}"
            given = f"of dimension {found.dimension}" if isinstance(found, Perceptron) else kind
            raise InputError(
                "`function` of a `TimeDependentPerceptron` must return a `Perceptron` of dimension "
                f"{self.dimension}, but its value is {given}."
            )
        return found

    def jumps(self, start: float, end: float) -> np.ndarray:
        """No times: the function is assumed to be smooth."""
        del start, end
        return np.empty(0)


AnyPerceptron = Perceptron | PiecewisePerceptron | TimeDependentPerceptron
