"""Figure of the hysteresis of noisy attention: the law and tokens from two starts, beside the stationary laws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.mean_field.branches import branch
from attnflow.mean_field.continuity_equation import evolve
from attnflow.mean_field.densities import uniform, von_mises
from attnflow.mean_field.thresholds import critical_beta, critical_kappa
from attnflow.model import initial
from attnflow.model.attention import Unnormalised
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.noise import Noise
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.solvers import observables
from attnflow.solvers.fixed_step import StochasticHeun
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation

STARTS = ("nearly uniform", "gathered")
ORDERED = 0.3  # length of the mean token above which a law or a run counts as ordered


def compute_hysteresis(
    progress: Progress, *, betas: list[float], ratios: list[float], n: int, periods: float, steps: int, seed: int
) -> xr.Dataset:
    """Order at the end over (beta, ratio of kappa to kappa_1, start), of the law and of n tokens, and the branches.

    The unit of time is kappa_1, in which noise alone lets the first mode decay by e: the runs last `periods` of it, in
    `steps` steps each, in which a token diffuses by (2 / steps)^1/2 radians.
    """
    tasks = [(beta, ratio) for beta in betas for ratio in ratios]
    of_law, of_tokens = [], []
    for (beta, ratio), share in zip(tasks, parts_of(progress, len(tasks)), strict=True):
        unit = critical_kappa(beta)
        end, noise = periods * unit, Noise(ratio * unit)
        flow = SphereAttention(Head.identity(2), Unnormalised(beta), noise=noise)
        firsts = (uniform(1, 0.05), von_mises(4.0))
        laws = [evolve(flow, first, [0.0, end], rtol=1e-5, progress=False) for first in firsts]
        of_law.append([float(law.order[-1]) for law in laws])
        of_tokens.append(_order_of_tokens(flow, n, end, unit / steps, seed, share))
    states = [branch(Unnormalised(beta), modes=64, states=120) for beta in betas]
    count = max(one.sizes["state"] for one in states)
    filled = lambda name: [np.pad(one[name].values, (0, count - one.sizes["state"]), mode="edge") for one in states]
    shape = (len(betas), len(ratios), len(STARTS))
    variables = {
        "order_of_law": (("beta", "ratio", "start"), np.reshape(of_law, shape)),
        "order_of_tokens": (("beta", "ratio", "start"), np.reshape(of_tokens, shape)),
        "branch_kappa": (("beta", "state"), np.array(filled("kappa"))),
        "branch_order": (("beta", "state"), np.array(filled("order"))),
        "branch_is_stable": (("beta", "state"), np.array(filled("is_stable"))),
        "critical": (("beta",), [critical_kappa(beta) for beta in betas]),
    }
    attributes = {"n": n, "periods": periods, "critical_beta": critical_beta(2)}
    return xr.Dataset(variables, {"beta": betas, "ratio": ratios, "start": list(STARTS)}, attributes)


def _order_of_tokens(flow: SphereAttention, n: int, end: float, step: float, seed: int, progress: Any) -> np.ndarray:
    """Mean length of the mean token over the last third of a run, from both starts."""
    generator = np.random.default_rng(seed)
    tokens = np.stack([initial.circle(n, rng=seed), initial.on_circle(generator.vonmises(0.0, 4.0, n))])
    how: dict[str, Any] = {"observables": {"order": observables.order_parameter}, "keep_tokens": False}
    times = np.linspace(0, end, 31)
    run = simulate(flow, tokens, times, solver=StochasticHeun(step), rng=seed, progress=progress, **how)
    return run.order.sel(time=slice(2 * end / 3, None)).mean("time").values


def draw_hysteresis(data: xr.Dataset) -> Picture:
    """Draw one panel for each beta: the branches, and the order at the end from both starts."""
    panels = []
    for index, beta in enumerate(data.beta.values):
        kappa, order = data.branch_kappa[index] / data.critical[index], data.branch_order[index]
        stable = data.branch_is_stable[index].values.astype(bool)
        is_dashed = ~stable | np.append(False, ~stable[:-1])
        lines = [
            Line(kappa, np.where(stable, order, np.nan), "stable laws" if index == 0 else "", theme().ink),
            Line(kappa, np.where(is_dashed, order, np.nan), "unstable" if index == 0 else "", theme().grey, "--"),
        ]
        for which, marker in (("law", "o"), ("tokens", "x")):
            for place, start in enumerate(STARTS):
                values = data[f"order_of_{which}"][index, :, place]
                label = f"{which}, {start}" if index == 0 else ""
                lines.append(Line(data.ratio, values, label, line_colour(place), "", marker))
        side = "below" if beta < data.attrs["critical_beta"] else "above"
        low, high = float(data.ratio[0]), float(data.ratio[-1])
        panels.append(
            Lines(
                lines, xlabel="κ / κ₁", ylabel="order", title=f"β = {beta:g}, {side} β$_c$",
                xlim=(low - 0.02, high + 0.02), ylim=(-0.02, 1.0), columns=2,
            )
        )  # fmt: skip
    return panel_picture(
        [panels], "Order of noisy attention from two starts", hysteresis_sentence(data), width=4.2, heights=[4.2]
    )


def bistable_range(data: xr.Dataset, index: int, which: str) -> list[float]:
    """Ratios of kappa to kappa_1 at which one start ends ordered and the other does not."""
    ordered = data[f"order_of_{which}"].values[index] > ORDERED
    return [float(ratio) for ratio, (low, high) in zip(data.ratio.values, ordered, strict=True) if high and not low]


def hysteresis_sentence(data: xr.Dataset) -> str:
    """Sentence on the ratios at which the start decides, of the law and of tokens, at each beta."""
    parts = []
    for index, beta in enumerate(data.beta.values):
        counts = [len(bistable_range(data, index, which)) for which in ("law", "tokens")]
        fold = float(data.branch_kappa[index].min() / data.critical[index])
        parts.append(f"β = {beta:g}: {counts[0]} of the law, {counts[1]} of tokens; the branch begins at {fold:.3f}")
    return (
        f"Order at t = {data.attrs['periods']:g} κ₁ from two starts, of the law and {data.attrs['n']} tokens. Values "
        f"of κ / κ₁, of {data.sizes['ratio']}, at which only the gathered start ends above {ORDERED:g}: "
        f"{'. '.join(parts)}."
    )


def hysteresis_numbers(data: xr.Dataset) -> dict:
    """The loss of stability, the fold, and the ratios at which the start decides."""
    numbers: dict[str, float | int | str] = {"beta_c": data.attrs["critical_beta"]}
    for index, beta in enumerate(data.beta.values):
        numbers[f"kappa_1 = beta / I_1(beta) at beta = {beta:g}"] = float(data.critical[index])
        numbers[f"least kappa of ordered laws over kappa_1 at beta = {beta:g}"] = float(
            data.branch_kappa[index].min() / data.critical[index]
        )
        for which in ("law", "tokens"):
            found = bistable_range(data, index, which)
            numbers[f"kappa / kappa_1 at which the starts end differently, {which}, beta = {beta:g}"] = _list(found)
    return numbers


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


def hysteresis_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the discontinuous transition at every beta shown."""
    statement = find("noisy-transition")
    return [statement.check(beta=float(one)) for one in data.beta.values] if isinstance(statement, Computation) else []


FIGURES = (
    Figure(
        id="hysteresis",
        source="arXiv:2606.05140, checked on the circle",
        title="Hysteresis of noisy attention",
        shows="The length of the mean token at the end of runs from a nearly uniform and from a gathered start, of the "
        "law and of tokens, beside the stationary laws. In theory both persist between the fold and κ₁ above β_c.",
        deviates="The paper states the transition; the runs and the continuation of its branches are attnflow's.",
        compute=compute_hysteresis,
        draw=draw_hysteresis,
        numbers=hysteresis_numbers,
        settings={
            "betas": [1.5, 6.0], "ratios": [0.8, 0.88, 0.92, 0.96, 1.1, 1.2], "n": 200, "periods": 40.0, "steps": 300,
            "seed": 0,
        },
        quick={"ratios": [0.8, 0.9, 1.2], "n": 100, "periods": 8.0, "steps": 100},
        seconds=(63.0, 8.0),
        verdicts=hysteresis_verdicts,
    ),
)  # fmt: skip
