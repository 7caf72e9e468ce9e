"""Figure of prompts of two labels under one control: those that it is made for, and prompts held out."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.stats import t as student

from attnflow._common.progress import Progress, reporting
from attnflow.control.optimiser import optimise
from attnflow.control.prompt_matching import match_prompts
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.figures.figure import Figure
from attnflow.model.attention import Softmax
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

METHODS = {"construction": "construction, one prompt after the other", "search": "search, pieces of attention"}
LABEL_KINDS = {"true": "labels of the laws", "permuted": "permuted labels (control)"}
TARGET_RADIUS = 0.25  # distance of the targets of the construction, which must be distinct, from the point of a label


def compute_labels(
    progress: Progress, *, counts: list[int], n: int, shift: float, pieces: int, radius: float, held_out: int,
    draws: int, seed: int,
) -> xr.Dataset:  # fmt: skip
    """Shares of wrong prompts over (way, labels, prompts, draw), among those of the control and those held out."""
    shape = (len(METHODS), len(LABEL_KINDS), len(counts), draws)
    train, test, done = np.zeros(shape), np.zeros(shape), 0
    with reporting(progress) as report:
        for index in np.ndindex(len(counts), draws):
            rng = np.random.default_rng((seed, *index))
            labels, others = np.arange(counts[index[0]]) % 2, np.arange(held_out) % 2
            prompts, unseen = draw_prompts(labels, n, shift, rng), draw_prompts(others, n, shift, rng)
            for k, given in enumerate((labels, rng.permutation(labels))):
                for m, make in enumerate((_constructed, _searched)):
                    control = make(prompts, given, pieces, radius, rng)
                    train[m, k, *index] = share_of_errors(control, prompts, given)
                    test[m, k, *index] = share_of_errors(control, unseen, others)
            done += 1
            report(done / shape[2] / draws, f"{len(prompts)} prompts")
    dims = ("way", "labels", "prompts", "draw")
    coordinates = {"way": list(METHODS), "labels": list(LABEL_KINDS), "prompts": counts}
    facts = {"n": n, "shift": shift, "pieces": pieces, "radius": radius, "held_out": held_out}
    return xr.Dataset({"train": (dims, train), "held_out": (dims, test)}, coordinates, facts)


def draw_prompts(labels: np.ndarray, n: int, shift: float, rng: np.random.Generator) -> np.ndarray:
    """Prompts of n tokens on S^2: directions of Gaussian vectors with the mean +-`shift` along the first axis."""
    centres = np.where(labels == 0, shift, -shift)[:, None, None] * np.eye(3)[0]
    points = centres + rng.normal(size=(len(labels), n, 3))
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def _points_of(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == 0, 1.0, -1.0)[:, None] * np.eye(3)[0]


def _constructed(prompts: np.ndarray, labels: np.ndarray, pieces: int, radius: float, rng: Any) -> Schedule:
    """The control of `match_prompts`, to distinct targets near the points of the labels."""
    del pieces, radius  # which are of the search
    moves = rng.normal(size=(len(labels), 3)) * np.array([0.0, 1.0, 1.0])
    targets = _points_of(labels) + TARGET_RADIUS * moves / np.linalg.norm(moves, axis=1, keepdims=True)
    return match_prompts(prompts, targets / np.linalg.norm(targets, axis=1, keepdims=True), rng=rng).control


def _searched(prompts: np.ndarray, labels: np.ndarray, pieces: int, radius: float, rng: Any) -> Schedule:
    """The control of `optimise` that takes all tokens to within a radius of the points of the labels."""
    targets = np.broadcast_to(_points_of(labels)[:, None], prompts.shape)
    return optimise(prompts, targets, pieces, objective="label", radius=radius, rng=rng).control


def share_of_errors(control: Schedule, prompts: np.ndarray, labels: np.ndarray) -> float:
    """Share of prompts whose mean ends nearer to the point of the other label."""
    assert isinstance(control.attention, Softmax)
    for piece in control.pieces:
        prompts = after_piece(piece, float(control.attention.beta), prompts)
    return float(np.mean((prompts.mean(axis=1)[:, 0] > 0) != (labels == 0)))


def after_piece(piece: Piece, beta: float, prompts: np.ndarray) -> np.ndarray:
    """The prompts after one piece of a control on the sphere, by SciPy."""
    drift, heads = piece.perceptron, piece.heads

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(prompts.shape)
        pull = np.zeros_like(x)
        for head in heads:
            scores = beta * (x @ np.asarray(head.query_key) @ np.swapaxes(x, 1, 2))
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            pull += weights / weights.sum(axis=-1, keepdims=True) @ x @ np.asarray(head.value_matrix).T
        if drift is not None:
            pull += np.maximum(1 - np.abs(x @ drift.inner.T + drift.bias), 0) @ drift.outer.T
        return (pull - (x * pull).sum(axis=-1, keepdims=True) * x).ravel()

    # Labels are read from signs, so that errors of 1e-6 are enough.
    last = solve_ivp(rate, (0, piece.duration), prompts.ravel(), rtol=1e-5, atol=1e-7).y[:, -1]
    points = last.reshape(prompts.shape)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def interval(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the last axis, and half of its 95 % interval by Student's t over draws; NaN where draws are equal.

    Equal draws say nothing of the spread: Student's interval would have no width.
    """
    values = np.asarray(values)
    draws, mean = values.shape[-1], values.mean(axis=-1)
    if draws == 1:
        return mean, np.full(mean.shape, np.nan)
    half = student.ppf(0.975, draws - 1) * values.std(axis=-1, ddof=1) / np.sqrt(draws)
    return mean, np.where(np.ptp(values, axis=-1) > 0, half, np.nan)


def in_words(values: Any, digits: int) -> str:
    """Mean and interval of draws, or the number that they all have."""
    mean, half = (float(one) for one in interval(values))
    if np.isfinite(half):
        return f"{mean:.{digits}f} ± {half:.{digits}f}"
    draws = len(np.asarray(values))
    return f"{mean:.{digits}f} in {'the only draw' if draws == 1 else f'each of {draws} draws'}"


def draw_labels(data: xr.Dataset) -> Picture:
    """Draw one panel for each method: errors against the number of prompts, with intervals."""
    panels = [_panel(data, method) for method in METHODS]
    facts = data.attrs
    caption = (
        f"Prompts of {facts['n']} tokens, whose means differ by {2 * facts['shift']:g} deviations; {facts['held_out']} "
        f"held out; means of {data.sizes['draw']} draws with 95 % intervals where they differ. Search: "
        f"{facts['pieces']} pieces, radius {facts['radius']:g}. {_sentence(data)}"
    )
    return panel_picture([panels], "Prompts of two labels under one control", caption, width=4.6, heights=[4.2])


def _panel(data: xr.Dataset, method: str) -> Lines:
    counts, lines = data.prompts.values, []
    for colour, (kind, words) in enumerate(LABEL_KINDS.items()):
        for name, style, mark in (("train", "--", "s"), ("held_out", "-", "o")):
            mean, half = interval(data[name].sel(way=method, labels=kind).values)
            label = f"{'held out' if name == 'held_out' else 'of the control'}, {words}"
            lines.append(Line(counts, mean, label, line_colour(colour), style, mark, error=np.nan_to_num(half)))
    return Lines(
        lines, xlabel="prompts of the control", ylabel="share of wrong labels", title=METHODS[method],
        xscale="log", xticks=counts.tolist(), ylim=(-0.03, 1.03), levels={"chance": 0.5},
    )  # fmt: skip


def _words(data: xr.Dataset, method: str, kind: str) -> str:
    return in_words(data.held_out.sel(way=method, labels=kind).isel(prompts=-1).values, 2)


def _sentence(data: xr.Dataset) -> str:
    """The errors among prompts held out, for the largest number of prompts."""
    found = [
        f"{method} {_words(data, method, 'true')} (permuted {_words(data, method, 'permuted')})" for method in METHODS
    ]
    return f"Errors held out, {int(data.prompts[-1])} prompts: {', '.join(found)}."


def labels_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Errors for every method, labels and number of prompts."""
    numbers = {}
    for method in METHODS:
        for kind in LABEL_KINDS:
            for name in ("train", "held_out"):
                where = "held out" if name == "held_out" else "of the control"
                key = f"{method}, {kind} labels, error {where}, {int(data.prompts[-1])} prompts"
                numbers[key] = in_words(data[name].sel(way=method, labels=kind).isel(prompts=-1).values, 3)
    return numbers


LABELS = Figure(
    id="steer-labels",
    source="arXiv:2411.04551: classification of prompts by one control",
    title="Prompts of two labels under one control",
    shows="The share of prompts that end nearer to the point of the other label, among the prompts that a control is "
    "made for and among prompts of the same laws that are held out, against the number of prompts. Permuted labels are "
    "the control: held-out prompts are wrong by chance.",
    deviates="The publication proves that a control exists and has no measurement of this kind.",
    compute=compute_labels,
    draw=draw_labels,
    numbers=labels_numbers,
    settings={
        "counts": [4, 8, 16, 32], "n": 8, "shift": 0.7, "pieces": 3, "radius": 0.6, "held_out": 100, "draws": 10,
        "seed": 0,
    },
    quick={"counts": [4, 8], "held_out": 20, "draws": 3},
    seconds=(400.0, 25.0),
)  # fmt: skip
