"""The rows of the table of `attnflow bench`: single velocities, and whole runs as in papers."""

import importlib.util
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from attnflow.experiments.bench import velocities
from attnflow.experiments.bench.baselines import (
    blocked_velocity,
    diffrax_solution,
    euler_batch,
    nested_loops,
    rescaled_velocity,
    scipy_solution,
    sphere_velocity,
)
from attnflow.experiments.bench.timing import Contender, Row
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.observables import mean_cosine


def phase_diagram(is_quick: bool) -> Row:
    """An ensemble of short runs of which one observable is saved: a column of a phase diagram."""
    runs, n, d, beta, end, saves = 256 if is_quick else 2048, 32, 3, 5.0, 30.0, 200
    tokens, times = np.asarray(initial.sphere(n, d, rng=0, runs=runs)), np.linspace(0, end, saves)
    tolerances, some = (1e-5, 1e-7), 4
    flow = SphereAttention(Head.identity(d), Softmax(beta))
    one_run = lambda x: diffrax_solution(
        lambda y: sphere_velocity(y, beta), x, jnp.asarray(times), tolerances, observable=mean_of_cosines
    )
    together = jax.jit(jax.vmap(one_run))

    def ours():
        solver = Adaptive(rtol=tolerances[0], atol=tolerances[1])
        found = simulate(
            flow, tokens, times, solver=solver, observables={"cosine": mean_cosine}, keep_tokens=False, progress=False
        )
        return found.cosine.values

    def by_scipy():
        paths = (scipy_solution(lambda y: sphere_velocity(y, beta, xp=np), x, times, tolerances) for x in tokens[:some])
        return np.array([mean_of_cosines(path) for path in paths])

    contenders = [
        Contender("attnflow", ours, runs),
        Contender("plain JAX, diffrax", lambda: np.asarray(together(jnp.asarray(tokens))), runs),
        Contender("NumPy, SciPy", by_scipy, some),
        *_published_batch(tokens, beta, end, saves),
    ]
    return Row("phase-diagram", f"{runs:,} runs, n={n}, d={d}, beta={beta:g}, t={end:g}", "run", tuple(contenders))


def mean_of_cosines(x):
    """The mean of <x_i, x_j> over pairs of unit vectors, (|sum_i x_i|^2 - n) / (n (n - 1)), in any array library."""
    n = x.shape[-2]
    return ((x.sum(-2) ** 2).sum(-1) - n) / (n * (n - 1))


def _published_batch(tokens, beta, end, saves) -> list[Contender]:
    """The published batch of Euler steps of 0.1, if torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch  # pyright: ignore[reportMissingImports]

    given = torch.tensor(tokens)
    batch = lambda: np.array(
        torch.stack(euler_batch(given, beta, end, 0.1, saves, xp=torch, observable=mean_of_cosines), 1)
    )
    return [Contender("published torch batch", batch, len(tokens))]


def causal_ensemble(is_quick: bool) -> Row:
    """Long causal runs on the circle at a large beta."""
    runs, n, beta, end, tolerances = 8 if is_quick else 64, 200, 64.0, 20.0 if is_quick else 150.0, (1e-8, 1e-10)
    tokens, times = np.asarray(initial.circle(n, rng=0, runs=runs)), np.array([0.0, end])
    flow = SphereAttention(Head.identity(2), Softmax(beta), masks.causal)
    one_run = lambda x: diffrax_solution(
        lambda y: sphere_velocity(y, beta, is_causal=True), x, jnp.asarray(times), tolerances
    )[-1]
    some, together = 2 if is_quick else 8, jax.jit(jax.vmap(one_run))
    by_scipy = lambda x: scipy_solution(
        lambda y: sphere_velocity(y, beta, is_causal=True, xp=np), x, times, tolerances
    )[-1]
    contenders = (
        Contender(
            "attnflow",
            lambda: (
                simulate(
                    flow, tokens, times, solver=Adaptive(rtol=tolerances[0], atol=tolerances[1]), progress=False
                ).final_tokens.values
            ),
            runs,
        ),
        Contender("plain JAX, diffrax", lambda: np.asarray(together(jnp.asarray(tokens[:some]))), some),
        Contender("NumPy, SciPy", lambda: by_scipy(tokens[0])[None], 1),
    )
    return Row("causal-ensemble", f"{runs} causal runs, n={n}, beta={beta:g}, t={end:g}", "run", contenders)


def polytope(is_quick: bool) -> Row:
    """The rescaled flow in the plane, saved every 0.1, beside the published scheme."""
    n, end, step = 8 if is_quick else 20, 1.0 if is_quick else 5.0, 0.1
    tokens, times = np.asarray(initial.box(n, 2, rng=0)), np.linspace(0, end, round(end / step) + 1)
    flow = RescaledAttention(Head.identity(2))

    def by_scipy():
        from scipy.integrate import solve_ivp

        velocity = lambda t, y: rescaled_velocity(y.reshape(n, 2), t).ravel()
        found = solve_ivp(velocity, (0, end), tokens.ravel(), t_eval=times, rtol=1e-8, atol=1e-10)
        return found.y[:, -1].reshape(n, 2)

    contenders = (
        Contender("attnflow", lambda: simulate(flow, tokens, times, progress=False).final_tokens.values),
        Contender("NumPy, SciPy", by_scipy),
        Contender("published nested loops", lambda: _nested_loops(tokens, end, step)),
    )
    return Row("polytope", f"polytope scenario: n={n}, d=2, t={end:g}", "run", contenders)


def _nested_loops(tokens, end, step):
    with np.errstate(over="ignore"):
        return nested_loops(tokens, end, step)


def large_run(is_quick: bool) -> Row:
    """One run of many tokens on the sphere."""
    n, d, beta, end, tolerances = 2000 if is_quick else 20_000, 3, 5.0, 0.2, (1e-5, 1e-7)
    tokens, times = np.asarray(initial.sphere(n, d, rng=0)), np.array([0.0, end])
    flow = SphereAttention(Head.identity(d), Softmax(beta))
    plain = jax.jit(
        lambda x: diffrax_solution(lambda y: blocked_velocity(y, beta), x, jnp.asarray(times), tolerances)[-1]
    )
    contenders = (
        Contender(
            "attnflow",
            lambda: (
                simulate(
                    flow, tokens, times, solver=Adaptive(rtol=tolerances[0], atol=tolerances[1]), progress=False
                ).final_tokens.values
            ),
        ),
        Contender("plain JAX, diffrax", lambda: np.asarray(plain(jnp.asarray(tokens)))),
    )
    return Row("large-run", f"one run, n={n:,}, d={d}, beta={beta:g}, t={end:g}", "run", contenders)


def _fewer(is_quick: bool, calls: int) -> int:
    return max(1, calls // 10) if is_quick else calls


ROWS: dict[str, Callable[[bool], Row]] = {
    "full-200": lambda q: velocities.pairs("full-200", 200, 2, 64.0, calls=_fewer(q, 1000)),
    "causal-200": lambda q: velocities.pairs("causal-200", 200, 2, 64.0, is_causal=True, calls=_fewer(q, 1000)),
    "batch-32": lambda q: velocities.pairs("batch-32", 32, 3, 5.0, sets=512, calls=_fewer(q, 300)),
    "pairs-5000": lambda q: velocities.pairs("pairs-5000", 5000, 3, 5.0, calls=_fewer(q, 10)),
    "pairs-20000": lambda q: velocities.pairs("pairs-20000", 20_000, 3, 5.0, calls=1),
    "heads-12": lambda q: velocities.heads("heads-12", calls=_fewer(q, 10)),
    "polytope": polytope,
    "phase-diagram": phase_diagram,
    "causal-ensemble": causal_ensemble,
    "large-run": large_run,
}
"""Each row by its name, as a function of whether it is to be quick."""
