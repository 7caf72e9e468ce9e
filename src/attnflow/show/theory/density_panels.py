"""Panels of densities: over time and place, at single times as curves, and on maps of S^2 and of the plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.ticker import FuncFormatter, MultipleLocator
from scipy.interpolate import PchipInterpolator

from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import FunctionPanel
from attnflow.show.parts.style import colours, fix_ticks, legend_below, weights_colormap
from attnflow.show.parts.symbols import TIME_AXIS, at_time
from attnflow.show.runs.over_time import angle_name

MOST_SHOWN = 512  # places across an image
ON_MAPS = ("sphere", "plane")  # domains of two dimensions, drawn as one map for each time
PLACE_NAMES = {"circle": "angle", "zonal": "polar angle", "line": "place"}
WHERE = {
    "circle": "on the circle",
    "zonal": "on the sphere, symmetric about an axis",
    "sphere": "on the sphere",
    "line": "on the line",
    "plane": "in the plane",
}


def domain_of(run: xr.Dataset) -> str:
    """The domain of a density; files of older versions are of the circle."""
    return str(run.attrs.get("domain", "circle"))


def heading_of(run: xr.Dataset) -> str:
    """The headline of a density."""
    return f"Law of infinitely many tokens {WHERE[domain_of(run)]}"


def places_of(run: xr.Dataset) -> np.ndarray:
    """The places of a density of one dimension, (time, place)."""
    domain = domain_of(run)
    if domain == "line":
        return run.place.values[..., 0]
    fixed = run["angle" if domain == "circle" else "polar"].values
    return np.broadcast_to(fixed, (run.sizes["time"], len(fixed)))


def image_panel(run: xr.Dataset) -> FunctionPanel:
    """The density over time (across) and place (up)."""
    return FunctionPanel(lambda axes: _draw_image(axes, run))


def curves_panel(run: xr.Dataset, places: Sequence[int]) -> FunctionPanel:
    """The density against the place at some saved times."""
    return FunctionPanel(lambda axes: _draw_curves(axes, run, places))


def map_panel(run: xr.Dataset, index: int, limits: tuple[float, float] | None = None) -> FunctionPanel:
    """The density on S^2 or in the plane at one saved time; `limits` are those of the colours, by default its own."""
    draw = _draw_sphere if domain_of(run) == "sphere" else _draw_plane
    return FunctionPanel(lambda axes: draw(axes, run, index, limits))


def moment_panel(run: xr.Dataset, index: int) -> FunctionPanel:
    """The density at one saved time as a map or a curve, on the axes of all times: one frame of a movie."""
    if domain_of(run) in ON_MAPS:
        return map_panel(run, index, (0.0, float(run.density[index].max())))
    return FunctionPanel(lambda axes: _draw_moment(axes, run, index))


def _draw_image(axes: Axes, run: xr.Dataset) -> None:
    every = max(1, run.density.shape[1] // MOST_SHOWN)
    places, values = places_of(run)[:, ::every], run.density.values[:, ::every]
    times = np.broadcast_to(run.time.values[:, None], places.shape)
    # Values are those at the corners of the cells, which follow the characteristics on the line.
    image = axes.pcolormesh(
        times, places, values, shading="gouraud", cmap=weights_colormap(), vmin=0, vmax=values.max(), rasterized=True
    )
    axes.set(xlabel=TIME_AXIS, xlim=(run.time.values[0], run.time.values[-1]), ylim=_extent(run))
    _name_places(axes.yaxis, run)
    axes.set_ylabel(PLACE_NAMES[domain_of(run)])
    _add_bar(axes, image)
    fix_ticks(axes)


def _add_bar(axes: Axes, image: Any) -> None:
    bar = axes.figure.colorbar(image, ax=axes, aspect=25, pad=0.02)
    bar.set_label("density")
    fix_ticks(bar.ax)


def _draw_curves(axes: Axes, run: xr.Dataset, indices: Sequence[int]) -> None:
    for index, colour in zip(indices, colours(len(indices)), strict=True):
        axes.plot(*_curve(run, index), color=colour, label=_time_label(run, index))
    _finish_curves(axes, run, float(run.density[list(indices)].max()))
    legend_below(axes, columns=min(len(indices), 4))


def _curve(run: xr.Dataset, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and values at one time; on the line, where nodes may be few, with values between them."""
    places, values = places_of(run)[index], run.density.values[index]
    if domain_of(run) != "line":
        return places, values
    fine = np.linspace(places[0], places[-1], MOST_SHOWN)
    return fine, np.asarray(PchipInterpolator(places, values)(fine))


def _draw_moment(axes: Axes, run: xr.Dataset, index: int) -> None:
    axes.plot(*_curve(run, index), color=theme().ink)
    _finish_curves(axes, run, float(run.density.max()))
    axes.set_title(_time_label(run, index), loc="left")


def _finish_curves(axes: Axes, run: xr.Dataset, largest: float) -> None:
    least = min(0.0, float(run.density.min()))
    axes.set(xlabel=PLACE_NAMES[domain_of(run)], ylabel="density", xlim=_extent(run), ylim=(least, 1.05 * largest))
    _name_places(axes.xaxis, run)
    fix_ticks(axes)


def _extent(run: xr.Dataset) -> tuple[float, float]:
    domain = domain_of(run)
    if domain == "line":
        return float(run.place.min()), float(run.place.max())
    return 0.0, 2 * np.pi if domain == "circle" else np.pi


def _time_label(run: xr.Dataset, index: int) -> str:
    return f"$t$ = {float(run.time[index]):.4g}"


def _name_places(axis: Any, run: xr.Dataset) -> None:
    """Ticks at quarters of the circle, or of half of it for the polar angle."""
    if domain_of(run) != "line":
        axis.set_major_locator(MultipleLocator(np.pi / 2 if domain_of(run) == "circle" else np.pi / 4))
        axis.set_major_formatter(FuncFormatter(lambda angle, _: angle_name(angle)))


def mollweide(azimuth: np.ndarray, polar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The equal-area map of Mollweide: azimuths in [-pi, pi] across, the pole polar = 0 on top.

    x = (2 2^1/2 / pi) azimuth cos(u) and y = 2^1/2 sin(u) with 2u + sin(2u) = pi cos(polar), solved by bisection, since
    Newton's method stalls at the poles.

    Examples
    --------
    >>> x, y = mollweide(np.array([0.0, np.pi]), np.array([0.0, np.pi / 2]))
    >>> np.round([*x, *y], 4) + 0.0
    array([0.    , 2.8284, 1.4142, 0.    ])
    """
    low, high = np.full(polar.shape, -np.pi / 2), np.full(polar.shape, np.pi / 2)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = 2 * middle + np.sin(2 * middle) < np.pi * np.cos(polar)
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return 2 * np.sqrt(2) / np.pi * azimuth * np.cos(low), np.sqrt(2) * np.sin(low)


def _draw_sphere(axes: Axes, run: xr.Dataset, index: int, limits: tuple[float, float] | None) -> None:
    """Draw the whole sphere on the map of Mollweide, the azimuth of the last maximum in its middle."""
    last = run.density.values[-1]
    middle = float(run.azimuth[np.unravel_index(last.argmax(), last.shape)[1]])
    across = np.linspace(-np.pi, np.pi, 181)
    values = run.density.values[index]
    turns = np.append(run.azimuth.values, 2 * np.pi)
    closed = np.concatenate([values, values[:, :1]], axis=1)
    shown = np.stack([np.interp((across + middle) % (2 * np.pi), turns, row) for row in closed])
    x, y = mollweide(*np.meshgrid(across, run.polar.values))
    low, high = limits or (0.0, float(values.max()))
    image = axes.pcolormesh(
        x, y, shown, shading="gouraud", cmap=weights_colormap(), vmin=low, vmax=high, rasterized=True
    )
    axes.add_patch(Ellipse((0, 0), 4 * np.sqrt(2), 2 * np.sqrt(2), fill=False, edgecolor=theme().grey, linewidth=0.8))
    for angle in np.pi * np.array([1, 2, 3]) / 4:
        axes.plot(*mollweide(across, np.full_like(across, angle)), color=theme().grey, linewidth=0.4)
    axes.set(aspect="equal", xlim=(-2.9, 2.9), ylim=(-1.5, 1.5))
    axes.set_axis_off()
    axes.set_title(at_time(float(run.time[index])), loc="left")
    _add_map_bar(axes, image)


def _add_map_bar(axes: Axes, image: Any) -> None:
    bar = axes.figure.colorbar(image, ax=axes, orientation="horizontal", aspect=25, pad=0.06, shrink=0.7)
    bar.set_label("density")
    bar.locator = MultipleLocator(_round_step(float(image.get_clim()[1])))
    bar.update_ticks()
    fix_ticks(bar.ax)


def _round_step(largest: float) -> float:
    """A third of the range or less, as 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(max(largest, 1e-300) / 2))
    return float(max(step * power for step in (1, 2, 5) if step * power <= largest / 2))


def _draw_plane(axes: Axes, run: xr.Dataset, index: int, limits: tuple[float, float] | None) -> None:
    """Draw the density on the moving nodes."""
    places, values = run.place.values[index], run.density.values[index]
    low, high = limits or (0.0, float(values.max()))
    image = axes.pcolormesh(
        places[..., 0], places[..., 1], values, shading="gouraud", cmap=weights_colormap(), vmin=low, vmax=high,
        rasterized=True,
    )  # fmt: skip
    every = run.place.values.reshape(-1, 2)
    margin = 0.03 * np.ptp(every, axis=0)
    (left, bottom), (right, top) = every.min(axis=0) - margin, every.max(axis=0) + margin
    axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top))
    axes.set_title(at_time(float(run.time[index])), loc="left")
    _add_map_bar(axes, image)
    fix_ticks(axes)
