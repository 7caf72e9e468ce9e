"""Rows of single velocities, each evaluated many times in one call: pairs of tokens on the sphere, and many heads."""

import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.precision import cast
from attnflow.experiments.bench import plain_loop
from attnflow.experiments.bench.baselines import (
    blocked_velocity,
    heads_products,
    heads_velocity,
    repeated,
    sphere_velocity,
)
from attnflow.experiments.bench.timing import Contender, Row
from attnflow.model import masks
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import State
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.initial import sphere

MIN_PAIRS_OF_THREADS = 2**16  # pairs, some 50 microseconds
MAX_WHOLE_ARRAYS = 6000  # tokens, up to which plain JAX and NumPy form the n x n weights at once


def pairs(
    name: str, n: int, d: int, beta: float, *, calls: int, sets: int | None = None, is_causal: bool = False
) -> Row:
    """Velocities of softmax attention on the sphere with Q = K = V = I, of one set of tokens or several."""
    tokens = np.asarray(sphere(n, d, rng=0, runs=sets))
    flow = SphereAttention(Head.identity(d), Softmax(beta), masks.causal if is_causal else masks.full)
    plain = blocked_velocity if n > MAX_WHOLE_ARRAYS else functools.partial(sphere_velocity, is_causal=is_causal)
    units = float(calls * (sets or 1) * (n * (n + 1) / 2 if is_causal else n * n))
    contenders = [
        Contender("attnflow", _compiled(_for_each_set(of_flow, sets), cast(flow, "float64"), tokens, calls), units),
        Contender("plain JAX", _compiled(_for_each_set(plain, sets), jnp.asarray(beta), tokens, calls), units),
    ]
    if n <= MAX_WHOLE_ARRAYS:
        arrays = lambda: sphere_velocity(tokens, beta, is_causal=is_causal, xp=np)
        contenders.append(Contender("NumPy", arrays, units / calls))
    if plain_loop.compiler() is not None:
        contenders.append(Contender("bare loop in C", lambda: _by_plain_loop(tokens, beta, is_causal, calls), units))
    many = f"{sets} sets of " if sets else ""
    title = f"one velocity: {many}n={n:,}, d={d}, beta={beta:g}{', causal' if is_causal else ''}"
    return Row(name, title, "pair", tuple(contenders))


def heads(name: str, *, count: int = 12, n: int = 256, d: int = 768, calls: int) -> Row:
    """Velocities of many heads, beside plain JAX and their matrix products alone."""
    rng, size = np.random.default_rng(0), d // count
    shapes = {"query": (size, d), "key": (size, d), "value": (size, d), "output": (d, size)}
    drawn = [
        Head(**{part: rng.normal(size=shape) / np.sqrt(d) for part, shape in shapes.items()}) for _ in range(count)
    ]
    beta = 1 / np.sqrt(size)
    flow = SphereAttention(drawn, Softmax(beta))
    tokens = np.asarray(sphere(n, d, rng=0))
    weights = tuple(jnp.stack([getattr(head, part) for head in cast(flow, "float64").heads]) for part in shapes)
    joined = jnp.concatenate([one.reshape(-1, d) for one in weights[:3]])
    outputs = jnp.concatenate(list(weights[3]), axis=1)
    contenders = (
        Contender("attnflow", _compiled(of_flow, cast(flow, "float64"), tokens, calls), calls),
        Contender("plain JAX", _compiled(heads_velocity, (*weights, jnp.asarray(beta)), tokens, calls), calls),
        Contender(
            "matrix products alone",
            _compiled(functools.partial(heads_products, count=count), (joined, outputs), tokens, calls),
            calls,
            has_same_numbers=False,
        ),
    )
    return Row(name, f"one velocity: {count} heads, n={n}, d={d}", "velocity", contenders)


def of_flow(tokens: Any, flow: SphereAttention) -> Any:
    """The velocity of tokens under a flow whose numbers are arrays of JAX."""
    return flow.velocity(jnp.zeros(()), State(tokens)).tokens


def _for_each_set(velocity: Callable, sets: int | None) -> Callable:
    return jax.vmap(velocity, in_axes=(0, None)) if sets else velocity


def _compiled(velocity: Callable, weights: Any, tokens: np.ndarray, calls: int) -> Callable[[], np.ndarray]:
    program, given = repeated(velocity, calls), jnp.asarray(tokens)
    return lambda: np.asarray(program(given, weights))


def _by_plain_loop(tokens: np.ndarray, beta: float, is_causal: bool, calls: int) -> np.ndarray:
    """The velocity from the averages, whose tangent part NumPy forms once."""
    sets = tokens if tokens.ndim == 3 else tokens[None]
    # Fewer pairs take less time than the start of a second thread, which no way of computing them then needs.
    is_large = len(sets) * sets.shape[1] ** 2 > MIN_PAIRS_OF_THREADS
    cores = (os.cpu_count() or 1) if is_large else 1
    averages = plain_loop.averages(sets, beta, is_causal=is_causal, threads=cores, calls=calls).reshape(tokens.shape)
    return averages - np.sum(averages * tokens, axis=-1, keepdims=True) * tokens
