"""Figures of the slides of Sugolov and Aubry (2023): one and several heads in R^d, laws of the start, frozen P."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import number_with_error
from attnflow._common.progress import Progress
from attnflow.analyse import frozen_attention
from attnflow.figures.drawing import described
from attnflow.figures.entries import emergence_attention, emergence_limits, multihead, multihead_rates
from attnflow.figures.entries.emergence import verdicts_of
from attnflow.figures.figure import Figure
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.theory.robustness import robustness as robustness_picture
from attnflow.sweeps.studies.robustness import robustness

SLIDES = "Sugolov and Aubry 2023, slides"
DISCRETE = "The slides step layer by layer; here the flow is integrated to a relative error of 1e-8 a step."
WEIGHTS = f"{DISCRETE} The slides' random weights are not known; here they are drawn anew, from the seed shown."
REAL = f"{WEIGHTS} The seed was chosen by eye, with a real leading eigenvalue: where it is complex, tokens rotate."


# -- How n and the start law change the limit --------------------------------------------------------------------------


def compute_laws(
    progress: Progress, *, laws: list[str], n: list[int], d: list[int], seeds: int, end: float, seed: int
) -> xr.Dataset:
    """Vertices, clusters, leaders and rates from many starts of each law."""
    return robustness(laws, n, d, seeds=seeds, end=end, seed=seed, progress=progress if callable(progress) else None)


def draw_laws(dataset: xr.Dataset) -> Picture:
    """Draw means and intervals of every law against the number of tokens."""
    return described(robustness_picture, dataset)


def law_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean number of vertices of every law for the largest n, and the rate over all starts."""
    means, n = dataset.vertices_interval.sel(bound="mean"), int(dataset.n[-1])
    numbers: dict[str, float | int | str] = {
        f"vertices, {law}, n = {n}, d = {d}": float(means.sel(law=law, n=n, d=d))
        for law in dataset.law.values
        for d in dataset.d.values
    }
    return numbers | {
        "median rate over all starts, 1 in theory": float(dataset.rate.median()),
        "least mean rate of a law, n and d": float(dataset.rate_interval.sel(bound="mean").min()),
    }


# -- The master equation -----------------------------------------------------------------------------------------------


def compute_frozen(progress: Progress, *, n: int, sizes: list[float], end: float, saves: int, seed: int) -> xr.Dataset:
    """Rescaled tokens from one start at several sizes, and the solution of Z' = (P(0) - I) Z."""
    flow, start = RescaledAttention(Head.identity(2)), initial.gaussian(n, 2, rng=seed)
    tokens = np.multiply.outer(sizes, start)
    run = simulate(flow, tokens, np.linspace(0, end, saves), rng=seed, progress=progress)
    first = np.stack([attention_matrix(flow, one) for one in tokens])
    pairs = zip(first, tokens, strict=True)
    predicted = [frozen_attention.predict(matrix, one, run.time.values) for matrix, one in pairs]
    spectrum = np.stack([np.sort(np.real(frozen_attention.rates(matrix))) for matrix in first])
    return run.assign(
        predicted=(("run", "time", "token", "coordinate"), np.stack(predicted)),
        error=frozen_attention.error(first, run),
        rate=(("run", "mode"), spectrum),
        rate_error=(("run", "mode"), np.stack([frozen_attention.rate_errors(matrix) for matrix in first])),
        size=("run", sizes),
    )


def draw_frozen(run: xr.Dataset) -> Picture:
    """Draw tokens and prediction at every size, the error over time, and the rates of the modes."""
    sizes = run.size.values
    paths = [_path_panel(run, place) for place in range(len(sizes))]
    errors = [Line(run.time[1:], run.error[k, 1:], f"size {size:g}", line_colour(k)) for k, size in enumerate(sizes)]
    modes = [
        Line(np.arange(1, run.sizes["mode"] + 1), run.rate[k], f"size {size:g}", line_colour(k), "-", "o")
        for k, size in enumerate(sizes)
    ]
    below = [
        Lines(errors, ylabel="relative error", title="Error of the prediction", yscale="log", columns=3),
        Lines(modes, "mode k", "rate 1 - \N{GREEK SMALL LETTER LAMDA}\u2096", "Modes of P(0)", columns=3),
    ]
    title = "Frozen attention Z' = (P(0) - I) Z, the slides' master equation, against the flow"
    caption = (
        f"Above: first coordinates of the tokens. Lines: the flow. Dashes: the prediction. {accuracy_sentence(run)}"
    )
    return panel_picture([paths, below], title, caption, width=3.4, heights=[3.1, 3.5])


def accuracy_sentence(run: xr.Dataset) -> str:
    """Sentence on the time until which the prediction is right within 5 %, for every size of the start."""
    until = zip(run.size.values, frozen_attention.valid_until(run.error).values, strict=True)
    words = [f"{'the end' if np.isinf(time) else f't = {time:.2g}'} for size {size:g}" for size, time in until]
    return f"Right within 5 % until {', '.join(words)}."


def frozen_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Time until which the prediction is right within five per cent, and the slowest rate of a decaying mode."""
    until = frozen_attention.valid_until(run.error).values
    numbers: dict[str, float | int | str] = {
        f"right within 5 % until t, size {size:g}": "the end" if np.isinf(time) else float(time)
        for size, time in zip(run.size.values, until, strict=True)
    }
    slowest = zip(run.size.values, run.rate.values[:, 1], run.rate_error.values[:, 1], strict=True)
    return numbers | {f"slowest rate, size {size:g}": number_with_error(rate, error) for size, rate, error in slowest}


def _path_panel(run: xr.Dataset, place: int) -> Lines:
    one, lines = run.isel(run=place), []
    for token in range(min(run.sizes["token"], 6)):
        shade = line_colour(token)
        lines.append(Line(run.time, one.tokens[:, token, 0], colour=shade))
        lines.append(Line(run.time, one.predicted[:, token, 0], colour=shade, style="--", width=1.0))
    return Lines(lines, ylabel="z₁", title=f"Start of size {run.size.values[place]:g}")


_HEADS: dict[str, Any] = {
    "compute": multihead.compute_heads,
    "numbers": multihead.head_numbers,
    "runs": multihead.head_runs,
    "deviates": REAL,
}

FIGURES = (
    Figure(
        id="slides-boolean",
        source=f"{SLIDES}, Theorem 1",
        title="The attention matrix of Gaussian tokens on the line",
        shows="The attention matrix P at several times, the tokens, and the distance of P to Boolean, with "
        "Q = K = V = 1. Triangles mark the tokens that get over half of a token's attention.",
        deviates=DISCRETE,
        compute=emergence_attention.compute_boolean,
        draw=emergence_attention.draw_boolean,
        numbers=emergence_attention.boolean_numbers,
        settings={"space": "rescaled", "start": "gaussian", "n": 40, "d": 1, "end": 12.0, "saves": 97, "seed": 7,
                  "moments": [0.0, 0.5, 1.0, 1.5, 12.0]},
        fixed=("space", "d", "start"),
        quick={},
        seconds=(6, 6),
        verdicts=verdicts_of("boolean-limit"),
    ),
    Figure(
        id="slides-polytope",
        source=f"{SLIDES}, Theorem 2",
        title="Gaussian tokens in space and their convex hull",
        shows="Tokens of R^3 and their convex hull at several times, with Q = K = V = I. The numbers count the "
        "vertices of the limit and the tokens at them.",
        deviates=DISCRETE,
        compute=emergence_limits.compute_with_frames,
        draw=emergence_limits.draw_polytope,
        numbers=emergence_limits.polytope_numbers,
        settings={"space": "rescaled", "start": "gaussian:2", "n": 40, "d": 3, "end": 15.0, "saves": 151, "seed": 3,
                  "frames": 60},
        fixed=("space", "d", "start"),
        quick={"frames": 8},
        seconds=(10, 3),
        verdicts=verdicts_of("polytope"),
        movie=emergence_limits.polytope_movie,
    ),
    Figure(
        id="multihead-eigenvalues",
        source=f"{SLIDES}, multi-head dynamics: eigenvalues",
        title="Several heads: tokens, eigenvalues and growth",
        shows="Tokens at several times under heads with random values, beside the leading eigenvector of the sum of "
        "the value matrices. Below: the eigenvalues of every head and of the sum, and the rate of growth beside the "
        "leading eigenvalue.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 2, "heads": 3, "start": "gaussian", "end": 12.0, "saves": 121, "seed": 2},
        quick={},
        seconds=(5, 5),
        **_HEADS,
        fixed=("d",),
    ),
    Figure(
        id="multihead-more-tokens",
        source=f"{SLIDES}, multi-head dynamics: more tokens",
        title="Several heads with several numbers of tokens",
        shows="The same heads with several numbers of tokens: the tokens at the end and the rate of growth. Do the "
        "line and the rate depend on the number of tokens?",
        draw=multihead.draw_more_tokens,
        settings={"n": [10, 40, 160], "d": 2, "heads": 3, "start": "gaussian", "end": 12.0, "saves": 121, "seed": 2},
        quick={"n": [10, 40]},
        seconds=(8, 4),
        **_HEADS,
        fixed=("d",),
    ),
    Figure(
        id="multihead-circle",
        source=f"{SLIDES}, multi-head dynamics: start on the unit circle",
        title="Several heads, started on the unit circle",
        shows="Tokens of the unit circle under random heads, at several times. Below: the eigenvalues of every "
        "head and of the sum, and the rate of growth beside the leading eigenvalue.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 2, "heads": 3, "start": "circle", "end": 12.0, "saves": 121, "seed": 2},
        quick={},
        seconds=(4, 4),
        **_HEADS,
        fixed=("d", "start"),
    ),
    Figure(
        id="multihead-3d",
        source=f"{SLIDES}, multi-head dynamics in space",
        title="Several heads in space",
        shows="Tokens of R^3 under random heads, at several times, beside the leading eigenvector of the sum of "
        "the value matrices. Below: eigenvalues and the rate of growth.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 3, "heads": 3, "start": "gaussian", "end": 9.0, "saves": 91, "seed": 3},
        quick={},
        seconds=(5, 5),
        **_HEADS,
        fixed=("d",),
    ),
    Figure(
        id="multihead-rate",
        source=f"{SLIDES}, multi-head dynamics: rate of convergence",
        title="The rate of convergence against the number of heads",
        shows="Rates and times at which rescaled tokens converge, against the number of heads. With V_h = I/H they "
        "obey Z' = (P - I) Z, P being the mean of the heads' weights; in theory the rate is one minus the second "
        "eigenvalue of P, with which the numbers compare it.",
        deviates=WEIGHTS,
        compute=multihead_rates.compute_rates,
        draw=multihead_rates.draw_rates,
        numbers=multihead_rates.rate_numbers,
        settings={"heads": [1, 2, 4, 8, 16], "runs": 12, "n": 20, "d": 2, "end": 16.0, "seed": 0},
        quick={"heads": [1, 2, 4, 8], "runs": 3},
        seconds=(40, 12),
    ),
    Figure(
        id="start-laws",
        source=f"{SLIDES}, how n and the start change the limit",
        title="How the number of tokens and the law of the start change the limit",
        shows="Numbers of vertices and the rate of approach, for several laws of the start against the number of "
        "tokens, with 95 % intervals; clusters and leaders where they are not as many as vertices. In theory the rate "
        "is one.",
        deviates="The slides show single runs; here every point is a mean over many starts.",
        compute=compute_laws,
        draw=draw_laws,
        numbers=law_numbers,
        settings={"laws": ["gaussian", "box", "ball", "shell"], "n": [10, 20, 40, 80], "d": [2, 3], "seeds": 20,
                  "end": 12.0, "seed": 0},
        quick={"laws": ["gaussian", "shell"], "n": [10, 20, 40], "d": [2], "seeds": 8},
        seconds=(17, 5),
    ),
    Figure(
        id="master-equation",
        source=f"{SLIDES}, the master equation",
        title="Frozen attention, and how long it is accurate",
        shows="The flow beside its prediction with the attention of the start, for one start at several sizes. With "
        "frozen attention tokens are sums of modes that decay at one minus the eigenvalues of P(0); the numbers give "
        "the time until which that is right within 5 %.",
        deviates="The slides write dP/dt = A P; the tokens obey its adjoint, the backward equation Z' = (P - I) Z, "
        "whose rows sum to one. The seed is that of a typical start: in a few others a token of the large start is "
        "undecided, and the prediction fails there, too.",
        compute=compute_frozen,
        draw=draw_frozen,
        numbers=frozen_numbers,
        settings={"n": 12, "sizes": [0.2, 1.0, 5.0], "end": 5.0, "saves": 101, "seed": 7},
        quick={},
        seconds=(8, 8),
    ),
)  # fmt: skip
