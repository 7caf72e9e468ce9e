"""Time of a gradient through `flow_map` against the time of the flow alone, in one process.

Gradient of a loss over the last tokens in Q, K and V: 256 tokens in d = 16, t = 5, to the tolerance of `flow_map`.
The two are timed one after the other in each of several rounds, and the ratio is that of the medians.

Run: python -m benchmarks.gradients [--small]
"""

import argparse
import statistics
import time

import jax
import numpy as np

import attnflow as af

MOST_RATIO = 4.0  # that is wanted
ROUNDS = 5


def measured(n: int, d: int, end: float, rounds: int) -> dict[str, float]:
    """Median processor seconds of the flow, of the loss with its gradient, and their ratio."""
    rng = np.random.default_rng(0)
    tokens, targets = af.initial.sphere(n, d, rng=0), af.initial.sphere(n, d, rng=1)
    query, key, value = rng.normal(size=(3, d, d)) / np.sqrt(d)

    def loss(weights):
        flow = af.SphereAttention(af.Head(*weights), af.Softmax(1.0))
        return ((af.flow_map(flow, tokens, end) - targets) ** 2).mean()

    with jax.enable_x64(True):
        forward, backward = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
        given = (query, key, value)
        for function in (forward, backward):  # compilation
            jax.block_until_ready(function(given))
        seconds: dict[str, list[float]] = {"forward": [], "gradient": []}
        for _ in range(rounds):
            for name, function in (("forward", forward), ("gradient", backward)):
                began = time.process_time()
                jax.block_until_ready(function(given))
                seconds[name].append(time.process_time() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return medians | {"ratio": medians["gradient"] / medians["forward"]}


def main() -> None:
    """Print the seconds and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few tokens for a short time: does it run?")
    size = (16, 4, 0.5, 1) if parser.parse_args().small else (256, 16, 5.0, ROUNDS)
    found = measured(*size)
    print(f"forward {found['forward']:.3f} s, loss and gradient {found['gradient']:.3f} s of processor")
    print(f"ratio {found['ratio']:.2f}, at most {MOST_RATIO:g} wanted")


if __name__ == "__main__":
    main()
