"""Figure 5 of arXiv:2411.04990: the spectrum of a value matrix at initialisation."""

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

PAPER = "arXiv:2411.04990"


def compute_spectrum(
    progress: Progress, *, width: int, head_width: int, heads: int, deviation: float, seed: int
) -> xr.Dataset:
    """Nonzero eigenvalues of V = W_O W_V with Gaussian factors, over (head, eigenvalue)."""
    generator = np.random.default_rng(seed)
    eigenvalues = []
    for share in parts_of(progress, heads):
        inward, outward = generator.normal(scale=deviation, size=(2, head_width, width))
        eigenvalues.append(np.linalg.eigvals(inward @ outward.T))  # those of W_O W_V, without its zeros
        if callable(share):
            share(1.0, "eigenvalues")
    values = np.array(eigenvalues)
    variables = {
        "real_part": (("head", "eigenvalue"), np.real(values)),
        "imaginary_part": (("head", "eigenvalue"), np.imag(values)),
    }
    return xr.Dataset(variables, attrs={"width": width, "head_width": head_width, "deviation": deviation})


def spectral_radius(share: float, width: int, head_width: int, deviation: float) -> float:
    """Radius of the disc that holds a share of the nonzero eigenvalues of W_O W_V, in the limit of large matrices.

    deviation^2 sqrt(s k (s k + d - k)) for the share s, width d and head width k: the law of products of
    rectangular Gaussian matrices.
    """
    inner = share * head_width
    return float(deviation**2 * np.sqrt(inner * (inner + width - head_width)))


def draw_spectrum(data: xr.Dataset) -> Picture:
    """Draw the eigenvalues of one head in the complex plane, and the distribution of the moduli of all heads."""
    shape = (data.attrs["width"], data.attrs["head_width"], data.attrs["deviation"])
    turn, shares = np.linspace(0, 2 * np.pi, 200), np.linspace(0, 1, 101)
    radii = np.array([spectral_radius(share, *shape) for share in shares])
    edge = [radii[-1] * np.cos(turn), radii[-1] * np.sin(turn)]
    plane = Lines(
        [
            Line(edge[0], edge[1], "edge in the limit", line_colour(1)),
            Line(data.real_part[0], data.imaginary_part[0], "eigenvalues of one head", line_colour(0), "", "."),
        ],
        xlabel="real part", ylabel="imaginary part", is_square=True,
    )  # fmt: skip
    sizes = np.sort(np.hypot(data.real_part, data.imaginary_part).values.ravel())
    law = Lines(
        [
            Line(sizes, np.arange(1, len(sizes) + 1) / len(sizes), f"{data.sizes['head']} heads", line_colour(0)),
            Line(radii, shares, "the law in the limit", line_colour(1), "--"),
        ],
        xlabel="size of an eigenvalue", ylabel="share below",
    )  # fmt: skip
    caption = (
        f"$V = W_O W_V$ of width {shape[0]} and rank {shape[1]}, Gaussian weights of deviation {shape[2]:g}; "
        "all other eigenvalues are 0."
    )
    return panel_picture([[plane, law]], "A value matrix at initialisation", caption, width=4.0, heights=[4.4])


def spectrum_numbers(data: xr.Dataset) -> dict:
    """Moduli against their limits, and number of heads whose leading eigenvalue is real."""
    shape = (data.attrs["width"], data.attrs["head_width"], data.attrs["deviation"])
    sizes = np.hypot(data.real_part, data.imaginary_part).values
    leading = data.real_part.argmax("eigenvalue")
    is_real = data.imaginary_part.isel(eigenvalue=leading) == 0
    is_positive = data.real_part.isel(eigenvalue=leading) > 0
    return {
        "largest eigenvalue in size, mean over heads": float(sizes.max(axis=1).mean()),
        "edge in the limit": spectral_radius(1.0, *shape),
        "median size": float(np.median(sizes)),
        "median size in the limit": spectral_radius(0.5, *shape),
        "heads whose leading eigenvalue is real": f"{int(is_real.sum())} of {len(sizes)}",
        "heads whose leading eigenvalue is positive": f"{int(is_positive.sum())} of {len(sizes)}",
    }


FIGURES = (
    Figure(
        id="value-spectrum",
        source=f"{PAPER}, Figure 5, at initialisation",
        title="The spectrum of a value matrix at initialisation",
        shows="Eigenvalues of V = W_O W_V with Gaussian factors in the complex plane, and the distribution of their "
        "sizes. The edge and the distribution of large matrices are known and drawn beside them.",
        deviates="The published weights are those of albert-xlarge-v2 before training; here they are drawn anew with "
        "its width, head width and deviation.",
        compute=compute_spectrum,
        draw=draw_spectrum,
        numbers=spectrum_numbers,
        settings={"width": 2048, "head_width": 128, "heads": 16, "deviation": 0.02, "seed": 0},
        quick={"heads": 4},
        seconds=(5.0, 1.5),
    ),
)
