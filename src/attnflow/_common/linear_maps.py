"""`LinearMap`: a linear function of tangents whose transpose is given, and may be code that is not of JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


class LinearMap:
    """A function of primals and, linearly, of one tangent for each of them, with its transpose.

    Unlike `jax.custom_vjp` it leaves forward mode and second derivatives as they are, and unlike JAX's `linear_call` it
    has derivatives in the primals, and batches. All arrays of a batch have the same leading axis.

    Parameters
    ----------
    name
        Name of the operation in jaxprs.
    apply
        ``apply(primals, tangents, **static)``, one array, written in JAX.
    transpose
        ``transpose(primals, cotangent, **static)``: a cotangent for every tangent. It must have derivatives of its own
        where second derivatives are wanted.
    """

    def __init__(self, name: str, apply: Callable, transpose: Callable):
        self._apply, self._transpose = apply, transpose
        self._primitive = Primitive(name)
        self._primitive.def_impl(
            lambda *arrays, **static: jax.jit(self._evaluated, static_argnames=static)(*arrays, **static)
        )
        self._primitive.def_abstract_eval(self._shape)
        ad.primitive_jvps[self._primitive] = self._derivative
        ad.primitive_transposes[self._primitive] = self._transposed
        batching.primitive_batchers[self._primitive] = self._batched
        mlir.register_lowering(self._primitive, mlir.lower_fun(self._evaluated, multiple_results=False))

    def __call__(self, primals: tuple, tangents: tuple, **static: Any) -> Any:
        """The linear function at `primals` of `tangents`; `static` are hashable."""
        return self._primitive.bind(*primals, *tangents, **static)

    def _evaluated(self, *arrays: Any, **static: Any) -> Any:
        half = len(arrays) // 2
        return self._apply(arrays[:half], arrays[half:], **static)

    def _shape(self, *arrays: Any, **static: Any) -> Any:
        found = jax.eval_shape(lambda *given: self._evaluated(*given, **static), *arrays)
        return ShapedArray(found.shape, found.dtype)

    def _derivative(self, arrays: Any, tangents: Any, **static: Any) -> tuple:
        half = len(arrays) // 2
        result = self._primitive.bind(*arrays, **static)
        given = [ad.instantiate_zeros(tangent) for tangent in tangents]
        change = self._primitive.bind(*arrays[:half], *given[half:], **static)
        if any(type(tangent) is not ad.Zero for tangent in tangents[:half]):
            of_primals = lambda *primals: self._evaluated(*primals, *arrays[half:], **static)
            change = change + jax.jvp(of_primals, tuple(arrays[:half]), tuple(given[:half]))[1]
        return result, change

    def _transposed(self, cotangent: Any, *arrays: Any, **static: Any) -> list:
        half = len(arrays) // 2
        given = ad.instantiate_zeros(cotangent)
        found = self._transpose(arrays[:half], given, **static)
        pairs = zip(arrays[half:], found, strict=True)
        return [None] * half + [one if ad.is_undefined_primal(array) else None for array, one in pairs]

    def _batched(self, arrays: Any, axes: Any, **static: Any) -> tuple:
        size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
        stacked = [
            jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
            for array, axis in zip(arrays, axes, strict=True)
        ]
        return self._primitive.bind(*stacked, **static), 0
