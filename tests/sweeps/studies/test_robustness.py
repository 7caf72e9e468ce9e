"""The robustness study: its samples against Qhull, its intervals against SciPy, its picture."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.show.theory.robustness import robustness as draw
from attnflow.sweeps.studies import robustness as study
from attnflow.sweeps.studies.robustness import LAWS, interval, outcomes, robustness


@pytest.fixture(scope="module")
def small():
    return robustness(("gaussian", "shell"), n=(12,), d=(2,), seeds=4)


def test_shape_and_labels(small):
    assert small.vertices.dims == ("law", "n", "d", "seed")
    assert small.vertices.shape == (2, 1, 1, 4)
    assert list(small.vertices_interval.bound.values) == ["low", "mean", "high"]


def test_vertices_are_those_of_the_final_hull(small):
    """The same starts, followed with the default solver; Qhull counts the corners of the merged tokens."""
    flow = af.RescaledAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.gaussian(12, 2, rng=0, runs=4), [0.0, 12.0], progress=False)
    counted = []
    for tokens in run.final_tokens.values:
        places = np.unique(np.round(tokens, 3), axis=0)
        flat = len(places) < 3 or np.linalg.matrix_rank(places[1:] - places[0], tol=1e-2) < 2
        counted.append(2 if flat else len(ConvexHull(places).vertices))
    np.testing.assert_array_equal(small.vertices.sel(law="gaussian").values.ravel(), counted)


def test_tokens_come_to_rest_like_the_exponential(small):
    """z' = v - z once attention is hard: the rate is one, whatever the start."""
    np.testing.assert_allclose(small.rate.values, 1.0, atol=0.05)
    np.testing.assert_array_equal(small.leaders.values >= small.vertices.values, True)


def test_the_rate_follows_the_value_matrix():
    """Negative control: under V = 2 I everything is twice as fast."""
    found = robustness("gaussian", n=12, d=2, seeds=3, end=6.0, flow=lambda d: _twice(d))
    np.testing.assert_allclose(found.rate.values, 2.0, atol=0.1)


@pytest.mark.parametrize(("end", "expected"), [(12.0, 1.0), (40.0, 1.0), (1000.0, np.nan)])
def test_tokens_at_rest_do_not_enter_the_rate(end, expected):
    """After t = 20 tokens move by errors of the solver only, whose rate is zero."""
    found = robustness("box", n=10, d=2, seeds=3, end=end)
    np.testing.assert_allclose(found.rate.values, expected, atol=0.05)


def test_runs_that_need_too_many_steps_are_counted_and_left_out(monkeypatch):
    monkeypatch.setattr(study, "SOLVER", af.Adaptive(max_steps=10))
    found = robustness("box", n=4, d=2, seeds=2, end=1e300)
    assert found.attrs["unfinished"] == 2
    assert np.isnan(found.vertices.values).all()


def _twice(d):
    return af.RescaledAttention(af.Head(np.eye(d), np.eye(d), 2 * np.eye(d)))


def test_tokens_at_one_point_have_one_vertex_and_no_rate():
    tokens = np.tile([[1.0, 2.0]], (3, 12, 1))
    found = outcomes(af.RescaledAttention(af.Head.identity(2)), tokens, 12.0)
    np.testing.assert_array_equal(found[:2], 1.0)
    assert np.isnan(found[3]).all()


def test_intervals_are_students():
    samples = np.random.default_rng(0).normal(size=(2, 9))
    low, high = stats.t.interval(0.9, 8, samples.mean(axis=1), stats.sem(samples, axis=1))
    np.testing.assert_allclose(interval(samples, 0.9), np.stack([low, samples.mean(axis=1), high], axis=1))


def test_intervals_leave_missing_samples_out():
    whole = interval([1.0, 2.0, 4.0])
    np.testing.assert_allclose(interval([1.0, np.nan, 2.0, 4.0]), whole)
    np.testing.assert_array_equal(np.isnan(interval([3.0, np.nan])), [True, False, True])
    assert np.isnan(interval([np.nan, np.nan])).all()


def test_intervals_cover_the_mean_as_often_as_they_say():
    """Of 2000 intervals at 80 % level about 1600 cover; the standard deviation is 18."""
    samples = np.random.default_rng(1).normal(size=(2000, 6))
    low, _, high = interval(samples, 0.8).T
    assert abs(np.sum((low < 0) & (high > 0)) - 1600) < 4 * 18


@pytest.mark.parametrize("law", LAWS)
def test_laws_have_coordinates_of_mean_square_one(law):
    tokens = LAWS[law](20_000, 3, rng=0)
    np.testing.assert_allclose(np.mean(tokens**2), 1.0, atol=0.02)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"laws": "cauchy"}, "laws"), ({"laws": ()}, "laws"), ({"n": ()}, "n"), ({"d": 0}, "d"), ({"seeds": 1}, "seeds")],
)
def test_wrong_arguments_are_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        robustness(**arguments)


def test_confidence_is_a_share():
    with pytest.raises(ValueError, match="confidence"):
        robustness(confidence=95)


def test_the_picture_is_written(small, tmp_path):
    figure = draw(small, tmp_path / "robustness.pdf")
    assert (tmp_path / "robustness.pdf").stat().st_size > 5_000
    other = [name for name in ("clusters", "leaders") if np.mean(small[name] == small.vertices) <= 0.9]
    assert [axes.get_ylabel() for axes in figure.axes] == ["vertices", *other, "rate"]
    moved = small.assign(clusters=small.vertices + 1)  # control: counts that differ have a row
    assert "clusters" in [axes.get_ylabel() for axes in draw(moved).axes]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["gaussian", "shell"]


def test_other_datasets_are_refused():
    with pytest.raises(ValueError, match="robustness"):
        draw(xr.Dataset())
