"""Figure of obstructions: how often random flows do what an argument forbids, with its hypothesis and without it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, reporting
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import obstructions
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.initial import on_circle, sphere
from attnflow.show.parts.interval_dots import IntervalDots
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.solvers.adaptive import Adaptive

TIGHT = Adaptive(rtol=1e-9, atol=1e-11)
SAME = 1e-6  # distance within which ends are one place: errors of the solve are below 1e-8
ARGUMENTS = {
    "equal tokens": "equal tokens, full attention\n(without: causal mask)",
    "order": "order on the circle, full attention\n(without: causal mask)",
    "prefix": "common prefix, causal mask\n(without: full attention)",
    "cone": "cone of the tokens, V = I\n(without: any V)",
}
SIDES = ("with", "without")


def compute_obstructions(progress: Progress, *, n: int, end: float, beta: float, draws: int, seed: int) -> xr.Dataset:
    """Whether the ends of random flows are called impossible for the family with the hypothesis, over
    (argument, side, draw): side "with" are flows of this family, side "without" others."""
    called = np.zeros((len(ARGUMENTS), len(SIDES), draws), bool)
    with reporting(progress) as report:
        for draw in range(draws):
            rng = np.random.default_rng((seed, draw))
            for k, name in enumerate(ARGUMENTS):
                family, tokens, flows = CASES[name](n, beta, rng)
                for side, flow in enumerate(flows):
                    ends = _ends(flow, tokens, end)
                    kinds = [one.kind for one in obstructions(family, tokens, ends)]
                    called[k, side, draw] = name in kinds
            report((draw + 1) / draws, f"draw {draw + 1}")
    return xr.Dataset(
        {"is_called_impossible": (("argument", "side", "draw"), called)},
        {"argument": list(ARGUMENTS), "side": list(SIDES)},
        {"n": n, "end": end, "beta": beta},
    )


def _flow(rng: np.random.Generator, d: int, beta: float, mask: Any = masks.full, value: Any = None) -> SphereAttention:
    query, key, drawn = rng.normal(size=(3, d, d))
    return SphereAttention(Head(query, key, drawn if value is None else value), Softmax(beta), mask)


def _ends(flow: SphereAttention, tokens: np.ndarray, end: float) -> np.ndarray:
    """Last tokens of one or several prompts; places closer than `SAME` to an earlier one are made equal to it."""
    prompts = tokens if tokens.ndim == 3 else tokens[None]
    runs = [simulate(flow, one, [0.0, end], solver=TIGHT, progress=False).final_tokens.values for one in prompts]
    rows = np.concatenate(runs)
    for i in range(1, len(rows)):
        near = np.flatnonzero(np.linalg.norm(rows[:i] - rows[i], axis=1) < SAME)
        rows[i] = rows[near[0]] if len(near) else rows[i]
    return rows.reshape(tokens.shape)


def _of_equal_tokens(n: int, beta: float, rng: np.random.Generator) -> Any:
    tokens = sphere(n, 3, rng=rng)
    tokens[-1] = tokens[-2]
    full = _flow(rng, 3, beta)
    return FlowFamily(), tokens, (full, SphereAttention(full.heads, full.attention, masks.causal))


def _of_order(n: int, beta: float, rng: np.random.Generator) -> Any:
    tokens = on_circle(rng.uniform(0, 2 * np.pi, n))
    full = _flow(rng, 2, beta)
    return FlowFamily(), tokens, (full, SphereAttention(full.heads, full.attention, masks.causal))


def _of_prefix(n: int, beta: float, rng: np.random.Generator) -> Any:
    tokens = sphere(2 * n, 3, rng=rng).reshape(2, n, 3)
    tokens[1, : n // 2] = tokens[0, : n // 2]
    causal = _flow(rng, 3, beta, masks.causal)
    return FlowFamily(mask=masks.causal), tokens, (causal, SphereAttention(causal.heads, causal.attention))


def _of_cone(n: int, beta: float, rng: np.random.Generator) -> Any:
    points = rng.normal(size=(n, 3)) + np.array([2.0, 0.0, 0.0])  # mostly in one hemisphere: the cone is not all of R^3
    points[:, 0] = np.abs(points[:, 0]) + 0.1
    tokens = points / np.linalg.norm(points, axis=1, keepdims=True)
    family = FlowFamily(perceptron=False, value="identity")
    return family, tokens, (_flow(rng, 3, beta, value=np.eye(3)), _flow(rng, 3, beta))


CASES: dict[str, Callable[..., Any]] = {
    "equal tokens": _of_equal_tokens, "order": _of_order, "prefix": _of_prefix, "cone": _of_cone,
}  # fmt: skip


def share_with_interval(called: np.ndarray) -> tuple[float, float, float]:
    """A share and the ends of its 95 % interval by Wilson's formula.

    Examples
    --------
    >>> tuple(round(one, 2) for one in share_with_interval(np.array([True, False])))
    (0.5, 0.09, 0.91)
    """
    n, share, z = len(called), float(np.mean(called)), 1.96
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return share, max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def draw_obstructions(data: xr.Dataset) -> Picture:
    """Draw the share of runs that are called impossible, with and without the hypothesis."""
    series = {}
    for side in SIDES:
        rows = [share_with_interval(data.is_called_impossible.sel(argument=one, side=side).values) for one in ARGUMENTS]
        series[f"{side} the hypothesis"] = tuple(np.array(rows).T)
    panel = IntervalDots(list(ARGUMENTS.values()), series, xlabel="share called impossible", columns=2)
    facts = data.attrs
    wrong = int(data.is_called_impossible.sel(side="with").sum())
    found = ", ".join(
        f"{one} {int(data.is_called_impossible.sel(argument=one, side='without').sum())}" for one in ARGUMENTS
    )
    caption = (
        f"{facts['n']} tokens, Gaussian weights, β = {facts['beta']:g}, t = {facts['end']:g}, {data.sizes['draw']} "
        f"draws each, with 95 % intervals. Called impossible: {wrong} of {4 * data.sizes['draw']} runs with "
        f"the hypothesis; without it, of {data.sizes['draw']}: {found}."
    )
    return panel_picture(
        [[panel]], "What no control can do, and what another flow does", caption, width=7.2, heights=[4.2]
    )


def obstructions_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Numbers of runs that are called impossible."""
    return {
        f"{name}, flows {side} the hypothesis: called impossible": int(
            data.is_called_impossible.sel(argument=name, side=side).sum()
        )
        for name in ARGUMENTS
        for side in SIDES
    }


OBSTRUCTIONS = Figure(
    id="steer-obstructions",
    source="arXiv:2411.04551: which targets are possible; the arguments are attnflow's",
    title="Obstructions to control, with and without their hypotheses",
    shows="Random flows are run, and their ends are given to the function that names obstructions. Ends of flows with "
    "the hypothesis of an argument are possible by construction, so that the share must be zero; flows without it are "
    "the control.",
    deviates="The publication has no figure of this kind.",
    compute=compute_obstructions,
    draw=draw_obstructions,
    numbers=obstructions_numbers,
    settings={"n": 6, "end": 2.0, "beta": 1.0, "draws": 100, "seed": 0},
    quick={"draws": 10},
    seconds=(30.0, 10.0),
)
