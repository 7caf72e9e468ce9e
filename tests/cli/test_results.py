"""The commands about result files: the settings of a result, pictures of densities, stores of sweeps."""

import json

import numpy as np
import pytest
from tests.helpers.command_line import attnflow
from tests.helpers.sweeping import small_sweep

import attnflow as af


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


@pytest.mark.parametrize("command", ["describe", "config"])
def test_the_store_of_a_sweep_is_told_from_a_run(command, tmp_path):
    small_sweep(tmp_path / "sweep.zarr", runs=2)

    assert "is the store of a sweep, not one run" in attnflow(command, "sweep.zarr", cwd=tmp_path, code=2)[1]
