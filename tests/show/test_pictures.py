"""Pictures: what is drawn are the numbers of the run, and every kind of run can be drawn."""

import json
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.show import attention, summary, trajectories
from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.style import colours, require_free_picture, save_figure
from attnflow.show.parts.view3d import camera_of
from attnflow.show.runs.over_time import continuous_angles

pytestmark = pytest.mark.filterwarnings("error")

SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def simulated(flow, tokens, times, **options):
    return af.simulate(flow, tokens, times, progress=False, **options)


def made_of(tokens, kind, times=None, **attributes):
    """A dataset as `simulate` makes it, from tokens (time, token, coordinate) that need no equation."""
    tokens = np.asarray(tokens, dtype=float)
    times = np.linspace(0, 3, len(tokens)) if times is None else np.asarray(times)
    each = ("token", "coordinate")
    variables = {
        "tokens": (("time", *each), tokens),
        "initial_tokens": (each, tokens[0]),
        "final_tokens": (each, tokens[-1]),
        "final_time": ((), times[-1]),
    }
    return xr.Dataset(variables, {"time": times}, {"flow": json.dumps({"is": kind})} | attributes)


def wandering(n, d, kind, steps=6, seed=0):
    """Tokens that move somehow, on the sphere if that is where the model lives."""
    tokens = np.random.default_rng(seed).normal(size=(steps, n, d)).cumsum(axis=0)
    if kind == "SphereAttention":
        tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    return made_of(tokens, kind)


@pytest.fixture(scope="module")
def polygon():
    """Twenty tokens that gather at the vertices of a polygon."""
    flow = af.RescaledAttention(af.Head.identity(2))
    return simulated(flow, af.initial.box(20, 2, rng=0), np.linspace(0, 8, 17))


def artist(axes, label):
    """The one artist of a label."""
    found = [child for child in axes.get_children() if child.get_label() == label]
    assert len(found) == 1, f"{len(found)} artists are called {label}"
    return found[0]


def drawn_labels(axes):
    return {child.get_label() for child in axes.get_children()}


def legend_words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption(figure):
    return figure.get_supxlabel().replace("\n", " ")


class TestThePlane:
    def test_dots_are_the_first_and_last_tokens(self, polygon):
        axes = trajectories(polygon).axes[0]
        np.testing.assert_array_equal(artist(axes, "start").get_offsets(), polygon.tokens[0])
        np.testing.assert_array_equal(artist(axes, "end").get_offsets(), polygon.tokens[-1])

    def test_lines_are_the_tokens_at_all_times(self, polygon):
        lines = artist(trajectories(polygon).axes[0], "paths").get_segments()
        np.testing.assert_array_equal(np.stack(lines, axis=1), polygon.tokens)

    def test_there_are_as_many_colours_as_clusters(self, polygon):
        labels = af.clusters.labels(polygon.tokens[-1], 0.05)
        shades = artist(trajectories(polygon, distance=0.05).axes[0], "end").get_facecolors()
        assert len(np.unique(shades, axis=0)) == labels.max() + 1
        for label in range(labels.max() + 1):
            assert len(np.unique(shades[labels == label], axis=0)) == 1

    def test_the_polygon_is_the_convex_hull_of_the_last_tokens(self, polygon):
        final = polygon.tokens.values[-1]
        corners = artist(trajectories(polygon).axes[0], "hull").get_xy()[:-1]
        np.testing.assert_array_equal(corners, final[ConvexHull(final).vertices])

    def test_title_has_the_times_and_caption_the_counts(self, polygon):
        figure = trajectories(polygon, title="A polygon")
        count = len(np.unique(run_to_draw(polygon, 0, None, None).labels))
        assert figure.get_suptitle() == "A polygon\nt = 0 to 8"
        assert caption(figure).startswith(f"20 tokens, {count} clusters (closer than ")

    def test_both_axes_have_one_scale(self, polygon):
        assert trajectories(polygon).axes[0].get_aspect() == 1

    def test_legend_lists_up_to_eight_clusters_by_size(self):
        places = 5.0 * np.arange(16).reshape(8, 2)
        few = np.repeat(places, np.arange(1, 9), axis=0)  # the smallest cluster comes first
        words = legend_words(trajectories(made_of([few + 1, few], "RescaledAttention")))
        assert words[-8:] == [f"{size} tokens" for size in range(8, 1, -1)] + ["1 token"]

    def test_legend_lists_no_cluster_when_there_are_more(self):
        many = np.random.default_rng(0).normal(size=(2, 9, 2))
        assert legend_words(trajectories(made_of(many, "RescaledAttention"))) == ["start", "end", "final hull"]


class TestOtherSpaces:
    @pytest.mark.parametrize(
        ("kind", "d", "panels"),
        [
            ("RescaledAttention", 1, ["z"]),
            ("EuclideanAttention", 2, ["x₂"]),
            ("RescaledAttention", 3, ["z₂"]),
            ("SphereAttention", 2, ["x₂", "angle"]),
            ("SphereAttention", 3, [""]),
            ("RescaledAttention", 5, ["2nd principal component", "cosine of two tokens", "share of pairs"]),
        ],
    )
    def test_each_has_its_own_panels(self, kind, d, panels):
        assert [axes.get_ylabel() for axes in trajectories(wandering(6, d, kind)).axes] == panels

    def test_the_line_is_drawn_over_time(self):
        run = wandering(6, 1, "RescaledAttention")
        lines = np.stack(artist(trajectories(run).axes[0], "paths").get_segments(), axis=1)
        np.testing.assert_array_equal(lines[..., 1], run.tokens[..., 0])
        np.testing.assert_array_equal(lines[:, 0, 0], run.time)

    def test_dots_in_space_are_the_last_tokens_and_faces_their_hull(self):
        run = wandering(12, 3, "RescaledAttention")
        axes = trajectories(run).axes[0]
        final = run.tokens.values[-1]
        np.testing.assert_array_equal(np.stack(artist(axes, "end")._offsets3d, axis=1), final)
        faces = artist(axes, "hull")._faces
        np.testing.assert_array_equal(faces[..., :3], final[ConvexHull(final).simplices])

    def test_a_cube_has_twelve_edges_though_its_faces_are_cut_into_triangles(self):
        corners = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
        axes = trajectories(made_of([corners, corners], "RescaledAttention")).axes[0]
        assert len(artist(axes, "edges")._segments3d) == 12

    def test_the_globe_is_seen_straight_and_its_far_side_is_fainter(self):
        run = wandering(30, 3, "SphereAttention")
        seen = run.tokens.values[-1] @ camera_of(run.tokens.values[-1]).T
        dots = artist(trajectories(run).axes[0], "end")
        np.testing.assert_array_equal(dots.get_offsets(), seen[:, :2])
        opacity = dots.get_facecolors()[:, 3]
        assert opacity[seen[:, 2] < 0].max() < opacity[seen[:, 2] > 0].min()

    def test_the_camera_turns_without_stretching(self):
        camera = camera_of(wandering(30, 3, "SphereAttention").tokens.values[-1])
        np.testing.assert_allclose(camera @ camera.T, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(np.linalg.det(camera), 1)

    def test_principal_components_are_those_of_the_last_tokens(self):
        run = wandering(12, 5, "RescaledAttention")
        final = run.tokens.values[-1]
        drawn = artist(trajectories(run).axes[0], "end").get_offsets()
        spreads = np.linalg.svd(final - final.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(np.linalg.norm(drawn - drawn.mean(axis=0), axis=0), spreads[:2])

    def test_all_pairs_are_somewhere_in_the_image_of_cosines(self):
        run = wandering(12, 5, "SphereAttention")
        image = trajectories(run).axes[1].collections[0].get_array()
        np.testing.assert_allclose(image.sum(axis=0), 1)


class TestAngles:
    def test_they_are_the_angles_of_the_tokens(self):
        tokens = wandering(7, 2, "SphereAttention").tokens.values
        angles = continuous_angles(tokens)
        np.testing.assert_allclose(np.stack([np.cos(angles), np.sin(angles)], axis=-1), tokens, atol=1e-14)

    def test_they_do_not_jump_where_the_circle_is_cut(self):
        turning = np.linspace(0, 9, 40)[:, None] + np.array([0.0, 1.0])
        assert np.abs(np.diff(continuous_angles(af.initial.on_circle(turning)), axis=0)).max() < 0.3

    def test_tokens_that_end_together_are_drawn_together(self):
        final = af.initial.on_circle(np.array([np.pi - 0.01, np.pi + 0.01, 1.0]))
        angles = continuous_angles(np.stack([final, final]))[-1]
        np.testing.assert_allclose(abs(angles[0] - angles[1]), 0.02)


class TestTokensThatRunAway:
    @staticmethod
    def growing(factor, kind):
        start = np.random.default_rng(0).uniform(-1, 1, (6, 2))
        return made_of([start, np.sqrt(factor) * start, factor * start], kind)

    def test_growing_tokens_are_divided_by_the_largest_norm(self):
        run = self.growing(200.0, "EuclideanAttention")
        figure = trajectories(run)
        final = run.tokens.values[-1]
        expected = final / np.linalg.norm(final, axis=-1).max()
        np.testing.assert_allclose(artist(figure.axes[0], "end").get_offsets(), expected)
        assert "grew 200 times: drawn divided by the largest norm at each time" in caption(figure)
        assert figure.axes[0].get_xlabel() == "x₁ / largest norm"

    @pytest.mark.parametrize(("factor", "kind"), [(40.0, "EuclideanAttention"), (200.0, "RescaledAttention")])
    def test_others_are_drawn_as_they_are(self, factor, kind):
        run = self.growing(factor, kind)
        figure = trajectories(run)
        np.testing.assert_array_equal(artist(figure.axes[0], "end").get_offsets(), run.tokens[-1])
        assert "grew" not in caption(figure)

    def test_numbers_near_the_end_of_the_range_do_not_overflow(self):
        figure = trajectories(self.growing(1e300, "EuclideanAttention"))
        assert np.all(np.isfinite(artist(figure.axes[0], "end").get_offsets()))

    def test_two_far_parallel_lines_remain_two_lines(self):
        """Rescaled tokens run away along eigenvectors of V with negative eigenvalues."""
        start = np.random.default_rng(0).uniform(-1, 1, (20, 2))
        along, across = np.array([0.6, 0.8]), np.array([-0.8, 0.6])
        ends = 1e4 * start[:, :1] * along + np.sign(start[:, 1:]) * across
        figure = trajectories(made_of([start, ends], "RescaledAttention"))
        heights = artist(figure.axes[0], "end").get_offsets()[:, 1]
        line = np.polynomial.polynomial.polyfit(start[:, 0], heights, 1)
        apart = heights - np.polynomial.polynomial.polyval(start[:, 0], line)
        assert np.ptp(heights) > 1
        assert len(np.unique(np.sign(apart))) == 2
        assert figure.axes[0].get_aspect() == "auto"
        assert "different scales" in caption(figure)


class TestSummary:
    def test_counts_are_those_of_the_analysis(self, polygon):
        line = artist(summary(polygon, distance=0.05).axes[1], "counts")
        np.testing.assert_array_equal(line.get_ydata(), af.clusters.count(polygon, 0.05))
        np.testing.assert_array_equal(line.get_xdata(), polygon.time)

    def test_images_are_the_first_and_last_matrices(self, polygon):
        matrices = np.random.default_rng(0).dirichlet(np.ones(20), size=(3, 20))
        images = [axes.images[0].get_array() for axes in summary(polygon, matrices).axes if axes.images]
        np.testing.assert_array_equal(images, matrices[[0, -1]])

    def test_several_heads_are_averaged(self, polygon):
        matrices = np.random.default_rng(0).dirichlet(np.ones(20), size=(2, 4, 20))
        images = [axes.images[0].get_array() for axes in summary(polygon, matrices).axes if axes.images]
        np.testing.assert_allclose(images, matrices.mean(axis=1))

    def test_a_matrix_that_is_not_known_is_left_out(self, polygon):
        shown = [axes.get_title() for axes in summary(polygon, [np.eye(20), None]).axes if axes.images]
        assert shown == ["attention, start"]

    def test_matrices_of_other_tokens_are_refused(self, polygon):
        with pytest.raises(ValueError, match=r"shape \(k, 20, 20\).* one of them has shape \(3, 3\)"):
            summary(polygon, [np.eye(3), np.eye(3)])

    @pytest.mark.parametrize("kind", ["SphereAttention", "RescaledAttention"])
    @pytest.mark.parametrize("d", [1, 2, 3, 64])
    def test_every_space_has_one(self, kind, d, tmp_path):
        run = wandering(6, d, kind)
        figure = summary(run, [np.eye(6), np.eye(6)], tmp_path / "run.png")
        assert "clusters" in [axes.get_ylabel() for axes in figure.axes]
        assert sum(len(axes.images) for axes in figure.axes) == 2

    def test_geometric_times_have_a_logarithmic_axis(self):
        run = wandering(4, 1, "RescaledAttention", steps=30)
        by_factors = run.assign_coords(time=np.append(0, np.geomspace(1e-3, 1e3, 29)))
        assert summary(run).axes[0].get_xscale() == "linear"
        assert {axes.get_xscale() for axes in summary(by_factors).axes} == {"symlog"}


class TestWhatRunsLeave:
    @pytest.fixture(scope="class")
    @staticmethod
    def ensemble():
        """Run 0 stops early, at a time that is not saved; run 1 goes on."""
        tokens = np.stack([af.initial.on_circle(np.linspace(0, angle, 5)) for angle in (0.5, 3.0)])
        flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=1.0))
        return simulated(flow, tokens, np.linspace(0, 20, 41), stop=af.Clustered(0.1))

    @pytest.mark.parametrize("which", [0, 1])
    def test_one_run_of_an_ensemble_is_drawn_and_named(self, ensemble, which):
        figure = summary(ensemble, member=which)
        np.testing.assert_array_equal(artist(figure.axes[0], "end").get_offsets(), ensemble.final_tokens[which])
        assert f"Run {which} of 2" in caption(figure)
        assert f"to {float(ensemble.final_time[which]):.4g}" in figure.get_suptitle()

    def test_a_run_that_stopped_says_why(self, ensemble):
        assert "Stopped at t = " in caption(trajectories(ensemble))

    def test_a_run_that_reached_its_end_says_nothing_of_it(self, polygon):
        assert "Reached" not in caption(trajectories(polygon))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_a_run_reached_its_end_in_either_precision(self, dtype):
        """0.7 is rounded down in float32."""
        flow = af.SphereAttention(af.Head.identity(2))
        run = simulated(flow, af.initial.circle(3, rng=0), [0.0, 0.7], dtype=dtype)
        assert "t = " not in caption(trajectories(run))

    def test_a_run_that_failed_says_why(self):
        flow = af.EuclideanAttention(af.Head(np.eye(1), np.eye(1), 1e4 * np.eye(1)))
        run = simulated(flow, np.array([[1e100]]), np.array([0.0, 90.0]), solver=af.Euler(1.0))
        assert run.failed
        assert "Failed at t = " in caption(trajectories(run))

    def test_a_run_that_left_only_nan_is_drawn_at_its_start(self, ensemble):
        lost = ensemble.copy(deep=True)
        lost.tokens[0], lost.final_tokens[0] = np.nan, np.nan
        figure = summary(lost)
        np.testing.assert_allclose(artist(figure.axes[0], "end").get_offsets(), lost.initial_tokens[0])

    def test_without_tokens_the_observables_are_drawn(self, tmp_path):
        flow = af.SphereAttention(af.Head.identity(3))
        kept = {"keep_tokens": False, "observables": {"mean_cosine": af.observables.mean_cosine}}
        run = simulated(flow, af.initial.sphere(5, 3, rng=0, runs=2), [0.0, 1.0, 2.0], **kept)
        figure = summary(run, path=tmp_path / "run.png", member=1)
        np.testing.assert_array_equal(figure.axes[0].lines[-1].get_ydata(), run.mean_cosine[1])
        assert figure.axes[0].get_title() == "mean cosine"
        assert "Run 1 of 2" in caption(figure)

    def test_without_either_only_start_and_end_are_drawn(self):
        run = wandering(5, 2, "RescaledAttention").drop_vars("tokens")
        figure = summary(run)
        assert {"start", "end"} <= drawn_labels(figure.axes[0])
        assert "paths" not in drawn_labels(figure.axes[0])
        assert "Only the first and last tokens were kept" in caption(figure)

    def test_a_model_that_cannot_be_made_again_is_no_obstacle(self):
        head = af.TimeDependentHead(lambda time: af.Head(np.eye(2), np.eye(2), (1 + time) * np.eye(2)), dimension=2)
        run = simulated(af.EuclideanAttention(head), af.initial.box(5, 2, -1, 1, rng=0), [0.0, 0.5])
        assert trajectories(run).get_suptitle() == "Attention in ℝ²\nt = 0 to 0.5"

    @pytest.mark.parametrize("kind", ["SphereAttention", "EuclideanAttention"])
    @pytest.mark.parametrize("d", [1, 2, 3, 5])
    @pytest.mark.parametrize(("n", "steps"), [(1, 1), (1, 3), (4, 3)])
    def test_tokens_in_one_place_can_be_drawn(self, kind, d, n, steps, tmp_path):
        tokens = np.zeros((steps, n, d))
        tokens[..., 0] = 1.0
        figure = summary(made_of(tokens, kind), [np.eye(n), np.eye(n)], tmp_path / "run.png")
        assert f"{n} token{'s' * (n > 1)}, 1 cluster (" in caption(figure)

    @pytest.mark.parametrize("d", [2, 3])
    def test_tokens_on_a_line_have_no_hull(self, d, tmp_path):
        tokens = np.linspace(-1, 1, 7)[:, None] * np.arange(1, d + 1)
        figure = trajectories(made_of([tokens, 0.5 * tokens], "RescaledAttention"), tmp_path / "run.png")
        assert "hull" not in drawn_labels(figure.axes[0])

    def test_tokens_at_the_origin_can_be_drawn(self, tmp_path):
        assert summary(made_of(np.zeros((3, 4, 2)), "EuclideanAttention"), path=tmp_path / "run.png")


class TestAttention:
    def test_images_are_the_matrices_under_their_times(self):
        matrices = np.random.default_rng(0).dirichlet(np.ones(6), size=(5, 6))
        panels = [axes for axes in attention(matrices, times=range(5)).axes if axes.images]
        np.testing.assert_array_equal([axes.images[0].get_array() for axes in panels], matrices)
        assert [axes.get_title() for axes in panels] == [f"t = {time}" for time in range(5)]

    def test_colours_go_from_zero_to_one(self):
        scale = attention(0.3 * np.eye(4)).axes[0].images[0].norm
        assert (scale.vmin, scale.vmax) == (0, 1)

    def test_colours_reach_weights_above_one(self):
        assert attention(7.0 * np.eye(4)).axes[0].images[0].norm.vmax == 7

    def test_lightness_falls_evenly(self):
        shades = attention(np.eye(4)).axes[0].images[0].cmap(np.linspace(0, 1, 33))[:, :3]
        linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
        luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
        lightness = 116 * np.cbrt(np.maximum(luminance, 0.008856)) - 16  # CIE L*
        steps = -np.diff(lightness)
        assert steps.min() > 0.5 * steps.max()

    def test_shapes_that_are_not_square_are_refused(self):
        with pytest.raises(ValueError, match=r"shape \(n, n\), or \(k, n, n\) .* the shape is \(2, 3\)"):
            attention(np.ones((2, 3)))

    def test_every_matrix_needs_its_heading(self):
        with pytest.raises(ValueError, match="`titles` must have one entry a matrix, 2, but it has 1"):
            attention(np.ones((2, 3, 3)), titles=["one"])


class TestFiles:
    @pytest.mark.parametrize("suffix", SIGNATURES)
    def test_the_suffix_chooses_the_format_and_nothing_else_is_left(self, polygon, suffix, tmp_path):
        path = tmp_path / f"run{suffix}"
        trajectories(polygon, path)
        assert path.read_bytes().startswith(SIGNATURES[suffix])
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("suffix", SIGNATURES)
    def test_the_same_run_gives_the_same_file(self, polygon, suffix, tmp_path):
        paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            trajectories(polygon, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_an_unknown_suffix_is_refused_before_anything_is_drawn(self, tmp_path):
        with pytest.raises(ValueError, match=r"`.png`, `.pdf` or `.svg`, but the path is .*run.gif. Use .*run.png"):
            trajectories("not even a run", tmp_path / "run.gif")

    @pytest.mark.parametrize("draw", [trajectories, summary, lambda run, path: attention(np.eye(3), path)])
    def test_a_missing_directory_is_named(self, polygon, draw, tmp_path):
        with pytest.raises(ValueError, match="nowhere is not a directory that can be written to"):
            draw(polygon, path=tmp_path / "nowhere" / "run.png")

    def test_a_directory_is_not_overwritten(self, polygon, tmp_path):
        (tmp_path / "run.png").mkdir()
        with pytest.raises(ValueError, match="it is a directory"):
            trajectories(polygon, tmp_path / "run.png")

    def test_a_file_that_must_stay_is_not_overwritten(self, tmp_path):
        (tmp_path / "run.png").write_text("mine")
        with pytest.raises(ValueError, match="exists already"):
            require_free_picture(tmp_path / "run.png", overwrite=False)

    def test_a_failure_leaves_the_old_picture_and_no_other_file(self, polygon, tmp_path, monkeypatch):
        path = tmp_path / "run.png"
        path.write_text("old")
        figure = trajectories(polygon)

        def fails_half_way(beside, **_):
            beside.write_text("half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(figure, "savefig", fails_half_way)
        with pytest.raises(ValueError, match="No space left on device"):
            save_figure(figure, path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


class TestManners:
    @pytest.mark.parametrize(
        ("run", "found"), [(np.eye(3), "a ndarray"), ("run.zarr", "a str"), (xr.Dataset(), "one without tokens")]
    )
    def test_what_is_no_run_is_refused(self, run, found):
        with pytest.raises(ValueError, match=f"`run` must be a dataset made by `simulate`, but it is {found}"):
            summary(run)

    @pytest.mark.parametrize(("which", "words"), [(1, "0 to 0, but it is 1"), (-1, "at least 0, but it is -1")])
    def test_a_run_that_does_not_exist_is_refused(self, polygon, which, words):
        with pytest.raises(ValueError, match=f"`member` must be .*{words}"):
            trajectories(polygon, member=which)

    @pytest.mark.parametrize("draw", [trajectories, summary])
    def test_the_old_word_for_member_is_accepted_and_warns(self, draw):
        ensemble = xr.concat([wandering(4, 2, "RescaledAttention", seed=seed) for seed in (0, 1)], "run")
        with pytest.warns(FutureWarning, match="`runs` is now called `member`"):
            figure = draw(ensemble, runs=1)
        assert "Run 1 of 2" in caption(figure)

    def test_settings_of_matplotlib_stay_as_they_were(self, polygon):
        before = dict(mpl.rcParams)
        summary(polygon)
        assert dict(mpl.rcParams) == before

    def test_colours_differ_however_many_there_are(self):
        assert len({to_hex(shade) for shade in colours(200)}) == 200

    def test_trajectories_load_no_other_kind_of_picture(self):
        others = (
            "attnflow.show.trained",
            "attnflow.show.theory",
            "attnflow.show.merging",
            "attnflow.models",
            "PIL.GifImagePlugin",
            "imageio_ffmpeg",
            "scipy.stats",
            "matplotlib.animation",
        )
        code = f"import sys, attnflow; attnflow.show.trajectories; loaded = [name for name in {others} if name in sys.modules]; assert not loaded, loaded"
        finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr

    def test_matplotlib_is_loaded_by_show_alone_and_pyplot_never(self):
        code = (
            "import sys, attnflow; assert 'matplotlib' not in sys.modules; attnflow.show.summary; "
            "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
