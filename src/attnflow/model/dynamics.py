"""The velocity fields: attention in R^d, the same flow rescaled, and on the sphere.

A solver asks a flow for `velocity(time, state)`, for the ambient `pull` that a discrete
layer adds, and for the `space` tokens live in. Nothing here knows about solvers.
"""

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Masses, Matrix, RadiiOfRuns, Scalar, Tokens, TokensOfRuns
from attnflow._common.checks import InputError, require_all_finite, require_square
from attnflow._common.matrix_exponential import scaled_exponential, scaled_power
from attnflow._common.precision import optional_parameter
from attnflow.model.attention import AbstractAttention, Softmax
from attnflow.model.heads import Head
from attnflow.model.masks import AbstractMask, Full
from attnflow.model.mlp import MLP
from attnflow.model.noise import Noise
from attnflow.model.normalisation import AbstractNormalisation, Post
from attnflow.model.pair_sums import Pairs
from attnflow.model.schedules import PiecewiseHead, RedrawnHead, TimeDependentHead
from attnflow.model.spaces import Euclidean, Sphere

AnyHead = Head | PiecewiseHead | TimeDependentHead | RedrawnHead

MOST_UNROLLED_HEADS = 3  # more heads of one shape go through one compiled loop


class State(eqx.Module):
    """What moves: the tokens, and their lengths where the normalisation has them; of one run or of several."""

    tokens: TokensOfRuns
    radii: RadiiOfRuns | None = None

    @classmethod
    def of(cls, flow: "AbstractDynamics", tokens: np.ndarray) -> "State":
        """The state of checked tokens, shape ([runs,] n, d): split into directions and lengths where `flow` has both.

        Examples
        --------
        >>> from attnflow.model.normalisation import Pre
        >>> state = State.of(SphereAttention(Head.identity(2), normalisation=Pre()), np.array([[3.0, 4.0]]))
        >>> state.tokens, state.radii
        (array([[0.6, 0.8]]), array([5.]))
        """
        if not flow.has_radii:
            return cls(tokens)
        radii = np.linalg.norm(tokens, axis=-1)
        return cls(tokens / radii[..., None], radii)


def as_heads(heads: AnyHead | Sequence[AnyHead]) -> tuple[AnyHead, ...]:
    """One head or several, as a tuple; they must agree on d."""
    heads = (heads,) if isinstance(heads, AnyHead) else tuple(heads)
    wrong = [type(head).__name__ for head in heads if not isinstance(head, AnyHead)]
    if wrong or not heads:
        raise InputError(
            "`heads` must be one `Head` or a list of them, but "
            + (f"it holds a {wrong[0]}." if wrong else "the list is empty.")
            + " Start from `Head.identity(d)`."
        )
    dimensions = {head.dimension for head in heads}
    if len(dimensions) > 1:
        raise InputError(f"All heads must act on tokens of the same dimension, but theirs are {sorted(dimensions)}.")
    return heads


def _as_flags(frozen: Any) -> Any:
    return frozen if frozen is None or isinstance(frozen, jax.Array) else np.asarray(frozen)


class AbstractDynamics(eqx.Module):
    """A velocity field on configurations of n tokens, driven by attention.

    Parameters
    ----------
    heads
        One head or several; their pulls add up.
    attention
        How scores become weights.
    mask
        Who sees whom.
    masses
        A token of mass m counts like m tokens in one place. None: all one.
    frozen
        True for tokens that are seen but never move. None: nobody.
    mlp
        A feed-forward layer on the pull.
    noise
        Diffusion added to the velocity.
    """

    heads: tuple[AnyHead, ...] = eqx.field(converter=as_heads)
    attention: AbstractAttention = eqx.field(default_factory=Softmax)
    mask: AbstractMask = eqx.field(default_factory=Full)
    masses: Masses | None = eqx.field(default=None, converter=optional_parameter, kw_only=True)
    frozen: AnyArray | None = eqx.field(default=None, converter=_as_flags, kw_only=True)
    mlp: MLP | None = eqx.field(default=None, kw_only=True)
    noise: Noise | None = eqx.field(default=None, kw_only=True)

    space: ClassVar[Euclidean | Sphere]

    def __check_init__(self):
        _require_parts(self)

    @abc.abstractmethod
    def velocity(self, time: Scalar, state: State) -> State:
        """How fast every token (and length) changes at `time`."""

    @abc.abstractmethod
    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """One discrete layer: residual * x + step * (what attention sends)."""

    @abc.abstractmethod
    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """Weights of every head, shape (heads, n, n); only some rows where those are given."""

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.heads[0].dimension

    @property
    def has_radii(self) -> bool:
        """Whether tokens have lengths of their own."""
        return False

    @property
    def beta(self) -> float | None:
        """The inverse temperature of the attention weights; None for hardmax, which has no such parameter."""
        shape = self.attention.exponential()
        return None if shape is None else float(shape.factor)

    @property
    def is_on_sphere(self) -> bool:
        """Whether tokens (their directions, where they have lengths) move on the unit sphere."""
        return isinstance(self.space, Sphere)

    @property
    def is_causal(self) -> bool:
        """Whether no token attends to a later one."""
        return self.mask.is_causal

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Times strictly between `start` and `end` at which the field is discontinuous."""
        return np.unique(np.concatenate([head.jumps(start, end) for head in self.heads]))

    def noise_part(self, time: Scalar, state: State, increments: Tokens) -> State:
        """What Brownian increments, shape (n, d), do to the state."""
        del time
        if self.noise is None:
            raise InputError("This flow has no noise. Pass `noise=Noise(kappa)`.")
        if self.noise.common:
            increments = jnp.broadcast_to(increments[:1], increments.shape)
        moves = self.space.tangent_part(state.tokens, self.noise.strength() * increments)
        return State(self._unless_frozen(moves), _zeros_like(state.radii))

    def _pairs(self, head: Head, tokens: Tokens, log_scale: AnyArray | None = None) -> Pairs:
        queries, keys = tokens @ head.query.T, tokens @ head.key.T
        return Pairs(self.attention, self.mask, queries, keys, self.masses, log_scale)

    def _pull(self, time: Scalar, tokens: Tokens) -> Tokens:
        """Sum over heads of what attention sends to each token, after the MLP."""

        def pull(head):
            return head.passed_on(self._pairs(head, tokens).weighted_sums(head.received(tokens)))

        total = _sum_over_heads(pull, [head.at(time) for head in self.heads])
        return total if self.mlp is None else self.mlp(total)

    def _matrices(self, time: Scalar, tokens: Tokens, log_scale: AnyArray | None, rows: AnyArray | None) -> AnyArray:
        return jnp.stack([self._pairs(head.at(time), tokens, log_scale).weights(rows) for head in self.heads])

    def _unless_frozen(self, moves: Tokens) -> Tokens:
        return moves if self.frozen is None else jnp.where(jnp.asarray(self.frozen)[:, None], 0, moves)


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

        return _sum_over_heads(pull, [head.at(time) for head in self.heads])

    def _value_in_frame(self, head: Head, matrix: Matrix) -> Matrix:
        """M^{-1} V_h M, which is V_h itself when it is what the frame moves with."""
        is_frame = len(self.heads) == 1 and self.rescaling is None
        if is_frame:
            return head.value_matrix
        return jnp.linalg.solve(matrix, head.value_matrix @ matrix)


def _sum_over_heads(pull, heads: list[Head]) -> Tokens:
    shapes = {str(jax.tree.map(jnp.shape, head)) for head in heads}
    if len(heads) <= MOST_UNROLLED_HEADS or len(shapes) > 1:
        return functools.reduce(jnp.add, map(pull, heads))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *heads)
    first = jnp.zeros_like(jax.eval_shape(pull, heads[0]))
    return jax.lax.scan(lambda total, head: (total + pull(head), None), first, stacked)[0]


def _zeros_like(radii):
    return None if radii is None else jnp.zeros_like(radii)


def _require_parts(flow: AbstractDynamics) -> None:
    kinds = {"attention": AbstractAttention, "mask": AbstractMask, "mlp": MLP, "noise": Noise}
    for name, kind in kinds.items():
        part = getattr(flow, name)
        if (part is None and name in ("mlp", "noise")) or isinstance(part, kind):
            continue
        found = f"the class {part.__name__}: write {part.__name__}(...)" if isinstance(part, type) else repr(part)
        raise InputError(f"`{name}` must be one of attnflow's, such as {_EXAMPLES[name]}, but it is {found}.")
    _require_masses(flow.masses)
    if flow.frozen is not None and (flow.frozen.dtype != np.bool_ or flow.frozen.ndim != 1):
        raise InputError(
            "`frozen` must be a list of booleans, one a token, but it has shape "
            f"{flow.frozen.shape} and type {flow.frozen.dtype}."
        )
    d = flow.dimension
    if flow.mlp is not None and flow.mlp.weight.shape != (d, d):
        raise InputError(f"`weight` of the MLP must be {d} x {d} like the tokens, but it is {flow.mlp.weight.shape}.")


_EXAMPLES = {
    "attention": "`Softmax(beta=1.0)`",
    "mask": "`masks.causal`",
    "mlp": "`MLP(weight)`",
    "noise": "`Noise(kappa=10.0)`",
}


def _require_masses(masses: Any) -> None:
    if masses is None:
        return
    if masses.ndim != 1:
        raise InputError(f"`masses` must be a list, one number a token, but its shape is {masses.shape}.")
    require_all_finite(masses, "masses", ("token",))
    if np.any(masses <= 0):
        worst = int(np.argmin(masses))
        raise InputError(f"`masses` must be above zero, but token {worst} has mass {masses[worst]:g}. Leave it out.")


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
