"""Attention masks: `full`, `causal`, `strictly_causal`, `others`, `window`, `alibi`, `boolean`.

A mask is a function of index pairs (i, j), so that a block of rows is evaluated without the n x n matrix. Masks combine
with ``&``: ``masks.causal & masks.window(8)``.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_count, require_finite_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter, read_only

__all__ = ["alibi", "boolean", "causal", "full", "others", "strictly_causal", "window"]

UNLIMITED_REACH = 2**40  # positions; more tokens than any machine holds, and far from integer overflow


class AbstractMask(Module):
    """The tokens j that token i attends to, and an additional factor on each weight."""

    @abc.abstractmethod
    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray | None:
        """True where token i sees token j; None if every token sees all tokens."""

    def log_weight(self, i: AnyArray, j: AnyArray) -> AnyArray | None:
        """The logarithm of a factor on the weight of j for i; None for no factor."""
        del i, j
        return None

    def size(self) -> int | None:
        """The number of tokens the mask is made for, or None for any number."""
        return None

    def reach(self) -> tuple[int, int] | None:
        """The numbers of positions before and after its own that a token sees; None if the mask is not of this form."""
        return None

    @property
    def is_causal(self) -> bool:
        """Whether no token sees a later one; False where `reach` does not decide it."""
        reach = self.reach()
        return reach is not None and reach[1] <= 0

    def __and__(self, other: "AbstractMask") -> "Both":
        if not isinstance(other, AbstractMask):
            raise InputError(
                f"A mask can only be joined with a mask, such as `masks.window(8)`, but not with {other!r}."
            )
        return Both(self, other)

    def __call__(self, *arguments: Any) -> "AbstractMask":
        """Refuse the call: masks without numbers are objects."""
        del arguments
        raise InputError(f"`{self!r}` is a mask already: write it without brackets.")


class Full(AbstractMask):
    """Every token sees every token.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.full)
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[0.333, 0.333, 0.333],
           [0.333, 0.333, 0.333],
           [0.333, 0.333, 0.333]])
    """

    def visible(self, i: AnyArray, j: AnyArray) -> None:
        """None: nothing is hidden."""
        del i, j

    def reach(self) -> tuple[int, int]:
        """Unlimited in both directions."""
        return UNLIMITED_REACH, UNLIMITED_REACH

    def __repr__(self) -> str:
        return "masks.full"


class Causal(AbstractMask):
    """Token i sees itself (unless `strict`) and the tokens before it.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.causal)
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.5  , 0.5  , 0.   ],
           [0.333, 0.333, 0.333]])
    >>> af.masks.strictly_causal
    masks.strictly_causal
    """

    strict: bool = eqx.field(default=False, static=True)

    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray:
        """j < i, or j <= i."""
        return j < i if self.strict else j <= i

    def reach(self) -> tuple[int, int]:
        """Unlimited before, and zero after (-1 if `strict`)."""
        return UNLIMITED_REACH, -1 if self.strict else 0

    def __repr__(self) -> str:
        return "masks.strictly_causal" if self.strict else "masks.causal"


class Others(AbstractMask):
    """Token i sees every token but itself.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.others)
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """

    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray:
        """j different from i."""
        return i != j

    def __repr__(self) -> str:
        return "masks.others"


class Window(AbstractMask):
    """Token i sees the tokens at most `width` positions away.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.window(1))
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.333, 0.333, 0.333],
           [0.   , 0.5  , 0.5  ]])
    """

    width: int = eqx.field(static=True)

    def __check_init__(self):
        require_count(self.width, "width", least=0)

    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray:
        """|i - j| <= width."""
        return jnp.abs(i - j) <= self.width

    def reach(self) -> tuple[int, int]:
        """`width` in both directions."""
        return self.width, self.width

    def __repr__(self) -> str:
        return f"masks.window({self.width})"


class Alibi(AbstractMask):
    """Weights decrease by a factor e^{-slope} with every position of distance; no token is hidden.

    The factor does not depend on beta. Combine with `causal` for language models.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.causal & af.masks.alibi(1.0))
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.269, 0.731, 0.   ],
           [0.09 , 0.245, 0.665]])
    """

    slope: AnyArray = eqx.field(converter=parameter)

    def __check_init__(self):
        require_finite_number(self.slope, "slope")

    def visible(self, i: AnyArray, j: AnyArray) -> None:
        """None: nothing is hidden."""
        del i, j

    def log_weight(self, i: AnyArray, j: AnyArray) -> AnyArray:
        """-slope |i - j|."""
        return -self.slope * jnp.abs(i - j)

    def __repr__(self) -> str:
        return f"masks.alibi({self.slope:g})"


class Boolean(AbstractMask):
    """Any n x n matrix of booleans: row i is True for the tokens that token i sees.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(0.0), mask=af.masks.boolean(np.eye(3, dtype=bool)))
    >>> af.attention_matrix(flow, [[1.0], [2.0], [3.0]]).round(3)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    matrix: AnyArray = eqx.field(converter=read_only)

    def __check_init__(self):
        shape, kind = self.matrix.shape, self.matrix.dtype
        if len(shape) != 2 or shape[0] != shape[1] or kind != np.bool_:
            raise InputError(
                "`matrix` of a boolean mask must be a square matrix of booleans, but it has "
                f"shape {shape} and type {kind}. Write `mask != 0` to turn numbers into booleans."
            )

    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray:
        """The entries of the matrix."""
        return jnp.asarray(self.matrix)[i, j]

    def size(self) -> int:
        """The number of rows of the matrix."""
        return self.matrix.shape[0]

    @property
    def is_causal(self) -> bool:
        """Whether the matrix has no True above its diagonal."""
        return not bool(np.any(np.triu(np.asarray(self.matrix), 1)))

    def __repr__(self) -> str:
        return f"masks.boolean({len(self.matrix)} x {len(self.matrix)})"


class Both(AbstractMask):
    """The intersection of two masks, with the product of their factors."""

    first: AbstractMask
    second: AbstractMask

    def __check_init__(self):
        first, second = self.first.size(), self.second.size()
        if first is not None and second is not None and first != second:
            raise InputError(f"Two masks can only be joined for the same number of tokens, not {first} and {second}.")

    def visible(self, i: AnyArray, j: AnyArray) -> AnyArray | None:
        """True where both masks show token j."""
        return _combine(jnp.logical_and, self.first.visible(i, j), self.second.visible(i, j))

    def log_weight(self, i: AnyArray, j: AnyArray) -> AnyArray | None:
        """Sum of the logarithms."""
        return _combine(jnp.add, self.first.log_weight(i, j), self.second.log_weight(i, j))

    def size(self) -> int | None:
        """The number of tokens that one of the masks is made for."""
        return self.first.size() or self.second.size()

    def reach(self) -> tuple[int, int] | None:
        """The smaller reach of the two masks in each direction."""
        first, second = self.first.reach(), self.second.reach()
        if first is None or second is None:
            return None
        return min(first[0], second[0]), min(first[1], second[1])

    @property
    def is_causal(self) -> bool:
        """Whether one of the two masks hides all later tokens."""
        return self.first.is_causal or self.second.is_causal

    def __repr__(self) -> str:
        return f"{self.first!r} & {self.second!r}"


def _combine(operation: Any, first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return operation(first, second)


full = Full()
causal = Causal()
strictly_causal = Causal(strict=True)
others = Others()
window = Window
alibi = Alibi
boolean = Boolean
