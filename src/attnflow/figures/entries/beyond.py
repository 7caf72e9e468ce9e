"""Figures beyond the first papers: normalisation schemes, hardmax leaders, long contexts."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import clusters, leaders, rates
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Hardmax, Softmax
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.normalisation import NGPT, AbstractNormalisation, Mix, Peri, Post, Pre, Sqrt
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.scene import Snapshot, scene_of
from attnflow.show.parts.style import OKABE_ITO
from attnflow.solvers.layers import Layers
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation
from attnflow.theorems.statements.long_context import critical_gamma, output_cosine
from attnflow.theorems.verify import verify

# -- Normalisation schemes ---------------------------------------------------------------------------------------------

SCHEMES: dict[str, AbstractNormalisation] = {
    "Post-LN": Post(),
    "nGPT": NGPT(0.2),
    "LayerNorm scaling": Sqrt(),
    "Pre-LN": Pre(),
    "Mix-LN": Mix(3.0),
    "Peri-LN": Peri(),
}
LAWS = {
    "Post-LN": "e$^{-2t}$",
    "nGPT": "e$^{-0.4t}$",
    "LayerNorm scaling": "e$^{-4\\sqrt{t+1}}$",
    "Pre-LN": "t$^{-2}$",
    "Mix-LN": "t$^{-2}$",
    "Peri-LN": "t$^{-2}$",
}
LATE = (1e-11, 1e-3)  # heights in which a last rate shows


def compute_rates(
    progress: Progress, *, schemes: list[str], n: int, beta: float, end: float, saves: int, seed: int
) -> xr.Dataset:
    """The same directions under every scheme, and 1 - cosine of the two tokens farthest apart, over (scheme, time)."""
    tokens, times = initial.gaussian(n, 3, rng=seed), np.r_[0.0, np.geomspace(1e-2, end, saves)]
    directions = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    runs = []
    for name, share in zip(schemes, parts_of(progress, len(schemes)), strict=True):
        start = tokens if SCHEMES[name].has_radii else directions
        run = simulate(_normalised(name, beta), start, times, progress=share)
        runs.append(run.drop_vars("radius", errors="ignore"))
    data = xr.concat(runs, xr.Variable("scheme", schemes), data_vars="all", combine_attrs="override")
    chords = [_diameters(run.tokens.values) for run in runs]
    return data.assign(height=(("scheme", "time"), np.square(chords) / 2)).assign_attrs(beta=beta)


def _normalised(scheme: str, beta: float) -> SphereAttention:
    return SphereAttention(Head.identity(3), Softmax(beta), normalisation=SCHEMES[scheme])


def _diameters(tokens: np.ndarray) -> np.ndarray:
    return np.linalg.norm(tokens[:, :, None] - tokens[:, None], axis=-1).max(axis=(1, 2))


def fitted_rate(scheme: str, times: np.ndarray, heights: np.ndarray) -> rates.Fit:
    """The last rate: of e^{-rate t}, of e^{-rate sqrt(t+1)}, or of t^{-rate} in the last decade of time."""
    is_late = (heights > LATE[0]) & (heights < LATE[1])
    if SCHEMES[scheme].has_radii:
        is_late &= times > times[-1] / 10
        return rates.algebraic(times[is_late], heights[is_late])
    clock = np.sqrt(times + 1) if scheme == "LayerNorm scaling" else times
    return rates.exponential(clock[is_late], heights[is_late])


def draw_rates(data: xr.Dataset) -> Any:
    """Exponential schemes on plain time, algebraic ones on logarithmic time."""
    times, panels = data.time.values, {False: [], True: []}
    for place, scheme in enumerate(data.scheme.values.tolist()):
        heights = data.height.sel(scheme=scheme).values
        seen = np.where(heights > 1e-13, heights, np.nan)
        has_radii = SCHEMES[scheme].has_radii
        law = _law(scheme, times, fitted_rate(scheme, times, heights))
        panels[has_radii] += [
            Line(times, seen, f"{scheme}, {LAWS[scheme]}", OKABE_ITO[place]),
            Line(times, np.where(law < 3, law, np.nan), "", OKABE_ITO[place], ":"),
        ]
    options: dict[str, Any] = {"ylabel": "1 − cosine", "yscale": "log"}
    drawn = []
    if panels[False]:
        drawn.append(Lines(panels[False], title="lengths stay", xlim=(0, 75), ylim=(1e-13, 3), **options))
    if panels[True]:
        ends = (times[1], times[-1])
        drawn.append(Lines(panels[True], title="lengths grow", xscale="log", xlim=ends, ylim=(None, 3), **options))
    n, beta = data.sizes["token"], data.attrs["beta"]
    caption = (
        f"{n} tokens on the sphere, β = {beta:g}; the two tokens farthest apart. Dotted: the law, fitted at the end."
    )
    title = "Where layer normalisation sits decides how fast tokens meet"
    return panel_figure([drawn], title, caption, width=4.2, heights=[4.2])


def _law(scheme: str, times: np.ndarray, fit: rates.Fit) -> np.ndarray:
    """The expected rate with the prefactor that was fitted."""
    with np.errstate(divide="ignore"):
        if SCHEMES[scheme].has_radii:
            return fit.prefactor * times**-2.0
    clock = np.sqrt(times + 1) if scheme == "LayerNorm scaling" else times
    return fit.prefactor * np.exp(-expected_rate(scheme) * clock)


def expected_rate(scheme: str) -> float:
    """2, 2 alpha, 4 (of the root of t + 1), or the power 2 (arXiv:2510.22026)."""
    return {"nGPT": 2 * float(getattr(SCHEMES["nGPT"], "alpha", 0)), "LayerNorm scaling": 4.0}.get(scheme, 2.0)


def rate_numbers(data: xr.Dataset) -> dict:
    """Fitted rates with their intervals, beside the expected ones."""
    found = {}
    for scheme in data.scheme.values.tolist():
        fit = fitted_rate(scheme, data.time.values, data.height.sel(scheme=scheme).values)
        kind = "power of t" if SCHEMES[scheme].has_radii else "rate"
        if scheme == "LayerNorm scaling":
            kind = "rate in sqrt(t + 1)"
        found[f"{scheme}: {kind} (expected {expected_rate(scheme):g})"] = (
            f"{fit.rate:.4f} [{fit.low:.4f}, {fit.high:.4f}]"
        )
    return found


def rate_verdicts(data: xr.Dataset) -> list:
    """The last rate of every scheme."""
    found = []
    for scheme in data.scheme.values.tolist():
        found += verify(_normalised(scheme, data.attrs["beta"]), data.sel(scheme=scheme, drop=True), ["last-rate"])
    return found


# -- Hardmax leaders ---------------------------------------------------------------------------------------------------


def compute_leaders(
    progress: Progress, *, starts: dict[str, list], alpha: float, layers: int, n: int, seeds: dict[str, int]
) -> xr.Dataset:
    """Layers of hardmax attention from several starts: n tokens, some at given points and the others in their hull."""
    step = alpha / (1 + alpha)
    solver, times = Layers(step, 1 - step), step * np.arange(layers + 1)
    runs = [
        simulate(_hardmax(), _filled(points, n, seeds[name]), times, solver=solver, progress=share)
        for (name, points), share in zip(starts.items(), parts_of(progress, len(starts)), strict=True)
    ]
    data = xr.concat(runs, xr.Variable("start", list(starts)), data_vars="all", combine_attrs="override")
    return data.assign(leads=leaders.is_leader(data.tokens, alone=True)).assign_attrs(alpha=alpha)


def _hardmax() -> EuclideanAttention:
    return EuclideanAttention(Head.identity(2), Hardmax())


def _filled(points: list, n: int, seed: int) -> np.ndarray:
    """The points and random tokens between them; without points, tokens in the square."""
    if not points:
        return initial.box(n, 2, -1, 1, rng=seed)
    corners = np.asarray(points, dtype=float)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(corners)), n - len(corners))
    return np.concatenate([corners, shares @ corners])


def draw_leaders(data: xr.Dataset) -> Any:
    """Above, who follows whom at the start; below, where tokens have gone."""
    above, below = [], []
    for name in data.start.values.tolist():
        run = data.sel(start=name, drop=True)
        matches = _best_matches(run.tokens.values)
        scene = scene_of(run, has_hull=True, distance=1e-2, arrows=matches)
        above.append(Snapshot(scene, 0, f"{name}: start"))
        below.append(Snapshot(scene, run.sizes["time"] - 1, f"after {run.sizes['time'] - 1} layers"))
    caption = (
        "Arrows: the best match a token moves to. Rings: tokens that are a best match. Colours: cluster at the end."
    )
    title = "Under hardmax attention tokens run to leaders"
    return panel_figure([above, below], title, caption, width=2.9)


def _best_matches(tokens: np.ndarray) -> np.ndarray:
    """(time, token, token): True at the best match, ties included."""
    scores = np.einsum("tik,tjk->tij", tokens, tokens)
    best = scores.max(axis=-1, keepdims=True)
    return scores >= best - leaders.TIE_TOLERANCE * np.abs(scores).max(axis=-1, keepdims=True)


def leader_numbers(data: xr.Dataset) -> dict:
    """First leaders, those that emerge on the way, and clusters at the end."""
    found: dict[str, Any] = {}
    for name in data.start.values.tolist():
        run = data.sel(start=name, drop=True)
        first = run.leads.values[0]
        moved = np.linalg.norm(run.tokens[-1, first] - run.tokens[0, first], axis=-1)
        found[f"{name}: leaders at the start"] = int(first.sum())
        found[f"{name}: largest move of a leader"] = float(moved.max(initial=0.0))
        found[f"{name}: leaders that emerge"] = int(np.sum(run.leads.values.any(axis=0) & ~first))
        found[f"{name}: clusters at the end"] = int(clusters.count(run, 1e-2)[-1])
    return found


def leader_verdicts(data: xr.Dataset) -> list:
    """Leaders stay, and tokens end at them."""
    only = ["hardmax-leaders-layers", "hardmax-limits-layers"]
    runs = [data.sel(start=name, drop=True) for name in data.start.values]
    return [verdict for run in runs for verdict in verify(_hardmax(), run, only)]


# -- Long contexts -----------------------------------------------------------------------------------------------------


def compute_contexts(
    progress: Progress, *, rho: float, exponents: list[float], largest: float, points: int, seed: int
) -> xr.Dataset:
    """Output cosine over (log10 n, gamma), and its limit."""
    del progress, seed  # a closed form
    critical = critical_gamma(rho)
    gammas = np.union1d(np.linspace(0, largest, points), [critical])
    values = [[output_cosine(rho, gamma, exponent * np.log(10)) for gamma in gammas] for exponent in exponents]
    coordinates = {"log10_n": exponents, "gamma": gammas}
    return xr.Dataset({"cosine": (("log10_n", "gamma"), values)}, coordinates, {"rho": rho, "critical": critical})


def draw_contexts(data: xr.Dataset) -> Any:
    """A line for each n, and the jump in the limit."""
    rho, critical = data.attrs["rho"], data.attrs["critical"]
    shades = np.linspace(0.35, 1.0, data.sizes["log10_n"])
    lines = [
        Line(data.gamma, data.cosine.sel(log10_n=exponent), f"n = 10$^{{{exponent:g}}}$", OKABE_ITO[0], alpha=shade)
        for exponent, shade in zip(data.log10_n.values, shades, strict=True)
    ]
    ends = float(data.gamma[0]), float(data.gamma[-1])
    lines.append(Line([ends[0], critical, np.nan, critical, ends[1]], [1, 1, np.nan, rho, rho], "n = ∞", OKABE_ITO[1]))
    lines.append(Line([critical], [limit_at_critical(rho)], "n = ∞ at γ = 1/(1 − ρ)", OKABE_ITO[1], "", "o"))
    panel = Lines(
        lines,
        xlabel="γ = β / log n",
        ylabel="cosine after one layer",
        levels={"ρ, before": rho},
        ylim=(0, 1.05),
        columns=3,
    )
    caption = f"Tokens with common cosine ρ = {rho:g} before the layer."
    title = "In long contexts one layer either merges tokens or leaves them alone"
    return panel_figure([[panel]], title, caption, width=6.6, heights=[4.2])


def limit_at_critical(rho: float) -> float:
    """4 rho / (1 + 3 rho)."""
    return 4 * rho / (1 + 3 * rho)


def context_numbers(data: xr.Dataset) -> dict:
    """The critical gamma, and the cosine there for each n."""
    rho, critical = data.attrs["rho"], data.attrs["critical"]
    found = {"critical gamma": critical, "limit at the critical gamma": limit_at_critical(rho)}
    for exponent in data.log10_n.values:
        at = data.cosine.sel(log10_n=exponent)
        found[f"cosine at the critical gamma, n = 10^{exponent:g}"] = float(at.sel(gamma=critical))
    return found


def context_verdicts(data: xr.Dataset) -> list:
    """Below, at and above the critical gamma, at the largest n shown."""
    rho, critical, size = data.attrs["rho"], data.attrs["critical"], float(data.log10_n[-1])
    cases = {
        "long-context-below": critical / 2,
        "long-context-critical": critical,
        "long-context-above": 1.5 * critical,
    }
    found = [(find(name), gamma) for name, gamma in cases.items()]
    return [one.check(rho=rho, gamma=gamma, log10_n=size) for one, gamma in found if isinstance(one, Computation)]


FIGURES = (
    Figure(
        id="normalisation-rates",
        source="arXiv:2510.22026, rates of normalisation schemes",
        title="Normalisation schemes and the rates at which tokens meet",
        shows="Where lengths are fixed tokens meet exponentially fast; where they grow, only like one over the square "
        "of time. The measured rates are those that theory gives.",
        deviates="The published picture shows cosines in a randomly weighted model of width 512; here Q = K = V = I, "
        "for which the rates are theorems.",
        compute=compute_rates,
        draw=draw_rates,
        numbers=rate_numbers,
        settings={"schemes": list(SCHEMES), "n": 8, "beta": 2.1, "end": 1e4, "saves": 240, "seed": 1},
        quick={"schemes": ["Post-LN", "LayerNorm scaling", "Pre-LN"]},
        seconds=(5.0, 5.0),
        verdicts=rate_verdicts,
    ),
    Figure(
        id="hardmax-leaders",
        source="arXiv:2407.01602, Figure 2",
        title="Hardmax leaders",
        shows="With hardmax attention every token moves to its best match, and tokens that are their own best match "
        "never move. Nearly all others end at such a leader, a few between two of them or at one that emerges.",
        deviates="Random tokens between the published points are added, since those alone hardly move; the last start "
        "is ours, its seed found by search: a leader emerges in few starts. 40 layers instead of 30 bring "
        "tokens within 1e-6 of their limit.",
        compute=compute_leaders,
        draw=draw_leaders,
        numbers=leader_numbers,
        settings={
            "starts": {
                "triangle": [[1, 1], [0.5, -0.5], [-1, -1]],
                "square": [[1, 1], [1, -1], [-1, 1], [-1, -1]],
                "square and two": [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]],
                "a leader emerges": [],
            },
            "alpha": 0.5,
            "layers": 40,
            "n": 20,
            "seeds": {"triangle": 1, "square": 2, "square and two": 3, "a leader emerges": 303},
        },
        quick={},
        seconds=(3.0, 3.0),
        verdicts=leader_verdicts,
    ),
    Figure(
        id="long-context",
        source="arXiv:2510.05554, limits of long contexts",
        title="Long contexts",
        shows="With β = γ log n one layer makes tokens equal below γ = 1/(1 − ρ) and leaves their angles above it. The "
        "jump forms so slowly in n that no simulation could show it.",
        deviates="Everything is the closed form of one layer on equiangular tokens, so that n = 10^24 can be shown.",
        compute=compute_contexts,
        draw=draw_contexts,
        numbers=context_numbers,
        settings={"rho": 0.2, "exponents": [2, 4, 6, 12, 24], "largest": 2.5, "points": 251, "seed": 0},
        quick={},
        seconds=(1.0, 1.0),
        verdicts=context_verdicts,
    ),
)
