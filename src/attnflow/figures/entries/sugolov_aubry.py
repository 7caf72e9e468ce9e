"""Figures of the slides of Sugolov and Aubry (2023): one and several heads in R^d, laws of the start, frozen P."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import number_with_error
from attnflow._common.progress import Progress
from attnflow.analyse import frozen_attention
from attnflow.figures.entries import emergence_attention, emergence_limits, multihead, multihead_rates
from attnflow.figures.entries.emergence import verdicts_of
from attnflow.figures.figure import Figure
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.show import robustness as draw_robustness
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.style import OKABE_ITO
from attnflow.theorems.studies.robustness import robustness

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
    run = simulate(flow, tokens, np.linspace(0, end, saves), progress=progress)
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


def draw_frozen(run: xr.Dataset) -> Any:
    """Draw tokens and prediction at every size, the error over time, and the rates of the modes."""
    sizes = run.size.values
    paths = [_path_panel(run, place) for place in range(len(sizes))]
    errors = [Line(run.time[1:], run.error[k, 1:], f"size {size:g}", OKABE_ITO[k]) for k, size in enumerate(sizes)]
    modes = [
        Line(np.arange(1, run.sizes["mode"] + 1), run.rate[k], f"size {size:g}", OKABE_ITO[k], "-", "o")
        for k, size in enumerate(sizes)
    ]
    below = [
        Lines(errors, ylabel="relative error", title="Error of the prediction", yscale="log", columns=3),
        Lines(modes, "mode k", "rate 1 - \N{GREEK SMALL LETTER LAMDA}\u2096", "Modes of P(0)", columns=3),
    ]
    title = "Frozen attention Z' = (P(0) - I) Z, the slides' master equation, against the flow"
    caption = "Above: first coordinates of the tokens. Lines: the flow. Dashes: the prediction."
    return panel_figure([paths, below], title, caption, width=3.4, heights=[3.1, 3.5])


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
        shade = OKABE_ITO[token]
        lines.append(Line(run.time, one.tokens[:, token, 0], colour=shade))
        lines.append(Line(run.time, one.predicted[:, token, 0], colour=shade, style="--", width=1.0))
    return Lines(lines, ylabel="z\u2081", title=f"Start of size {run.size.values[place]:g}")


_HEADS: dict[str, Any] = {"compute": multihead.compute_heads, "numbers": multihead.head_numbers, "deviates": REAL}

FIGURES = (
    Figure(
        id="slides-boolean",
        source=f"{SLIDES}, Theorem 1",
        title="Tokens of the line: the columns of attention that are left",
        shows="With Q = K = V = 1 the attention matrix of Gaussian tokens loses all columns but two. They belong "
        "to the leftmost and the rightmost token of the start.",
        deviates=DISCRETE,
        compute=emergence_attention.compute_boolean,
        draw=emergence_attention.draw_boolean,
        numbers=emergence_attention.boolean_numbers,
        settings={"space": "rescaled", "start": "gaussian", "n": 40, "d": 1, "end": 12.0, "saves": 97, "seed": 7,
                  "moments": [0, 0.5, 1, 1.5, 12]},
        quick={},
        seconds=(6, 6),
        verdicts=verdicts_of("boolean-limit"),
    ),
    Figure(
        id="slides-polytope",
        source=f"{SLIDES}, Theorem 2",
        title="Tokens of space: vertices of a polyhedron",
        shows="With Q = K = V = I tokens of R^3 gather at the vertices of a convex polyhedron. Its vertices "
        "are tokens that hardly move from their start.",
        deviates=DISCRETE,
        compute=emergence_limits.compute_with_frames,
        draw=emergence_limits.draw_polytope,
        numbers=emergence_limits.polytope_numbers,
        settings={"space": "rescaled", "start": "gaussian:2", "n": 40, "d": 3, "end": 15.0, "saves": 151, "seed": 3,
                  "frames": 60},
        quick={"frames": 8},
        seconds=(10, 3),
        verdicts=verdicts_of("polytope"),
        movie=emergence_limits.polytope_movie,
    ),
    Figure(
        id="multihead-eigenvalues",
        source=f"{SLIDES}, multi-head dynamics: eigenvalues",
        title="Several heads: the eigenvalues of their sum decide",
        shows="Three heads with random values act on every token. Tokens line up along the leading eigenvector of "
        "the sum of the value matrices and grow at its eigenvalue, whatever each head would do alone.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 2, "heads": 3, "start": "gaussian", "end": 12.0, "saves": 121, "seed": 2},
        quick={},
        seconds=(5, 5),
        **_HEADS,
    ),
    Figure(
        id="multihead-more-tokens",
        source=f"{SLIDES}, multi-head dynamics: more tokens",
        title="Several heads: more tokens, the same line",
        shows="The same heads with several numbers of tokens. The line and the rate of growth do not depend on the "
        "number of tokens.",
        draw=multihead.draw_more_tokens,
        settings={"n": [10, 40, 160], "d": 2, "heads": 3, "start": "gaussian", "end": 12.0, "saves": 121, "seed": 2},
        quick={"n": [10, 40]},
        seconds=(8, 4),
        **_HEADS,
    ),
    Figure(
        id="multihead-circle",
        source=f"{SLIDES}, multi-head dynamics: start on the unit circle",
        title="Several heads, started on the unit circle",
        shows="Tokens of the unit circle under three random heads. The circle is pulled to the line of the "
        "leading eigenvector, and every token ends at one of its two sides.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 2, "heads": 3, "start": "circle", "end": 12.0, "saves": 121, "seed": 2},
        quick={},
        seconds=(4, 4),
        **_HEADS,
    ),
    Figure(
        id="multihead-3d",
        source=f"{SLIDES}, multi-head dynamics in space",
        title="Several heads in space",
        shows="Three random heads in R^3. Tokens line up along the leading eigenvector of the sum of the value "
        "matrices, as in the plane.",
        draw=multihead.draw_heads,
        settings={"n": [40], "d": 3, "heads": 3, "start": "gaussian", "end": 9.0, "saves": 91, "seed": 3},
        quick={},
        seconds=(5, 5),
        **_HEADS,
    ),
    Figure(
        id="multihead-rate",
        source=f"{SLIDES}, multi-head dynamics: rate of convergence",
        title="The rate of convergence against the number of heads",
        shows="With V_h = I/H the rescaled tokens obey Z' = (P - I) Z, P being the mean of the heads' weights, and "
        "converge at the rate one minus the second eigenvalue of P. In the end this rate is one in nearly all runs, "
        "for any number of heads; what more heads change is the time until then.",
        deviates=WEIGHTS,
        compute=multihead_rates.compute_rates,
        draw=multihead_rates.draw_rates,
        numbers=multihead_rates.rate_numbers,
        settings={"heads": [1, 2, 4, 8, 16], "runs": 12, "n": 20, "d": 2, "end": 16.0, "seed": 0},
        quick={"heads": [1, 4], "runs": 3},
        seconds=(40, 7),
    ),
    Figure(
        id="start-laws",
        source=f"{SLIDES}, how n and the start change the limit",
        title="How the number of tokens and the law of the start change the limit",
        shows="Vertices, clusters, leaders and the rate for several laws of the start, with 95 % intervals. Nearly "
        "every vertex is a cluster and a leader, by far the most where tokens start on a sphere; the rate is "
        "close to one.",
        deviates="The slides show single runs; here every point is a mean over many starts.",
        compute=compute_laws,
        draw=draw_robustness,
        numbers=law_numbers,
        settings={"laws": ["gaussian", "box", "ball", "shell"], "n": [10, 20, 40, 80], "d": [2, 3], "seeds": 20,
                  "end": 12.0, "seed": 0},
        quick={"laws": ["gaussian", "shell"], "n": [10, 20], "d": [2], "seeds": 4},
        seconds=(17, 5),
    ),
    Figure(
        id="master-equation",
        source=f"{SLIDES}, the master equation",
        title="Frozen attention, and how long it is accurate",
        shows="If attention stayed that of the start, tokens would be sums of modes that decay at one minus the "
        "eigenvalues of P(0). This is accurate for long where scores are small, and where they are so large that "
        "attention is decided from the start; between the two, attention changes early and the prediction fails.",
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
