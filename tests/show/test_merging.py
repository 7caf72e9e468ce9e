"""Pictures of coalescing runs."""

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse import plateau_forecasts
from attnflow.show.merging.through_clusters import moments_of

START = af.initial.on_circle(np.array([2.0, 0.0, 2.3, 0.4]))


def coalesced(beta, tokens=START, **options):
    flow = af.SphereAttention(af.Head.identity(tokens.shape[1]), af.Softmax(beta), **options)
    return af.coalesce(flow, tokens, progress=False)


@pytest.fixture(scope="module")
def run():
    return coalesced(60.0)


@pytest.fixture(scope="module")
def plain():
    return af.simulate(af.SphereAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])


def brackets(axes):
    """Corners (merge, corner, 2) of the tree."""
    return np.array(axes.collections[0].get_segments())


def test_the_tree_has_a_bracket_at_every_merge(run, tmp_path):
    axes = af.show.merge_tree(run, tmp_path / "tree.pdf").axes[0]
    np.testing.assert_allclose(brackets(axes)[:, 1, 1], run.merge_log_time)
    np.testing.assert_allclose(brackets(axes)[:, 2, 1], run.merge_log_time)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2", "1", "3"]
    assert (tmp_path / "tree.pdf").exists()


def test_brackets_stand_on_the_merging_clusters(run):
    """The last one on the middles of the two before, whose legs go down to the leaves."""
    found = brackets(af.show.merge_tree(run).axes[0])
    np.testing.assert_allclose(found[-1][[0, 3], 0], [0.5, 2.5])
    np.testing.assert_allclose(found[-1][[0, 3], 1], run.merge_log_time[:2])
    assert np.unique(found[:2, [0, 3], 1]).size == 1


def test_the_longest_plateau_is_marked(run):
    axes = af.show.merge_tree(run).axes[0]
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    np.testing.assert_allclose([band.y0, band.y1], run.merge_log_time[1:], rtol=1e-9)
    assert "2 clusters" in axes.texts[0].get_text()
    shades = axes.collections[0].get_colors()
    assert len(np.unique(shades, axis=0)) == 3  # of two clusters below it, and of the merge above


@pytest.mark.parametrize("tokens", [[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 0.0]]], ids=["at rest", "one token"])
def test_pictures_without_merges_say_so(tokens):
    resting = coalesced(6.0, np.array(tokens))
    left, right = af.show.staircase(resting).axes
    assert "from the start" in left.texts[0].get_text()
    assert right.texts[0].get_text() == "no merges"
    assert len(right.collections) == len(right.get_yticks()) == 0
    last = af.show.through_clusters(resting).axes[-1]
    assert last.texts[0].get_text() == "no motion"


def test_the_energy_is_that_of_the_run(run):
    energy = af.show.staircase(run).axes[0].lines[1]
    known = np.isfinite(run.log_time.values)
    np.testing.assert_array_equal(energy.get_ydata(), run.energy.values[known])


def test_stairs_line_up_where_log_t_is_divided_by_beta(run, tmp_path):
    """The last two clusters are about 1.9 apart: their step comes towards 1 - cos of that, from below, as beta grows."""
    runs = [coalesced(240.0), run, coalesced(120.0)]
    left, right = af.show.staircases(runs, tmp_path / "stairs.png").axes
    assert [line.get_label() for line in right.lines] == [rf"$\beta$ = {beta}" for beta in (60, 120, 240)]
    ends = np.array([line.get_xdata()[-1] for line in right.lines])
    gaps = (1 - np.cos(1.95)) - ends
    assert np.all(np.diff(gaps) < 0)
    assert 0 < gaps[-1] < 0.1
    np.testing.assert_allclose([line.get_xdata()[-1] for line in left.lines], ends * [60, 120, 240])


def test_times_of_e_to_the_six_hundred_have_labels(run):
    axes = af.show.staircases(coalesced(500.0)).axes[0]
    axes.figure.draw_without_rendering()
    assert {"1", "$e^{600}$"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_circles_show_fewer_and_fewer_clusters(run, tmp_path):
    figure = af.show.through_clusters(run, tmp_path / "circles.svg")
    titles = [axes.get_title().split(",")[0] for axes in figure.axes]
    assert titles[0] == "4 tokens"
    assert titles[-2] == "1 cluster"
    assert "2 clusters" in titles
    final = figure.axes[-2].collections[0].get_offsets()
    assert final.shape == (1, 2)  # one dot for the cluster, where all its tokens are
    np.testing.assert_allclose(np.repeat(final, 4, axis=0), run.tokens[-1], atol=1e-12)
    lines = [line for line in figure.axes[-1].lines if len(line.get_xdata()) > 2]
    found = np.stack([line.get_ydata() for line in lines], axis=1)
    tokens = run.tokens.values[np.isfinite(run.log_time.values)]
    np.testing.assert_allclose(np.stack([np.cos(found), np.sin(found)], axis=-1), tokens, atol=1e-12)


def test_moments_lie_on_the_longest_plateaus():
    times = np.array([-np.inf, 0.0, 1.0, 1.5, 2.0, 10.0, 11.0, 40.0])
    found = moments_of(times, np.array([9, 8, 7, 5, 4, 4, 2, 1]))
    assert found == [(0, -np.inf), (4, 6.5), (6, 25.5), (7, 40.0)]
    assert moments_of(times[:2], np.array([3, 3])) == [(0, -np.inf), (1, 0.0)]


def test_a_merged_cluster_has_the_colour_of_its_heavier_part():
    """Two wait at 0 with mass three and at 2.2 with mass one."""
    merged = coalesced(60.0, af.initial.on_circle(np.array([2.2, 0.0, 0.05, 0.1])))
    *_, plateau, end, _ = af.show.through_clusters(merged).axes
    middle, last = plateau.collections[0], end.collections[0]
    heavier = np.flatnonzero(np.asarray(middle.get_offsets())[:, 0] > 0)[0]
    np.testing.assert_array_equal(last.get_facecolors()[-1], middle.get_facecolors()[heavier])


def test_plateaus_are_as_long_as_the_formula_for_a_pair_says(tmp_path):
    runs = [coalesced(100.0, af.initial.circle(8, rng=seed)) for seed in range(4)]
    left, right = af.show.plateau_lengths(runs, tmp_path / "plateaus.png").axes
    shown = np.concatenate([dots.get_offsets() for dots in left.collections])
    assert len(shown) == sum(run.sizes["merge"] for run in runs) == 28
    predicted, measured = np.asarray(left.collections[1].get_offsets()).T
    assert len(measured) >= 8
    assert np.abs(measured - predicted).max() < plateau_forecasts.MAX_FORECAST_ERROR  # of log t, which goes to 200
    assert f"{len(measured)} in all" in right.get_title()


@pytest.mark.parametrize("draw", [af.show.staircase, af.show.staircases, af.show.merge_tree, af.show.plateau_lengths])
def test_other_results_are_refused(draw, plain):
    with pytest.raises(ValueError, match="made by `coalesce`"):
        draw(plain)


def test_what_cannot_be_drawn_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="at least one"):
        af.show.staircases([])
    sphere = coalesced(9.0, af.initial.sphere(3, 3, rng=0))
    with pytest.raises(ValueError, match=r"on the circle, but d is 3"):
        af.show.through_clusters(sphere)
    flow = af.SphereAttention(af.Head.bilinear(np.diag([1.0, 2.0]), np.eye(2)))
    with pytest.raises(ValueError, match="Q\\^T K = V = I"):
        af.show.plateau_lengths(af.coalesce(flow, START, progress=False))
