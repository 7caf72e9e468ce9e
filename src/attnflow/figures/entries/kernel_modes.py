"""Figure of the number of modes of a kernel density estimate of Gaussian tokens against beta."""

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, reporting
from attnflow.figures.entries.exponents import exponent_in_words
from attnflow.figures.figure import Figure
from attnflow.mean_field.kernel_estimate import kernel_modes
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour


def compute_modes(progress: Progress, *, n: int, betas: list[float], runs: int, seed: int) -> xr.Dataset:
    """Numbers of modes over (beta, run) of n standard normal tokens."""
    starts = np.random.default_rng(seed).normal(size=(runs, n))
    counts = []
    with reporting(progress) as report:
        for index, beta in enumerate(betas):
            counts.append([kernel_modes(start, beta) for start in starts])
            report((index + 1) / len(betas), f"beta = {beta:g}")
    variables = {"modes": (("beta", "run"), counts), "expected": (("beta",), _law(np.array(betas)))}
    return xr.Dataset(variables, {"beta": betas}, {"n": n})


def _law(betas: np.ndarray) -> np.ndarray:
    return np.sqrt(betas * np.log(betas))


def is_within(data: xr.Dataset) -> np.ndarray:
    """Whether beta is between n^1/4 and n^7/4, in the range of the theorem; beyond n^2 every token is a mode."""
    logs = np.log(data.beta.values) / np.log(data.attrs["n"])
    return (logs >= 0.25) & (logs <= 1.75)


def _exponents(data: xr.Dataset) -> tuple[str, str]:
    """Exponents, with intervals over runs, of (beta log beta) in the range of the theorem and beyond it."""
    inside = is_within(data)
    argument = data.beta.values * np.log(data.beta.values)
    found = [exponent_in_words(argument[chosen], data.modes.values[chosen]) for chosen in (inside, ~inside)
             if chosen.sum() > 1]  # fmt: skip
    return (found[0], found[1]) if len(found) == 2 else (found[0], "too few values of beta")


def draw_modes(data: xr.Dataset) -> Picture:
    """Draw mean numbers of modes against beta beside a multiple of (beta log beta)^1/2 and the number of tokens."""
    inside, mean = is_within(data), data.modes.mean("run").values
    factor = float(np.exp(np.mean(np.log(mean / data.expected.values)[inside])))
    error = 2 * data.modes.std("run", ddof=1).values / np.sqrt(data.sizes["run"])
    lines = [
        Line(data.beta, mean, "measured", line_colour(0), "", "o", error=error),
        Line(data.beta, factor * data.expected, f"{factor:.2f} (β log β)$^{{1/2}}$", theme().grey, "--"),
    ]
    panel = Lines(
        lines, xlabel="β", ylabel="modes", xscale="log", yscale="log", levels={"n": data.attrs["n"]}, columns=3
    )
    within, beyond = _exponents(data)
    caption = (
        f"{data.attrs['n']} standard normal tokens, {data.sizes['run']} starts. Exponent of β log β for β from "
        f"n$^{{1/4}}$ to n$^{{7/4}}$: {within}, expected 1/2 up to terms of lower order; for the other β, the "
        f"control: {beyond}."
    )
    return panel_picture([[panel]], "Modes of a kernel density estimate", caption, width=5.4, heights=[4.0])


def modes_numbers(data: xr.Dataset) -> dict:
    """The exponents, and the ratio of the count to the law over the range of the theorem."""
    within, beyond = _exponents(data)
    ratios = (data.modes.mean("run").values / data.expected.values)[is_within(data)]
    return {
        "exponent of beta log beta, n^1/4 to n^7/4 (expected 1/2)": within,
        "exponent of beta log beta, other beta (control)": beyond,
        "least ratio of modes to (beta log beta)^1/2": float(ratios.min()),
        "largest ratio of modes to (beta log beta)^1/2": float(ratios.max()),
    }


FIGURES = (
    Figure(
        id="kernel-modes",
        source="arXiv:2412.09080",
        title="Modes of a kernel density estimate",
        shows="The number of local maxima of a Gaussian kernel density estimate with bandwidth β^-1/2 of standard "
        "normal tokens. In theory it is of the order (β log β)^1/2 for β well below n²; beyond, every token is a mode.",
        deviates="The paper has n = 10,000 and 80 runs, as here; the values of β are attnflow's.",
        compute=compute_modes,
        draw=draw_modes,
        numbers=modes_numbers,
        settings={
            "n": 10000, "betas": [10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 3e8, 1e9], "runs": 80, "seed": 0,
        },
        quick={"n": 300, "betas": [10.0, 100.0, 1e3, 1e4, 1e6, 1e7], "runs": 8},
        seconds=(63.0, 2.0),
    ),
)  # fmt: skip
