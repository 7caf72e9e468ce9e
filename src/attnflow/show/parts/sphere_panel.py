"""`SpherePanel`: tokens on the sphere at one saved time, with the subspace that they approach; panels and movies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from attnflow.show.parts.animation import Movie
from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.page import theme
from attnflow.show.parts.style import new_figure, write_heading
from attnflow.show.parts.symbols import at_time
from attnflow.show.parts.token_artists import current_style, curved_on_sphere, path_style, start_style
from attnflow.show.parts.view3d import camera_of, draw_by_side, draw_filled, draw_grid, faint_behind


@dataclass(frozen=True)
class SpherePanel:
    """Panel of the sphere at one saved time of a run."""

    drawn: DrawnRun
    index: int
    title: str = ""
    subspace: np.ndarray | None = None
    """Orthonormal rows: two span a plane, drawn as a great circle; one a line, drawn as two crosses."""
    camera: np.ndarray | None = None
    """Rows to the right, upwards and towards the viewer; None: the viewer is on the side where most tokens end."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the paths so far, hollow dots at the start and filled dots, faint on the far side."""
        camera = camera_of(self.drawn.tokens[-1]) if self.camera is None else self.camera
        draw_grid(axes, camera)
        if self.subspace is not None:
            _draw_subspace(axes, self.subspace @ camera.T)
        _draw_tokens(axes, self.drawn, self.index, camera)
        axes.set(aspect="equal", xlim=(-1.22, 1.22), ylim=(-1.22, 1.22))
        axes.set_axis_off()
        axes.set_title(self.title or at_time(self.drawn.times[self.index]), loc="left")


def sphere_panels(
    drawn: DrawnRun, times: Sequence[float], name: str = "", camera: np.ndarray | None = None
) -> list[SpherePanel]:
    """Panels of the sphere at the saved times nearest to `times`; `name` stands before the first time."""
    camera = camera_of(drawn.tokens[-1]) if camera is None else camera
    indices = [int(np.abs(drawn.times - time).argmin()) for time in times]
    titles = [at_time(drawn.times[index]) for index in indices]
    titles[0] = f"{name}{', ' if name else ''}{titles[0]}"
    return [SpherePanel(drawn, index, title, camera=camera) for index, title in zip(indices, titles, strict=True)]


def sphere_movie(drawn: DrawnRun, title: str, caption: str = "", *, most: int = 60) -> Movie:
    """Movie from the first to the last saved time in at most `most` frames."""
    figure = new_figure(4.2, 4.6)
    axes = figure.add_subplot()
    write_heading(figure, title, caption)
    indices, camera = drawn.times_of_interest(most), camera_of(drawn.tokens[-1])

    def show_frame(frame: int) -> None:
        axes.clear()
        SpherePanel(drawn, int(indices[frame]), camera=camera).draw(axes)

    return Movie(figure, len(indices), show_frame)


def _draw_tokens(axes: Axes, drawn: DrawnRun, index: int, camera: np.ndarray) -> None:
    colours, seen = drawn.token_colours, drawn.tokens[: index + 1] @ camera.T
    n = len(colours)
    if index > 0 and drawn.is_followed:
        draw_by_side(axes, curved_on_sphere(seen.transpose(1, 0, 2)), colours, zorder=1.8, **path_style(n))
    starts = faint_behind(colours, seen[0], 0.8 if index == 0 else 0.4)
    axes.scatter(*seen[0, :, :2].T, edgecolors=list(starts), zorder=2, **start_style(n))
    draw_filled(axes, colours, seen[-1], **current_style(drawn, index))


def _draw_subspace(axes: Axes, seen: np.ndarray) -> None:
    """Draw a great circle, or two crosses, darker on the near side."""
    if len(seen) == 2:
        turn = np.linspace(0, 2 * np.pi, 181)[:, None]
        line = np.cos(turn) * seen[0] + np.sin(turn) * seen[1]
        draw_by_side(axes, line[None], np.array([theme().ink]), alpha=0.7, linewidths=1.6, zorder=1.5)
        return
    for end in (seen[0], -seen[0]):
        opacity = 1.0 if end[2] >= 0 else 0.35
        axes.plot(*end[:2], marker="x", color=theme().ink, markersize=9, markeredgewidth=1.6, alpha=opacity, zorder=4)
