"""`trajectories`: artists are the numbers of the run, in every space."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from tests.helpers.drawn_figures import artist, caption, dataset_of, legend_texts, random_walk

import attnflow as af
from attnflow.show import trajectories
from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.view3d import camera_of
from attnflow.show.runs.over_time import continuous_angles

pytestmark = pytest.mark.filterwarnings("error")


class TestPlane:
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

    def test_title_is_the_one_given_and_caption_has_the_counts(self, polygon):
        figure = trajectories(polygon, title="A polygon")
        count = len(np.unique(run_to_draw(polygon).labels))
        assert figure.get_suptitle() == "A polygon"
        assert caption(figure).startswith(f"20 tokens, {count} clusters (closer than ")

    def test_both_axes_have_one_scale(self, polygon):
        assert trajectories(polygon).axes[0].get_aspect() == 1

    def test_legend_lists_up_to_eight_clusters_by_size(self):
        places = 5.0 * np.arange(16).reshape(8, 2)
        few = np.repeat(places, np.arange(1, 9), axis=0)  # the smallest cluster comes first
        words = legend_texts(trajectories(dataset_of([few + 1, few], "RescaledAttention")))
        assert words[-8:] == [f"{size} tokens" for size in range(8, 1, -1)] + ["1 token"]

    def test_legend_lists_no_cluster_when_there_are_more(self):
        many = np.random.default_rng(0).normal(size=(2, 9, 2))
        assert legend_texts(trajectories(dataset_of(many, "RescaledAttention"))) == ["start", "end", "final hull"]


class TestOtherSpaces:
    @pytest.mark.parametrize(
        ("kind", "d", "panels"),
        [
            ("RescaledAttention", 1, ["$z$"]),
            ("EuclideanAttention", 2, ["$x_{2}$"]),
            ("RescaledAttention", 3, ["$z_{2}$"]),
            ("SphereAttention", 2, ["$x_{2}$", "angle"]),
            ("SphereAttention", 3, [""]),
            ("RescaledAttention", 5, ["2nd principal component", "cosine of two tokens", "share of pairs"]),
        ],
    )
    def test_each_has_its_own_panels(self, kind, d, panels):
        assert [axes.get_ylabel() for axes in trajectories(random_walk(6, d, kind)).axes] == panels

    def test_the_line_is_drawn_over_time(self):
        run = random_walk(6, 1, "RescaledAttention")
        lines = np.stack(artist(trajectories(run).axes[0], "paths").get_segments(), axis=1)
        np.testing.assert_array_equal(lines[..., 1], run.tokens[..., 0])
        np.testing.assert_array_equal(lines[:, 0, 0], run.time)

    def test_dots_in_space_are_the_last_tokens_and_faces_their_hull(self):
        run = random_walk(12, 3, "RescaledAttention")
        axes = trajectories(run).axes[0]
        final = run.tokens.values[-1]
        np.testing.assert_array_equal(np.stack(artist(axes, "end")._offsets3d, axis=1), final)
        faces = artist(axes, "hull")._faces
        np.testing.assert_array_equal(faces[..., :3], final[ConvexHull(final).simplices])

    def test_a_cube_has_twelve_edges_though_its_faces_are_cut_into_triangles(self):
        corners = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
        axes = trajectories(dataset_of([corners, corners], "RescaledAttention")).axes[0]
        assert len(artist(axes, "edges")._segments3d) == 12

    def test_the_globe_is_seen_straight_and_its_far_side_is_fainter(self):
        run = random_walk(30, 3, "SphereAttention")
        seen = run.tokens.values[-1] @ camera_of(run.tokens.values[-1]).T
        dots = artist(trajectories(run).axes[0], "end")
        seen = seen[np.argsort(seen[:, 2], kind="stable")]  # those of the far side are drawn first
        np.testing.assert_array_equal(dots.get_offsets(), seen[:, :2])
        colours, is_far = dots.get_facecolors(), seen[:, 2] < 0
        assert (colours[:, 3] == 1).all()  # transparent dots at one place would add up
        darkest = colours[:, :3].min(axis=1)  # a colour with a share of 0.3 on white paper has no channel below 0.7
        assert darkest[is_far].min() > 0.69 > darkest[~is_far].max()

    def test_the_camera_turns_without_stretching(self):
        camera = camera_of(random_walk(30, 3, "SphereAttention").tokens.values[-1])
        np.testing.assert_allclose(camera @ camera.T, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(np.linalg.det(camera), 1)

    def test_principal_components_are_those_of_the_last_tokens(self):
        run = random_walk(12, 5, "RescaledAttention")
        final = run.tokens.values[-1]
        drawn = artist(trajectories(run).axes[0], "end").get_offsets()
        spreads = np.linalg.svd(final - final.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(np.linalg.norm(drawn - drawn.mean(axis=0), axis=0), spreads[:2])

    def test_all_pairs_are_somewhere_in_the_image_of_cosines(self):
        run = random_walk(12, 5, "SphereAttention")
        image = trajectories(run).axes[1].collections[0].get_array()
        np.testing.assert_allclose(image.sum(axis=0), 1)


class TestAngles:
    def test_they_are_the_angles_of_the_tokens(self):
        tokens = random_walk(7, 2, "SphereAttention").tokens.values
        angles = continuous_angles(tokens)
        np.testing.assert_allclose(np.stack([np.cos(angles), np.sin(angles)], axis=-1), tokens, atol=1e-14)

    def test_they_do_not_jump_where_the_circle_is_cut(self):
        turning = np.linspace(0, 9, 40)[:, None] + np.array([0.0, 1.0])
        assert np.abs(np.diff(continuous_angles(af.initial.on_circle(turning)), axis=0)).max() < 0.3

    def test_tokens_that_end_together_are_drawn_together(self):
        final = af.initial.on_circle(np.array([np.pi - 0.01, np.pi + 0.01, 1.0]))
        angles = continuous_angles(np.stack([final, final]))[-1]
        np.testing.assert_allclose(abs(angles[0] - angles[1]), 0.02)


class TestGrowingTokens:
    @staticmethod
    def growing(factor, kind):
        start = np.random.default_rng(0).uniform(-1, 1, (6, 2))
        return dataset_of([start, np.sqrt(factor) * start, factor * start], kind)

    def test_growing_tokens_are_divided_by_the_largest_norm(self):
        run = self.growing(200.0, "EuclideanAttention")
        figure = trajectories(run)
        final = run.tokens.values[-1]
        expected = final / np.linalg.norm(final, axis=-1).max()
        np.testing.assert_allclose(artist(figure.axes[0], "end").get_offsets(), expected)
        assert "grew 200 times: drawn divided by the largest norm at each time" in caption(figure)
        assert figure.axes[0].get_xlabel() == "$x_{1}$ / largest norm"

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
        figure = trajectories(dataset_of([start, ends], "RescaledAttention"))
        heights = artist(figure.axes[0], "end").get_offsets()[:, 1]
        line = np.polynomial.polynomial.polyfit(start[:, 0], heights, 1)
        apart = heights - np.polynomial.polynomial.polyval(start[:, 0], line)
        assert np.ptp(heights) > 1
        assert len(np.unique(np.sign(apart))) == 2
        assert figure.axes[0].get_aspect() == "auto"
        assert "different scales" in caption(figure)
