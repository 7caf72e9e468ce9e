"""What all velocity fields have in common: parts, properties, and the attention output sum_j A_ij V x_j.

A solver needs from a flow its `velocity(time, state)`, its discrete `layer`, and the `space` in which tokens move.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Masses, RadiiOfRuns, Scalar, Tokens, TokensOfRuns
from attnflow._common.checks import InputError, require_all_finite
from attnflow._common.module import Module
from attnflow._common.precision import optional_parameter, read_only
from attnflow.model.attention import AbstractAttention, Softmax
from attnflow.model.coordinates import mapped
from attnflow.model.fast_sums.summation import AbstractSummation, as_summation, require_summation
from attnflow.model.head_products import can_be_joined, joined_output
from attnflow.model.heads import Head, PiecewiseHead, RedrawnHead, TimeDependentHead
from attnflow.model.masks import AbstractMask, Full
from attnflow.model.mlp import MLP
from attnflow.model.noise import Noise
from attnflow.model.pair_sums import BLOCK_ENTRIES, Pairs
from attnflow.model.perceptron import AnyPerceptron, Perceptron
from attnflow.model.spaces import Euclidean, Sphere

AnyHead = Head | PiecewiseHead | TimeDependentHead | RedrawnHead

MAX_UNROLLED_HEADS = 3  # heads; more of them, of one shape, are compiled once as a loop instead of one by one


class State(eqx.Module):
    """The variables of the flow, for one run or several: tokens, and their lengths where these vary."""

    tokens: TokensOfRuns
    radii: RadiiOfRuns | None = None

    @classmethod
    def of(cls, flow: "AbstractDynamics", tokens: np.ndarray) -> "State":
        """The state of checked tokens, shape ([runs,] n, d), split into directions and lengths if `flow` has lengths.

        Examples
        --------
        >>> import attnflow as af
        >>> flow = af.SphereAttention(af.Head.identity(2), normalisation=af.Pre())
        >>> state = State.of(flow, np.array([[3.0, 4.0]]))
        >>> state.tokens, state.radii
        (array([[0.6, 0.8]]), array([5.]))
        """
        if not flow.has_radii:
            return cls(tokens)
        radii = np.linalg.norm(tokens, axis=-1)
        return cls(tokens / radii[..., None], radii)


def as_heads(heads: AnyHead | Sequence[AnyHead]) -> tuple[AnyHead, ...]:
    """One head, several or none as a tuple; all must act on the same dimension d."""
    heads = (heads,) if isinstance(heads, AnyHead) else tuple(heads)
    wrong = [type(head).__name__ for head in heads if not isinstance(head, AnyHead)]
    if wrong:
        raise InputError(
            f"`heads` must be one `Head` or a list of them, but it holds an object of type {wrong[0]}. "
            "Start from `Head.identity(d)`."
        )
    dimensions = {head.dimension for head in heads}
    if len(dimensions) > 1:
        raise InputError(f"All heads must act on tokens of the same dimension, but theirs are {sorted(dimensions)}.")
    return heads


def _as_flags(frozen: Any) -> Any:
    return None if frozen is None else read_only(frozen)


class AbstractDynamics(Module):
    """A velocity field on configurations of n tokens, driven by attention.

    Parameters
    ----------
    heads
        One head or several; their outputs are added. None at all, ``[]``, if a perceptron is given.
    attention
        The map from scores to weights.
    mask
        The tokens that each token attends to.
    masses
        A token of mass m acts like m tokens at the same point. None: all masses are one.
    frozen
        True for tokens that act on others but do not move. None: all tokens move.
    mlp
        A feed-forward layer on the attention output.
    perceptron
        A drift W sigma(U x + b) of every token by itself, added to the output.
    noise
        Diffusion added to the velocity.
    summation
        The method of the sum over tokens, one of `af.summation`. None or "auto": `simulate` and `velocity` choose one.
    """

    heads: tuple[AnyHead, ...] = eqx.field(converter=as_heads)
    attention: AbstractAttention = eqx.field(default_factory=Softmax)
    mask: AbstractMask = eqx.field(default_factory=Full)
    masses: Masses | None = eqx.field(default=None, converter=optional_parameter, kw_only=True)
    frozen: AnyArray | None = eqx.field(default=None, converter=_as_flags, kw_only=True)
    mlp: MLP | None = eqx.field(default=None, kw_only=True)
    perceptron: AnyPerceptron | None = eqx.field(default=None, kw_only=True)
    noise: Noise | None = eqx.field(default=None, kw_only=True)
    summation: AbstractSummation | None = eqx.field(default=None, converter=as_summation, kw_only=True)

    space: ClassVar[Euclidean | Sphere]

    def __check_init__(self):
        _require_parts(self)

    @abc.abstractmethod
    def velocity(self, time: Scalar, state: State) -> State:
        """The time derivative of every token (and length) at `time`."""

    @abc.abstractmethod
    def layer(self, time: Scalar, state: State, step: Scalar, residual: Scalar) -> State:
        """The state after one discrete layer: residual * x + step * (attention output and drift)."""

    @abc.abstractmethod
    def attention_matrices(self, time: Scalar, state: State, rows: AnyArray | None = None) -> AnyArray:
        """The weights of every head, shape (heads, n, n), or (heads, rows, n) if row numbers are given."""

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self._parts_in_time[0].dimension

    @property
    def _parts_in_time(self) -> tuple[AnyHead | AnyPerceptron, ...]:
        """Heads and perceptron: the parts that may change in time."""
        return self.heads if self.perceptron is None else (*self.heads, self.perceptron)

    @property
    def is_constant(self) -> bool:
        """Whether all weights are constant in time."""
        return all(isinstance(part, Head | Perceptron) for part in self._parts_in_time)

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
        return np.unique(np.concatenate([part.jumps(start, end) for part in self._parts_in_time]))

    def next_jump(self, time: float) -> float:
        """The first time after `time` at which the field is discontinuous, or infinity."""
        # Redrawn weights jump once a period without end, so only two of their periods are searched.
        spans = [2 * float(head.period) for head in self.heads if isinstance(head, RedrawnHead)]
        return float(min(self.jumps(time, time + min(spans, default=np.inf)), default=np.inf))

    def noise_part(self, time: Scalar, state: State, increments: Tokens) -> State:
        """The change of the state by Brownian increments of shape (n, d)."""
        del time
        if self.noise is None:
            raise InputError("This flow has no noise. Pass `noise=Noise(kappa)`.")
        if self.noise.common:
            increments = jnp.broadcast_to(increments[:1], increments.shape)
        moves = self.space.tangent_part(state.tokens, self.noise.strength() * increments)
        return State(self._unless_frozen(moves), _zeros_like(state.radii))

    def _pairs(self, head: Head, tokens: Tokens, log_scale: AnyArray | None = None) -> Pairs:
        queries, keys = mapped(tokens, head.query), mapped(tokens, head.key)
        return Pairs(self.attention, self.mask, queries, keys, self.masses, log_scale, self.summation)

    def _output(self, time: Scalar, tokens: Tokens) -> Tokens:
        """The attention output plus the drift W sigma(U x + b) by the perceptron."""
        if self.perceptron is None:
            return self._attention_output(time, tokens)
        drift = self.perceptron.at(time)(tokens)
        return drift + self._attention_output(time, tokens) if self.heads else drift

    def _attention_output(self, time: Scalar, tokens: Tokens) -> Tokens:
        """The attention output sum_h sum_j A^h_ij V_h x_j of every token, after the MLP."""

        def head_output(head):
            return head.project_output(self._pairs(head, tokens).weighted_sums(head.project_values(tokens)))

        def weighted_sums(queries, keys, values):
            pairs = Pairs(self.attention, self.mask, queries, keys, self.masses, summation=self.summation)
            return pairs.weighted_sums(values)

        heads = [head.at(time) for head in self.heads]
        is_joined = len(heads) > MAX_UNROLLED_HEADS and can_be_joined(heads)
        # The weights of all heads together fit into the memory for one block.
        is_small = len(heads) * len(tokens) ** 2 <= BLOCK_ENTRIES
        if is_joined and is_small:
            total = joined_output(heads, tokens, weighted_sums)
        else:
            total = sum_over_heads(head_output, heads)
        return total if self.mlp is None else self.mlp(total)

    def _matrices(self, time: Scalar, tokens: Tokens, log_scale: AnyArray | None, rows: AnyArray | None) -> AnyArray:
        if not self.heads:
            raise InputError("The flow has no heads, so that there are no attention weights.")
        return jnp.stack([self._pairs(head.at(time), tokens, log_scale).weights(rows) for head in self.heads])

    def _unless_frozen(self, moves: Tokens) -> Tokens:
        return moves if self.frozen is None else jnp.where(jnp.asarray(self.frozen)[:, None], 0, moves)


def sum_over_heads(head_output: Callable[[Head], Tokens], heads: list[Head]) -> Tokens:
    """The sum of `head_output(head)` over all heads; many heads of one shape are compiled as one loop."""
    shapes = {str(jax.tree.map(jnp.shape, head)) for head in heads}
    if len(heads) <= MAX_UNROLLED_HEADS or len(shapes) > 1:
        return functools.reduce(jnp.add, map(head_output, heads))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *heads)
    first = jnp.zeros_like(jax.eval_shape(head_output, heads[0]))
    return jax.lax.scan(lambda total, head: (total + head_output(head), None), first, stacked)[0]


def _zeros_like(radii):
    return None if radii is None else jnp.zeros_like(radii)


def _require_parts(flow: AbstractDynamics) -> None:
    kinds: dict[str, Any] = {
        **{"attention": AbstractAttention, "mask": AbstractMask, "mlp": MLP},
        **{"perceptron": AnyPerceptron, "noise": Noise},
    }
    for name, kind in kinds.items():
        part = getattr(flow, name)
        if (part is None and name in ("mlp", "perceptron", "noise")) or isinstance(part, kind):
            continue
        given = f"the class {part.__name__}: write {part.__name__}(...)" if isinstance(part, type) else repr(part)
        raise InputError(f"`{name}` must be one of attnflow's, such as {_EXAMPLES[name]}, but it is {given}.")
    _require_masses(flow.masses)
    require_summation(flow)
    if flow.frozen is not None and (flow.frozen.dtype != np.bool_ or flow.frozen.ndim != 1):
        raise InputError(
            "`frozen` must be a list of booleans, one a token, but it has shape "
            f"{flow.frozen.shape} and type {flow.frozen.dtype}."
        )
    _require_same_dimension(flow)
    d = flow.dimension
    if flow.mlp is not None and flow.mlp.weight.shape != (d, d):
        raise InputError(f"`weight` of the MLP must be {d} x {d} like the tokens, but it is {flow.mlp.weight.shape}.")


def _require_same_dimension(flow: AbstractDynamics) -> None:
    if not flow.heads and (flow.perceptron is None or flow.mlp is not None):
        raise InputError(
            "`heads` must be one `Head` or a list of them, but the list is empty. Start from `Head.identity(d)`. "
            "Only a flow with a `perceptron` and without an `mlp` may have no heads."
        )
    if flow.perceptron is not None and flow.perceptron.dimension != flow.dimension:
        raise InputError(
            f"`perceptron` must act on tokens of the dimension {flow.dimension} of the heads, but its dimension is "
            f"{flow.perceptron.dimension}."
        )


_EXAMPLES = {
    "attention": "`Softmax(beta=1.0)`",
    "mask": "`masks.causal`",
    "mlp": "`MLP(weight)`",
    "perceptron": "`Perceptron(outer, inner)`",
    "noise": "`Noise(kappa=10.0)`",
}


def _require_masses(masses: Any) -> None:
    if masses is None:
        return
    if masses.ndim != 1:
        raise InputError(f"`masses` must be a list, one number per token, but its shape is {masses.shape}.")
    require_all_finite(masses, "masses", ("token",))
    if np.any(masses <= 0):
        worst = int(np.argmin(masses))
        raise InputError(f"`masses` must be above zero, but masses[{worst}] is {masses[worst]:g}. Leave it out.")
