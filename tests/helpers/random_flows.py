"""Random models with every part that a model can have, their tokens and solvers."""

import numpy as np

import attnflow as af


def random_flow(rng, n, d):
    """A flow whose parts are all drawn: space, attention, mask, heads, masses, frozen tokens, MLP, noise."""
    kind = rng.choice(["euclidean", "rescaled", "sphere"])
    parts = {"attention": random_attention(rng), "mask": random_mask(rng, n)}
    if rng.random() < 0.5:
        parts["masses"] = rng.uniform(0.5, 3.0, n)
    if rng.random() < 0.5:
        parts["frozen"] = rng.random(n) < 0.3
    if rng.random() < 0.4:
        bias = rng.normal(size=d) if rng.random() < 0.5 else None
        activation = str(rng.choice(["relu", "tanh", "gelu", "identity"]))
        parts["mlp"] = af.MLP(rng.normal(size=(d, d)), activation, bias)
    if rng.random() < 0.4:
        parts["noise"] = af.Noise(rng.uniform(1, 9), common=bool(rng.random() < 0.5))
    heads = [random_head(rng, d) for _ in range(rng.integers(1, 4))]
    if kind == "sphere":
        schemes = [af.Post(), af.Pre(), af.Mix(rng.uniform(0.1, 2)), af.Peri(), af.NGPT(rng.uniform(0.1, 1)), af.Sqrt()]
        return af.SphereAttention(heads, normalisation=schemes[rng.integers(6)], **parts)
    if kind == "euclidean":
        return af.EuclideanAttention(heads, **parts)
    is_constant = all(isinstance(head, af.Head) for head in heads)
    rescaling = None if is_constant and rng.random() < 0.5 else rng.normal(size=(d, d))
    return af.RescaledAttention(heads, rescaling=rescaling, **parts)


def random_attention(rng):
    """One of the attention rules."""
    beta = float(rng.normal() * 10.0 ** rng.integers(-3, 3))
    rules = [af.Softmax(beta), af.Unnormalised(beta, rng.normal()), af.Hardmax(10.0 ** rng.uniform(-9, -3))]
    return [*rules, af.Sinkhorn(beta, int(rng.choice([1, 3, 5])))][rng.integers(4)]


def random_mask(rng, n, depth=2):
    """A mask, or two joined, each of them perhaps joined of two."""
    if depth and rng.random() < 0.5:
        return random_mask(rng, n, depth - 1) & random_mask(rng, n, depth - 1)
    matrix = (rng.random((n, n)) < 0.6) | np.eye(n, dtype=bool)
    words = [af.masks.full, af.masks.causal, af.masks.window(int(rng.integers(1, 9)))]
    return [*words, af.masks.alibi(rng.normal() * 10.0 ** rng.integers(-20, 20)), af.masks.boolean(matrix)][
        rng.integers(5)
    ]


def random_head(rng, d):
    """A head: constant, of low rank with an output, in pieces, or drawn again."""
    kind = rng.integers(5)
    if kind == 0:
        return af.Head(value=rng.normal(size=(d, d)))
    if kind == 1:
        return constant_head(rng, d, 1, 2)
    if kind == 2:
        switches = np.sort(rng.uniform(0, 2, rng.integers(0, 4)))
        return af.PiecewiseHead(switches, [constant_head(rng, d, d, 1) for _ in range(len(switches) + 1)])
    if kind == 3:
        laws = (
            str(rng.choice(["identity", "gaussian", "goe"])),
            str(rng.choice(["goe", "query_key", "minus_query_key"])),
        )
        return af.RedrawnHead(d, rng.uniform(0.1, 1), int(rng.integers(2**31)), *laws)
    return af.Head.bilinear(rng.normal(size=(d, d)), rng.normal(size=(d, d)))


def constant_head(rng, d, rank, width):
    """Query and key of shape (rank, d), value (width, d) and output (d, width)."""
    shapes = [(rank, d), (rank, d), (width, d), (d, width)]
    return af.Head(*(rng.normal(size=shape) for shape in shapes))


def random_tokens(rng, flow, n, d):
    """Tokens that fit the flow."""
    tokens = rng.normal(size=(n, d)) if rng.random() < 0.7 else rng.normal(size=(2, n, d))
    return tokens / np.linalg.norm(tokens, axis=-1, keepdims=True) if flow.is_on_sphere else tokens


def random_solver(rng, flow):
    """A solver that the flow allows."""
    step = rng.uniform(0.01, 0.1)
    if flow.noise is not None:
        return af.StochasticHeun(step)
    adaptive = [
        af.Adaptive(10.0 ** rng.uniform(-9, -5), 10.0 ** rng.uniform(-11, -5), min_step=1e-4),
        af.Adaptive(order=8, max_steps=12345),
        af.Adaptive(stiff=True),
    ]
    return [*adaptive, af.Euler(step), af.Heun(step), af.RK4(step)][rng.integers(6)]


def random_stops(rng):
    """Some stopping conditions, in any order."""
    kinds = [
        af.Clustered(rng.uniform(0, 1e-3), int(rng.integers(1, 4))),
        af.Settled(1e-13),
        af.Diverged(1e7),
        af.Clustered(1e-9),
    ]
    return [kinds[index] for index in rng.permutation(4)[: rng.integers(0, 4)]]
