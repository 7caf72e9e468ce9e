"""The commands about result files: the settings of a result, pictures of densities, stores of sweeps."""

import json

import numpy as np
import pytest
import xarray as xr
from tests.helpers.command_line import attnflow
from tests.helpers.sweeping import small_sweep

import attnflow as af
from attnflow.cli.results import _later_times


def test_the_settings_of_a_result_repeat_it(tmp_path):
    attnflow("run", "noisy", "--n", 4, "--end", 0.2, "--no-picture", "--out", "a.nc", cwd=tmp_path)

    printed, _ = attnflow("config", "a.nc", cwd=tmp_path)
    (tmp_path / "b.toml").write_text(printed)
    attnflow("run", "b.toml", "--no-picture", cwd=tmp_path)

    assert 'scenario = "noisy"' in printed
    assert af.load(tmp_path / "a.nc").equals(af.load(tmp_path / "b.zarr"))


def test_own_tokens_and_weights_are_written_beside_the_settings(tmp_path):
    rng = np.random.default_rng(0)
    flow = af.EuclideanAttention([af.Head(*rng.normal(size=(3, 4, 4))) for _ in range(2)])
    af.save(af.simulate(flow, rng.normal(size=(30, 4)), [0.0, 0.3, 0.35]), tmp_path / "own.zarr")

    text, _ = attnflow("config", "own.zarr", "--out", "own.toml", cwd=tmp_path)
    attnflow("run", "own.toml", "--out", "again.zarr", "--no-picture", cwd=tmp_path)

    assert text == "own.toml\n"
    assert (tmp_path / "own-start.npy").exists()
    assert af.load(tmp_path / "own.zarr").equals(af.load(tmp_path / "again.zarr"))
    _, error = attnflow("config", "own.zarr", "--out", "own.toml", cwd=tmp_path, code=2)
    assert "own.toml exists already" in error


def test_a_scenario_is_a_template(tmp_path):
    printed, _ = attnflow("config", "polytope", cwd=tmp_path)

    assert 'start = "box:-5,5"' in printed
    text, _ = attnflow("config", "polytope", "--out", "a.toml", "--json", cwd=tmp_path)
    found = json.loads(text)
    assert (found["settings"]["start"], found["settings_file"]) == ("box:-5,5", "a.toml")
    assert (tmp_path / "a.toml").read_text() == printed


def test_what_has_no_settings_is_refused(tmp_path):
    assert "There is no result file" in attnflow("config", "no.zarr", cwd=tmp_path, code=2)[1]
    assert "no.toml: there is no such file" in attnflow("config", "no.toml", cwd=tmp_path, code=2)[1]


def test_show_draws_a_density(tmp_path):
    flow = af.SphereAttention(af.Head.identity(2))
    path = af.save(af.mean_field.evolve(flow, af.mean_field.uniform(1, 0.2), [0.0, 0.5]), tmp_path / "law.zarr")

    printed, _ = attnflow("show", path, cwd=tmp_path)

    assert printed.strip() == str(tmp_path / "law.png")


def test_show_draws_a_member_times_and_colours(tmp_path):
    tokens = af.initial.sphere(6, 3, runs=3, rng=0)
    run = af.simulate(af.SphereAttention(af.Head.identity(3)), tokens, np.linspace(0, 4, 5), progress=False)
    path = af.save(run, tmp_path / "run.zarr")

    pictures = []
    for options in (
        (),
        ("--member", 1),
        ("--member", 2),
        ("--times", "0,1,4"),
        ("--member", 1, "--palette", "red,#00f"),
    ):
        attnflow("show", path, *options, "--out", "a.png", "--overwrite", cwd=tmp_path)
        pictures.append((tmp_path / "a.png").read_bytes())
    assert len(set(pictures)) == len(pictures)

    wrong = {
        ("--member", 3): "`member` must be one of the runs, 0 to 2, but it is 3",
        ("--times", "0,one"): "`--times` must be numbers separated by commas, such as 0,2,8, but it is '0,one'",
        ("--times", "9"): "`times`",
        ("--palette", "virids"): "`palette` must name a colormap of matplotlib",
    }
    for options, message in wrong.items():
        assert message in attnflow("show", path, *options, "--overwrite", cwd=tmp_path, code=2)[1]


def test_show_refuses_members_of_a_sweep_and_of_a_law(tmp_path):
    small_sweep(tmp_path / "sweep.zarr", runs=2)
    assert "Choose values of axes with `--at`" in attnflow("show", "sweep.zarr", "--member", 0, cwd=tmp_path, code=2)[1]
    flow = af.SphereAttention(af.Head.identity(2))
    af.save(af.mean_field.evolve(flow, af.mean_field.uniform(1, 0.2), [0.0, 0.5]), tmp_path / "law.zarr")
    assert "this result holds one run" in attnflow("show", "law.zarr", "--member", 0, cwd=tmp_path, code=2)[1]


@pytest.mark.parametrize("command", ["describe", "config"])
def test_the_store_of_a_sweep_is_told_from_a_run(command, tmp_path):
    small_sweep(tmp_path / "sweep.zarr", runs=2)

    assert "is the store of a sweep, not one run" in attnflow(command, "sweep.zarr", cwd=tmp_path, code=2)[1]


@pytest.mark.parametrize(
    ("saved", "end", "later"),
    [
        ([1.0, 10.0, 100.0, 1000.0], 1e6, [1e4, 1e5, 1e6]),
        ([0.0, 0.5, 2.0, 4.0], 10.0, [6.0, 8.0, 10.0]),
        ([0.0, 1.0], 3.0, [2.0, 3.0]),
    ],
)
def test_later_times_are_spaced_as_the_last_ones(saved, end, later):
    run = xr.Dataset(coords={"time": saved})
    np.testing.assert_allclose(_later_times(run, end, None), later, rtol=1e-12)
