"""Random flows with every feature in combination, each with the same equations in the oracle."""

from typing import Any, NamedTuple

import numpy as np
from tests.helpers import oracle

import attnflow as af


class Case(NamedTuple):
    """A flow, its oracle, and first tokens."""

    flow: Any
    model: Any
    tokens: np.ndarray
    radii: np.ndarray | None
    """Lengths of the tokens where the normalisation gives them some; `tokens` are then directions."""
    words: str
    """What was drawn, for reports."""


def draw(seed: int) -> Case:
    """Case number `seed`."""
    rng = np.random.default_rng([seed, 77])
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    space = str(rng.choice(["R^d", "rescaled", "sphere", "sphere"])) if d > 1 else str(rng.choice(["R^d", "rescaled"]))
    heads, their_heads = some_heads(rng, d)
    rule, their_rule, rule_words = a_rule(rng)
    mask, their_mask, mask_words = a_mask(rng, n)
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    words = [f"seed {seed}: {space}, n = {n}, d = {d}, {len(heads)} heads, {rule_words}, {mask_words}"]
    if rng.random() < 0.4:
        ours["masses"] = theirs["masses"] = rng.uniform(0.2, 4.0, n)
        words.append("masses")
    if rng.random() < 0.25:
        ours["frozen"] = theirs["frozen"] = rng.random(n) < 0.4
        words.append("frozen")
    if rng.random() < 0.3 and space != "rescaled":
        weight, bias = rng.normal(size=(d, d)), rng.normal(size=d)
        name = str(rng.choice(["relu", "tanh", "gelu", "identity"]))
        ours["mlp"], theirs["mlp"] = af.MLP(weight, name, bias), oracle.mlp(weight, name, bias)
        words.append(f"MLP {name}")
    radii = None
    if space == "sphere":
        scheme, their_scheme, scheme_words, has_radii = a_scheme(rng)
        ours["normalisation"], theirs["normalisation"] = scheme, their_scheme
        words.append(scheme_words)
        radii = rng.uniform(0.5, 2.0, n) if has_radii else None
    if space == "rescaled" and rng.random() < 0.3:
        frame = rng.normal(size=(d, d)) / 2
        ours["rescaling"] = theirs["frame"] = frame
        words.append("own frame")
    flows = {"R^d": af.EuclideanAttention, "rescaled": af.RescaledAttention, "sphere": af.SphereAttention}
    models = {"R^d": oracle.Euclidean, "rescaled": oracle.Rescaled, "sphere": oracle.Sphere}
    flow = flows[space](heads, rule, mask, **ours)
    model = models[space](their_heads, their_rule, their_mask, **theirs)
    tokens = 0.6 * rng.normal(size=(n, d))
    if space == "sphere":
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return Case(flow, model, tokens, radii, ", ".join(words))


def some_heads(rng: np.random.Generator, d: int) -> tuple[list, list]:
    """One to three heads without any symmetry; some of low rank, some with an output factor."""
    ours, theirs = [], []
    for _ in range(int(rng.integers(1, 4))):
        k, inner = int(rng.integers(1, d + 2)), int(rng.integers(1, d + 1))
        query, key = (rng.normal(size=(k, d)) / np.sqrt(d) for _ in range(2))
        if rng.random() < 0.3:
            value, output = rng.normal(size=(inner, d)) / np.sqrt(d), rng.normal(size=(d, inner)) / np.sqrt(d)
            whole = output @ value
        else:
            value, output = rng.normal(size=(d, d)) / np.sqrt(d), None
            whole = value
        ours.append(af.Head(query=query, key=key, value=value, output=output))
        theirs.append(oracle.Weights(query, key, whole))
    return ours, theirs


def a_rule(rng: np.random.Generator) -> tuple[Any, Any, str]:
    beta, offset = float(rng.uniform(-2, 3)), float(rng.uniform(-1, 1))
    sweeps = int(rng.choice([1, 3, 5, 9]))
    rules = {
        "softmax": (af.Softmax(beta), oracle.softmax(beta), f"softmax {beta:.2g}"),
        "unnormalised": (
            af.Unnormalised(beta / 2, offset), oracle.unnormalised(beta / 2, offset), f"unnormalised {beta / 2:.2g}",
        ),
        "sinkhorn": (af.Sinkhorn(beta, sweeps), oracle.sinkhorn(beta, sweeps), f"Sinkhorn {beta:.2g}, {sweeps}"),
    }  # fmt: skip
    return rules[str(rng.choice(list(rules)))]


def a_mask(rng: np.random.Generator, n: int) -> tuple[Any, oracle.Mask, str]:
    """One mask or the product of two; every token sees itself, so that no row is empty."""
    width, slope = int(rng.integers(0, n + 1)), float(rng.uniform(-0.5, 1.0))
    some = (rng.random((n, n)) < 0.5) | np.eye(n, dtype=bool)
    masks = {
        "full": (af.masks.full, oracle.mask(n)),
        "causal": (af.masks.causal, oracle.mask(n, lambda i, j: j <= i)),
        "window": (af.masks.window(width), oracle.mask(n, lambda i, j: abs(i - j) <= width)),
        "ALiBi": (af.masks.alibi(slope), oracle.mask(n, factor=lambda i, j: np.exp(-slope * abs(i - j)))),
        "boolean": (af.masks.boolean(some), oracle.mask(n, lambda i, j: some[i, j])),
    }
    names = [str(name) for name in rng.choice(list(masks), size=int(rng.integers(1, 3)), replace=False)]
    ours, theirs = masks[names[0]]
    for name in names[1:]:
        other, seen = masks[name]
        ours = ours & other
        theirs = oracle.Mask(theirs.visible & seen.visible, theirs.factor * seen.factor)
    return ours, theirs, " & ".join(names)


def a_scheme(rng: np.random.Generator) -> tuple[Any, Any, str, bool]:
    alpha = float(rng.uniform(0.1, 1.0))
    schemes = [
        (af.Post(), oracle.post, "post", False), (af.Post(), oracle.post, "post", False),
        (af.Pre(), oracle.pre, "pre", True), (af.Peri(), oracle.peri, "peri", True),
        (af.NGPT(alpha), oracle.ngpt(alpha), "nGPT", False), (af.Sqrt(), oracle.sqrt, "sqrt", False),
    ]  # fmt: skip
    return schemes[int(rng.integers(len(schemes)))]
