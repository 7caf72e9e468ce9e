"""Figure of arXiv:2510.22026: normalisation schemes and the rates at which tokens meet."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow._common.plain import interval_texts
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import rates
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.normalisation import NGPT, AbstractNormalisation, Mix, Peri, Post, Pre, Sqrt
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.verify import verify

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
EXPECTED_RATES = {  # arXiv:2510.22026: of e^(-rate t), of e^(-rate sqrt(t + 1)), or of t^(-rate)
    "Post-LN": 2.0,
    "nGPT": 2 * 0.2,
    "LayerNorm scaling": 4.0,
    "Pre-LN": 2.0,
    "Mix-LN": 2.0,
    "Peri-LN": 2.0,
}


def compute_rates(
    progress: Progress, *, schemes: list[str], n: int, beta: float, end: float, saves: int, seed: int
) -> xr.Dataset:
    """Runs of one start under every scheme, and the height 1 - cosine of the two tokens farthest apart."""
    for name in schemes:
        require_known(name, SCHEMES, "scheme")
    tokens, times = initial.gaussian(n, 3, rng=seed), np.r_[0.0, np.geomspace(1e-2, end, saves)]
    directions = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    runs = []
    for name, share in zip(schemes, parts_of(progress, len(schemes)), strict=True):
        start = tokens if SCHEMES[name].has_radii else directions
        runs.append(simulate(_normalised(name, beta), start, times, rng=seed, progress=share))
    data = joined(runs, xr.Variable("scheme", schemes))
    chords = [_diameters(run.tokens.values) for run in runs]
    return data.assign(height=(("scheme", "time"), np.square(chords) / 2)).assign_attrs(beta=beta)


def _normalised(scheme: str, beta: float) -> SphereAttention:
    return SphereAttention(Head.identity(3), Softmax(beta), normalisation=SCHEMES[scheme])


def _diameters(tokens: np.ndarray) -> np.ndarray:
    return np.linalg.norm(tokens[:, :, None] - tokens[:, None], axis=-1).max(axis=(1, 2))


def fitted_rate(scheme: str, times: np.ndarray, heights: np.ndarray) -> rates.Fit:
    """Final rate: of e^{-rate t}, of e^{-rate sqrt(t+1)}, or of t^{-rate} in the last decade of time."""
    is_late = (heights > 1e-11) & (heights < 1e-3)  # above rounding, and close to the limit
    if SCHEMES[scheme].has_radii:
        is_late &= times > times[-1] / 10
        return rates.algebraic(times[is_late], heights[is_late])
    return rates.exponential(_scaled_time(scheme, times)[is_late], heights[is_late])


def _scaled_time(scheme: str, times: np.ndarray) -> np.ndarray:
    """The function of t in which the heights of a scheme with fixed lengths decay exponentially."""
    return np.sqrt(times + 1) if scheme == "LayerNorm scaling" else times


def draw_rates(data: xr.Dataset) -> Picture:
    """Draw schemes with exponential decay over time, and schemes with algebraic decay over logarithmic time."""
    times, panels = data.time.values, {False: [], True: []}
    for place, scheme in enumerate(data.scheme.values.tolist()):
        heights = data.height.sel(scheme=scheme).values
        above_rounding = np.where(heights > 1e-13, heights, np.nan)
        has_radii = SCHEMES[scheme].has_radii
        law = _law(scheme, times, fitted_rate(scheme, times, heights))
        panels[has_radii] += [
            Line(times, above_rounding, f"{scheme}, {LAWS[scheme]}", line_colour(place)),
            Line(times, np.where(law < 3, law, np.nan), "", line_colour(place), ":"),
        ]
    options: dict[str, Any] = {"ylabel": "1 − cosine", "yscale": "log"}
    row = []
    if panels[False]:
        row.append(
            Lines(panels[False], title="lengths fixed", xlim=(0, min(75, times[-1])), ylim=(1e-13, 3), **options)
        )
    if panels[True]:
        ends = (times[1], times[-1])
        row.append(Lines(panels[True], title="lengths free", xscale="log", xlim=ends, ylim=(None, 3), **options))
    n, beta = data.sizes["token"], data.attrs["beta"]
    caption = (
        f"{n} tokens on the sphere, β = {beta:g}. Dotted: the law of theory, its "
        f"prefactor fitted at the end. {rate_sentence(data)}"
    )
    title = "1 − cosine of the two tokens farthest apart, by place of layer normalisation"
    return panel_picture([row], title, caption, width=4.2, heights=[4.2])


def _law(scheme: str, times: np.ndarray, fit: rates.Fit) -> np.ndarray:
    """The law with the expected rate and the fitted prefactor."""
    with np.errstate(divide="ignore"):
        if SCHEMES[scheme].has_radii:
            return fit.prefactor * times**-2.0
    return fit.prefactor * np.exp(-EXPECTED_RATES[scheme] * _scaled_time(scheme, times))


def rate_sentence(data: xr.Dataset) -> str:
    """Sentence on the fitted rate of every scheme beside the expected one."""
    schemes = data.scheme.values.tolist()
    fits = [fitted_rate(one, data.time.values, data.height.sel(scheme=one).values) for one in schemes]
    texts = [interval_texts(fit.rate, fit.low, fit.high) for fit in fits]
    words = [
        f"{one} {rate} ({low} to {high}; {EXPECTED_RATES[one]:g})"
        for one, (rate, low, high) in zip(schemes, texts, strict=True)
    ]
    return f"Measured rates or powers (95 % interval; in theory): {', '.join(words)}."


def rate_numbers(data: xr.Dataset) -> dict:
    """Fitted rates with their intervals, beside the expected rates."""
    numbers = {}
    for scheme in data.scheme.values.tolist():
        fit = fitted_rate(scheme, data.time.values, data.height.sel(scheme=scheme).values)
        kind = "power of t" if SCHEMES[scheme].has_radii else "rate"
        if scheme == "LayerNorm scaling":
            kind = "rate in sqrt(t + 1)"
        numbers[f"{scheme}: {kind} (expected {EXPECTED_RATES[scheme]:g})"] = (
            f"{fit.rate:.4f} [{fit.low:.4f}, {fit.high:.4f}]"
        )
    return numbers


def rate_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the final rate of every scheme."""
    return [verdict for run in separated(data) for verdict in verify(run, only=["last-rate"])]


def rate_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The run with each scheme."""
    return dict(zip(data.scheme.values.tolist(), separated(data), strict=True))


FIGURES = (
    Figure(
        id="normalisation-rates",
        source="arXiv:2510.22026, rates of normalisation schemes",
        title="Normalisation schemes and the rates at which tokens meet",
        shows="1 - cosine of the two tokens farthest apart over time, for several places of layer normalisation; "
        "schemes with fixed lengths left, schemes with free lengths right. The caption sets measured rates beside "
        "those of theory.",
        deviates="The published picture shows cosines in a randomly weighted model of width 512; here Q = K = V = I, "
        "for which the rates are theorems.",
        compute=compute_rates,
        draw=draw_rates,
        numbers=rate_numbers,
        settings={"schemes": list(SCHEMES), "n": 8, "beta": 2.1, "end": 1e4, "saves": 240, "seed": 1},
        quick={"schemes": ["Post-LN", "LayerNorm scaling", "Pre-LN"]},
        seconds=(5.0, 5.0),
        verdicts=rate_verdicts,
        runs=rate_runs,
    ),
)
