"""The three velocity fields: attention in R^d, the same flow rescaled, and attention on the sphere."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Matrix, Scalar, Tokens
from attnflow._common.checks import InputError, require_square
from attnflow._common.matrix_exponential import scaled_exponential, scaled_power
from attnflow._common.precision import optional_parameter
from attnflow.model.dynamics import AbstractDynamics, State, sum_over_heads
from attnflow.model.heads import Head
from attnflow.model.normalisation import AbstractNormalisation, Post
from attnflow.model.spaces import Euclidean, Sphere


class EuclideanAttention(AbstractDynamics):
    """Attention in R^d: x_i' = sum_j A_ij V x_j, summed over heads (arXiv:2305.05465).

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(2), af.Softmax(beta=0.0))
    >>> af.velocity(flow, np.array([[1.0, 0.0], [3.0, 0.0]]))  # every token moves with the mean of all tokens
    array([[2., 0.],
           [2., 0.]])
    """

    space: ClassVar[Euclidean | Sphere] = Euclidean()

    def velocity(self, time: Scalar, state: State) -> State:
        """The attention output plus the drift by the perceptron."""
        return State(self._unless_frozen(self._output(time, state.tokens)))

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """residual * x + step * (attention output plus drift by the perceptron)."""
        moved = residual * state.tokens + step * self._output(time, state.tokens)
        return State(state.tokens + self._unless_frozen(moved - state.tokens))

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """The weights of every head."""
        return self._matrices(time, state.tokens, None, rows)


class SphereAttention(AbstractDynamics):
    """Attention on the unit sphere: theta_i' = P_i( sum_j A_ij V theta_j ) / s_i.

    P_i removes the component along theta_i. `normalisation` sets the slowness s_i and, for schemes in which tokens
    have lengths, the equation of the lengths. Scores depend on directions only.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=0.0))
    >>> af.velocity(flow, np.eye(2))  # half of the other token, which is tangent
    array([[0. , 0.5],
           [0.5, 0. ]])
    """

    normalisation: AbstractNormalisation = eqx.field(default_factory=Post, kw_only=True)

    space: ClassVar[Euclidean | Sphere] = Sphere()

    @property
    def has_radii(self) -> bool:
        """Whether the normalisation has lengths."""
        return self.normalisation.has_radii

    def velocity(self, time: Scalar, state: State) -> State:
        """theta' = P(A) / s, and r' = r <theta, A> / s where lengths are free; A is attention plus perceptron."""
        output = self.scaled_output(time, state)
        rotation = self.rotation(state.tokens, output)
        if state.radii is None:
            return State(rotation)
        growth = state.radii * jnp.sum(state.tokens * self._unless_frozen(output), axis=-1)
        return State(rotation, jnp.where(self.normalisation.radius_is_free(time), growth, 0))

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """The direction and length of residual * x + step * A / s, where A is attention plus perceptron."""
        moved = residual * state.tokens + step * self.scaled_output(time, state)
        moved = state.tokens + self._unless_frozen(moved - state.tokens)
        # Lengths of frozen directions are one up to rounding, whose errors would add up over layers.
        is_frozen = jnp.zeros(len(moved), bool) if self.frozen is None else jnp.asarray(self.frozen)
        directions = jnp.where(is_frozen[:, None], state.tokens, self.space.retract(moved))
        if state.radii is None:
            return State(directions)
        is_free = self.normalisation.radius_is_free(time) & ~is_frozen
        stretch = jnp.where(is_free, jnp.linalg.norm(moved, axis=-1), 1)
        return State(directions, state.radii * stretch)

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """The weights of every head."""
        return self._matrices(time, state.tokens, None, rows)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Times strictly between `start` and `end` at which the weights or the normalisation jump."""
        of_weights = super().jumps(start, end)
        return np.unique(np.concatenate([of_weights, self.normalisation.jumps(start, end)]))

    def output_lengths(self, time: Scalar, state: State) -> AnyArray:
        """The length |A| of every token's attention output plus perceptron, before the normalisation."""
        return jnp.linalg.norm(self._output(time, state.tokens), axis=-1)

    def rotation(self, tokens: Tokens, output: Tokens) -> Tokens:
        """The velocity P(A) of the directions, of the output A / s."""
        return self._unless_frozen(self.space.tangent_part(tokens, output))

    def scaled_output(self, time: Scalar, state: State) -> Tokens:
        """The attention output plus drift by the perceptron, over the slowness: A / s."""
        output = self._output(time, state.tokens)
        return output / self.normalisation.slowness(time, state.radii, output)


class RescaledAttention(AbstractDynamics):
    """The flow of R^d in the variables z = e^{-tV} x: z_i' = sum_j A_ij V z_j - V z_i.

    Scores are those of x = e^{tV} z. They are formed from e^{tV} divided by its scale, and the logarithm of the scale,
    so that no time overflows. With several heads V is the sum of their value matrices unless `rescaling` is given, and
    the value matrix V_h of a head becomes e^{-tV} V_h e^{tV}. With an MLP the field is
    W sigma(V sum_j A_ij (z_j - z_i)), which is a model of its own. Frozen tokens are constant in x, so that
    z = e^{-tV} x moves; with an MLP, for which there is no x, they are constant in z.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.RescaledAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[-1.0], [0.1], [2.0]], [0.0, 20.0], progress=False)
    >>> run.final_tokens.values.round(6).ravel()  # the hull shrinks to an interval, here with all tokens at its ends
    array([-0.896989,  1.99418 ,  1.99418 ])
    >>> flow.rescaling_matrix.tolist()  # the sum of the value matrices of all heads
    [[1.0]]
    """

    rescaling: Matrix | None = eqx.field(default=None, converter=optional_parameter, kw_only=True)

    space: ClassVar[Euclidean | Sphere] = Euclidean()

    def __check_init__(self):
        _require_rescaling(self)

    @property
    def rescaling_matrix(self) -> Matrix:
        """V of z = e^{-tV} x."""
        if self.rescaling is not None:
            return self.rescaling
        matrices = [head.value_matrix for head in self.heads if isinstance(head, Head)]
        return sum(matrices[1:], start=matrices[0])

    def velocity(self, time: Scalar, state: State) -> State:
        """sum_j A_ij V z_j - V z_i: the attention output in the moving frame minus the motion of the frame."""
        growth = scaled_exponential(self.rescaling_matrix, time)
        output = self._output_in_frame(time, state.tokens, growth)
        frame_motion = state.tokens @ self.rescaling_matrix.T
        if self.mlp is not None:
            return State(self._unless_frozen(self.mlp(output - frame_motion)))
        # A token that is constant in x moves with the frame.
        return State(self._unless_frozen(output) - frame_motion)

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """The layers of x in the variables z = (residual I + step V)^{-k} x after k layers."""
        frame = residual * jnp.eye(self.dimension, dtype=state.tokens.dtype)
        frame = frame + step * self.rescaling_matrix
        growth = scaled_power(frame, jnp.round(time / step))
        output = self._output_in_frame(time, state.tokens, growth)
        moved = (residual - 1) * state.tokens + step * output
        moved = state.tokens + self._unless_frozen(moved)
        return State(jnp.linalg.solve(frame, moved.T).T)

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """The weights of every head, which are those of x = e^{tV} z."""
        matrix, log_scale = scaled_exponential(self.rescaling_matrix, time)
        return self._matrices(time, state.tokens @ matrix.T, 2 * log_scale, rows)

    def noise_part(self, time: Scalar, state: State, increments: Tokens) -> State:
        """e^{-tV} times the change of x by the increments."""
        matrix, log_scale = scaled_exponential(self.rescaling_matrix, -time)
        in_frame = jnp.exp(log_scale) * (increments @ matrix.T)
        return super().noise_part(time, state, in_frame)

    def _output_in_frame(self, time: Scalar, tokens: Tokens, growth: tuple) -> Tokens:
        """sum_h sum_j A^h_ij M^{-1} V_h M z_j, where `growth` is the frame M and the logarithm of its scale."""
        matrix, log_scale = growth
        x_over_scale = tokens @ matrix.T

        def head_output(head):
            values = tokens @ self._value_in_frame(head, matrix).T
            return self._pairs(head, x_over_scale, 2 * log_scale).weighted_sums(values)

        return sum_over_heads(head_output, [head.at(time) for head in self.heads])

    def _value_in_frame(self, head: Head, matrix: Matrix) -> Matrix:
        """M^{-1} V_h M, which is V_h itself if the frame is e^{t V_h}."""
        is_frame = len(self.heads) == 1 and self.rescaling is None
        if is_frame:
            return head.value_matrix
        return jnp.linalg.solve(matrix, head.value_matrix @ matrix)


def _require_rescaling(flow: RescaledAttention) -> None:
    if flow.perceptron is not None:
        raise InputError(
            "`RescaledAttention` takes no `perceptron`, since z = e^{-tV} x does not simplify its drift. "
            "Use `EuclideanAttention`."
        )
    if flow.rescaling is not None and flow.heads:
        require_square(flow.rescaling, "rescaling")
        if len(flow.rescaling) != flow.dimension:
            raise InputError(
                f"`rescaling` must be {flow.dimension} x {flow.dimension} like the tokens, "
                f"but it is {flow.rescaling.shape[0]} x {flow.rescaling.shape[0]}."
            )
    elif not all(isinstance(head, Head) for head in flow.heads):
        raise InputError(
            "`RescaledAttention` cannot form e^{-tV} from a value matrix that changes in time. "
            "Pass a constant V as `rescaling`, or use `EuclideanAttention`."
        )
