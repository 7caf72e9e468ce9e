"""`summary`: cluster counts and attention matrices are those of the run."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.helpers.drawn_figures import artist, caption, heading, random_walk

import attnflow as af
from attnflow.show import summary
from attnflow.show.runs.claims import mark_centres

pytestmark = pytest.mark.filterwarnings("error")


def test_counts_are_those_of_the_analysis(polygon):
    line = artist(summary(polygon, distance=0.05).axes[1], "counts")
    np.testing.assert_array_equal(line.get_ydata(), af.clusters.count(polygon, 0.05))
    np.testing.assert_array_equal(line.get_xdata(), polygon.time)


def by_limit(run, matrices):
    """Matrices with tokens in the order of their final clusters, the largest cluster first."""
    labels = af.clusters.labels(run.final_tokens, 0.01 * np.linalg.norm(run.initial_tokens, axis=-1).max())
    sizes = np.bincount(labels)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    order = np.argsort(rank[labels], kind="stable")
    return matrices[:, order][:, :, order]


def test_images_are_the_first_and_last_matrices_in_the_order_of_the_limits(polygon):
    matrices = np.random.default_rng(0).dirichlet(np.ones(20), size=(3, 20))
    images = [axes.images[0].get_array() for axes in summary(polygon, matrices=matrices).axes if axes.images]
    np.testing.assert_array_equal(images, by_limit(polygon, matrices[[0, -1]]))


def test_the_order_of_a_causal_mask_is_kept_and_renyi_centres_are_marked():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(64.0), af.masks.causal)
    run = af.simulate(flow, af.initial.circle(30, rng=0), np.linspace(0, 20, 21), progress=False)
    matrices = np.tril(np.random.default_rng(0).random((2, 30, 30)))
    figure = summary(run, matrices=matrices)
    np.testing.assert_array_equal([axes.images[0].get_array() for axes in figure.axes if axes.images], matrices)
    assert "Rényi centre" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_tokens_that_meet_show_their_rate_and_noisy_tokens_their_order():
    tokens, times = af.initial.circle(8, rng=0), np.linspace(0, 25, 51)
    still = af.SphereAttention(af.Head.identity(2))
    noisy = af.SphereAttention(af.Head.identity(2), noise=af.Noise(8.0))
    names = [
        [axes.get_ylabel() for axes in summary(af.simulate(flow, tokens, times, rng=0, progress=False)).axes]
        for flow in (still, noisy)
    ]
    assert "1 − cosine" in names[0]
    assert "length of the mean" in names[1]


def test_the_caption_has_the_interval_of_the_fitted_rate_and_sentences_with_spaces_between():
    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.circle(8, rng=0), np.linspace(0, 25, 51), progress=False)
    text = caption(summary(run, matrices=np.full((2, 8, 8), 1 / 8))).replace("\n", " ")

    low, high = (float(number) for number in re.findall(r"interval ([\d.]+) to ([\d.]+)\. ", text)[0])
    assert low <= 2 <= high
    assert "The attention at the start is the same for all pairs. The attention at the end is" in text


@pytest.mark.parametrize(("d", "words"), [(1, "positions"), (2, "clusters")])
def test_the_order_of_attention_is_named_by_what_is_known_of_a_run_that_moves(d, words):
    flow = af.RescaledAttention(af.Head.bilinear(np.eye(d), -np.eye(d)))
    run = af.simulate(flow, af.initial.box(6, d, rng=0), [0.0, 1.0, 2.0], progress=False)
    matrices = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 6))

    assert f"in the order of their {words}" in caption(summary(run, matrices=matrices)).replace("\n", " ")


def test_several_heads_are_averaged(polygon):
    matrices = np.random.default_rng(0).dirichlet(np.ones(20), size=(2, 4, 20))
    images = [axes.images[0].get_array() for axes in summary(polygon, matrices=matrices).axes if axes.images]
    np.testing.assert_allclose(images, by_limit(polygon, matrices.mean(axis=1)))


def test_a_matrix_that_is_not_known_is_left_out(polygon):
    shown = [axes.get_title() for axes in summary(polygon, matrices=[np.eye(20), None]).axes if axes.images]
    assert shown == ["attention, start"]


def test_matrices_of_other_tokens_are_refused(polygon):
    with pytest.raises(ValueError, match=r"shape \(k, 20, 20\).* one of them has shape \(3, 3\)"):
        summary(polygon, matrices=[np.eye(3), np.eye(3)])


@pytest.mark.parametrize("kind", ["SphereAttention", "RescaledAttention"])
@pytest.mark.parametrize("d", [1, 2, 3, 64])
def test_every_space_has_one(kind, d, tmp_path):
    run = random_walk(6, d, kind)
    figure = summary(run, tmp_path / "run.png", matrices=[np.eye(6), np.eye(6)])
    assert "clusters" in [axes.get_ylabel() for axes in figure.axes]
    assert sum(len(axes.images) for axes in figure.axes) == 2


def test_geometric_times_have_a_logarithmic_axis():
    run = random_walk(4, 1, "RescaledAttention", steps=30)
    by_factors = run.assign_coords(time=np.append(0, np.geomspace(1e-3, 1e3, 29)))
    assert summary(run).axes[0].get_xscale() == "linear"
    assert {axes.get_xscale() for axes in summary(by_factors).axes} == {"symlog"}


def test_parallel_lines_are_drawn_and_coloured_and_counted():
    """V of eigenvalues 2 and -1/2: tokens gather on lines; with V = I, the control, they do not."""
    tokens, times = af.initial.box(20, 2, low=-3, high=3, rng=0), np.linspace(0, 6, 31)
    runs = [
        af.simulate(af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag(value))), tokens, times, progress=False)
        for value in ([2.0, -0.5], [1.0, 1.0])
    ]

    lined, plain = (summary(run) for run in runs)

    levels = np.unique(runs[0].final_tokens.values[:, 0].round(3))
    drawn = [line.get_xdata() for line in lined.axes[0].lines]
    np.testing.assert_allclose(np.sort([x[0] for x in drawn]), levels, atol=2e-3)
    assert all(x[0] == pytest.approx(x[1], abs=1e-9) for x in drawn)
    shades = artist(lined.axes[0], "end").get_facecolors()
    assert len(np.unique(shades, axis=0)) == len(levels) <= 3
    assert lined.axes[1].get_ylabel() == "parallel lines"
    assert artist(lined.axes[1], "counts").get_ydata()[-1] == len(levels)
    assert f"{len(levels)} parallel lines at t = 6" in heading(lined)
    assert plain.axes[1].get_ylabel() == "clusters"
    assert not plain.axes[0].lines


def test_centres_are_marked_at_their_first_places():
    """Two tokens of two coordinates, which a picture of the transposed places would also show."""
    tokens = af.initial.on_circle(np.array([[0.1, 0.7, 2.0, 4.0], [0.2, 0.6, 2.0, 4.1]]))
    figure = Figure()
    circle, angles = figure.subplots(1, 2)
    mark_centres(circle, angles, SimpleNamespace(tokens=tokens, times=np.array([0.0, 1.0])), (1, 3))
    np.testing.assert_allclose(circle.collections[0].get_offsets(), tokens[0, [1, 3]])
    assert [line.get_xdata().tolist() for line in angles.lines] == [[0.0, 1.0]] * 2
