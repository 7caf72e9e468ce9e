"""Figure of arXiv:2407.01602: the leaders of hardmax attention."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.plain import number_with_error
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import clusters, leaders
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Hardmax
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.scene import Snapshot, scene_of
from attnflow.solvers.layers import Layers
from attnflow.theorems.verify import verify

LEADER_DISTANCE = 1e-2  # tokens closer than this to a leader, or to each other, are one cluster


def compute_leaders(
    progress: Progress, *, starts: dict[str, list], alpha: float, layers: int, n: int, seeds: dict[str, int]
) -> xr.Dataset:
    """Layers of hardmax attention from several starts: n tokens, some at given points, the others in their hull."""
    most = max(len(points) for points in starts.values())
    if n < most or set(seeds) != set(starts):
        raise InputError(
            f"`n` must be at least {most}, the number of given points, and `seeds` must have one seed for each of "
            f"`starts`, {', '.join(starts)}; but n is {n} and the seeds are of {', '.join(seeds)}."
        )
    step = alpha / (1 + alpha)
    solver, times = Layers(step, 1 - step), step * np.arange(layers + 1)
    runs = [
        simulate(_hardmax(), _filled(points, n, seeds[name]), times, solver=solver, rng=seeds[name], progress=share)
        for (name, points), share in zip(starts.items(), parts_of(progress, len(starts)), strict=True)
    ]
    data = joined(runs, xr.Variable("start", list(starts)))
    return data.assign(leads=leaders.is_leader(data.tokens, alone=True)).assign_attrs(alpha=alpha)


def _hardmax() -> EuclideanAttention:
    return EuclideanAttention(Head.identity(2), Hardmax())


def _filled(points: list, n: int, seed: int) -> np.ndarray:
    """The given points and random tokens in their hull, n in all; without points, n random tokens in a square."""
    if not points:
        return initial.box(n, 2, -1, 1, rng=seed)
    corners = np.asarray(points, dtype=float)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(corners)), n - len(corners))
    return np.concatenate([corners, shares @ corners])


def draw_leaders(data: xr.Dataset) -> Picture:
    """Draw the best matches of all tokens at the start, above, and the paths to the end, below."""
    above, below, reach = [], [], 1.1 * float(np.abs(data.tokens).max())
    for name, run in leader_runs(data).items():
        matches = _best_matches(run.tokens.values)
        scene = scene_of(run, has_hull=True, distance=LEADER_DISTANCE, arrows=matches, reach=reach)
        above.append(Snapshot(scene, 0, f"{name}: start"))
        below.append(Snapshot(scene, run.sizes["time"] - 1, f"{name}: {run.sizes['time'] - 1} layers"))
    caption = (
        "Arrows: the best match a token moves to. Rings: tokens that are a best match. Colours: cluster at the end."
    )
    return panel_picture([above, below], leader_title(data), caption, width=2.9, least=1.9)


def leader_title(data: xr.Dataset) -> str:
    """Title with the number of tokens that are at a leader after the last layer."""
    final, leads = data.tokens[:, -1].values, data.leads[:, -1].values
    distances = np.linalg.norm(final[:, :, None] - final[:, None], axis=-1)
    nearest = np.where(leads[:, None], distances, np.inf).min(axis=-1)
    return (
        f"Hardmax attention: {int(np.sum(nearest < LEADER_DISTANCE))} of {nearest.size} tokens within "
        f"{LEADER_DISTANCE:g} of a leader after {data.sizes['time'] - 1} layers"
    )


def _best_matches(tokens: np.ndarray) -> np.ndarray:
    """(time, token, token), True where the second token is a best match of the first; ties included."""
    scores = np.einsum("tik,tjk->tij", tokens, tokens)
    best = scores.max(axis=-1, keepdims=True)
    return scores >= best - leaders.TIE_TOLERANCE * np.abs(scores).max(axis=-1, keepdims=True)


def leader_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The run from each start."""
    return dict(zip(data.start.values.tolist(), separated(data), strict=True))


def leader_numbers(data: xr.Dataset) -> dict:
    """Leaders at the start and leaders that emerge later, how far leaders move, and clusters at the end."""
    numbers: dict[str, Any] = {}
    for name, run in leader_runs(data).items():
        first = run.leads.values[0]
        moved = np.linalg.norm(run.tokens[-1, first] - run.tokens[0, first], axis=-1)
        numbers[f"{name}: leaders at the start"] = int(first.sum())
        rounding = run.sizes["time"] * np.finfo(float).eps * float(np.abs(run.tokens).max())  # one error for every step
        numbers[f"{name}: largest move of a leader"] = number_with_error(moved.max(initial=0.0), rounding)
        numbers[f"{name}: leaders that emerge"] = int(np.sum(run.leads.values.any(axis=0) & ~first))
        numbers[f"{name}: clusters at the end"] = int(clusters.count(run, LEADER_DISTANCE)[-1])
    return numbers


def leader_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the statements that leaders stay and that tokens end at them."""
    only = ["hardmax-leaders-layers", "hardmax-limits-layers"]
    return [verdict for run in separated(data) for verdict in verify(run, only=only)]


FIGURES = (
    Figure(
        id="hardmax-leaders",
        source="arXiv:2407.01602, Figure 2",
        title="Hardmax leaders",
        shows="Tokens with arrows to their best matches at the start, and their paths to the last layer. A leader is a "
        "token that is its only best match; the title counts the tokens at one.",
        deviates="Random tokens between the published points are added, since the published ones alone hardly move; "
        "the last start is new, its seed found by search for a token that becomes a leader later, as happens from few "
        "starts. There are 40 layers instead of 30.",
        compute=compute_leaders,
        draw=draw_leaders,
        numbers=leader_numbers,
        settings={
            "starts": {
                "triangle": [[1.0, 1.0], [0.5, -0.5], [-1.0, -1.0]],
                "square": [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]],
                "square and two": [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.0], [-0.5, 0.0]],
                "random": [],
            },
            "alpha": 0.5,
            "layers": 40,
            "n": 20,
            "seeds": {"triangle": 1, "square": 2, "square and two": 3, "random": 303},
        },
        quick={},
        seconds=(3.0, 3.0),
        verdicts=leader_verdicts,
        runs=leader_runs,
    ),
)
