"""The same flows in plain JAX with diffrax, in NumPy with SciPy, and by the schemes that papers publish."""

import functools
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

BLOCK_ROWS = 250  # of the n x n weights that plain JAX and NumPy form at a time for many tokens


def sphere_velocity(x: Any, beta: Any, *, is_causal: bool = False, xp: Any = jnp) -> Any:
    """P_i(sum_j A_ij x_j) with softmax weights of beta <x_i, x_j>, in whole arrays, for any number of leading axes."""
    scores = beta * xp.einsum("...ic,...jc->...ij", x, x)
    if is_causal:
        n = x.shape[-2]
        scores = xp.where(xp.tril(xp.ones((n, n), bool)), scores, -xp.inf)
    weights = xp.exp(scores - scores.max(-1)[..., None])
    output = xp.einsum("...ij,...jc->...ic", weights, x) / weights.sum(-1)[..., None]
    return output - (output * x).sum(-1)[..., None] * x


def blocked_velocity(x: Any, beta: Any) -> Any:
    """`sphere_velocity` in blocks of rows, for more tokens than an n x n array has memory for."""

    def of_block(queries):
        weights = jax.nn.softmax(beta * queries @ x.T, axis=-1)
        output = weights @ x
        return output - jnp.sum(output * queries, axis=-1, keepdims=True) * queries

    return jax.lax.map(of_block, x.reshape(-1, BLOCK_ROWS, x.shape[1])).reshape(x.shape)


def heads_velocity(x: Any, weights: tuple) -> Any:
    """The output of many heads on the sphere, of queries, keys, values (h, k, d), outputs (h, d, k) and beta."""
    query, key, value, output, beta = weights
    scores = jnp.einsum("hic,hjc->hij", jnp.einsum("id,hcd->hic", x, query), jnp.einsum("jd,hcd->hjc", x, key))
    sums = jnp.einsum("hij,hjc->hic", jax.nn.softmax(beta * scores, axis=-1), jnp.einsum("jd,hcd->hjc", x, value))
    total = jnp.einsum("hic,hdc->id", sums, output)
    return total - jnp.sum(total * x, axis=-1, keepdims=True) * x


def heads_products(x: Any, weights: tuple, *, count: int) -> Any:
    """The matrix products of many heads alone: projections, scores, sums and outputs, without the softmax."""
    joined, outputs = weights
    projected = (x @ joined.T).reshape(len(x), 3, count, -1)
    query, key, value = projected.transpose(1, 2, 0, 3)
    sums = jnp.einsum("hij,hjc->hic", jnp.einsum("hic,hjc->hij", query, key), value)
    return sums.transpose(1, 0, 2).reshape(len(x), -1) @ outputs.T


def diffrax_solution(
    velocity: Callable, tokens: Any, times: Any, tolerances: tuple[float, float], observable: Callable | None = None
) -> Any:
    """Tsit5 with diffrax's step-size controller: the tokens, or an observable of them, at the given times."""
    rtol, atol = tolerances
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, x, args: velocity(x)),  # pyright: ignore[reportArgumentType]
        diffrax.Tsit5(),
        times[0],
        times[-1],
        None,
        tokens,
        saveat=diffrax.SaveAt(
            ts=times, fn=(lambda t, x, args: x) if observable is None else (lambda t, x, a: observable(x))
        ),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=100_000,
    )
    return found.ys


def scipy_solution(velocity: Callable, tokens: np.ndarray, times: np.ndarray, tolerances: tuple[float, float]):
    """SciPy's RK45 from one set of tokens: the tokens at the given times."""
    rtol, atol = tolerances
    flat = lambda _, y: velocity(y.reshape(tokens.shape)).ravel()
    found = solve_ivp(flat, (times[0], times[-1]), tokens.ravel(), t_eval=times, rtol=rtol, atol=atol)
    return found.y.T.reshape(len(times), *tokens.shape)


def euler_batch(
    tokens: Any, beta: float, end: float, step: float, saves: int, *, xp: Any, observable: Callable
) -> list:
    """Forward Euler with a projection after every step, for all runs at once, as published with torch.

    `xp` is the array library: torch, or NumPy in the tests.
    """
    saved, steps = [observable(tokens)], round(end / step)
    for index in range(1, steps + 1):
        moved = tokens + step * euler_velocity(tokens, beta, xp)
        tokens = moved / (moved * moved).sum(-1)[..., None] ** 0.5
        if index * (saves - 1) // steps > (index - 1) * (saves - 1) // steps:
            saved.append(observable(tokens))
    return saved


def euler_velocity(x: Any, beta: float, xp: Any) -> Any:
    """`sphere_velocity` with functions that torch and NumPy share; scores are at most beta, so none is subtracted."""
    weights = xp.exp(beta * xp.einsum("ric,rjc->rij", x, x) - beta)
    output = xp.einsum("rij,rjc->ric", weights, x) / weights.sum(-1)[..., None]
    return output - (output * x).sum(-1)[..., None] * x


def rescaled_velocity(z: np.ndarray, time: float) -> np.ndarray:
    """sum_j A_ij z_j - z_i with scores e^{2t} <z_i, z_j>: the rescaled flow with Q = K = V = I."""
    scores = np.exp(2 * time) * (z @ z.T)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ z / weights.sum(axis=1, keepdims=True) - z


def nested_loops(tokens: np.ndarray, end: float, step: float, *, per_score: bool = True) -> np.ndarray:
    """Forward Euler for z = e^{-tV} x with Q = K = V = I, with loops over tokens i, j and k.

    As in the scripts of arXiv:2305.05465, whose four stages reduce to one Euler step. `per_score` evaluates e^{tV} for
    every score, as they do; otherwise it is evaluated for every pair.
    """
    value, z, n = np.eye(tokens.shape[1]), tokens.copy(), len(tokens)
    for index in range(round(end / step)):
        t, moved = index * step, z.copy()
        for i in range(n):
            for j in range(n):
                growth, total = expm(t * value), 0.0
                for k in range(n):
                    if per_score:
                        growth = expm(t * value)
                    total += np.exp(np.dot(growth @ z[i], growth @ (z[k] - z[j])))
                moved[i] += step / total * (value @ (z[j] - z[i]))
        z = moved
    return z


@functools.cache
def repeated(velocity: Callable, calls: int) -> Callable:
    """A compiled program that evaluates `velocity(tokens, weights)` `calls` times in a loop.

    Tokens of a call depend on the call before, so that none is left out. Weights are arguments of the program, as in
    `simulate`: as constants they would be joined and transposed when the program is compiled.
    """

    def program(tokens, weights):
        def body(_, tokens_and_last):
            tokens, last = tokens_and_last
            found = velocity(tokens + 1e-300 * last, weights)
            return tokens, found

        return jax.lax.fori_loop(0, calls, body, (tokens, jnp.zeros_like(tokens)))[1]

    return jax.jit(program)
