"""The door of the analysis, and attention over time."""

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow.analyse.snapshots import over_snapshots, tokens_of
from attnflow.integrate import evaluate


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((4, 2), ("token", "coordinate")),
        ((3, 4, 2), ("time", "token", "coordinate")),
        ((5, 3, 4, 2), ("run", "time", "token", "coordinate")),
    ],
)
def test_arrays_get_named_axes(shape, dims):
    assert tokens_of(np.zeros(shape)).dims == dims
    assert over_snapshots(lambda tokens: tokens.sum(), np.ones(shape), "sum").dims == dims[:-2]
    assert np.all(over_snapshots(lambda tokens: tokens.sum(), np.ones(shape), "sum") == 8)


@pytest.mark.parametrize("lead", [("time",), ("run", "time")])
def test_coordinates_of_times_and_runs_are_kept_and_those_of_tokens_are_not(lead):
    sizes = {"run": 2, "time": 3, "token": 4, "coordinate": 2}
    dims = (*lead, "token", "coordinate")
    coordinates = {name: 10.0 * np.arange(sizes[name]) for name in (*lead, "token")}
    run = xr.DataArray(np.ones([sizes[name] for name in dims]), coordinates, dims)

    found = over_snapshots(lambda tokens: tokens.sum(), run, "sum")
    assert set(found.coords) == set(lead)
    np.testing.assert_array_equal(found.time, [0, 10, 20])

    each = over_snapshots(lambda tokens: tokens[:, 0], run, "first", dims=("token",))
    np.testing.assert_array_equal(each.token, [0, 10, 20, 30])


def test_only_snapshots_that_are_not_finite_are_missing():
    tokens = np.ones((2, 3, 4, 2))
    tokens[1, 2, 0, 0] = np.nan
    found = over_snapshots(lambda one: one[:, 0], tokens, "first", dims=("token",))
    assert found.dims == ("run", "time", "token")
    assert np.all(np.isnan(found[1, 2]))
    assert np.isfinite(found).sum() == 5 * 4


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (np.zeros(3), r"must have shape"),
        (np.zeros((0, 2)), r"must have shape"),
        (xr.Dataset(), r"holds no tokens"),
        (xr.DataArray(np.zeros((2, 2)), dims=("a", "b")), r"must be \(token, coordinate\)"),
    ],
    ids=["one axis", "zero tokens", "no tokens", "other axes"],
)
def test_data_without_tokens_is_refused(run, sentence):
    with pytest.raises(ValueError, match=sentence):
        tokens_of(run)


def test_attention_over_time_is_attention_at_each_time():
    flow = af.RescaledAttention([af.Head.identity(2), af.Head(2 * np.eye(2), np.eye(2), np.eye(2))])
    run = af.simulate(flow, af.initial.box(4, 2, -1, 1, rng=0, runs=2), [0.0, 0.5, 1.5])
    found = af.attention_over_time(run)
    assert found.dims == ("run", "time", "head", "token", "attended")
    expected = af.attention_matrix(flow, run.tokens.values[1, 2], 1.5)
    np.testing.assert_array_equal(found.values[1, 2], expected)
    assert found.time.values.tolist() == [0.0, 0.5, 1.5]


def test_attention_after_the_end_of_a_run_is_missing():
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(1.0))
    run = af.simulate(flow, af.initial.circle(3, rng=0), [0.0, 1.0])
    run.tokens[1] = np.nan
    found = af.attention_over_time(run)
    assert np.all(np.isfinite(found[0]))
    assert np.all(np.isnan(found[1]))


def test_too_much_attention_is_refused(monkeypatch):
    monkeypatch.setattr(evaluate, "MAX_ENTRIES", 10)
    run = af.simulate(af.SphereAttention(af.Head.identity(2)), af.initial.circle(3, rng=0), [0.0, 1.0])
    with pytest.raises(ValueError, match="Take fewer times"):
        af.attention_over_time(run)
