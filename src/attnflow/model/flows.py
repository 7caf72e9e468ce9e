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
    """Attention in R^d: x_i' = sum_j A_ij V x_j, summed over heads (arXiv:2305.05465)."""

    space: ClassVar[Euclidean | Sphere] = Euclidean()

    def velocity(self, time: Scalar, state: State) -> State:
        """The pull itself."""
        return State(self._unless_frozen(self._pull(time, state.tokens)))

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """residual * x + step * pull."""
        moved = residual * state.tokens + step * self._pull(time, state.tokens)
        return State(state.tokens + self._unless_frozen(moved - state.tokens))

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """Weights of every head."""
        return self._matrices(time, state.tokens, None, rows)


class SphereAttention(AbstractDynamics):
    """Attention on the unit sphere: theta_i' = P_i( sum_j A_ij V theta_j ) / s_i.

    P_i removes the component along theta_i; `normalisation` sets the speed factor s_i
    and, for schemes with lengths, how those grow. Tokens on the sphere attend by
    their directions. Equations 1.3 to 1.7 and 1.14 of the literature in one class.
    """

    normalisation: AbstractNormalisation = eqx.field(default_factory=Post, kw_only=True)

    space: ClassVar[Euclidean | Sphere] = Sphere()

    @property
    def has_radii(self) -> bool:
        """Whether the normalisation lets lengths grow."""
        return self.normalisation.has_radii

    def velocity(self, time: Scalar, state: State) -> State:
        """Tangent part of the pull over the speed factor; growth of the lengths."""
        pull = self._scaled_pull(time, state)
        turn = self._unless_frozen(self.space.tangent_part(state.tokens, pull))
        if state.radii is None:
            return State(turn)
        growth = state.radii * jnp.sum(state.tokens * self._unless_frozen(pull), axis=-1)
        return State(turn, jnp.where(self.normalisation.radius_is_free(time), growth, 0))

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """The direction and length of residual * x + step * pull."""
        moved = residual * state.tokens + step * self._scaled_pull(time, state)
        moved = state.tokens + self._unless_frozen(moved - state.tokens)
        directions = self.space.retract(moved)
        if state.radii is None:
            return State(directions)
        is_free = self.normalisation.radius_is_free(time)
        stretch = jnp.where(is_free, jnp.linalg.norm(moved, axis=-1), 1)
        return State(directions, state.radii * stretch)

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """Weights of every head."""
        return self._matrices(time, state.tokens, None, rows)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Jumps of the weights and of the normalisation."""
        of_weights = super().jumps(start, end)
        return np.unique(np.concatenate([of_weights, self.normalisation.jumps(start, end)]))

    def _scaled_pull(self, time: Scalar, state: State) -> Tokens:
        pull = self._pull(time, state.tokens)
        return pull / self.normalisation.slowness(time, state.radii, pull)


class RescaledAttention(AbstractDynamics):
    """The flow of R^d seen through z = e^{-tV} x: z_i' = sum_j A_ij V z_j - V z_i.

    Scores are those of x = e^{tV} z, formed from a matrix of size one and its scale
    apart, so that no time overflows. With several heads V is the sum of their value
    matrices unless `rescaling` is given, and each head's V_h becomes e^{-tV} V_h e^{tV}.
    With an MLP the field is W sigma(V sum_j A_ij (z_j - z_i)), a model of its own. Frozen tokens
    rest in x, so that z = e^{-tV} x moves; with an MLP, which has no x, they rest in z.
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
        """Pull in the moving frame minus the frame's own motion."""
        growth = scaled_exponential(self.rescaling_matrix, time)
        pull = self._pull_in_frame(time, state.tokens, growth)
        frame_motion = state.tokens @ self.rescaling_matrix.T
        if self.mlp is not None:
            return State(self._unless_frozen(self.mlp(pull - frame_motion)))
        # A token frozen in x is carried along by the frame.
        return State(self._unless_frozen(pull) - frame_motion)

    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """The layers of x, seen through z = (residual I + step V)^{-k} x after k layers."""
        frame = residual * jnp.eye(self.dimension, dtype=state.tokens.dtype)
        frame = frame + step * self.rescaling_matrix
        growth = scaled_power(frame, jnp.round(time / step))
        pull = self._pull_in_frame(time, state.tokens, growth)
        moved = (residual - 1) * state.tokens + step * pull
        moved = state.tokens + self._unless_frozen(moved)
        return State(jnp.linalg.solve(frame, moved.T).T)

    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """Weights of every head, the same as for x = e^{tV} z."""
        matrix, log_scale = scaled_exponential(self.rescaling_matrix, time)
        return self._matrices(time, state.tokens @ matrix.T, 2 * log_scale, rows)

    def noise_part(self, time: Scalar, state: State, increments: Tokens) -> State:
        """e^{-tV} times what the noise does to x."""
        matrix, log_scale = scaled_exponential(self.rescaling_matrix, -time)
        seen = jnp.exp(log_scale) * (increments @ matrix.T)
        return super().noise_part(time, state, seen)

    def _pull_in_frame(self, time: Scalar, tokens: Tokens, growth: tuple) -> Tokens:
        matrix, log_scale = growth
        moving = tokens @ matrix.T

        def pull(head):
            values = tokens @ self._value_in_frame(head, matrix).T
            return self._pairs(head, moving, 2 * log_scale).weighted_sums(values)

        return sum_over_heads(pull, [head.at(time) for head in self.heads])

    def _value_in_frame(self, head: Head, matrix: Matrix) -> Matrix:
        """M^{-1} V_h M, which is V_h itself when it is what the frame moves with."""
        is_frame = len(self.heads) == 1 and self.rescaling is None
        if is_frame:
            return head.value_matrix
        return jnp.linalg.solve(matrix, head.value_matrix @ matrix)


def _require_rescaling(flow: RescaledAttention) -> None:
    if flow.rescaling is not None:
        require_square(flow.rescaling, "rescaling")
        if len(flow.rescaling) != flow.dimension:
            raise InputError(
                f"`rescaling` must be {flow.dimension} x {flow.dimension} like the tokens, "
                f"but it is {flow.rescaling.shape[0]} x {flow.rescaling.shape[0]}."
            )
    elif not all(isinstance(head, Head) for head in flow.heads):
        raise InputError(
            "`RescaledAttention` cannot form e^{-tV} from a value matrix that changes in time. "
            "Pass the constant V to look through as `rescaling`, or use `EuclideanAttention`."
        )
