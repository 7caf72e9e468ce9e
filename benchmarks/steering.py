"""Controls by attention alone: 8 tokens on S^2 to 8 targets, and single against multiple shooting.

    python -m benchmarks.steering [--small]             # time, gap and error of `optimise`
    python -m benchmarks.steering shooting [--small]    # the fits of the search against those with optimistix

Single shooting has the weights as unknowns. Multiple shooting has the tokens between the pieces as further unknowns,
and the ends of the pieces as further residuals. All fits begin with the same weights and have the same penalties.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optimistix

import attnflow as af
from attnflow.control.shooting import PENALTIES, SteeringSearch, path

WANTED_GAP, WANTED_SECONDS = 3.0, 60.0
PROBLEMS = ((3, 3, 4), (6, 3, 6), (4, 6, 4))  # tokens, d, pieces
MOST_STEPS = 40  # of one fit, as in the search


def eight_tokens(n: int, pieces: int) -> None:
    """Print what `optimise` has found, and its seconds."""
    began = time.process_time()
    found = af.control.optimise(af.initial.sphere(n, 3, rng=0), af.initial.sphere(n, 3, rng=1), pieces, rng=0)
    seconds = time.process_time() - began
    print(f"{found}\ngap {found.gap:.3f}, below {WANTED_GAP:g} wanted; {seconds:.0f} s of processor", end="")
    print(f", below {WANTED_SECONDS:g} wanted")


def problem(n: int, d: int, pieces: int, seed: int) -> tuple[SteeringSearch, np.ndarray]:
    """A search between random tokens, and its first weights."""
    tokens, targets = af.initial.sphere(n, d, rng=seed), af.initial.sphere(n, d, rng=seed + 100)
    shape = (pieces, 2, d, d)
    scale = np.array([1.0, 0.3])[None, :, None, None]
    angle = np.arccos(np.clip((tokens * targets).sum(axis=1), -1, 1)).max()
    weights = np.random.default_rng(seed).normal(size=shape) * scale
    return SteeringSearch(tokens[None], targets[None], shape, 2 * angle, 8), weights.ravel()


def single(search: SteeringSearch, weights: np.ndarray) -> np.ndarray:
    """The weights after fits by optimistix, whose unknowns are the weights."""
    for penalty in PENALTIES:
        row = jnp.asarray(np.sqrt(penalty) * search.scale)
        residuals = lambda flat, _, row=row: (search.misses(flat), row * flat)
        weights = _fitted(residuals, jnp.asarray(weights))
    return np.asarray(weights)


def multiple(search: SteeringSearch, weights: np.ndarray) -> np.ndarray:
    """The weights after fits by optimistix, whose unknowns are the weights and the tokens between pieces."""
    duration, first = search.end / search.shape[0], jnp.asarray(search.prompts)
    ends = [first]
    for piece in weights.reshape(search.shape)[:-1]:
        ends.append(path(ends[-1], jnp.asarray(piece)[None], duration)[0])
    after = jax.vmap(lambda x, piece: path(x, piece[None], duration)[0])
    unknowns = (jnp.stack(ends[1:]), jnp.asarray(weights))
    for penalty in PENALTIES:
        row = jnp.asarray(np.sqrt(penalty) * search.scale)

        def residuals(given, _, row=row):
            between, flat = given
            reached = after(jnp.concatenate([first[None], between]), flat.reshape(search.shape))
            return reached - jnp.concatenate([between, jnp.asarray(search.targets)[None]]), row * flat

        unknowns = _fitted(residuals, unknowns)
    return np.asarray(unknowns[1])


def _fitted(residuals: Callable, start: Any) -> Any:
    solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8)
    return optimistix.least_squares(residuals, solver, start, max_steps=MOST_STEPS, throw=False).value


WAYS: dict[str, Callable] = {
    "SciPy, single": lambda search, weights: search.fitted(weights),
    "optimistix, single": single,
    "optimistix, multiple": multiple,
}


def compare(problems: tuple, seeds: int) -> None:
    """Print seconds (compilation included) and errors of all fits, before and after Newton steps on a tight solve."""
    with jax.enable_x64(True):
        for n, d, pieces in problems:
            for seed in range(seeds):
                for name, fit in WAYS.items():
                    search, weights = problem(n, d, pieces, seed)
                    began = time.process_time()
                    weights = fit(search, weights)
                    seconds, error = time.process_time() - began, np.abs(search.tight(weights)).max()
                    weights = search.corrected(weights)
                    after, gap = np.abs(search.tight(weights)).max(), 2 * search.time(weights) / search.end
                    print(
                        f"{n} tokens, d = {d}, {pieces} pieces, seed {seed}, {name}: {seconds:.1f} s, error {error:.1e}"
                        f", corrected {after:.1e}, gap {gap:.2f}",
                        flush=True,
                    )


def main() -> None:
    """Run the benchmark that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=("optimise", "shooting"), default="optimise")
    parser.add_argument("--small", action="store_true", help="few tokens and pieces: does it run?")
    given = parser.parse_args()
    if given.name == "shooting":
        compare(((2, 3, 2),) if given.small else PROBLEMS, 1 if given.small else 2)
    else:
        eight_tokens(*(2, 2) if given.small else (8, 8))


if __name__ == "__main__":
    main()
