"""The trajectory of a prompt in frames that move with V, the sum of the heads of each layer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow._common.precision import double
from attnflow._common.threads import on_cores, one_blas_thread
from attnflow.analyse import order
from attnflow.model.heads import Head
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained import layer_similarity
from attnflow.trained.measures import directions
from attnflow.trained.prompt_runs import run_of

FRAMES = ("x", "V", "S", "A")


def frames(model: Model, prompt: Prompt | xr.Dataset, layers: int | None = None) -> xr.Dataset:
    """The prompt's tokens in the fixed frame and in frames moving with V, its symmetric part S or antisymmetric part A.

    With V_l the sum over the heads of layer l and a layer as unit of time, tokens after layer l are multiplied by
    e^{-V_1} ... e^{-V_l}, which for a shared layer is e^{-tV}. The frame does not include biases, norms and MLP.

    In GPT-2 and Llama heads read x / rms(x), with gain and centring of the norm as part of V. Then V_l / r_l takes the
    place of V_l, with r_l the median root mean square of the tokens that enter layer l: the frame is that of a token of
    median length, and `divisor_least` and `divisor_greatest` say how far other tokens are from it. On SmolLM2-135M r_l
    grows from 0.11 to 29, and one token, the first, is up to 160 times as long as the median one.

    Parameters
    ----------
    model, layers
        As in `model.trajectory`.
    prompt
        As in `model.trajectory`, or the result of `model.trajectory` or `prompt_report`.

    Returns
    -------
    A dataset with `tokens` over (frame, time, token, coordinate), frame being "x", "V", "S" or "A", and `mean_cosine`
    and `effective_rank` of each frame over time; and over layer `divisor`, `divisor_least` and `divisor_greatest`, the
    median r_l and the least and greatest root mean square of a token, all 1 in a model without a norm before attention.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.frames(model, [5, 17, 3, 5])
    >>> found.frame.values.tolist()
    ['x', 'V', 'S', 'A']
    """
    run = run_of(model, prompt, layers)
    with one_blas_thread():
        framed, divisors = _framed(model, run.tokens.values.astype(float))
        framed_run = xr.Dataset(
            {"tokens": (("frame", "time", "token", "coordinate"), framed)},
            {"frame": list(FRAMES), "time": run.time, "word": run.word},
            {"model": model.name},
        )
        by_frame = [directions(framed_run.sel(frame=name)) for name in FRAMES]
        measured = {
            "mean_cosine": [order.mean_cosine(one).values for one in by_frame],
            "effective_rank": [layer_similarity.effective_rank(one).values for one in by_frame],
        }
    of_layers = {"divisor": np.median, "divisor_least": np.min, "divisor_greatest": np.max}
    return framed_run.assign(
        {name: (("frame", "time"), np.stack(values)) for name, values in measured.items()}
        | {name: ("layer", summary(divisors, axis=1)) for name, summary in of_layers.items()}
    )


def _framed(model: Model, stream: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The tokens (frame, time, token, coordinate), and the divisors of the tokens before each layer."""
    framed = np.stack([stream] * len(FRAMES))
    back = [np.eye(model.config.width) for _ in FRAMES[1:]]
    divisors: list[np.ndarray] = []
    steps: list[StepBack] = []
    for layer in range(len(stream) - 1):
        number = layer % model.config.layers
        divisors.append(_divisors(model, number, stream[layer]))
        if layer == 0 or not model.config.shares_layers:
            of_frame = steps_back(model.heads(number), float(np.median(divisors[-1])))
            steps = [of_frame[name] for name in FRAMES[1:]]
        back = on_cores(_product, zip(back, steps, strict=True))
        for place, matrix in enumerate(back, start=1):
            framed[place, layer + 1] = stream[layer + 1] @ matrix.T
    return framed, divisors


def _product(pair: "tuple[np.ndarray, StepBack]") -> np.ndarray:
    matrix, step = pair
    return step.after(matrix)


def _divisors(model: Model, layer: int, tokens: np.ndarray) -> np.ndarray:
    """The root mean square by which the norm before attention divides each token; 1 where there is no such norm."""
    norm = model.attention_norm(layer)
    if norm is None:
        return np.ones(len(tokens))
    with double():
        return np.asarray(norm.divisors(tokens), dtype=float)[:, 0]


class StepBack(NamedTuple):
    """The matrix I + U (E - I) U^T, or E where U is None: it acts on the range of U only."""

    exponential: np.ndarray
    basis: np.ndarray | None

    def after(self, matrix: np.ndarray) -> np.ndarray:
        """The product of a matrix and this one."""
        if self.basis is None:
            return matrix @ self.exponential
        inside = matrix @ self.basis
        return matrix + (inside @ self.exponential - inside) @ self.basis.T


def steps_back(heads: Sequence[Head], divisor: float) -> dict[str, StepBack]:
    """e^{-V}, e^{-S} and e^{-A} of a layer.

    V is the sum over heads, divided by the divisor of the tokens; S and A are its symmetric and antisymmetric parts.
    Heads with grouped keys share their maps of values, so that V = L R has a low rank: on the range of L and R^T,
    with orthonormal basis U, V is the smaller matrix U^T V U, and it is zero on the orthogonal complement.

    Examples
    --------
    >>> step = steps_back([Head(value=np.diag([np.log(2.0), 0.0]))], divisor=1.0)["V"]
    >>> step.after(np.eye(2)).round(12)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    left, right = _value_factors(heads)
    basis = np.linalg.qr(np.hstack([left, right.T]))[0] if 2 * len(right) < len(left) else None
    value = (left @ right if basis is None else (basis.T @ left) @ (right @ basis)) / divisor
    V, A, S = on_cores(lambda step: step(value), (_step_back, _antisymmetric_step_back, _symmetric_step_back))
    return {"V": StepBack(V, basis), "S": StepBack(S, basis), "A": StepBack(A, basis)}


def _step_back(value: np.ndarray) -> np.ndarray:
    return expm(-value)


def _antisymmetric_step_back(value: np.ndarray) -> np.ndarray:
    return expm(-(value - value.T) / 2)


def _symmetric_step_back(value: np.ndarray) -> np.ndarray:
    """The exponential by eigenvalues, which takes a third of the time of that by squaring."""
    sizes, vectors = np.linalg.eigh((value + value.T) / 2)
    return (vectors * np.exp(-sizes)) @ vectors.T


def _value_factors(heads: Sequence[Head]) -> tuple[np.ndarray, np.ndarray]:
    """The sum of V over heads as a product L R; heads that follow each other with one map of values are one factor."""
    outward: list[np.ndarray] = []
    inward: list[np.ndarray] = []
    for head in heads:
        value = np.asarray(head.value)
        output = np.eye(len(value)) if head.output is None else np.asarray(head.output)
        if inward and np.array_equal(value, inward[-1]):
            outward[-1] = outward[-1] + output
        else:
            outward.append(output)
            inward.append(value)
    return np.hstack(outward), np.vstack(inward)
