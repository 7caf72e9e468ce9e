"""Schedules: weights that are constant during pieces of time, and the flow that they make."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known, require_positive_number
from attnflow.model.attention import AbstractAttention, Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head, PiecewiseHead
from attnflow.model.masks import AbstractMask, Full
from attnflow.model.perceptron import Perceptron, PiecewisePerceptron

SPACES: dict[str, Any] = {"sphere": SphereAttention, "euclidean": EuclideanAttention}


@dataclass(frozen=True)
class Piece:
    """Weights that act for some time: heads, a perceptron, or both; `name` says what the piece does.

    Examples
    --------
    >>> import attnflow as af
    >>> piece = af.control.Piece(0.5, af.Perceptron(np.eye(2), np.eye(2)))
    >>> piece.duration, piece.dimension
    (0.5, 2)
    """

    duration: float
    """Length of the piece in time."""
    perceptron: Perceptron | None = None
    heads: tuple[Head, ...] = ()
    name: str = ""

    def __post_init__(self):
        require_positive_number(self.duration, "duration")
        if self.perceptron is None and not self.heads:
            raise InputError("A piece needs `heads`, a `perceptron`, or both, but it has neither.")

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.heads[0].dimension if self.perceptron is None else self.perceptron.dimension


@dataclass(frozen=True)
class Schedule:
    """A control: pieces of weights that act one after the other, on tokens of the sphere or of R^d.

    Examples
    --------
    Attention with V = I for a unit of time, then a constant drift to the first axis.

    >>> import attnflow as af
    >>> drift = af.Perceptron([[1.0], [0.0]], np.zeros((1, 2)), [1.0])
    >>> first = af.control.Piece(1.0, heads=(af.Head.identity(2),))
    >>> control = af.control.Schedule([first, af.control.Piece(0.5, drift)])
    >>> control.times
    array([0. , 1. , 1.5])
    >>> run = control.run(np.eye(2))
    >>> run.final_time.item()
    1.5
    >>> control.switches, type(control.flow()).__name__
    (1, 'SphereAttention')
    """

    pieces: tuple[Piece, ...]
    space: str = "sphere"
    """"sphere" or "euclidean"."""
    attention: AbstractAttention = field(default_factory=Softmax)
    """The attention rule of all heads."""
    mask: AbstractMask = field(default_factory=Full)
    """The mask of all heads."""

    def __post_init__(self):
        object.__setattr__(self, "pieces", tuple(self.pieces))
        require_known(self.space, SPACES, "space")
        dimensions = {piece.dimension for piece in self.pieces}
        if len(dimensions) != 1:
            found = f"they have dimensions {sorted(dimensions)}" if dimensions else "there are none"
            raise InputError(f"`pieces` must act on tokens of one dimension, but {found}.")
        activations = {piece.perceptron.activation for piece in self.pieces if piece.perceptron is not None}
        if len(activations) > 1:
            raise InputError(f"The perceptrons of a control must have one activation, but theirs are {activations}.")

    @property
    def times(self) -> np.ndarray:
        """Time zero and the ends of all pieces."""
        return np.concatenate([[0.0], np.cumsum([piece.duration for piece in self.pieces])])

    @property
    def switches(self) -> int:
        """The number of times at which the weights change."""
        return len(self.pieces) - 1

    def flow(self) -> AbstractDynamics:
        """The flow with these weights: heads and perceptron that are constant between the switches."""
        at, count = self.times[1:-1], max(len(piece.heads) for piece in self.pieces)
        heads: list[Any] = [self._head(at, index) for index in range(count)]
        parts = {"perceptron": self._perceptron(at)}
        return SPACES[self.space](heads, self.attention, self.mask, **parts)

    def run(self, tokens: Any, saves: int = 2, **options: Any):
        """The run of `simulate` from `tokens` to the end of the last piece, with `saves` times in each piece."""
        from attnflow.integrate.simulate import simulate

        pieces = zip(self.times[:-1], self.times[1:], strict=True)
        inside = [np.linspace(start, end, saves)[1:] for start, end in pieces]
        options = {"progress": False} | options
        return simulate(self.flow(), tokens, np.concatenate([[0.0], *inside]), **options)

    def _head(self, switches: np.ndarray, index: int) -> Head | PiecewiseHead:
        given = [piece.heads[index] for piece in self.pieces if index < len(piece.heads)]
        rows = max(len(head.query) for head in given)
        d = given[0].dimension
        nothing = Head(np.zeros((rows, d)), np.zeros((rows, d)), np.zeros((d, d)))
        heads = [
            _as_factors(piece.heads[index], rows) if index < len(piece.heads) else nothing for piece in self.pieces
        ]
        return heads[0] if len(heads) == 1 else PiecewiseHead(switches, heads)

    def _perceptron(self, switches: np.ndarray) -> Perceptron | PiecewisePerceptron | None:
        given = [piece.perceptron for piece in self.pieces if piece.perceptron is not None]
        if not given:
            return None
        width, d = max(len(one.inner) for one in given), given[0].dimension
        nothing = Perceptron(np.zeros((d, width)), np.zeros((width, d)), np.zeros(width), given[0].activation)
        pieces = [nothing if piece.perceptron is None else _widened(piece.perceptron, width) for piece in self.pieces]
        return pieces[0] if len(pieces) == 1 else PiecewisePerceptron(switches, pieces)


def _as_factors(head: Head, rows: int) -> Head:
    """The head with Q and K of `rows` rows, the further ones zero, and V as one matrix."""
    missing = ((0, rows - len(head.query)), (0, 0))
    return Head(np.pad(head.query, missing), np.pad(head.key, missing), np.asarray(head.value_matrix))


def _widened(perceptron: Perceptron, width: int) -> Perceptron:
    """The perceptron with `width` hidden units, the further ones with W = 0."""
    missing = width - len(perceptron.inner)
    return Perceptron(
        np.pad(perceptron.outer, ((0, 0), (0, missing))),
        np.pad(perceptron.inner, ((0, missing), (0, 0))),
        np.pad(perceptron.bias, (0, missing)),
        perceptron.activation,
    )
