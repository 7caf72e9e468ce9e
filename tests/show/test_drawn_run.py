"""Runs that stopped, failed, lost their tokens or lie in one point can be drawn, and the caption says so."""

import numpy as np
import pytest
import xarray as xr
from tests.helpers.drawn_figures import artist, caption, dataset_of, drawn_labels, heading, random_walk, simulated

import attnflow as af
from attnflow.show import movie, summary, trajectories

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def ensemble():
    """Run 0 stops early, at a time that is not saved; run 1 goes on."""
    tokens = np.stack([af.initial.on_circle(np.linspace(0, angle, 5)) for angle in (0.5, 3.0)])
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=1.0))
    return simulated(flow, tokens, np.linspace(0, 20, 41), stop=af.Clustered(0.1))


@pytest.mark.parametrize("which", [0, 1])
def test_one_run_of_an_ensemble_is_drawn_and_named(ensemble, which):
    figure = summary(ensemble, member=which)
    np.testing.assert_array_equal(artist(figure.axes[0], "end").get_offsets(), ensemble.final_tokens[which])
    assert f"Run {which + 1} of 2" in caption(figure)
    assert f"at t = {float(ensemble.final_time[which]):.4g}" in heading(figure)


def test_a_run_that_stopped_says_why(ensemble):
    assert "Stopped at t = " in caption(trajectories(ensemble))


def test_a_run_that_reached_its_end_says_nothing_of_it(polygon):
    assert "Reached" not in caption(trajectories(polygon))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_reached_its_end_in_either_precision(dtype):
    """0.7 is rounded down in float32."""
    flow = af.SphereAttention(af.Head.identity(2))
    run = simulated(flow, af.initial.circle(3, rng=0), [0.0, 0.7], dtype=dtype)
    assert "t = " not in caption(trajectories(run))


def test_a_run_that_failed_says_why():
    flow = af.EuclideanAttention(af.Head(np.eye(1), np.eye(1), 1e4 * np.eye(1)))
    run = simulated(flow, np.array([[1e100]]), np.array([0.0, 90.0]), solver=af.Euler(1.0))
    assert run.failed
    assert "Failed at t = " in caption(trajectories(run))


def test_a_run_that_left_only_nan_is_drawn_at_its_start(ensemble):
    lost = ensemble.copy(deep=True)
    lost.tokens[0], lost.final_tokens[0] = np.nan, np.nan
    figure = summary(lost, member=0)
    np.testing.assert_allclose(artist(figure.axes[0], "end").get_offsets(), lost.initial_tokens[0])


def test_without_tokens_the_observables_are_drawn(tmp_path):
    flow = af.SphereAttention(af.Head.identity(3))
    kept = {"keep_tokens": False, "observables": {"mean_cosine": af.observables.mean_cosine}}
    run = simulated(flow, af.initial.sphere(5, 3, rng=0, runs=2), [0.0, 1.0, 2.0], **kept)
    figure = summary(run, path=tmp_path / "run.png", member=1)
    np.testing.assert_array_equal(figure.axes[0].lines[-1].get_ydata(), run.mean_cosine[1])
    assert figure.axes[0].get_title() == "mean cosine"
    assert "Run 2 of 2" in caption(figure)


def test_without_either_only_start_and_end_are_drawn():
    run = random_walk(5, 2, "RescaledAttention").drop_vars("tokens")
    figure = summary(run)
    assert {"start", "end"} <= drawn_labels(figure.axes[0])
    assert "paths" not in drawn_labels(figure.axes[0])
    assert "Only the first and last tokens were kept" in caption(figure)


def test_a_model_that_cannot_be_made_again_is_no_obstacle():
    head = af.TimeDependentHead(lambda time: af.Head(np.eye(2), np.eye(2), (1 + time) * np.eye(2)), dimension=2)
    run = simulated(af.EuclideanAttention(head), af.initial.box(5, 2, -1, 1, rng=0), [0.0, 0.5])
    assert heading(trajectories(run)) == "Attention in R^2\nt = 0 to 0.5"


@pytest.mark.parametrize("kind", ["SphereAttention", "EuclideanAttention"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize(("n", "steps"), [(1, 1), (1, 3), (4, 3)])
def test_tokens_in_one_place_can_be_drawn(kind, d, n, steps, tmp_path):
    tokens = np.zeros((steps, n, d))
    tokens[..., 0] = 1.0
    figure = summary(dataset_of(tokens, kind), tmp_path / "run.png", matrices=[np.eye(n), np.eye(n)])
    assert f"{n} token{'s' * (n > 1)}, 1 cluster (" in caption(figure)


@pytest.mark.parametrize("d", [2, 3])
def test_tokens_on_a_line_have_no_hull(d, tmp_path):
    tokens = np.linspace(-1, 1, 7)[:, None] * np.arange(1, d + 1)
    figure = trajectories(dataset_of([tokens, 0.5 * tokens], "RescaledAttention"), tmp_path / "run.png")
    assert "hull" not in drawn_labels(figure.axes[0])


def test_tokens_at_the_origin_can_be_drawn(tmp_path):
    assert summary(dataset_of(np.zeros((3, 4, 2)), "EuclideanAttention"), path=tmp_path / "run.png")


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (np.eye(3), "an object of type ndarray"),
        ("run.zarr", "an object of type str"),
        (xr.Dataset(), "one without tokens"),
    ],
)
def test_what_is_no_run_is_refused(run, found):
    with pytest.raises(ValueError, match=f"`run` must be a dataset made by `simulate`, but it is {found}"):
        summary(run)


@pytest.mark.parametrize("draw", [summary, trajectories])
def test_a_run_of_merges_is_refused(draw):
    run = af.coalesce(af.SphereAttention(af.Head.identity(2), af.Softmax(20.0)), af.initial.circle(4, rng=0))
    with pytest.raises(ValueError, match=r"merges, made by `coalesce`.*show.staircase"):
        draw(run)


@pytest.mark.parametrize(("which", "words"), [(1, "0 to 0, but it is 1"), (-1, "at least 0, but it is -1")])
def test_a_run_that_does_not_exist_is_refused(polygon, which, words):
    with pytest.raises(ValueError, match=f"`member` must be .*{words}"):
        trajectories(polygon, member=which)


@pytest.mark.parametrize("draw", [trajectories, summary])
def test_the_old_word_for_member_is_accepted_and_warns(draw):
    ensemble = xr.concat([random_walk(4, 2, "RescaledAttention", seed=seed) for seed in (0, 1)], "run")
    with pytest.warns(FutureWarning, match="`runs` is now called `member`"):
        figure = draw(ensemble, runs=1)
    assert "Run 2 of 2" in caption(figure)


def test_a_movie_accepts_the_old_word_for_member_and_warns(tmp_path):
    ensemble = xr.concat([random_walk(4, 2, "RescaledAttention", steps=2, seed=seed) for seed in (0, 1)], "run")
    with pytest.warns(FutureWarning, match="`runs` is now called `member`"):
        path = movie(ensemble, tmp_path / "run.gif", runs=1)
    assert path.read_bytes().startswith(b"GIF")
