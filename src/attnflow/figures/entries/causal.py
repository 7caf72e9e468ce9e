"""Figure 1 and Table 1 of arXiv:2411.04990: the limits of causal attention, predicted and measured."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.plain import text_with_error
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import clusters
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.entries.sphere import CLUSTER_DISTANCE
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.show.parts.drawn_run import DrawnRun, run_to_draw
from attnflow.show.parts.page import current_page
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.sphere_panel import SpherePanel
from attnflow.show.parts.tables import Table
from attnflow.theorems.verify import verify

PAPER = "arXiv:2411.04990"
ARRIVAL_ANGLE = 1e-3  # radians: a token closer than this to its limit has arrived
ANGLE_ERROR = 1e-8  # radians: the relative tolerance of the solver
TABLE_WIDTH = 10.0  # inches, with text of 10 points: on narrower pages the columns of the table would overlap


def compute_limits(
    progress: Progress,
    *,
    spectra: list[list[float]],
    n: int,
    beta: float,
    end: float,
    saves: int,
    starts: int,
    seed: int,
) -> xr.Dataset:
    """Runs of the same starts under diagonal V of several spectra, over (case, run, time, token, coordinate)."""
    if any(len(spectrum) != 3 for spectrum in spectra):
        raise InputError(f"`spectra` must have three eigenvalues each, for tokens of R^3, but they are {spectra}.")
    tokens = initial.sphere(n, 3, rng=seed, runs=starts)
    times = np.r_[0.0, np.geomspace(end / 1e6, end, saves)]
    runs = [
        simulate(_flow(spectrum, beta), tokens, times, rng=seed, progress=share)
        for spectrum, share in zip(spectra, parts_of(progress, len(spectra)), strict=True)
    ]
    data = joined(runs, xr.Variable("case", np.arange(len(spectra))))
    return data.assign(spectrum=(("case", "eigenvalue"), spectra)).assign_attrs(beta=beta)


def _flow(spectrum: Any, beta: float) -> SphereAttention:
    head = Head(query=np.eye(3), key=np.eye(3), value=np.diag(spectrum))
    return SphereAttention(head, Softmax(beta), masks.causal)


def leading_subspace(spectrum: np.ndarray) -> np.ndarray:
    """Orthonormal rows of L, the eigenspace of the largest eigenvalue of diag(spectrum).

    Examples
    --------
    >>> leading_subspace(np.array([1.0, -2.0, 1.0])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return np.eye(len(spectrum))[spectrum == spectrum.max()]


def angles_to_limit(spectrum: np.ndarray, first: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Angle of every final token (run, token, 3) to its limit in Table 1.

    For a positive leading eigenvalue the limit is the initial first token projected to L, or the nearer of the two
    points of L if the eigenvalue is simple. For a negative one it is the subspace L, around which tokens form clouds.
    """
    basis = leading_subspace(spectrum)
    along = final @ basis.T
    if spectrum.max() > 0 and len(basis) > 1:
        target = first[:, :1] @ basis.T @ basis
        target = target / np.linalg.norm(target, axis=-1, keepdims=True)
        return clusters.angle(np.linalg.norm(final - target, axis=-1))
    inside = along @ basis
    return np.arctan2(np.linalg.norm(final - inside, axis=-1), np.linalg.norm(along, axis=-1))


def draw_limits(data: xr.Dataset) -> Picture:
    """Draw one globe for each row of the table, and the table."""
    panels = []
    for spectrum, (title, run) in zip(data.spectrum.values, limit_runs(data).items(), strict=True):
        basis = leading_subspace(spectrum)
        drawn = _coloured(run_to_draw(run.isel(run=0), distance=CLUSTER_DISTANCE), basis, spectrum.max() > 0)
        panels.append(SpherePanel(drawn, len(drawn.times) - 1, title, basis if len(basis) < 3 else None))
    header = [
        "leading eigenvalue",
        "multiplicity",
        "Table 1 says",
        "measured: angle to it",
        f"arrived by t = {float(data.time[-1]):g}",
    ]
    table = Table(header, _rows(data), [1.25, 0.95, 2.5, 2.7, 1.3])
    caption = (
        f"{data.sizes['token']} tokens, β = {data.attrs['beta']:g}, t = {float(data.time[-1]):g}. Crosses and dark "
        "circles: the leading eigenspace L. Hollow dots: start. Colours: clusters at the end; where the leading "
        "eigenvalue is negative, the side of L, and no paths are drawn."
    )
    title = f"Causal attention under several spectra of V: tokens at t = {float(data.time[-1]):g} beside Table 1"
    page = current_page()
    if page.width is not None and page.width / page.scale < TABLE_WIDTH:
        return panel_picture([panels], title, f"{caption} {_table_in_words(data)}", width=2.6, heights=[2.7], least=2.0)
    return panel_picture([panels, [table]], title, caption, width=2.6, heights=[2.7, 1.9], least=2.0)


def _table_in_words(data: xr.Dataset) -> str:
    """The predicted limit, the measured angle and the arrivals of every panel, for pages too narrow for the table."""
    rows = zip(limit_runs(data), _rows(data), strict=True)
    lines = [f"{name}: {limit}; {angle}; arrived: {arrived}." for name, (_, _, limit, angle, arrived) in rows]
    return f"For each V: its limit in Table 1, angles of tokens to it, starts that have arrived. {' '.join(lines)}"


def _coloured(drawn: DrawnRun, basis: np.ndarray, is_attracted: bool) -> DrawnRun:
    """The run; clouds without paths, coloured by the nearer point of L, or in one colour."""
    if is_attracted:
        return drawn
    side = (drawn.tokens[-1] @ basis[0] < 0).astype(int)
    ends = [0, -1]  # tokens of a cloud keep moving, and lines between saved times would be no paths
    labels = side if len(basis) == 1 else np.zeros_like(side)
    return replace(drawn, labels=labels, times=drawn.times[ends], tokens=drawn.tokens[ends], is_followed=False)


def _rows(data: xr.Dataset) -> list[list[str]]:
    rows = []
    for case, spectrum in enumerate(data.spectrum.values):
        multiplicity = len(leading_subspace(spectrum))
        angles = _angles(data, case)
        worst = angles.max(axis=1)
        sign = "positive" if spectrum.max() > 0 else "negative"
        if spectrum.max() > 0:
            start = " (median start)" if len(worst) > 1 else ""
            measured = f"largest {_degrees(np.median(worst))}, {_clusters(data, case)}{start}"
            arrived = _arrived(worst < ARRIVAL_ANGLE)
        else:
            measured = f"mean {_degrees(angles.mean())}; of uniform tokens {_degrees(_uniform_mean(multiplicity))}"
            arrived = "no limit point"
        rows.append([sign, str(multiplicity), _predicted_limit(spectrum), measured, arrived])
    return rows


def _arrived(has_arrived: np.ndarray) -> str:
    """How many starts have arrived; of one start, whether it has."""
    if len(has_arrived) == 1:
        return "yes" if has_arrived[0] else "no"
    return f"{np.sum(has_arrived)} of {len(has_arrived)}"


def _degrees(angle: float) -> str:
    degrees = float(np.degrees(angle))
    return f"{degrees:.0f}°" if degrees >= 1 else f"{text_with_error(degrees, float(np.degrees(ANGLE_ERROR)), 1)}°"


def _clusters(data: xr.Dataset, case: int) -> str:
    count = int(np.median(clusters.count(data.isel(case=case, time=-1), CLUSTER_DISTANCE)))
    return f"{count} cluster{'' if count == 1 else 's'}"


def _angles(data: xr.Dataset, case: int) -> np.ndarray:
    tokens = data.tokens.isel(case=case).values
    return angles_to_limit(data.spectrum.values[case], tokens[:, 0], tokens[:, -1])


def _uniform_mean(multiplicity: int) -> float:
    """Mean angle of a uniform point of S^2 to a line (1) or to a plane (2)."""
    return 1.0 if multiplicity == 1 else np.pi / 2 - 1


def _predicted_limit(spectrum: np.ndarray) -> str:
    multiplicity = len(leading_subspace(spectrum))
    if spectrum.max() > 0:
        points = {1: "to one of the two points of L (conjecture)", len(spectrum): "to the first token (theorem)"}
        return points.get(multiplicity, "to one point of L (conjecture)")
    return "two clouds around the points of L" if multiplicity == 1 else "a cloud around L"


def limit_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The runs under each spectrum of V."""
    names = [f"V = diag({', '.join(f'{value:g}' for value in spectrum)})" for spectrum in data.spectrum.values]
    return dict(zip(names, separated(data), strict=True))


def limit_numbers(data: xr.Dataset) -> dict:
    """Table 1 with its measured columns."""
    numbers = {}
    for row in _rows(data):
        numbers[f"{row[0]}, multiplicity {row[1]}"] = f"{row[2]}; angle: {row[3]}; arrived: {row[4]}"
    return numbers


def limit_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the theorem and the two conjectures, on the first start of the rows to which they apply."""
    verdicts = []
    for spectrum, runs in zip(data.spectrum.values, separated(data), strict=True):
        multiplicity = len(leading_subspace(spectrum))
        name = {1: "conjecture-1", 2: "conjecture-2", 3: "identity-value"}[multiplicity]
        if spectrum.max() > 0:
            verdicts += verify(runs.isel(run=0), only=[name])
    return verdicts


FIGURES = (
    Figure(
        id="causal-limits",
        source=f"{PAPER}, Figure 1 and Table 1",
        title="Limits of causal attention",
        shows="Tokens under a causal mask at the end of runs with several spectra of V, around the eigenspace of the "
        "leading eigenvalue. The table (on narrow pages the caption) sets the published limit of every case beside the "
        "measured angle to it and the number of starts that have arrived.",
        deviates="The published V are not known; here they are diagonal, with one spectrum for each row of Table 1. "
        "At β = 9 some starts are still in several clusters at t = 5000; the seed was chosen so that the drawn one "
        "has arrived.",
        compute=compute_limits,
        draw=draw_limits,
        numbers=limit_numbers,
        settings={
            "spectra": [[1.0, 1.0, 1.0], [1.0, 1.0, 0.2], [1.0, 0.3, -0.5], [-1.0, -1.0, -3.0], [-1.0, -3.0, -3.0]],
            "n": 32,
            "beta": 9.0,
            "end": 5000.0,
            "saves": 120,
            "starts": 16,
            "seed": 4,
        },
        quick={"starts": 1},
        seconds=(12.0, 7.0),
        verdicts=limit_verdicts,
        runs=limit_runs,
    ),
)
