"""Several heads: the angle of tokens to the leading eigenvector of the sum, and the rate of growth."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow._common.plain import number_with_error, text_with_error
from attnflow._common.progress import Progress
from attnflow.analyse import clusters, hyperplanes
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.scene import Scene, Snapshot, scene_of, snapshots
from attnflow.show.parts.style import line_colour
from attnflow.show.parts.subspaces import AffineSubspace

ANGLE_ERROR = float(np.degrees(1e-8))  # degrees: the relative tolerance of the solver
RELATIVE_CLUSTER_DISTANCE = 0.05  # in units of the largest norm: tokens closer than this are one cluster
STARTS = {"gaussian": initial.gaussian, "circle": initial.circle}
NOTE = "Tokens are divided by the largest norm at each time. Grey line: leading eigenvector of the sum of all V."


def random_heads(count: int, d: int, rng: np.random.Generator) -> list[Head]:
    """Heads with Gaussian V, whose sum has entries of variance 1/d, and random positive definite Q^T K."""
    values = rng.normal(size=(count, d, d)) / np.sqrt(d * count)
    factors = rng.normal(size=(count, d, d))
    return [Head.bilinear(factor @ factor.T / d, value) for factor, value in zip(factors, values, strict=True)]


def compute_heads(
    progress: Progress, *, n: list[int], d: int, heads: int, start: str, end: float, saves: int, seed: int
) -> xr.Dataset:
    """Runs of the same heads over (n, time, token, coordinate), and the growth rate of the largest norm."""
    require_known(start, STARTS, "start")
    weights = random_heads(heads, d, np.random.default_rng(seed))
    flow, times = EuclideanAttention(weights), np.linspace(0, end, saves)
    runs = [simulate(flow, STARTS[start](count, d, rng=seed), times, rng=seed, progress=progress) for count in n]
    sizes = [np.linalg.norm(run.tokens.values, axis=-1).max(axis=1) for run in runs]
    variables = {
        "growth": (("n", "time"), np.stack([np.gradient(np.log(one), times) for one in sizes])),
        "value": (("head", "row", "column"), np.stack([np.asarray(head.value_matrix) for head in weights])),
    }
    return joined(runs, xr.Variable("n", n)).assign(variables)


def head_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The run with each number of tokens."""
    return {f"n = {n}": run for n, run in zip(data.n.values, separated(data), strict=True)}


def _tokens(dataset: xr.Dataset, n: int) -> xr.DataArray:
    """The tokens of the run with n of them; those of shorter runs are padded with NaN."""
    return dataset.tokens.sel(n=n, drop=True).isel(token=slice(n))


def draw_heads(dataset: xr.Dataset) -> Picture:
    """Draw three times, the eigenvalues of every head and of their sum, and the growth rate."""
    count = int(dataset.n[-1])
    scene = _scene(dataset, count)
    end = float(dataset.time[-1])
    panels = snapshots(scene, [0, end / 3, end])
    below = [_eigenvalue_panel(dataset), _growth_panel(dataset)]
    title = f"{_heads(dataset)} in dimension {dataset.sizes['coordinate']}, {angle_words(dataset)}"
    return panel_picture([panels, below], title, NOTE, width=3.3, heights=[3.4, 3.6], least=2.0)


def angle_words(dataset: xr.Dataset) -> str:
    """Words on the largest angle of a token to the leading eigenvector at the end, for every number of tokens."""
    counts = _counts(dataset)
    angles = [f"{_degrees(dataset, n)}{f' for n = {n}' if len(counts) > 1 else ''}" for n in counts]
    return f"largest angle to the leading eigenvector at t = {float(dataset.time[-1]):g}: {', '.join(angles)}"


def _heads(dataset: xr.Dataset) -> str:
    return f"{dataset.sizes['head']} head{'' if dataset.sizes['head'] == 1 else 's'}"


def _degrees(dataset: xr.Dataset, n: int) -> str:
    return f"{text_with_error(_largest_angle(dataset, n), ANGLE_ERROR, 2)}°"


def draw_more_tokens(dataset: xr.Dataset) -> Picture:
    """Draw the end of every run, and the growth rate of all runs."""
    last = len(dataset.time) - 1
    ends = [Snapshot(_scene(dataset, n), last, f"n = {n}, t = {float(dataset.time[-1]):.3g}") for n in _counts(dataset)]
    below = [_growth_panel(dataset), _eigenvalue_panel(dataset)]
    title = f"{_heads(dataset)}, {angle_words(dataset)}"
    return panel_picture([ends, below], title, NOTE, width=3.3, heights=[3.4, 3.6], least=2.0)


def head_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Predicted and measured growth rates, clusters, and the largest angle to the eigenvector."""
    leading = leading_eigenvalue(dataset)
    numbers: dict[str, float | int | str] = {
        "leading eigenvalue of the sum of all V": _complex(leading),
        "largest real part of a single head": float(np.linalg.eigvals(dataset.value.values).real.max()),
    }
    for n in _counts(dataset):
        of = f" (n = {n})" if len(_counts(dataset)) > 1 else ""
        numbers[f"growth rate at the end{of}"] = float(dataset.growth.sel(n=n)[-2])
        numbers[f"clusters at the end{of}"] = int(
            clusters.labels(_scaled_end(dataset, n), RELATIVE_CLUSTER_DISTANCE).max() + 1
        )
        angle = number_with_error(_largest_angle(dataset, n), ANGLE_ERROR)
        numbers[f"largest angle to the eigenvector, degrees{of}"] = angle
    return numbers


def leading_eigenvalue(dataset: xr.Dataset) -> complex:
    """The eigenvalue of largest real part of the sum of all value matrices."""
    return complex(hyperplanes.left_eigenvectors(dataset.value.sum("head").values).eigenvalues[0])


def _counts(dataset: xr.Dataset) -> list[int]:
    return dataset.n.values.tolist()


def _right_eigenvector(dataset: xr.Dataset) -> np.ndarray:
    """Unit vector along which x grows; the real part where the leading eigenvalue is complex."""
    eigenvalues, vectors = np.linalg.eig(dataset.value.sum("head").values)
    vector = np.real(vectors[:, np.argmax(np.real(eigenvalues))])
    return vector / np.linalg.norm(vector)


def _scaled_end(dataset: xr.Dataset, n: int) -> np.ndarray:
    tokens = _tokens(dataset, n).values[-1]
    return tokens / np.linalg.norm(tokens, axis=-1).max()


def _largest_angle(dataset: xr.Dataset, n: int) -> float:
    tokens, axis = _scaled_end(dataset, n), _right_eigenvector(dataset)
    across = np.linalg.norm(tokens - np.outer(tokens @ axis, axis), axis=1)
    return float(np.degrees(np.arctan2(across, np.abs(tokens @ axis))).max())


def _scene(dataset: xr.Dataset, n: int) -> Scene:
    tokens = _tokens(dataset, n)
    run = xr.Dataset({"tokens": tokens, "initial_tokens": tokens.isel(time=0, drop=True)}, attrs=dataset.attrs)
    scene = scene_of(run, distance=RELATIVE_CLUSTER_DISTANCE)
    sizes = np.linalg.norm(tokens.values, axis=-1).max(axis=1)
    scaled = tokens.values / sizes[:, None, None]
    labels = clusters.labels(scaled[-1], RELATIVE_CLUSTER_DISTANCE)
    axis = _right_eigenvector(dataset)
    across = np.linalg.svd(axis[None])[2][1:]
    line = AffineSubspace(across, np.zeros(len(across)), theme().grey)
    drawn = replace(scene.drawn, tokens=scaled, labels=labels, is_scaled=False)
    return replace(scene, subspaces=(line,), reach=1.1, drawn=drawn)


def _eigenvalue_panel(dataset: xr.Dataset) -> Lines:
    each = np.linalg.eigvals(dataset.value.values).ravel()
    total = np.linalg.eigvals(dataset.value.sum("head").values)
    lines = [
        Line(each.real, each.imag, "of every head", line_colour(5), "", "o"),
        Line(total.real, total.imag, "of the sum of all V", line_colour(1), "", "D"),
    ]
    most = 1.15 * float(np.abs(np.concatenate([each, total])).max())
    box: dict[str, Any] = {"xlim": (-most, most), "ylim": (-most, most), "is_square": True}
    return Lines(lines, "real part", "imaginary part", "Eigenvalues", **box)


def _growth_panel(dataset: xr.Dataset) -> Lines:
    counts = _counts(dataset)
    lines = [Line(dataset.time, dataset.growth.sel(n=n), f"n = {n}", line_colour(k)) for k, n in enumerate(counts)]
    level = {"real part of the sum's leading eigenvalue": leading_eigenvalue(dataset).real}
    return Lines(lines, ylabel="d/dt log of the largest norm", title="Growth", levels=level)


def _complex(number: complex) -> str:
    return f"{number.real:.4g}" if abs(number.imag) < 1e-12 else f"{number.real:.4g}{number.imag:+.4g}i"
