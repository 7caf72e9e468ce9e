"""Attention heads: query, key and value matrices, constant or changing in time."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Matrix, Scalar, Tokens
from attnflow._common.checks import (
    InputError,
    require_count,
    require_known,
    require_matrix,
    require_positive_number,
    require_square,
)
from attnflow._common.module import Module
from attnflow._common.precision import optional_parameter, parameter
from attnflow.model.coordinates import mapped
from attnflow.model.schedules import piece_at, require_pieces, require_schedule, switches_between

LAWS = ("identity", "gaussian", "goe")
VALUE_LAWS = (*LAWS, "query_key", "minus_query_key")


class Head(Module):
    """One attention head with constant weights.

    The score of tokens i and j is <Q x_i, K x_j>, and token i receives V x_j. Only Q^T K and V
    matter, but `query` and `key` (k x d) are stored as factors; so is the value map if `output`
    (d x k) is given: V = output @ value. Without `query` and `key`, Q = K = I.

    Examples
    --------
    >>> Head(query=[[1.0, 0.0]], key=[[0.0, 1.0]], value=np.eye(2)).dimension
    2
    >>> Head(value=np.diag([2.0, 1.0]))
    Head(query=identity 2 x 2, key=identity 2 x 2, value=2 x 2)

    Where the head of a trained model has factors, its matrices are their products.

    >>> head = Head(query=[[1.0, 2.0]], key=[[3.0, 0.0]], value=[[0.0, 1.0]], output=[[1.0], [5.0]])
    >>> head.query_key.tolist(), head.value_matrix.tolist()
    ([[3.0, 0.0], [6.0, 0.0]], [[0.0, 1.0], [0.0, 5.0]])
    """

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix | None

    def __init__(
        self,
        query: AnyArray | None = None,
        key: AnyArray | None = None,
        value: AnyArray | None = None,
        output: AnyArray | None = None,
    ):
        if value is None or (query is None) != (key is None):
            raise InputError(
                "A head needs `value`, and `query` and `key` together or neither of them (then both are the identity). "
                "The head with Q = K = V = I is `Head.identity(d)`."
            )
        self.value, self.output = parameter(value), optional_parameter(output)
        require_matrix(self.value, "value")
        identity = parameter(np.eye(self.value.shape[1]))
        self.query = identity if query is None else parameter(query)
        self.key = identity if key is None else parameter(key)
        for name in ("query", "key", "output"):
            if getattr(self, name) is not None:
                require_matrix(getattr(self, name), name)
        self._require_matching_shapes()

    @classmethod
    def identity(cls, d: int) -> "Head":
        """Q = K = V = the identity of R^d.

        Examples
        --------
        >>> Head.identity(3)
        Head(query=identity 3 x 3, key=identity 3 x 3, value=identity 3 x 3)
        """
        return cls(query=np.eye(d), key=np.eye(d), value=np.eye(d))

    @classmethod
    def bilinear(cls, query_key: AnyArray, value: AnyArray) -> "Head":
        """The head with Q^T K = `query_key`, whose score of tokens i and j is <x_i, Q^T K x_j>.

        Examples
        --------
        >>> head = Head.bilinear(np.array([[2.0, 1.0], [0.0, 1.0]]), np.eye(2))
        >>> head.query_key.tolist(), head.key.tolist()
        ([[2.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
        """
        query_key = parameter(query_key)
        require_square(query_key, "query_key")
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
        """The weights at `time`: the head itself."""
        del time
        return self

    def jumps(self, start: float, end: float) -> np.ndarray:
        """No times: constant weights do not jump."""
        del start, end
        return np.empty(0)

    def project_values(self, tokens: Tokens) -> Tokens:
        """The first factor of the value map, applied before the sum over tokens."""
        return mapped(tokens, self.value)

    def project_output(self, sums: Tokens) -> Tokens:
        """The second factor of the value map, applied to the sums: once for a row, not for every pair."""
        return sums if self.output is None else mapped(sums, self.output)

    def _require_matching_shapes(self) -> None:
        d, width = self.dimension, self.value.shape[0]
        wanted = {
            "key": self.query.shape,
            "value": (d, d) if self.output is None else (width, d),
            "output": (d, width),
        }
        for name, shape in wanted.items():
            matrix = getattr(self, name)
            if matrix is not None and matrix.shape != shape:
                raise InputError(
                    f"The matrices of a head must match, so `{name}` must be {_size(shape)}, but it is "
                    f"{_size(matrix.shape)}; query is {_size(self.query.shape)} and value {_size(self.value.shape)}. "
                    "Query and key are k x d, value is d x d, or m x d with an output of d x m."
                )


class PiecewiseHead(Module):
    """Constant weights between switches: ``heads[0]`` until ``switches[0]``, and so on.

    Solvers step exactly onto the switches, so that no step mixes two sets of weights.

    Examples
    --------
    >>> import attnflow as af
    >>> head = af.PiecewiseHead([1.0], [af.Head.identity(1), af.Head(value=-np.eye(1))])
    >>> run = af.simulate(af.EuclideanAttention(head), [[1.0]], [0.0, 1.0, 2.0], progress=False)
    >>> run.tokens.values.round(6).ravel()
    array([1.      , 2.718282, 1.      ])
    >>> head.at(1.5).value.item(), head.jumps(0.0, 2.0)
    (-1.0, array([1.]))
    """

    switches: AnyArray = eqx.field(converter=parameter)
    heads: tuple[Head, ...] = eqx.field(converter=tuple)

    def __init__(self, switches: Sequence[float] | AnyArray, heads: Sequence[Head]):
        require_pieces(heads, Head, "PiecewiseHead", "heads")
        self.switches = parameter(switches)
        self.heads = tuple(heads)
        require_schedule(self.switches, self.heads, "PiecewiseHead", "heads")

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of a token."""
        return self.heads[0].dimension

    def at(self, time: Scalar) -> Head:
        """The head that acts at `time`; at a switch, the later of the two."""
        return piece_at(self.switches, self.heads, time)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """The switches strictly between `start` and `end`."""
        return switches_between(self.switches, start, end)


class TimeDependentHead(Module):
    """Weights given by a function from time to `Head`, written with jax.numpy.

    The function is not recorded in result files: `rerun` needs the model as an argument.

    Examples
    --------
    With V = t a token grows like e^{t^2 / 2}.

    >>> import attnflow as af
    >>> head = TimeDependentHead(lambda t: Head(value=t * np.eye(1)), dimension=1)
    >>> head.at(3.0).value.item()
    3.0
    >>> run = af.simulate(af.EuclideanAttention(head), [[1.0]], [0.0, 2.0], progress=False)
    >>> round(run.final_tokens.item(), 6)  # e^2
    7.389056
    """

    function: Callable[[Scalar], Head] = eqx.field(static=True)
    """A function from a time to a `Head`."""
    dimension: int = eqx.field(static=True)
    """d, the number of coordinates of a token."""

    def __check_init__(self):
        require_count(self.dimension, "dimension")

    def at(self, time: Scalar) -> Head:
        """The function's value."""
        head = self.function(time)
        if not isinstance(head, Head) or head.dimension != self.dimension:
            kind = f"of type {type(head).__name__}"
            given = f"of dimension {head.dimension}" if isinstance(head, Head) else kind
            raise InputError(
                f"`function` of a `TimeDependentHead` must return a `Head` of dimension {self.dimension}, "
                f"but its value is {given}."
            )
        return head

    def jumps(self, start: float, end: float) -> np.ndarray:
        """No times: the function is assumed to be smooth."""
        del start, end
        return np.empty(0)


class RedrawnHead(Module):
    """Random weights, drawn independently for every `period` of time; `seed` determines all of them.

    `query_key` and `value` are laws: "identity"; "gaussian", independent entries of
    variance 1/d; "goe", symmetric with spectrum filling [-2, 2]; and for `value` also
    "query_key" and "minus_query_key", V = Q^T K or its negative.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.RedrawnHead(dimension=2, period=0.5, seed=0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 1.0], progress=False)
    >>> np.linalg.norm(run.final_tokens, axis=1).round(12)
    array([1., 1.])
    """

    dimension: int = eqx.field(static=True)
    """d, the number of coordinates of a token."""
    period: AnyArray = eqx.field(converter=parameter)
    seed: int = eqx.field(default=0, static=True)
    """An integer from which the matrices of all periods follow."""
    query_key: str = eqx.field(default="gaussian", static=True)
    value: str = eqx.field(default="gaussian", static=True)

    def __check_init__(self):
        require_count(self.dimension, "dimension")
        require_positive_number(self.period, "period")
        require_count(self.seed, "seed", least=0)
        require_known(self.query_key, LAWS, "query_key")
        require_known(self.value, VALUE_LAWS, "value")

    def at(self, time: Scalar) -> Head:
        """The weights of the period that contains `time`."""
        rng_key = jax.random.fold_in(jax.random.key(self.seed), self._period_index(time))
        for_scores, for_value = jax.random.split(rng_key)
        dtype = jnp.result_type(self.period)
        query_key = _draw(self.query_key, for_scores, self.dimension, dtype)
        if self.value in LAWS:
            value = _draw(self.value, for_value, self.dimension, dtype)
        else:
            value = query_key if self.value == "query_key" else -query_key
        return Head(query=query_key.T, key=jnp.eye(self.dimension, dtype=dtype), value=value)

    def _period_index(self, time: Scalar) -> AnyArray:
        # The quotient may round across a whole number; the products decide, as in `jumps`.
        index = jnp.floor(time / self.period)
        index = jnp.where((index + 1) * self.period <= time, index + 1, index)
        return jnp.where(index * self.period > time, index - 1, index).astype(jnp.int32)

    def jumps(self, start: float, end: float) -> np.ndarray:
        """Multiples of the period strictly between `start` and `end`."""
        period = float(self.period)
        multiples = np.arange(np.floor(start / period) + 1, np.ceil(end / period)) * period
        return multiples[(multiples > start) & (multiples < end)]


def _draw(law: str, rng_key: AnyArray, d: int, dtype) -> AnyArray:
    if law == "identity":
        return jnp.eye(d, dtype=dtype)
    # Drawn in single precision, so that the weights are the same in any precision.
    entries = jax.random.normal(rng_key, (d, d), jnp.float32).astype(dtype) / jnp.sqrt(d).astype(dtype)
    return entries if law == "gaussian" else (entries + entries.T) / jnp.sqrt(2).astype(dtype)


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(str(length) for length in shape)
