"""Movies of the explorer look as the stage does: positions, colours, hidden parts, and changes with their times."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, LineCollection
from tests.helpers.browser_page import needs_chromium, pause, value, wait_for

from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests
from attnflow.explorer.export.stage_background import _half
from attnflow.explorer.export.stage_movie import WatchedRun, stage_movie, time_text
from attnflow.explorer.export.stage_picture import StagePicture
from attnflow.explorer.export.stage_view import LIGHT, StageView, default_view
from attnflow.explorer.live_run import LiveRun

VIEW = {
    "width": 400, "height": 300, "camera": [1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0.1, -0.2], "extents": [1, 2, 4], "axes": None,
    "hidden": ["trails"], "theme": LIGHT, "dark": False,
}  # fmt: skip


def played(name, frames, changes=None, **first):
    run = LiveRun(1, page_requests.Start(name, first), lambda *_: None)
    for frame in range(frames):
        if frame == frames // 2 and changes:
            run.change(changes)
        while not run.forward(1.0):
            pass
    return run


def watched(run):
    return WatchedRun(run.recording.frames, run.measurements, run.later, catalogue.labels(run.settings))


def picture(movie, frame):
    """Numbers from 0 to 255, axes (down, right, colour)."""
    movie.figure.set_dpi(100)
    movie.show_frame(frame)
    canvas = FigureCanvasAgg(movie.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


def texts(movie, frame):
    movie.show_frame(frame)
    return [text.get_text() for text in movie.figure.axes[0].texts]


def parsed(**changes):
    return page_requests.parse(json.dumps({"type": "export", "kind": "gif", "view": {**VIEW, **changes}})).view


def test_tokens_are_projected_as_on_the_page():
    """By the formula of the page, written out for a camera without rotation."""
    view = parsed()
    x, y, depth = view.seen(view.points(np.array([[0.5, -1.0, 2.0]])))[0]

    assert x == pytest.approx(200 + 0.41 * 300 * (0.1 + 2 * 0.5))
    assert y == pytest.approx(150 + 0.41 * 300 * (0.2 + 2 * 0.5))
    assert depth == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"width": 1}, "must be from 64 to 4000 pixels"),
        ({"height": "x"}, "`height` must be a finite number"),
        ({"camera": [1] * 11}, "`camera` must be a list of 12 numbers"),
        ({"extents": [1, 0, 1]}, "must be positive"),
        ({"axes": [[1, 0]] * 3}, "`axes` must be three lists"),
        ({"axes": [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0]]}, "`axes` must be a list of 4"),
        ({"hidden": ["dots"]}, "`hidden` must be a list of trails"),
        ({"theme": {"paper": "url(x)"}}, "`theme` must have colours"),
        ({"dark": 1}, "`dark` must be true or false"),
    ],
)
def test_wrong_views_are_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        parsed(**changes)


def test_changes_are_named_from_their_times_on():
    run = played("sphere", 10, {"beta": 9.0}, n=8)
    movie, time = stage_movie(watched(run), None), run.later[0][0]
    note = f"beta = 9 from t = {time:.4g}"

    for frame, shown in enumerate(run.recording.frames):
        found = texts(movie, frame)
        assert (note in found) == (shown.time >= time)
        assert f"t = {time_text(shown.time, False)}" in found
    assert note in texts(movie, movie.frames - 1)
    assert note not in texts(movie, 0)


def test_hidden_parts_are_not_drawn():
    run = played("sphere", 10, n=8)
    shown = default_view([frame.tokens for frame in run.recording.frames], is_sphere=True)
    without = StageView(shown.width, shown.height, shown.camera, hidden=frozenset({"trails"}))
    lines = []
    for view in (shown, without):
        movie = stage_movie(watched(run), view)
        movie.show_frame(movie.frames - 1)
        lines.append(sum(isinstance(one, LineCollection) for one in movie.figure.axes[0].collections))

    assert lines[0] > lines[1] > 0  # the graticule stays


def test_targets_are_hollow_dots_in_the_colours_of_their_tokens_and_no_clusters():
    run = LiveRun(1, page_requests.Start("steer-sphere", {"n": 3}), lambda *_: None)
    frames = run.recording.frames
    movie = stage_movie(watched(run), None)
    movie.show_frame(0)
    shapes = [one for one in movie.figure.axes[0].collections if isinstance(one, EllipseCollection)]
    hollow = [one for one in shapes if not len(one.get_facecolor())]
    view = default_view([frame.tokens for frame in frames], is_sphere=True)
    at = {"dots": shapes[0].get_offsets(), "targets": hollow[0].get_offsets()}

    assert len(shapes) == 2
    assert len(hollow) == 1
    seen = view.seen(view.points(frames[0].tokens))
    np.testing.assert_allclose(at["targets"], seen[3:, :2])
    np.testing.assert_allclose(np.sort(at["dots"], axis=0), np.sort(seen[:3, :2], axis=0))
    assert texts(movie, movie.frames - 1) == [f"t = {time_text(frames[-1].time, False)}"]  # no number of a cluster


def test_axes_of_another_dimension_are_refused():
    run = played("sphere", 3, n=8, d=5)
    with pytest.raises(InputError, match="`axes` must have rows of length 5"):
        stage_movie(watched(run), parsed(axes=[[1, 0, 0, 0]] * 3))
    assert stage_movie(watched(run), parsed()).frames == 4  # principal axes


@needs_chromium
@pytest.mark.parametrize(
    ("scenario", "changes"), [("sphere", ""), ("polytope-3d", ""), ("metastable", "&n=40"), ("boolean", "")]
)
def test_a_movie_has_the_positions_and_colours_of_the_page(page, explorer, scenario, changes):
    page.goto(f"{explorer.address}#scenario={scenario}{changes}")
    wait_for(page, "window.explorer?.frame?.index > 12")
    pause(page)
    value(page, "(explorer.stage.turn(0.4, -0.3), explorer.stage.zoomBy(0.8), explorer.stage.repaint())")
    page.wait_for_timeout(400)  # axes of a paused picture widen until all tokens fit
    found = page.evaluate("""async () => {
      const { viewOf } = await import('./export.js'), { stage } = explorer, { width, height } = stage.canvas;
      stage.paint();
      const image = stage.canvas.getContext('2d').getImageData(0, 0, width, height).data;
      const colours = Array.from({ length: stage.frame.n }, (_, i) => {
        const at = 4 * (Math.round(stage.seen[3 * i + 1]) * width + Math.round(stage.seen[3 * i]));
        return Array.from(image.slice(at, at + 3));
      });
      return { view: viewOf(stage), seen: Array.from(stage.seen), colours, index: stage.frame.index };
    }""")
    run = next(iter(explorer.viewers)).run
    view = page_requests.parse(json.dumps({"type": "export", "kind": "gif", "view": found["view"]})).view
    frame = next(one for one in run.recording.frames if one.index == found["index"])
    seen = np.reshape(found["seen"], (-1, 3))

    np.testing.assert_allclose(view.seen(view.points(frame.tokens))[:, :2], seen[:, :2], atol=0.5)

    until = [one for one in run.recording.frames if one.index <= frame.index]
    movie = stage_movie(WatchedRun(until, run.measurements, is_log=run.is_coalescing), view)
    image = picture(movie, movie.frames - 1)
    is_inside = ((seen[:, :2] > 3) & (seen[:, :2] < np.array([view.width, view.height]) - 3)).all(axis=1)
    at = np.round(seen[is_inside, :2]).astype(int)
    difference = np.abs(image[at[:, 1], at[:, 0]] - np.array(found["colours"])[is_inside]).max(axis=1)
    assert len(at) > 10
    assert np.mean(difference <= 25) > 0.8, difference  # some dots lie below the text of another
    paper = [int(view.theme["paper"][k : k + 2], 16) for k in (1, 3, 5)]
    assert np.mean(np.abs(np.array(found["colours"])[is_inside] - paper).max(axis=1) > 25) > 0.8  # dots, not paper


def test_tokens_in_more_dimensions_are_projected_onto_three_axes():
    axes = np.random.default_rng(0).normal(size=(3, 5))
    tokens = np.eye(5)[:2]
    np.testing.assert_allclose(StageView(400, 300, (), axes=axes).points(tokens), axes.T[:2])


def test_the_near_and_the_far_half_of_a_ring_overlap_a_little():
    """The depth is drawn downwards here, so that the places that are returned show it."""
    depths = np.cos(np.linspace(0, 2 * np.pi, 721))
    ring = np.stack([np.arange(721.0), depths, depths], axis=-1)
    near, far = (np.concatenate(_half(ring, is_far)) for is_far in (False, True))
    assert -0.02 <= near[:, 1].min() < 0 < far[:, 1].max() <= 0.02
    assert {*near[:, 0], *far[:, 0]} == set(range(721))


def test_clusters_of_two_tokens_or_more_are_marked_the_largest_first():
    picture = SimpleNamespace(n=8, clusters=np.array([0, 1, 1, 2, 2, 2, 0, 3]))
    assert [group.tolist() for group in StagePicture._marked(picture)] == [[3, 4, 5], [1, 2]]
