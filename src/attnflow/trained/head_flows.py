"""The idealised flow with trained heads of one layer, from random tokens or those of a prompt."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.memory import require_array_memory
from attnflow._common.plain import evenly_spaced
from attnflow._common.precision import double
from attnflow._common.progress import Progress
from attnflow._common.seeds import Rng
from attnflow.analyse import attention_rank, clusters, order, rates
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.results.provenance import flow_of
from attnflow.solvers.adaptive import Adaptive

SPACES = ("sphere", "euclidean")
STARTS = ("sphere", "circle", "gaussian", "prompt")
SOLVER = Adaptive(rtol=1e-5, atol=1e-7)  # pictures need three digits, and d is in the hundreds
MISALIGNMENT_ERROR = 1e-14  # rounding error of cosines in a thousand dimensions
FITTED_MISALIGNMENT = (1e-7, 0.3)  # a rate is fitted to values between these


def head_flow(
    model: Model,
    layer: int = 0,
    heads: Sequence[int] | None = None,
    *,
    space: str = "sphere",
    start: str = "sphere",
    prompt: Prompt | None = None,
    n: int = 24,
    end: float = 30.0,
    saves: int = 60,
    seed: Rng = 0,
    slots: int | None = None,
    circle_of: Sequence[int] | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Simulate tokens under the heads of one layer, without the biases, norms and MLP of its block.

    On the unit sphere beta is the squared length of the tokens that the heads read, so that scores are those of the
    model up to biases and rotary positions. In a model with a norm before attention (GPT-2, Llama) `model.heads`
    includes the norm's gain and centring, and that length is sqrt(d). Otherwise it is the length in the prompt's
    embedding if that is the start, and for random tokens sqrt(d), the length after a norm with gain one.

    Parameters
    ----------
    model, layer
        The model and its layer.
    heads
        Heads to use; None: all of the layer.
    space
        "sphere" or "euclidean".
    start
        "sphere": uniform. "circle": on the unit circle in the plane of V's leading eigenvectors. "gaussian": tokens of
        R^d. "prompt": the embedding of `prompt`, normalised with gain one where a norm precedes attention.
    n, seed
        Number of random tokens, and their seed.
    end, saves
        Last time, and number of saved times.
    slots
        Number of heads of the flow; those beyond the chosen send nothing. Flows with equal `slots` share compiled code.
    circle_of
        Heads whose V defines the plane of a "circle"; None: those of the flow.
    progress
        As in `simulate`.

    Returns
    -------
    A dataset of `simulate` with the model, layer and heads in its attributes.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.trained.head_flow(model, layer=0, heads=[1], n=4, end=1.0, saves=6, progress=False)
    >>> run.sizes["token"], run.attrs["heads"]
    (4, [1])
    """
    require_flow_arguments(space=space, start=start, prompt=prompt, n=n, end=end, saves=saves)
    chosen = chosen_heads(model, layer, heads)
    tokens = _first_tokens(
        model, layer, chosen if circle_of is None else chosen_heads(model, layer, circle_of), start, prompt, n, seed
    )
    squared_length = float(np.mean(np.sum(tokens**2, axis=1))) if start == "prompt" else float(model.config.width)
    if space == "sphere":
        tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    mask = model.config.mask(layer)
    filled = _filled(chosen, slots)
    flow: AbstractDynamics
    if space == "sphere":
        flow = SphereAttention(filled, Softmax(squared_length), mask)
    else:
        flow = EuclideanAttention(filled, Softmax(1.0), mask)
    run = simulate(flow, tokens, np.linspace(0, end, saves), solver=SOLVER, progress=progress)
    numbers = list(range(len(chosen))) if heads is None else [int(head) for head in heads]
    named = {"model": model.name, "layer": layer, "heads": numbers, "start": start}
    words = {} if start != "prompt" else {"word": ("token", np.array(model.encode(_given(prompt)).words, dtype=object))}
    return run.assign_coords(words).assign_attrs(named)


def flow_summary(run: xr.Dataset) -> dict[str, Any]:
    """Misalignment at the end, rate of alignment, and clusters and rank of P over time, of a run of `head_flow`.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.trained.head_flow(model, heads=[0], n=4, end=1.0, saves=6, progress=False)
    >>> af.trained.flow_summary(run)["heads"]
    [0]
    """
    course, fit = time_course(run), alignment_fit(run)
    return {
        "model": run.attrs["model"],
        "layer": int(run.attrs["layer"]),
        "heads": [int(head) for head in np.atleast_1d(run.attrs["heads"])],
        "misalignment": float(misalignment(run)[-1]),
        "rate": None if fit is None else fit.rate,
        "rate_interval": None if fit is None else [fit.low, fit.high],
        "saves": run.sizes["time"],
        "tokens": run.sizes["token"],
        **course[-1],
        "course": course,
        "outcome": run.attrs["outcome"],
    }


def time_course(run: xr.Dataset, count: int = 7) -> list[dict[str, float]]:
    """Clusters, mean cosine and rank of P (a mean over heads) at `count` times, the first and the last included."""
    flow, course, used = flow_of(run), [], np.size(run.attrs["heads"])
    for place in evenly_spaced(run.sizes["time"], count):
        tokens, time = run.tokens.values[place], float(run.time[place])
        weights = attention_matrix(flow, tokens, time).reshape(-1, len(tokens), len(tokens))[:used]
        distance = 0.05 * float(np.median(np.linalg.norm(tokens, axis=-1)))  # within which tokens are one cluster
        course.append(
            {
                "time": time,
                "clusters": int(clusters.labels(tokens, distance).max()) + 1,
                "mean_cosine": float(order.mean_cosine(tokens)),
                "attention_rank": float(np.mean(attention_rank.rank(weights))),
            }
        )
    return course


def misalignment(run: xr.Dataset) -> np.ndarray:
    """1 - mean squared cosine between distinct tokens, over time: 0 for tokens on one line through the origin."""
    units = run.tokens.values / np.linalg.norm(run.tokens.values, axis=-1, keepdims=True)
    n = units.shape[1]
    squares = np.sum((units @ np.swapaxes(units, 1, 2)) ** 2, axis=(1, 2))
    return np.maximum(1 - (squares - n) / (n * (n - 1)), 0.0)  # below zero by rounding only


def alignment_fit(run: xr.Dataset) -> rates.Fit | None:
    """Exponential law by which the misalignment decays once it is small; None if it does not decay exponentially."""
    apart = misalignment(run)
    fitted = (apart > FITTED_MISALIGNMENT[0]) & (apart < FITTED_MISALIGNMENT[1])
    if fitted.sum() < rates.MIN_POINTS:
        return None
    times = run.time.values[fitted]
    fit = rates.exponential(times, apart[fitted])
    # A decay by less than a factor of 10, or one whose logarithm is not a line, has no rate.
    decays = fit.rate * np.ptp(times) > np.log(10)
    return fit if decays and fit.r_squared > 0.95 else None


def leading_plane(heads: Sequence[Head]) -> np.ndarray:
    """Orthonormal columns (d x 2) of the plane of the leading eigenvectors of V, the sum over heads.

    It is the plane of a complex leading pair, or of the two leading real eigenvectors.
    """
    left = np.hstack([_outward(head) for head in heads])
    right = np.vstack([np.asarray(head.value) for head in heads])
    values, vectors = np.linalg.eig(right @ left)
    first, second = np.argsort(-np.real(values), kind="stable")[:2]
    pair = left @ vectors[:, first], left @ vectors[:, second]
    other = np.imag(pair[0]) if np.imag(values[first]) != 0 else np.real(pair[1])
    return np.linalg.qr(np.stack([np.real(pair[0]), other], axis=1))[0]


def require_flow_arguments(*, space: str, start: str, prompt: Prompt | None, n: int, end: float, saves: int) -> None:
    """Check the arguments of `head_flow` that do not depend on the model."""
    require_known(space, SPACES, "space")
    require_known(start, STARTS, "start")
    require_positive_number(end, "end")
    require_count(saves, "saves", least=2)
    require_array_memory(saves, what=f"A list of {saves} times")
    if start == "prompt":
        _given(prompt)
    else:
        require_count(n, "n", least=2)


def chosen_heads(model: Model, layer: int, heads: Sequence[int] | None) -> list[Head]:
    """The heads of those numbers in a layer; None: all."""
    every = model.heads(layer)
    numbers = range(len(every)) if heads is None else list(heads)
    if len(numbers) == 0 or not all(0 <= number < len(every) for number in numbers):
        raise InputError(
            f"`heads` must be one or more numbers from 0 to {len(every) - 1}, the heads of {model.name}, "
            f"but they are {list(numbers)}."
        )
    return [every[number] for number in numbers]


def _filled(heads: list[Head], slots: int | None) -> list[Head]:
    """The heads, and copies of the first with zero output up to the number of slots."""
    if slots is None:
        return heads
    require_count(slots, "slots", least=len(heads))
    idle = Head(heads[0].query, heads[0].key, heads[0].value, np.zeros_like(_outward(heads[0])))
    return heads + [idle] * (slots - len(heads))


def _first_tokens(
    model: Model, layer: int, heads: list[Head], start: str, prompt: Prompt | None, n: int, seed: Rng
) -> np.ndarray:
    d = model.config.width
    if start == "prompt":
        return tokens_read(model, layer, model.embed(_given(prompt)))
    if start == "circle":
        return initial.circle(n, rng=seed) @ leading_plane(heads).T
    return initial.sphere(n, d, rng=seed) if start == "sphere" else initial.gaussian(n, d, rng=seed)


def tokens_read(model: Model, layer: int, tokens: np.ndarray) -> np.ndarray:
    """The tokens that `model.heads(layer)` act on: of root mean square 1 after a norm of tokens, queries or keys."""
    if model.config.norm_place != "pre":
        tokens = np.asarray(tokens, dtype=float)
        # Norms of queries and keys remove the length of a token from its scores (OLMo 2).
        return tokens / np.sqrt(np.mean(tokens**2, axis=1, keepdims=True)) if model.config.query_norm else tokens
    with double():
        return np.asarray(model.block(layer).with_folded_norm().attention_input(tokens), dtype=float)


def _given(prompt: Prompt | None) -> Prompt:
    if prompt is None:
        raise InputError("`prompt` must be a text or ids if the start is 'prompt', but it is None.")
    return prompt


def _outward(head: Head) -> np.ndarray:
    return np.eye(head.dimension) if head.output is None else np.asarray(head.output)
