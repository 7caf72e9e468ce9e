"""Data and scripts beside figures: the script draws the same picture, with public functions only."""

import ast
import json
import runpy

import numpy as np
import pytest
import xarray as xr
from PIL import Image
from typer.testing import CliRunner

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.cli.app import app
from attnflow.figures.variable_names import NAMES, TABLES

FIGURES = {
    "polytope-2d": ["--set", "n=6", "--set", "end=1.5", "--set", "saves=4"],
    "energy-staircase": ["--set", "betas=500,1000"],
    "five-tokens": [],
    "force": ["--set", "beta=3"],
    "long-context": [],
    "sphere-clustering": ["--seed", "5", "--set", "saves=5", "--set", "n=8"],
    "normalisation-rates": ["--set", "schemes=Post-LN,Pre-LN"],
    "value-spectrum": ["--set", "width=64", "--set", "head_width=8"],
}  # by kind of data: a run, padded runs, one merging run, a closed form, text coordinates, complex numbers in two parts


@pytest.fixture(scope="module", params=FIGURES)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    options = [request.param, *FIGURES[request.param], "--quick", "--json", "--out", str(folder)]
    finished = CliRunner().invoke(app, ["reproduce", *options], catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    [facts] = json.loads(finished.stdout)["figures"]
    return folder, facts


def file_of(made, suffix):
    folder, facts = made
    [name] = [name for name in facts["files"] if name.endswith(suffix)]
    return folder / name


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def test_the_script_draws_the_same_picture(made):
    script = file_of(made, ".py")
    runpy.run_path(str(script))

    np.testing.assert_array_equal(pixels(script.with_name(f"{script.stem}-again.png")), pixels(file_of(made, ".png")))


def test_other_data_give_another_picture(made):
    """The control: the picture is drawn from the file."""
    data = xr.load_dataset(file_of(made, ".nc"), engine="scipy")
    numbers = [name for name, values in data.data_vars.items() if values.dtype.kind == "f" and values.ndim]
    changed = data.assign({name: data[name] * 0.9 for name in numbers})

    pictures = [af.figures.save(af.figures.draw(one), made[0] / "one.png") and pixels(made[0] / "one.png")
                for one in (data, changed)]  # fmt: skip
    assert pictures[0].shape != pictures[1].shape or np.any(pictures[0] != pictures[1])


def test_the_script_is_short_and_public(made):
    text = file_of(made, ".py").read_text()
    lines = [line for line in text.splitlines() if line.strip()]
    imported = {alias.name for node in ast.walk(ast.parse(text)) for alias in getattr(node, "names", [])}

    assert len(lines) <= 12
    assert imported == {"Path", "xarray", "attnflow"}
    assert "._" not in text


def test_the_data_name_figure_parameters_seed_version_and_command(made):
    facts = made[1]
    data = xr.load_dataset(file_of(made, ".nc"), engine="scipy")

    assert data.attrs["figure"] == facts["id"]
    parameters = json.loads(data.attrs["figure_parameters"])
    assert parameters.items() <= facts["settings"].items()
    assert facts["changes"].items() <= parameters.items()
    assert data.attrs["figure_seed"] == parameters.get("seed", "none")
    assert data.attrs["attnflow_version"] == af.__version__
    assert data.attrs["figure_command"].startswith(f"attnflow reproduce {facts['id']} --quick")
    assert all("long_name" in data[name].attrs for name in data.variables)


def test_the_command_in_the_data_makes_the_same_data(made, tmp_path):
    import shlex

    data = xr.load_dataset(file_of(made, ".nc"), engine="scipy")
    command = [*shlex.split(data.attrs["figure_command"])[1:], "--out", str(tmp_path)]
    CliRunner().invoke(app, command, catch_exceptions=False)

    xr.testing.assert_equal(xr.load_dataset(tmp_path / file_of(made, ".nc").name, engine="scipy"), data)


def test_numbers_come_from_the_data(made):
    data = xr.load_dataset(file_of(made, ".nc"), engine="scipy")

    found = {
        name: getattr(value, "item", lambda value=value: value)() for name, value in af.figures.numbers(data).items()
    }

    assert found == made[1]["numbers"]


@pytest.mark.parametrize(("data", "words"), [(xr.Dataset(), "without the attribute"), ("file.nc", "but it is str")])
def test_other_data_are_refused(data, words):
    with pytest.raises(InputError, match=words):
        af.figures.draw(data)


def test_angles_have_a_unit():
    assert af.figures.force(points=5).data.angle.attrs["units"] == "radian"


def test_a_variable_is_in_one_table_of_long_names_only():
    assert sum(len(table) for table in TABLES) == len(NAMES)
