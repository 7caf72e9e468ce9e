"""Heads: what tokens ask (query), offer (key) and pass on (value)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Matrix, Scalar, Tokens
from attnflow._common.checks import InputError, require_matrix
from attnflow._common.precision import optional_parameter, parameter


class Head(eqx.Module):
    """One attention head with constant weights.

    Token i scores token j by <Q x_i, K x_j> and receives V x_j. Only Q^T K and V
    matter, but `query` and `key` (k x d) are kept as the factors they are; so is
    the value map when `output` (d x k) is given: V = output @ value.

    Examples
    --------
    >>> Head(query=[[1.0, 0.0]], key=[[0.0, 1.0]], value=np.eye(2)).dimension
    2
    """

    query: Matrix = eqx.field(converter=parameter)
    key: Matrix = eqx.field(converter=parameter)
    value: Matrix = eqx.field(converter=parameter)
    output: Matrix | None = eqx.field(default=None, converter=optional_parameter)

    def __check_init__(self):
        for name in ("query", "key", "value", "output"):
            if getattr(self, name) is not None:
                require_matrix(getattr(self, name), name)
        self._require_matching_shapes()

    @classmethod
    def identity(cls, d: int) -> "Head":
        """Q = K = V = the identity of R^d."""
        return cls(query=np.eye(d), key=np.eye(d), value=np.eye(d))

    @classmethod
    def bilinear(cls, query_key: AnyArray, value: AnyArray) -> "Head":
        """The head with Q^T K = `query_key`: token i scores token j by <x_i, Q^T K x_j>."""
        query_key = parameter(query_key)
        require_matrix(query_key, "query_key")
        return cls(query=query_key.T, key=np.eye(query_key.shape[1]), value=value)

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.query.shape[1]

    @property
    def value_matrix(self) -> Matrix:
        """V as one d x d matrix."""
        return self.value if self.output is None else self.output @ self.value

    @property
    def query_key(self) -> Matrix:
        """Q^T K as one d x d matrix."""
        return self.query.T @ self.key

    def at(self, time: Scalar) -> "Head":
        """The head in force at `time`: itself."""
        del time
        return self

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Times between `start` and `end` at which the weights jump: none."""
        del start, end
        return np.empty(0)

    def received(self, tokens: Tokens) -> Tokens:
        """What is summed over tokens; `passed_on` finishes the value map after the sum."""
        return tokens @ self.value.T

    def passed_on(self, sums: Tokens) -> Tokens:
        """The second factor of the value map, applied once a row instead of once a pair."""
        return sums if self.output is None else sums @ self.output.T

    def _require_matching_shapes(self) -> None:
        d = self.dimension
        value_out = self.value if self.output is None else self.output
        expected = {
            "key": (self.key.shape, self.query.shape),
            "value": (self.value.shape[1], d),
            "value" if self.output is None else "output": (value_out.shape[0], d),
        }
        if self.output is not None:
            expected["output and value"] = (self.output.shape[1], self.value.shape[0])
        for name, (found, wanted) in expected.items():
            if found != wanted:
                raise InputError(
                    f"The matrices of a head must match: query is {_shape(self.query)}, so `{name}` "
                    f"must have {wanted} where it has {found} (key {_shape(self.key)}, value "
                    f"{_shape(self.value)}). Query and key are k x d, value is d x d, or "
                    "k x d with an output of d x k."
                )


def _shape(matrix: AnyArray) -> str:
    return " x ".join(str(size) for size in jnp.shape(matrix))
