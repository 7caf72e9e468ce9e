"""Neural collapse over many prompts, on classes that are known before the model is run.

Tokens of all prompts are pooled. A class is all tokens with the same id ("same token"), or all tokens whose next token
has the same id ("same next token", what a causal model is trained to tell). With unit vectors u, class means m_c and
the mean m of class means, the variability is

    sum_c mean_{i in c} |u_i - m_c|^2  /  sum_c |m_c - m|^2.

Means of few tokens differ by chance: the control has the same tokens with classes permuted, where only chance is left.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, reporting
from attnflow.models.transformer import Model
from attnflow.trained.layer_energy import directions
from attnflow.trained.studies.layer_states import layer_states
from attnflow.trained.studies.prompt_sets import token_ids
from attnflow.trained.studies.variants import variants_of

CLASSES = ("same token", "same next token")
CONTROLS = ("untrained", "equal attention", "shuffled tokens")
LEAST_MEMBERS, LEAST_PROMPTS = 4, 3  # of a class: fewer have no spread over contexts
SHUFFLES = 5  # permutations of the classes
NORMAL_QUANTILE = 1.96  # of a 95 % interval


def pooled_collapse(model: Model, ids: Sequence[np.ndarray], *, seed: int = 0, progress: Progress = None) -> xr.Dataset:
    """Variability of pooled tokens over (classes, variant, layer), trained and controls.

    `variability`, and `relative`, its ratio to the same with permuted classes, have the axis `bound`: value, and the
    `low` and `high` end of the 95 % interval of its logarithm by the jackknife over prompts. (The bootstrap would
    repeat tokens of a class, which lowers the spread within.) `count` is the number of classes. The first and the last
    token of a prompt, which are marks in most models, belong to no class.
    """
    variants = variants_of(model, CONTROLS, has_ladder=False)
    depth = model.config.layers
    found = np.full((2, len(CLASSES), len(variants), depth + 1, 3), np.nan)
    counts = [max(int(max(one.max() for one in class_members(ids, name))) + 1, 0) for name in CLASSES]
    with reporting(progress) as report:
        for row, variant in enumerate(variants):
            own = model.reinitialised(seed) if variant.is_untrained else model
            given = [variant.ids(one, np.random.default_rng([seed, place])) for place, one in enumerate(ids)]
            members = [class_members([token_ids(one) for one in given], name) for name in CLASSES]
            units: dict[int, np.ndarray] = {}
            for state in layer_states(own, variant, given, depth):
                units[state.prompt] = directions(state.tokens)
                if len(units) == len(given):  # the layer is complete
                    in_order = [units[place] for place in range(len(given))]
                    found[:, :, row, state.layer] = np.stack([_of_classes(in_order, one, seed) for one in members], 1)
                    report((row + (state.layer + 1) / (depth + 1)) / len(variants), variant.name)
                    units = {}
    dims = ("classes", "variant", "layer", "bound")
    return xr.Dataset(
        {"variability": (dims, found[0]), "relative": (dims, found[1]), "count": ("classes", counts)},
        {
            "classes": list(CLASSES),
            "variant": [one.name for one in variants],
            "layer": np.arange(depth + 1),
            "bound": ["value", "low", "high"],
        },
    )


def class_members(ids: Sequence[np.ndarray], classes: str) -> list[np.ndarray]:
    """The class of every token of every prompt, from 0; -1 for tokens in no class.

    A class has at least 4 members in at least 3 prompts.

    Examples
    --------
    >>> prompts = [np.array([1, 7, 8, 7, 2]), np.array([1, 7, 9, 2]), np.array([1, 7, 2])]
    >>> [one.tolist() for one in class_members(prompts, "same token")]
    [[-1, 0, -1, 0, -1], [-1, 0, -1, -1], [-1, 0, -1]]
    """
    found, numbers = [np.full(len(one), -1) for one in ids], {}
    for place, one in enumerate(ids):
        named = one[2:] if classes == "same next token" else one[1:-1]
        found[place][1:-1] = named
    every = np.concatenate(found) if found else np.empty(0, dtype=int)
    prompt = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    for name in np.unique(every[every >= 0]):
        is_member = every == name
        if is_member.sum() >= LEAST_MEMBERS and len(np.unique(prompt[is_member])) >= LEAST_PROMPTS:
            numbers[int(name)] = len(numbers)
    return [np.array([numbers.get(int(name), -1) for name in one]) for one in found]


def variability(units: np.ndarray, labels: np.ndarray) -> float:
    """Variability within classes over that between them; NaN with fewer than two classes.

    Examples
    --------
    >>> variability(np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([0, 0, 1, 1]))
    0.25
    """
    if labels.max(initial=-1) < 1:
        return np.nan
    one_prompt = _sums(units, labels, np.zeros(len(labels), dtype=int), 1)
    return float(_ratio(np.ones((1, 1)), *one_prompt)[0])


def _of_classes(units: Sequence[np.ndarray], members: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Value and interval, (2, 3), of the variability and of its ratio to permuted classes; NaN without two classes."""
    labels, prompts = np.concatenate(members), np.repeat(np.arange(len(units)), [len(one) for one in units])
    kept = labels >= 0
    if labels.max(initial=-1) < 1:
        return np.full((2, 3), np.nan)
    tokens, own, rng = np.concatenate(units)[kept], labels[kept], np.random.default_rng(seed)
    count = len(units)
    weights = np.concatenate([np.ones((1, count)), 1 - np.eye(count)])  # all prompts, and all but one
    values = _ratio(weights, *_sums(tokens, own, prompts[kept], count))
    permuted = [_ratio(weights, *_sums(tokens, rng.permutation(own), prompts[kept], count)) for _ in range(SHUFFLES)]
    return np.array([_jackknife(values), _jackknife(values / np.mean(permuted, axis=0))])


def _jackknife(values: np.ndarray) -> list[float]:
    """Value and ends of its interval, from the value of all prompts followed by those without one prompt each."""
    logarithms = np.log(values[1:])
    count = len(logarithms)
    error = np.sqrt((count - 1) / count * np.sum((logarithms - logarithms.mean()) ** 2))
    return [float(values[0] * np.exp(sign * NORMAL_QUANTILE * error)) for sign in (0, -1, 1)]


def _sums(
    units: np.ndarray, labels: np.ndarray, prompts: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number, sum and sum of squares of the tokens of every prompt and class."""
    classes = int(labels.max()) + 1
    numbers, sums = np.zeros((count, classes)), np.zeros((count, classes, units.shape[1]))
    squares = np.zeros((count, classes))
    np.add.at(numbers, (prompts, labels), 1.0)
    np.add.at(sums, (prompts, labels), units)
    np.add.at(squares, (prompts, labels), np.sum(units**2, axis=1))
    return numbers, sums, squares


def _ratio(weights: np.ndarray, numbers: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The variability with prompts counted as `weights` (cases, prompts) say."""
    prompts, classes, width = sums.shape
    total = weights @ numbers
    is_there = total > 0
    divisor = np.where(is_there, total, 1.0)
    means = (weights @ sums.reshape(prompts, -1)).reshape(-1, classes, width) / divisor[..., None]
    lengths = np.sum(means**2, axis=-1)
    within = np.where(is_there, weights @ squares / divisor - lengths, 0.0).sum(axis=1)
    present = is_there.sum(axis=1)
    middle = np.einsum("rcd,rc->rd", means, is_there.astype(float)) / present[:, None]
    between = np.where(is_there, lengths, 0.0).sum(axis=1) - present * np.sum(middle**2, axis=1)
    return within / between
