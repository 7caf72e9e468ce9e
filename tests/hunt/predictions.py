"""Random flows against `predict`: each promise is held to a long run of independent equations."""

from typing import Any, NamedTuple

import numpy as np
from tests.hunt.plain_equations import Equation
from tests.hunt.promised_limits import BROKEN, judged

import attnflow as af

SCHEMES = {
    "post": lambda _: af.Post(), "ngpt": af.NGPT, "sqrt": lambda _: af.Sqrt(),
    "pre": lambda _: af.Pre(), "mix": af.Mix, "peri": lambda _: af.Peri(),
}  # fmt: skip
RULES = {
    "softmax": af.Softmax,
    "unnormalised": af.Unnormalised,
    "hardmax": lambda _: af.Hardmax(),
}
MASKS = {"full": af.masks.full, "causal": af.masks.causal, "window": af.masks.window(1)}


class Promise(NamedTuple):
    """One result of a prediction, and what the run did."""

    words: str
    result: str
    proved: bool
    answer: str

    @property
    def is_wrong(self) -> bool:
        """Whether a theorem promised what did not happen."""
        return self.proved and self.answer == BROKEN


class Drawn(NamedTuple):
    """A flow, the same equation, the first tokens as a user passes them, and the state behind them."""

    flow: Any
    equation: Equation
    tokens: np.ndarray
    state: np.ndarray
    words: str


def check(seed: int) -> list[Promise]:
    """The promises of case number `seed`, each with what the run did."""
    case = draw(seed)
    results = af.predict(case.flow, case.tokens).results
    answers = {limit: judged(limit, case.equation, case.state) for limit in {one.limit for one in results}}
    return [Promise(case.words, one.id, one.proved, answers[one.limit]) for one in results]


def draw(seed: int) -> Drawn:
    """Case number `seed`."""
    rng = np.random.default_rng([seed, 78])
    pick = lambda *words: str(rng.choice(words))
    on_sphere = rng.random() < 0.6
    n, d = int(rng.integers(2, 9)), int(rng.integers(2 if on_sphere else 1, 4))
    rule = pick("softmax", "softmax", "unnormalised") if on_sphere else pick("softmax", "softmax", "softmax", "hardmax")
    scheme = pick("post", "post", "post", *SCHEMES) if on_sphere else "post"
    mask = (
        pick("full", "causal", "causal", "window") if on_sphere and scheme == "post" else pick(*["full"] * 6, "causal")
    )
    kind, value = _value(rng, d, "identity" if scheme != "post" or rule == "hardmax" else "any")
    like, scores = _scores(rng, d)
    beta = float(rng.uniform(-1, 0) if rng.random() < 0.2 else rng.uniform(0, 3))
    number = float(rng.uniform(0.5, 2))
    heads = af.Head.bilinear(scores, value)
    if on_sphere:
        make = lambda **parts: af.SphereAttention(heads, normalisation=SCHEMES[scheme](number), **parts)
    else:
        make = lambda **parts: (af.RescaledAttention if seed % 2 else af.EuclideanAttention)(heads, **parts)
    flow = make(attention=RULES[rule](beta), mask=MASKS[mask])
    visible = {"full": np.ones((n, n), bool), "causal": np.tri(n, dtype=bool)}
    visible["window"] = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    factor = 1.0 if rule == "hardmax" else beta
    equation = Equation(value, factor * scores, visible[mask], on_sphere, rule, scheme, number)
    tokens, state = _first(rng, n, d, on_sphere, equation.has_lengths)
    words = f"seed {seed}: {'sphere' if on_sphere else 'R^d'}, n = {n}, d = {d}, {rule} {beta:.2g}, {mask}, {scheme}, "
    return Drawn(flow, equation, tokens, state, words + f"V {kind}, Q^T K {like}")


def _value(rng: np.random.Generator, d: int, which: str) -> tuple[str, np.ndarray]:
    """V, near and inside the cases of theorems."""
    size = float(rng.uniform(0.5, 2))
    kinds = {
        "identity": size * np.eye(d),
        "minus identity": -size * np.eye(d),
        "zero": np.zeros((d, d)),
        "distinct": np.diag(rng.permutation(np.linspace(2.0, rng.uniform(-1.5, 1.0), d))),
        "multiple": np.diag(np.r_[size * np.ones(max(d - 1, 1)), [size - rng.uniform(0.3, 1.5)] * (d > 1)]),
        "negative": -np.diag(rng.uniform(0.3, 2, d)),
        "negative multiple": -np.diag(np.r_[size * np.ones(max(d - 1, 1)), [size + rng.uniform(0.3, 1)] * (d > 1)]),
        "random": rng.normal(size=(d, d)),
        "symmetric": (lambda m: (m + m.T) / 2)(rng.normal(size=(d, d))),
        "Jordan": size * np.eye(d) + np.eye(d, k=1),
    }
    names = ["identity"] * 6 + list(kinds) if which == "any" else ["identity"] * 12 + list(kinds)
    name = str(rng.choice(names))
    matrix = kinds[name]
    if name not in ("identity", "minus identity", "zero") and rng.random() < 0.5:  # in other coordinates
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        matrix = turn @ matrix @ turn.T
    return name, matrix


def _scores(rng: np.random.Generator, d: int) -> tuple[str, np.ndarray]:
    factor = rng.normal(size=(d, d))
    kinds = {
        "I": np.eye(d),
        "k I": float(rng.uniform(0.3, 2)) * np.eye(d),
        "definite": factor @ factor.T / d + 0.2 * np.eye(d),
        "random": factor,
        "indefinite": np.diag(rng.choice([-1.0, 1.0], d) * rng.uniform(0.3, 2, d)),
    }
    name = str(rng.choice(["I", "I", "definite", *kinds]))
    return name, kinds[name]


def _first(rng: np.random.Generator, n: int, d: int, on_sphere: bool, lengths: bool) -> tuple[np.ndarray, np.ndarray]:
    if not on_sphere:
        tokens = rng.uniform(-2, 2, size=(n, d))
        return tokens, tokens
    points = rng.normal(size=(n, d))
    if rng.random() < 0.4:
        points[:, 0] = np.abs(points[:, 0]) + 0.1
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    if not lengths:
        return directions, directions
    sizes = rng.uniform(0.5, 2, n)
    return sizes[:, None] * directions, np.c_[directions, sizes]
