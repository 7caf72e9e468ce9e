"""Result files explain themselves: long names, units, the flow's matrices, and where they come from."""

import datetime
import warnings

import numpy as np
import pytest
import xarray as xr
from tests.helpers import tiny_models

import attnflow as af
from attnflow.results import descriptions
from attnflow.results.descriptions import LONG_NAMES

CAUSAL = af.SphereAttention(af.Head.identity(2), af.Softmax(5.0), af.masks.causal, normalisation=af.Post())
START = af.initial.circle(3, rng=0)
RUNS = {
    "simulate": lambda: af.simulate(
        af.SphereAttention(af.Head.identity(2), normalisation=af.Pre()), af.initial.circle(3, rng=0, runs=2), [0.0, 1.0]
    ),
    "stream": lambda: af.stream(CAUSAL, START, [0.0, 1.0]),
    "coalesce": lambda: af.coalesce(af.SphereAttention(af.Head.identity(2), af.Softmax(9.0)), START),
}


def opened(path):
    """The file as xarray opens it, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_dataset(path, engine="scipy") if path.suffix == ".nc" else xr.open_zarr(path)


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("name", RUNS)
def test_every_variable_has_a_name_in_words_and_a_unit(name, suffix, tmp_path):
    run = RUNS[name]()

    file = opened(af.save(run, tmp_path / f"run{suffix}"))

    assert set(run.variables) <= set(LONG_NAMES), "every variable is described by hand"
    for variable in run.variables:
        assert file[variable].attrs["long_name"] == LONG_NAMES[variable]
        assert file[variable].attrs["units"] == ("rad" if variable == "angle" else "1")
    assert all({"long_name", "units"} <= values.attrs.keys() for values in file.variables.values())
    assert file.attrs["attnflow_version"] == af.__version__


def test_prompts_are_described_too(tmp_path):
    model = af.models.load(tiny_models.write("gpt2", tmp_path / "gpt2"), dtype="float64")
    run = model.trajectory([1, 2, 3], attention=True, progress=False)

    file = opened(af.save(run, tmp_path / "run.zarr"))

    assert set(run.variables) <= set(LONG_NAMES)
    assert file.time.attrs["long_name"] == "layer"
    assert "units" not in file.word.attrs
    assert not [name for name in file.variables if name.startswith("flow_")]


def test_own_variables_keep_their_description(tmp_path):
    run = RUNS["simulate"]()
    run["speed"] = run.steps.assign_attrs(long_name="my speed", units="m s-1")
    run["other_speed"] = run.steps

    file = opened(af.save(run, tmp_path / "run.zarr"))

    assert file.speed.attrs == {"long_name": "my speed", "units": "m s-1"}
    assert file.other_speed.attrs == {"long_name": "other speed", "units": "1"}
    assert run.tokens.attrs == {}, "the dataset in memory is left as it is"


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_beta_and_matrices_can_be_read_without_attnflow(suffix, tmp_path):
    rng = np.random.default_rng(0)
    low_rank = af.Head(
        rng.normal(size=(1, 3)), rng.normal(size=(1, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    )
    pieces = [af.Head(value=rng.normal(size=(3, 3))) for _ in range(2)]
    flow = af.SphereAttention([low_rank, af.PiecewiseHead([0.5], pieces), af.RedrawnHead(3, 1.0)], af.Softmax(2.5))
    run = af.simulate(flow, af.initial.sphere(3, 3, rng=0), [0.0, 1.0])

    path = af.save(run, tmp_path / f"run{suffix}")
    file = opened(path)

    assert float(file.flow_beta) == 2.5
    np.testing.assert_array_equal(file.flow_head, [0, 1, 1])
    np.testing.assert_array_equal(file.flow_from_time, [-np.inf, -np.inf, 0.5])
    for row, head in enumerate([low_rank, *pieces]):
        np.testing.assert_array_equal(file.flow_query_key[row], head.query.T @ head.key)
        np.testing.assert_array_equal(file.flow_value[row], head.value_matrix)
    loaded = af.load(path)
    assert loaded.equals(run)
    assert loaded.sizes == run.sizes


def test_large_matrices_and_functions_are_in_the_record_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(descriptions, "MAX_COPIED_ENTRIES", 3)
    large = opened(af.save(RUNS["stream"](), tmp_path / "large.zarr"))
    assert "flow_beta" in large
    assert "flow_value" not in large
    moving = af.SphereAttention(af.TimeDependentHead(lambda time: af.Head.identity(2), 2))
    path = af.save(af.simulate(moving, START, [0.0, 0.1]), tmp_path / "moving.zarr")
    assert "flow_beta" not in opened(path)
    assert af.load(path).sizes["token"] == 3


def test_a_variable_of_the_same_name_is_kept(tmp_path):
    run = RUNS["stream"]().assign(flow_beta=("token", [1.0, 2.0, 3.0]))

    assert af.load(af.save(run, tmp_path / "run.zarr")).flow_beta.values.tolist() == [1.0, 2.0, 3.0]


def test_a_copy_that_was_changed_is_recognised(tmp_path):
    path = af.save(RUNS["stream"](), tmp_path / "run.nc")
    with xr.open_dataset(path, engine="scipy") as file:
        changed = file.load()
    changed["flow_value"] = changed.flow_value * 2
    changed.to_netcdf(path, engine="scipy")

    with pytest.raises(ValueError, match="is damaged"):
        af.load(path)


def test_the_date_is_that_of_the_first_writing(tmp_path):
    run = RUNS["stream"]()

    loaded = af.load(af.save(run, tmp_path / "run.zarr"))

    written = datetime.datetime.fromisoformat(loaded.attrs["date"])
    assert abs(datetime.datetime.now(datetime.UTC) - written) < datetime.timedelta(minutes=5)
    dated = loaded.assign_attrs(date="2020-02-02T20:20:02+00:00")
    assert af.load(af.save(dated, tmp_path / "again.zarr")).attrs["date"] == "2020-02-02T20:20:02+00:00"


@pytest.mark.parametrize("name", ["scenario", "settings", "command", "date"])
def test_text_about_the_origin_must_be_text(name, tmp_path):
    path = af.save(RUNS["stream"]().assign_attrs({name: 3}), tmp_path / "run.zarr")

    with pytest.raises(ValueError, match=f"The attribute `{name}` .* must be text"):
        af.load(path)
