"""Fast sums over random tokens against sums over all pairs in NumPy, within the tolerance that they were given."""

from typing import Any, NamedTuple

import numpy as np
from tests.helpers import oracle

import attnflow as af

METHODS = {
    method.__name__: method
    for method in (
        af.summation.Fourier, af.summation.Harmonics, af.summation.Gauss, af.summation.HeavyTokens,
        af.summation.Neighbours,
    )
}  # fmt: skip
ROUNDING = 1e-13  # over the largest output: rounding of the plain sum of some hundred terms


class Summed(NamedTuple):
    """A flow with a method of summation, its oracle, tokens and the tolerance."""

    flow: Any
    model: Any
    tokens: np.ndarray
    tolerance: float
    words: str


def check(seed: int) -> tuple[float, str]:
    """The largest error of a velocity of case number `seed` over what the tolerance allows, and the case in words.

    A method promises outputs off by at most tolerance max |v| W_i for each head, W_i being the sum of row i of the
    weights. The tangent part and the time leave that as it is.
    """
    case = draw(seed)
    found = np.asarray(af.velocity(case.flow, case.tokens))
    expected, _ = case.model.velocity(0.0, case.tokens, np.ones(len(case.tokens)))
    rows = case.model.attention(0.0, case.tokens).sum(axis=2)
    sizes = [np.linalg.norm(case.tokens @ head.value.T, axis=1).max() for head in case.model.heads]
    weight = sum(size * row for size, row in zip(sizes, rows, strict=True))
    allowed = case.tolerance * weight + ROUNDING * np.abs(expected).max()
    return float((np.linalg.norm(found - expected, axis=1) / allowed).max()), case.words


def draw(seed: int) -> Summed:
    """Case number `seed`: every method in turn, at any tolerance that it takes."""
    rng = np.random.default_rng([seed, 83])
    name = list(METHODS)[seed % len(METHODS)]
    method = METHODS[name]
    sphere = name in ("Fourier", "Harmonics") or rng.random() < 0.5
    d = {"Fourier": 2, "Harmonics": 3}.get(name, int(rng.integers(2 if sphere else 1, 4 if name == "Gauss" else 6)))
    n = int(rng.integers(2, 300))
    tokens = _tokens(rng, n, d, sphere)
    heads = [_weights(rng, d, name in ("Fourier", "Harmonics")) for _ in range(int(rng.integers(1, 3)))]
    rule, their_rule, rule_words = _rule(rng, name, sphere)
    mask, their_mask, mask_words = _mask(rng, n, name)
    masses = rng.uniform(0.2, 4.0, n) if rng.random() < 0.4 else None
    tolerance = float(10 ** rng.uniform(np.log10(method.least_tolerance()), -2))
    parts = [af.Head(*head) for head in heads], rule, mask
    flow = af.SphereAttention if sphere else af.EuclideanAttention
    model = oracle.Sphere if sphere else oracle.Euclidean
    words = (
        f"seed {seed}: {name}({tolerance:.1e}), {'sphere' if sphere else 'R^d'}, n = {n}, d = {d}, {len(heads)} heads"
    )
    return Summed(
        flow(*parts, masses=masses, summation=method(tolerance)),
        model(heads, their_rule, their_mask, masses=masses),
        tokens,
        tolerance,
        f"{words}, {rule_words}, {mask_words}{', masses' if masses is not None else ''}",
    )


def _tokens(rng: np.random.Generator, n: int, d: int, sphere: bool) -> np.ndarray:
    """Spread, gathered around few points at any distance, or all in one place but for a little."""
    centres = rng.normal(size=(int(rng.choice([1, 3, n])), d))
    tokens = centres[rng.integers(len(centres), size=n)] + 10 ** rng.uniform(-12, 0) * rng.normal(size=(n, d))
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True) if sphere else tokens


def _weights(rng: np.random.Generator, d: int, is_round: bool) -> oracle.Weights:
    """Q and K that map the sphere to a sphere where a method needs it; V without symmetry."""
    value = rng.normal(size=(d, d)) / np.sqrt(d)
    if is_round:
        query, key = (rng.uniform(0.5, 1.5) * np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
        return oracle.Weights(query, key, value)
    k = int(rng.integers(1, min(d, 3) + 1))
    query, key = (rng.normal(size=(k, d)) / np.sqrt(d) for _ in range(2))
    return oracle.Weights(query, key, value)


def _rule(rng: np.random.Generator, name: str, sphere: bool) -> tuple[Any, Any, str]:
    beta = float(rng.choice([-1, 1, 1, 1]) * 10 ** rng.uniform(-1, 2.0 if sphere else 0.7))
    offset = float(rng.uniform(0.5, 1.5))
    rules = [
        (af.Softmax(beta), oracle.softmax(beta), f"softmax {beta:.3g}"),
        (af.Unnormalised(beta, offset), oracle.unnormalised(beta, offset), f"unnormalised {beta:.3g}"),
        (af.Sinkhorn(beta / 5, 5), oracle.sinkhorn(beta / 5, 5), f"Sinkhorn {beta / 5:.3g}"),
    ]
    return rules[int(rng.integers(2 if name in ("HeavyTokens", "Neighbours") else 3))]


def _mask(rng: np.random.Generator, n: int, name: str) -> tuple[Any, oracle.Mask, str]:
    slope = float(rng.uniform(0, 0.5))
    masks = [
        (af.masks.full, oracle.mask(n), "full"),
        (af.masks.causal, oracle.mask(n, lambda i, j: j <= i), "causal"),
        (af.masks.others, oracle.mask(n, lambda i, j: j != i), "others"),
        (af.masks.alibi(slope), oracle.mask(n, factor=lambda i, j: np.exp(-slope * abs(i - j))), "ALiBi"),
    ]
    return masks[0 if name in ("HeavyTokens", "Neighbours") else int(rng.integers(len(masks)))]
