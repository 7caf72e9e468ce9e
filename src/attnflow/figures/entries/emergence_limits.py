"""Limits of tokens in R^d: polytopes, hyperplanes, lines in space; and the leaders that attention selects."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import number_with_error, text_with_error
from attnflow._common.progress import Progress
from attnflow.analyse import hyperplanes, polytope
from attnflow.figures.entries.scenario_runs import scenario_run, times_until_end, value_of
from attnflow.show.parts.animation import Movie
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.scene import Scene, Snapshot, scene_movie, scene_of, snapshots
from attnflow.show.parts.style import line_colour
from attnflow.show.parts.subspaces import AffineSubspace
from attnflow.show.parts.view3d import view_of_subspaces
from attnflow.solvers.adaptive import Adaptive

DOTS = "Hollow dots: start. Filled dots: now. Colours: cluster at the end."
HYPERPLANE_TOLERANCE = 0.05  # coordinates closer than this lie on one hyperplane


def compute_with_frames(progress: Progress, frames: int, **settings: Any) -> xr.Dataset:
    """A run, and the number of frames of its movie."""
    return scenario_run(progress, **settings).assign_attrs(frames=frames)


def _solver_error(run: xr.Dataset) -> float:
    """The error of a step of the default solver: distances below it are zero as far as the run tells."""
    return float(Adaptive().rtol) * float(np.abs(run.tokens).max())


# -- V = I: a polytope -------------------------------------------------------------------------------------------------


def draw_polytope(run: xr.Dataset) -> Picture:
    """Draw the tokens and their hull at six times."""
    drawn = snapshots(_polytope_scene(run), times_until_end(run, [0, 0.5, 1, 2, 5]))
    caption = f"{DOTS} Grey: convex hull of all tokens."
    rows = [row for row in (drawn[:3], drawn[3:]) if row]
    return panel_picture(rows, polytope_title(run), caption, width=3.3, least=2.1)


def polytope_title(run: xr.Dataset) -> str:
    """Title with the number of vertices of the limit, and of tokens at them."""
    numbers = polytope_numbers(run)
    return (
        f"V = I: {numbers['tokens at vertices']} of {run.sizes['token']} tokens are at the "
        f"{numbers['vertices of the limit']} vertices of their hull at t = {float(run.time[-1]):g}"
    )


def polytope_movie(run: xr.Dataset) -> Movie:
    """Movie until t = 6, when e^-6 of the first distances is left; in space the view turns."""
    turns = 60.0 if run.sizes["coordinate"] == 3 else 0.0
    return scene_movie(
        _polytope_scene(run), "V = I: tokens and their convex hull", until=6.0, turns=turns, most=run.attrs["frames"]
    )


def polytope_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Vertices of the limit, tokens at them, and the distance to the limit."""
    corners = polytope.limit_vertices(run, _cluster_distance(run))
    final = run.tokens[-1].values
    at_vertices = np.linalg.norm(final[:, None] - corners, axis=-1).min(axis=1) < _cluster_distance(run)
    volumes = polytope.volume(run.isel(time=[0, -1])).values
    return {
        "vertices of the limit": len(corners),
        "tokens at vertices": int(at_vertices.sum()),
        "tokens elsewhere": int(np.sum(~at_vertices)),
        "share of the first hull that is left": float(volumes[1] / volumes[0]),
        "largest residual of S at the end": float(polytope.residual_of_s(final).max()),
    }


def _polytope_scene(run: xr.Dataset) -> Scene:
    return scene_of(run, has_hull=True, distance=_cluster_distance(run))


def _cluster_distance(run: xr.Dataset) -> float:
    """Distance below which tokens are one cluster: at time t about e^-t of an initial distance is left."""
    size = float(np.abs(run.initial_tokens).max())
    return max(1e-3, 4 * float(np.exp(-run.time[-1]))) * size


# -- A simple leading eigenvalue: parallel hyperplanes --------------------------------------------------------------


def draw_hyperplanes(run: xr.Dataset) -> Picture:
    """Draw the tokens at four times, with the parallel hyperplanes on which they end."""
    scene, groups = _hyperplane_scene(run)
    elevation, azimuth = _view(scene)
    drawn = snapshots(scene, times_until_end(run, [0, 2, 5]), elevation=elevation, azimuth=azimuth)
    kind = _kind(run)
    scales = "" if scene.is_to_scale else " Each axis has a scale of its own."
    caption = f"Coloured {kind}: where the tokens of that colour end. Hollow dots: start.{scales}"
    if run.sizes["coordinate"] == 2:
        return panel_picture([drawn], _group_title(run, groups, kind), caption, width=3.2, least=2.1)
    rows = [row for row in (drawn[:2], drawn[2:]) if row]  # boxes in space need room for three axes
    return panel_picture(
        rows, _group_title(run, groups, kind), caption, width=4.0, heights=[3.4] * len(rows), least=2.1
    )


def _group_title(run: xr.Dataset, groups: hyperplanes.Groups, kind: str) -> str:
    away = text_with_error(groups.spreads.max(), _solver_error(run), 2)
    return (
        f"Eigenvalues {_eigenvalue_words(run)}: at t = {float(run.time[-1]):g}, {run.sizes['token']} tokens are on "
        f"{groups.count} parallel {kind} within {away}"
    )


def hyperplane_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Number and coordinates of the hyperplanes, the largest distance from them, and the eigenvalues of V."""
    value, times = value_of(run), run.time.values
    groups = hyperplanes.parallel_subspaces(run.tokens[-1], value, tolerance=HYPERPLANE_TOLERANCE)
    counts = hyperplanes.count(run, value, tolerance=HYPERPLANE_TOLERANCE).values
    early = int(np.abs(times - 5).argmin())  # the published pictures end at t = 5
    kind = _kind(run)
    return {
        "eigenvalues of V": _eigenvalue_words(run),
        f"parallel {kind} at t = {times[early]:g}": int(counts[early]),
        f"parallel {kind} at the end": groups.count,
        "coordinates of each": "; ".join(_numbers(level) for level in groups.levels),
        "tokens on each": ", ".join(str(size) for size in groups.sizes),
        "largest distance from one at the end": number_with_error(groups.spreads.max(), _solver_error(run)),
    }


def hyperplane_movie(run: xr.Dataset) -> Movie:
    """Movie until t = 8, when the hyperplanes are seen."""
    scene, _ = _hyperplane_scene(run)
    title = f"Tokens, and the parallel {_kind(run)} through them at the end"
    return scene_movie(scene, title, until=8.0, turns=40.0, most=run.attrs["frames"])


def _hyperplane_scene(run: xr.Dataset) -> tuple[Scene, hyperplanes.Groups]:
    value = value_of(run)
    groups = hyperplanes.parallel_subspaces(run.tokens[-1], value, tolerance=HYPERPLANE_TOLERANCE)
    rows = hyperplanes.left_eigenvectors(value).rows[:1]
    subspaces = tuple(
        AffineSubspace(rows, level, line_colour(place), f"{size} tokens")
        for place, (level, size) in enumerate(zip(groups.levels, groups.sizes, strict=True))
    )
    scene = scene_of(run, subspaces=subspaces, is_to_scale=run.sizes["coordinate"] == 2)  # in space boxes are long
    return replace(scene, drawn=replace(scene.drawn, labels=groups.labels)), groups


def _view(scene: Scene) -> tuple[float, float]:
    """Elevation and azimuth, in degrees, from which planes neither look like lines nor cover each other."""
    if scene.drawn.dimension == 2:
        return 20.0, -55.0
    sides = np.ptp(scene.box, axis=1)
    return view_of_subspaces(scene.subspaces, np.ones(3) if scene.is_to_scale else 1 / sides)


def _kind(run: xr.Dataset) -> str:
    return "lines" if run.sizes["coordinate"] == 2 else "planes"


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{value:.3g}" for value in values)


# -- Two leading directions and one that diverges: seen along the third -----------------------------------------------


def draw_columns(run: xr.Dataset) -> Picture:
    """Draw three times in eigen-coordinates, with lines through the final groups, and the end seen from above."""
    turned, groups = _eigen_run(run), _columns(run)
    subspaces = tuple(AffineSubspace(np.eye(3)[:2], level, theme().grey) for level in groups.levels)
    scene, above = scene_of(turned, subspaces=subspaces, is_to_scale=False), scene_of(turned.isel(coordinate=[0, 1]))
    scene, above = (_relabelled(one, groups.labels) for one in (scene, above))
    above = replace(above, has_hull=_is_polygon(run))
    drawn = [
        *snapshots(scene, times_until_end(run, [0, 2])),
        Snapshot(above, len(run.time) - 1, f"t = {float(run.time[-1]):.3g}, from above"),
    ]
    caption = (
        f"{DOTS} Axes: coordinates along the left eigenvectors of V, each with a scale of its own. Grey: the lines."
    )
    return panel_picture(
        [drawn[:2], drawn[2:]], _group_title(run, groups, "lines"), caption, width=4.0, heights=[3.4, 3.4], least=2.1
    )


def column_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """The lines, the largest distance from them, and the growth of the third coordinate."""
    turned, groups = _eigen_run(run), _columns(run)
    below = turned.tokens[-1, :, :2]
    largest = np.abs(turned.tokens[:, :, 2]).max("token").values
    extra = {"largest residual of S in the first two": float(polytope.residual_of_s(below).max())}
    return {
        "eigenvalues of V": _eigenvalue_words(run),
        "lines": groups.count,
        "tokens on each": ", ".join(str(size) for size in groups.sizes),
        "largest distance from a line at the end": number_with_error(groups.spreads.max(), _solver_error(run)),
        "growth of the third coordinate": float(largest[-1] / largest[0]),
    } | (extra if _is_polygon(run) else {})


def _columns(run: xr.Dataset) -> hyperplanes.Groups:
    """Groups of the first two eigen-coordinates at the end, within 2 % of the initial size."""
    return hyperplanes.groups(_eigen_run(run).tokens[-1, :, :2].values, 0.02 * float(np.abs(run.initial_tokens).max()))


def _eigen_run(run: xr.Dataset) -> xr.Dataset:
    """The run in coordinates along the left eigenvectors of V."""
    rows = hyperplanes.left_eigenvectors(value_of(run)).rows
    names = ("tokens", "initial_tokens", "final_tokens")
    turned = {name: run[name].copy(data=run[name].values @ rows.T) for name in names}
    return run.assign(turned)


def _is_polygon(run: xr.Dataset) -> bool:
    """Whether the two leading eigenvalues agree, so that V is a multiple of I on their space."""
    eigenvalues = hyperplanes.left_eigenvectors(value_of(run)).eigenvalues
    return bool(np.isclose(eigenvalues[0], eigenvalues[1]))


def _eigenvalue_words(run: xr.Dataset) -> str:
    return ", ".join(_complex(number) for number in hyperplanes.left_eigenvectors(value_of(run)).eigenvalues)


def _complex(number: complex) -> str:
    return f"{number.real:.3g}" if number.imag == 0 else f"{number.real:.3g}{number.imag:+.3g}i"


def _relabelled(scene: Scene, labels: np.ndarray) -> Scene:
    """The scene coloured by groups, with axes named as eigen-coordinates."""
    return replace(scene, drawn=replace(scene.drawn, labels=labels, letter="\N{GREEK SMALL LETTER PHI}"))
