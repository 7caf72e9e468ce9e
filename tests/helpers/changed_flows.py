"""Changes of one part of a flow or of its first tokens, each named by what it changes."""

import dataclasses

import numpy as np
from scipy.linalg import block_diag

import attnflow as af

OTHER_NORMALISATIONS = {"pre": af.Pre(), "mix": af.Mix(1.0), "peri": af.Peri(), "nGPT": af.NGPT(), "sqrt": af.Sqrt()}


def changes(flow, tokens):
    """All changes of `flow` and `tokens` by name, one at a time: pairs of a flow and tokens."""
    return _of_parts(flow, tokens) | _of_space(flow, tokens) | _of_weights(flow, tokens) | _of_tokens(flow, tokens)


def _of_parts(flow, tokens):
    n, d, replace = len(tokens), tokens.shape[1], dataclasses.replace
    beta = 1.0 if flow.beta is None else flow.beta
    second = np.arange(n) == min(1, n - 1)
    masks = {
        "full": af.masks.full,
        "causal": af.masks.causal,
        "strictly causal": af.masks.strictly_causal,
        "window": af.masks.window(1),
        "ALiBi": af.masks.alibi(0.5),
    }
    rules = {
        "softmax": af.Softmax(beta),
        "unnormalised": af.Unnormalised(beta),
        "unnormalised, offset": af.Unnormalised(beta, 0.5),
        "Sinkhorn": af.Sinkhorn(beta, 3),
        "hardmax": af.Hardmax(),
        "coarse hardmax": af.Hardmax(1e-3),
        "beta < 0": None if flow.beta is None else replace(flow.attention, beta=-abs(beta)),
        "beta = 0": None if flow.beta is None else replace(flow.attention, beta=0.0),
        "beta = 1/100": None if flow.beta is None else replace(flow.attention, beta=0.01),
        "beta = 3": None if flow.beta is None else replace(flow.attention, beta=3.0),
    }
    head = flow.heads[0]
    parts = {
        "frozen": {"frozen": second},
        "nothing frozen": {"frozen": None},
        "masses": {"masses": 1.0 + np.arange(n)},
        "masses below one": {"masses": np.where(second, 0.5, 1.0)},
        "two heads": {"heads": (head, head)},
        "changing weights": {"heads": (af.PiecewiseHead([1.0], [head, head]),)},
        "noise": {"noise": af.Noise(5.0)},
        "MLP": {"mlp": af.MLP(np.eye(d), "tanh")},
        "perceptron": {"perceptron": af.Perceptron(np.eye(d), np.eye(d), activation="tanh")},
        **{f"mask: {name}": {"mask": mask} for name, mask in masks.items()},
        **{name: {"attention": rule} for name, rule in rules.items() if rule is not None},
    }
    changed = {name: _replaced(flow, part) for name, part in parts.items()}
    return {name: (one, tokens) for name, one in changed.items() if one is not None}


def _replaced(flow, part):
    """The flow with one part replaced; None where there is no such flow, as with changing V in the rescaled frame."""
    try:
        return dataclasses.replace(flow, **part)
    except ValueError:
        return None


def _of_space(flow, tokens):
    common = ("heads", "attention", "mask", "frozen", "masses", "noise")
    parts = {name: getattr(flow, name) for name in common}
    units = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    d = tokens.shape[1]
    found = {
        "space: R^d": (af.EuclideanAttention(**parts), tokens),
        "space: rescaled": (af.RescaledAttention(**parts), tokens),
        "space: another frame": (af.RescaledAttention(**parts, rescaling=np.diag(3.0 - np.arange(d))), tokens),
        "space: sphere": (af.SphereAttention(**parts), units),
    }
    schemes = {
        f"LN: {name}": af.SphereAttention(**parts, normalisation=one) for name, one in OTHER_NORMALISATIONS.items()
    }
    return found | {name: (changed, units) for name, changed in schemes.items()}


def _of_weights(flow, tokens):
    head, d = flow.heads[0], tokens.shape[1]
    value, scores, eye = np.asarray(head.value_matrix), np.asarray(head.query_key), np.eye(d)
    values = {
        "-V": -value,
        "2 V": 2 * value,
        "V = 0": 0 * value,
        "V = I": eye,
        "V = -I": -eye,
        "V simple": np.diag(2.0 - np.arange(d) / max(d - 1, 1)),
        "V simple, dominated": np.diag(np.r_[1.0, 0.5 * np.ones(max(d - 2, 0)), [-1.5] * (d > 1)]),
        "V simple, negative": -np.diag(1.0 + np.arange(d)),
        "V multiple": np.diag(np.r_[np.ones(d - 1), [0.5] * (d > 1)]) if d > 1 else eye,
        "V multiple, dominated": np.diag(np.r_[np.ones(d - 1), [-1.5] * (d > 1)]) if d > 1 else eye,
        "V multiple, negative": -np.diag(np.r_[np.ones(d - 1), 2.0]) if d > 1 else -eye,
        "V turning": block_diag(af.values.complex_pair(1.0, 2.0), 0.5 * np.eye(d - 2)) if d > 1 else -eye,
        "V turning, no real part": block_diag(af.values.complex_pair(0.0, 2.0), -np.eye(d - 2)) if d > 1 else -eye,
        "V Jordan": af.values.jordan_block(1.0, d),
        "V two Jordan": block_diag(af.values.jordan_block(1.0, 2), np.eye(d - 2)) if d > 2 else -eye,
        "V skew": np.diag(2.0 - np.arange(d) / max(d - 1, 1)) + 3 * np.eye(d, k=1),
        "V growing twice": np.diag(np.r_[2.0, np.ones(d - 1)]),
    }
    bilinear = {
        "-Q^T K": -scores,
        "2 Q^T K": 2 * scores,
        "Q^T K definite": np.diag(1.0 + np.arange(d)),
        "Q^T K mixed": eye + 0.2,
        "Q^T K asymmetric": scores + 0.1 * np.eye(d, k=1),
        "Q^T K indefinite": np.diag(np.r_[1.0, -np.ones(d - 1)]),
        "Q^T K indefinite, leading": np.diag(np.r_[-1.0, np.ones(d - 1)]),
    }
    with_value = {name: _with_head(flow, scores, matrix) for name, matrix in values.items()}
    with_scores = {name: _with_head(flow, matrix, value) for name, matrix in bilinear.items()}
    return {name: (changed, tokens) for name, changed in (with_value | with_scores).items()}


def _with_head(flow, scores, value):
    return dataclasses.replace(flow, heads=(af.Head.bilinear(scores, value),))


def _of_tokens(flow, tokens):
    n, d = tokens.shape
    sphere = lambda count, dimension: af.initial.sphere(count, dimension, rng=7)
    box = lambda count, dimension: af.initial.box(count, dimension, rng=7)
    draw = sphere if flow.is_on_sphere else box
    found = {
        "one token": tokens[:1],
        "random": draw(n, d),
        "equal": np.tile(tokens[:1], (n, 1)),
        "two equal": _moved(tokens, 1, tokens[0]),
        "antipode of the first": _moved(tokens, 1, -tokens[0]),
        "antipode of the second": _moved(tokens, 2, -tokens[min(1, n - 1)]),
        "on a line": np.outer(tokens[:, 0], np.ones(d)),
        "closer to 0": 1e-3 * tokens,
        "first along the last axis": _moved(tokens, 0, np.eye(d)[-1]),
        "nearly orthogonal": np.eye(d)[: min(n, d)] if d > 1 else tokens,
        "lengths": np.geomspace(0.5, 2.0, n)[:, None] * tokens,
    }
    if flow.is_on_sphere and 2 <= d <= 8:
        found["simplex"] = af.initial.equiangular(d + 1, d, -1 / d)
    if flow.is_on_sphere and not flow.has_radii:
        found = {
            name: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for name, rows in found.items()
        }
    changed = {f"tokens: {name}": (_for(flow, len(rows)), rows) for name, rows in found.items()}
    for dimension in (1, 2, 3, 4):
        rows = draw(n, dimension) if not (flow.is_on_sphere and dimension == 1) else np.ones((n, 1))
        growth = float(np.asarray(flow.heads[0].value_matrix)[0, 0])
        changed[f"d = {dimension}"] = (_with_head(flow, np.eye(dimension), growth * np.eye(dimension)), rows)
    return changed


def _moved(tokens, index, row):
    changed = np.array(tokens)
    changed[min(index, len(tokens) - 1)] = row
    return changed


def _for(flow, n):
    """The flow for n tokens: the first masses and flags."""
    kept = {name: getattr(flow, name) for name in ("masses", "frozen")}
    return dataclasses.replace(flow, **{name: np.asarray(one)[:n] for name, one in kept.items() if one is not None})
