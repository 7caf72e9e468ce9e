"""`Module`: the base of models, solvers and conditions; its repr is one line with numbers and shapes."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

MAX_PRINTED_ENTRIES = 4  # of a vector; a longer one is printed as its length


class Module(eqx.Module):
    """A frozen dataclass of arrays that JAX can pass into compiled functions.

    Examples
    --------
    >>> import attnflow as af
    >>> af.SphereAttention(af.Head.identity(3), af.Softmax(4.0), af.masks.causal)
    SphereAttention(heads=Head(query=identity 3 x 3, key=identity 3 x 3, value=identity 3 x 3), \
attention=Softmax(beta=4), mask=masks.causal, normalisation=Post())

    Two modules are equal if all their numbers are, in the same shapes and precision; `copy.copy` gives an equal one.
    Equal modules have equal hashes, so that models can be members of sets and keys of dictionaries; their arrays cannot
    be written to.

    >>> af.Softmax(4.0) == af.Softmax(4.0), af.Softmax(4.0) == af.Softmax(5.0), af.Softmax(4.0) == af.Hardmax()
    (True, False, False)
    >>> len({af.Softmax(4.0), af.Softmax(4.0), af.Softmax(5.0)})
    2
    """

    def __hash__(self) -> int:
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, *map(_hash_of_leaf, leaves)))

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        parts = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(parts)})"


def _hash_of_leaf(leaf: Any) -> int:
    """A number that is the same for equal leaves; an array counts by its shape, type and entries."""
    if isinstance(leaf, Tracer):
        raise TypeError("A model inside a compiled function has no numbers yet and cannot be hashed.")
    if not isinstance(leaf, np.ndarray | np.generic | jax.Array):
        return hash(leaf)
    array = np.asarray(leaf)
    is_number = np.issubdtype(array.dtype, np.inexact)
    entries = array + 0.0 if is_number else array  # -0.0 + 0.0 = 0.0, which equals -0.0
    return hash((array.shape, array.dtype.str, np.ascontiguousarray(entries).tobytes()))


def _text(value: Any) -> str:
    if isinstance(value, Tracer):
        return f"traced {_size(value.shape)}".strip()
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _text_of_array(np.asarray(value))
    if isinstance(value, tuple):
        return _text_of_tuple([_text(entry) for entry in value])
    return getattr(value, "__name__", repr(value))


def _text_of_tuple(texts: list[str]) -> str:
    """The entries, written once with their number where all of them read the same."""
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)} of {texts[0]}"
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _text_of_array(array: np.ndarray) -> str:
    if array.ndim == 0:
        return _number(array[()])
    if array.ndim == 1 and array.size <= MAX_PRINTED_ENTRIES:
        return f"[{', '.join(map(_number, array))}]"
    is_identity = array.ndim == 2 and array.shape[0] == array.shape[1] and np.array_equal(array, np.eye(len(array)))
    return f"{'identity ' if is_identity else ''}{_size(array.shape)}"


def _number(entry: Any) -> str:
    # The shortest text that gives the same number, without the decimal zero of whole numbers.
    return str(bool(entry)) if np.asarray(entry).dtype == np.bool_ else repr(float(entry)).removesuffix(".0")


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} entries" if len(shape) == 1 else " x ".join(map(str, shape))
