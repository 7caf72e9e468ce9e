"""The idealised flow under trained heads against the number of heads, of tokens, and the law of the start.

Every flow is repeated from many starts (with subsets of heads: one subset a start) and with controls, in which Q and K
are replaced and V stays: what a control shares with the trained heads is made by V, not by trained attention.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress, reporting
from attnflow.analyse import attention_rank, clusters
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.models.transformer import Model
from attnflow.trained.head_flows import SOLVER, leading_plane, tokens_read
from attnflow.trained.layer_geometry import mean_cosine_of
from attnflow.trained.studies.equal_lengths import prompts_of_length

VARIANTS = ("trained", "Q = K = 0", "Q and K of the next head")
STARTS = ("sphere", "circle", "gaussian", "embeddings", "prompts")
SAMPLED_IDS = 512  # embeddings from which the mean and covariance of the Gaussian law are taken
QUANTITIES = {
    "mean_cosine": "mean cosine of two tokens",
    "clusters": "number of clusters",
    "attention_rank": "rank of attention, mean over heads",
}
SAME_CLUSTER = 0.05  # distance of tokens of length 1 within which they are one cluster, as in `time_course`


@dataclass(frozen=True)
class FlowSetting:
    """One flow with many starts: one or several subsets of heads, and the first tokens."""

    name: str
    heads: tuple[tuple[int, ...], ...]
    """The heads of every run."""
    tokens: np.ndarray
    """First tokens (runs, n, d), of any length; the flow is on the unit sphere."""
    beta: float
    """Squared length of the tokens that the heads read."""


def flow_ends(
    model: Model, layer: int, settings: Sequence[FlowSetting], end: float, progress: Progress = None
) -> xr.Dataset:
    """`QUANTITIES` at time `end` over (variant, setting, run), from the same starts under every variant."""
    heads = model.heads(layer)
    variants = VARIANTS if len(heads) > 1 else VARIANTS[:2]
    found = np.empty((len(QUANTITIES), len(variants), len(settings), len(settings[0].tokens)))
    total, done = len(variants) * len(settings), 0
    with reporting(progress) as report:
        for row, variant in enumerate(variants):
            changed = _changed_heads(heads, variant)
            for column, setting in enumerate(settings):
                found[:, row, column] = _of_setting(model, layer, changed, setting, end)
                done += 1
                report(done / total, f"{variant}, {setting.name}")
    dims = ("variant", "setting", "run")
    variables: dict[str, Any] = {name: (dims, values) for name, values in zip(QUANTITIES, found, strict=True)}
    variables["beta"] = ("setting", [one.beta for one in settings])
    return xr.Dataset(variables, {"variant": list(variants), "setting": [one.name for one in settings]})


def head_settings(model: Model, counts: Sequence[int], n: int, runs: int, seed: int) -> list[FlowSetting]:
    """Random subsets of heads of every number below that of the layer, and all heads; a subset and a start a run."""
    total = model.config.heads
    counts = [count for count in counts if count < total] + [total]
    tokens = _uniform(model, n, runs, seed)
    return [
        FlowSetting(str(count), _subsets(total, count, runs, seed), tokens, float(model.config.width))
        for count in counts
    ]


def token_settings(model: Model, n: Sequence[int], runs: int, seed: int) -> list[FlowSetting]:
    """All heads from 2, 4, ... tokens on the sphere: the first tokens of one start are those of a smaller one."""
    every = (tuple(range(model.config.heads)),) * runs
    tokens = _uniform(model, max(n), runs, seed)
    return [FlowSetting(str(count), every, tokens[:, :count], float(model.config.width)) for count in n]


def start_settings(
    model: Model, layer: int, starts: Sequence[str], n: int, runs: int, seed: int, prompts: Sequence[str]
) -> list[FlowSetting]:
    """All heads from tokens of several laws, of which "embeddings" and "prompts" are those that the layer can read.

    "sphere": uniform, as the directions of an isotropic Gaussian law are. "circle": in the plane of V's leading
    eigenvectors. "gaussian": with the mean and covariance of embeddings. "embeddings": of random ids, without their
    positions. "prompts": the first `n` tokens of a prompt each, with positions.
    """
    every = (tuple(range(model.config.heads)),) * runs
    made: Mapping[str, Callable[[], np.ndarray]] = {
        "gaussian": lambda: _gaussian_embeddings(model, layer, n, runs, seed),
        "sphere": lambda: _uniform(model, n, runs, seed),
        "circle": lambda: (
            _stacked(lambda rng: initial.circle(n, rng=rng), runs, seed) @ leading_plane(model.heads(layer)).T
        ),
        "embeddings": lambda: _embedded(model, layer, _random_ids(model, n, runs, seed), has_positions=False),
        "prompts": lambda: _embedded(
            model, layer, _enough(prompts_of_length(model, prompts, n, runs, seed), n, runs), has_positions=True
        ),
    }
    found = {name: made[name]() for name in starts}
    of_model = ("gaussian", "embeddings", "prompts")
    return [
        FlowSetting(name, every, tokens, _squared_length(tokens) if name in of_model else float(model.config.width))
        for name, tokens in found.items()
    ]


def _of_setting(model: Model, layer: int, heads: Sequence[Head], setting: FlowSetting, end: float) -> np.ndarray:
    """Quantities at the end, (quantities, runs); runs of the same heads are integrated together."""
    found = np.empty((len(QUANTITIES), len(setting.tokens)))
    units = setting.tokens / np.linalg.norm(setting.tokens, axis=-1, keepdims=True)
    for subset in sorted(set(setting.heads)):
        places = [place for place, chosen in enumerate(setting.heads) if chosen == subset]
        flow = SphereAttention([heads[head] for head in subset], Softmax(setting.beta), model.config.mask(layer))
        run = simulate(flow, units[places], np.array([0.0, end]), solver=SOLVER, progress=False)
        for place, tokens in zip(places, run.tokens.values[:, -1], strict=True):
            found[:, place] = _quantities(flow, tokens)
    return found


def _quantities(flow: SphereAttention, tokens: np.ndarray) -> list[float]:
    units = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    weights = np.asarray(attention_matrix(flow, tokens, 0.0)).reshape(-1, len(tokens), len(tokens))
    count = int(clusters.labels(units, SAME_CLUSTER).max()) + 1
    return [mean_cosine_of(units), float(count), float(np.mean(attention_rank.rank(weights)))]


def _changed_heads(heads: Sequence[Head], variant: str) -> list[Head]:
    """The heads of a layer with their own V, and the Q and K of a variant."""
    if variant == VARIANTS[0]:
        return list(heads)
    if variant == VARIANTS[1]:
        return [Head(0 * np.asarray(one.query), 0 * np.asarray(one.key), one.value, one.output) for one in heads]
    others = [*heads[1:], heads[0]]
    return [Head(other.query, other.key, one.value, one.output) for one, other in zip(heads, others, strict=True)]


def _subsets(total: int, count: int, runs: int, seed: int) -> tuple[tuple[int, ...], ...]:
    rng = np.random.default_rng([seed, count])
    return tuple(tuple(sorted(rng.choice(total, count, replace=False).tolist())) for _ in range(runs))


def _enough(ids: np.ndarray, n: int, runs: int) -> np.ndarray:
    """The prompts of as many runs."""
    if len(ids) < runs:
        raise InputError(f"`runs` must be at most {len(ids)}, the prompts of {n} tokens or more, but it is {runs}.")
    return ids[:runs]


def _uniform(model: Model, n: int, runs: int, seed: int) -> np.ndarray:
    return _stacked(lambda rng: initial.sphere(n, model.config.width, rng=rng), runs, seed)


def _stacked(start: Callable[[np.random.SeedSequence], np.ndarray], runs: int, seed: int) -> np.ndarray:
    return np.stack([np.asarray(start(one)) for one in np.random.SeedSequence(seed).spawn(runs)])


def _random_ids(model: Model, n: int, runs: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 2]).integers(model.config.vocabulary, size=(runs, n))


def _gaussian_embeddings(model: Model, layer: int, n: int, runs: int, seed: int) -> np.ndarray:
    """Gaussian tokens with the mean and covariance of the embeddings of random ids: (X - mean)^T g / sqrt(N) + mean."""
    rng = np.random.default_rng([seed, 3])
    ids = rng.integers(model.config.vocabulary, size=(1, min(SAMPLED_IDS, model.config.positions)))
    sampled = _embedded(model, layer, ids, has_positions=False)[0]
    mean = sampled.mean(axis=0)
    return rng.standard_normal((runs, n, len(sampled))) @ (sampled - mean) / np.sqrt(len(sampled)) + mean


def _embedded(model: Model, layer: int, ids: np.ndarray, *, has_positions: bool) -> np.ndarray:
    return np.stack([tokens_read(model, layer, model.embed(one, positions=has_positions)) for one in ids])


def _squared_length(tokens: np.ndarray) -> float:
    return float(np.mean(np.sum(tokens**2, axis=-1)))
