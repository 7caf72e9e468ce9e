"""Results: what they hold, and that files give them back bit for bit."""

import gc
import json
import os
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr

import attnflow as af

FLOWS = {
    "softmax": af.SphereAttention(af.Head.identity(3), af.Softmax(3.0), af.masks.causal & af.masks.alibi(0.2)),
    "heads": af.EuclideanAttention(
        [af.Head.identity(3), af.Head(np.ones((1, 3)), np.eye(3)[:1], np.eye(3)[:2], np.eye(3)[:, :2])]
    ),
    "rescaled": af.RescaledAttention(
        af.Head.identity(3), af.Sinkhorn(1.0, 3), mlp=af.MLP(np.eye(3), "tanh", np.ones(3))
    ),
    "radii": af.SphereAttention(af.Head.identity(3), normalisation=af.Mix(0.5), masses=[1.0, 2.0, 1.0, 1.0]),
    "piecewise": af.SphereAttention(
        af.PiecewiseHead([0.3], [af.Head.identity(3), af.Head.bilinear(-np.eye(3), np.eye(3))])
    ),
    "redrawn": af.SphereAttention(
        af.RedrawnHead(3, 0.2, seed=4, value="minus_query_key"), frozen=[True, False, False, False]
    ),
    "noise": af.SphereAttention(af.Head.identity(3), noise=af.Noise(3.0, common=True)),
    "boolean": af.SphereAttention(af.Head.identity(3), af.Unnormalised(2.0, 1.0), af.masks.boolean(np.tri(4) > 0)),
    "hardmax": af.EuclideanAttention(af.Head.identity(3), af.Hardmax(1e-6), af.masks.window(2)),
}
TIMES = np.linspace(0, 1, 5)


def tokens_for(flow):
    return af.initial.gaussian(4, 3, rng=1) if flow.has_radii else af.initial.sphere(4, 3, rng=1)


@pytest.mark.parametrize("suffix", [".zarr", ".nc", ""])
@pytest.mark.parametrize("name", FLOWS)
def test_save_load_and_rerun_give_the_same_bits(name, suffix, tmp_path):
    flow = FLOWS[name]
    run = af.simulate(
        flow,
        tokens_for(flow),
        TIMES,
        rng=11,
        observables={"energy": af.observables.Energy(3.0)},
        stop=af.Settled(1e-12),
    )

    path = af.save(run, tmp_path / f"run{suffix}")
    loaded = af.load(path)
    again = af.rerun(path)

    for variable in run.data_vars:
        np.testing.assert_array_equal(loaded[variable], run[variable])
        np.testing.assert_array_equal(again[variable], run[variable])
    assert {name: value for name, value in loaded.attrs.items() if name != "date"} == run.attrs
    assert again.attrs == run.attrs
    assert os.listdir(tmp_path) == [f"run{suffix}"]  # nothing is left beside it


def test_an_ensemble_is_rerun_too(tmp_path):
    flow = FLOWS["noise"]
    run = af.simulate(
        flow,
        af.initial.sphere(4, 3, rng=1, runs=3),
        TIMES,
        keep_tokens=False,
        observables={"m": af.observables.mean_cosine},
    )

    again = af.rerun(af.save(run, tmp_path / "many.zarr"))

    np.testing.assert_array_equal(again.m, run.m)
    assert again.final_tokens.dims == ("run", "token", "coordinate")


def test_the_dataset_is_labelled_and_stamped():
    run = af.simulate(FLOWS["radii"], tokens_for(FLOWS["radii"]), TIMES, rng=5)

    assert run.tokens.dims == ("time", "token", "coordinate")
    assert run.radius.dims == ("time", "token")
    np.testing.assert_array_equal(run.time, TIMES)
    np.testing.assert_allclose(np.linalg.norm(run.initial_tokens, axis=-1), run.radius[0])
    assert run.attrs["attnflow_version"] == version("attnflow")
    assert json.loads(run.attrs["flow"])["normalisation"]["is"] == "Mix"
    assert json.loads(run.attrs["seed"])["entropy"] == 5
    assert run.attrs["dtype"] == "float64"
    assert run.outcome.startswith("Reached t = 1, after")


def test_a_model_of_a_python_function_must_be_passed_again():
    flow = af.SphereAttention(af.TimeDependentHead(lambda time: af.Head.identity(3), 3))
    run = af.simulate(flow, tokens_for(flow), TIMES)

    with pytest.raises(ValueError, match=r"does not hold it. Pass `flow` again"):
        af.rerun(run)
    np.testing.assert_array_equal(af.rerun(run, flow=flow).tokens, run.tokens)


def test_a_rerun_goes_past_an_early_stop_that_is_taken_away():
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), np.linspace(0, 30, 7), stop=af.Clustered(0.5))

    again = af.rerun(run, stop=())

    assert float(run.final_time) < 30
    np.testing.assert_array_equal(again.time, np.linspace(0, 30, 7))


def test_an_existing_file_is_kept_unless_asked_otherwise(tmp_path):
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    for name in ("a.zarr", "a.nc"):
        path = af.save(run, tmp_path / name)
        with pytest.raises(ValueError, match=r"exists already"):
            af.save(run, path)
        other = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES * 2)
        af.save(other, path, overwrite=True)
        np.testing.assert_array_equal(af.load(path).time, TIMES * 2)


@pytest.mark.parametrize("name", ["no/such/folder/run.zarr", "run.csv"])
def test_a_path_that_cannot_be_written_is_refused(name, tmp_path):
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)

    with pytest.raises(ValueError, match=r"cannot be written|is written as"):
        af.save(run, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)

    def fail(self, path, **_):
        (path / "half").mkdir(parents=True)
        raise OSError("disk full")

    monkeypatch.setattr(xr.Dataset, "to_zarr", fail)
    with pytest.raises(ValueError, match="cannot be written: disk full"):
        af.save(run, tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())


def test_damaged_and_foreign_files_are_refused(tmp_path):
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    whole = af.save(run, tmp_path / "run.nc")
    (tmp_path / "half.nc").write_bytes(whole.read_bytes()[:500])
    xr.Dataset({"x": ("y", np.arange(3.0))}).to_netcdf(tmp_path / "foreign.nc", engine="scipy")
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "text.zarr").write_text("not a result")

    for name in ("half.nc", "empty.zarr", "text.zarr"):
        with pytest.raises(ValueError, match=r"damaged|not a whole result"):
            af.load(tmp_path / name)
    with pytest.raises(ValueError, match="not a whole result of attnflow"):
        af.load(tmp_path / "foreign.nc")
    for name in ("nothing.zarr", "n" * 300, "no\0name"):
        with pytest.raises(ValueError, match="There is no result file"):
            af.load(tmp_path / name)


def test_a_missing_part_of_a_file_is_recognised(tmp_path):
    """Zarr reads a missing chunk as fill values; the digest differs."""
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    path = af.save(run, tmp_path / "run.zarr")
    chunk = next(file for file in (path / "tokens" / "c").rglob("*") if file.is_file())
    chunk.unlink()

    with pytest.raises(ValueError, match="is damaged: its numbers or attributes are not those"):
        af.load(path)


def test_a_directory_with_several_damaged_arrays_is_refused_without_a_traceback(tmp_path, caplog):
    """Zarr reads headers in tasks, and a task that fails without being awaited logs its traceback when it is removed."""
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    path = af.save(run, tmp_path / "run.zarr")
    for name in ("tokens", "initial_tokens", "final_tokens", "steps"):
        (path / name / "zarr.json").write_text("{")

    with pytest.raises(ValueError, match="cannot be read as a result file"):
        af.load(path)
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_overwriting_spares_directories_that_are_no_results(tmp_path):
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("precious")

    with pytest.raises(ValueError, match="is not a result, and will not be overwritten"):
        af.save(run, tmp_path / "work", overwrite=True)
    assert (tmp_path / "work" / "thesis.tex").exists()


def test_a_file_of_another_version_names_what_it_does_not_know():
    run = af.simulate(FLOWS["softmax"], tokens_for(FLOWS["softmax"]), TIMES)
    record = json.loads(run.attrs["flow"])
    record["attention"]["is"] = "Sparsemax"
    run.attrs["flow"] = json.dumps(record)

    with pytest.raises(ValueError, match="'Sparsemax' that this version"):
        af.rerun(run)
