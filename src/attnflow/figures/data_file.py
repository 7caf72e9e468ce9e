"""The data of a figure: a dataset that says which figure it is of, with which parameters; as netCDF, and a script."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import attnflow
from attnflow._common.checks import InputError
from attnflow._common.files import written_beside
from attnflow.figures.drawing import command_options
from attnflow.figures.figure import Figure
from attnflow.figures.variable_names import attributes_of

SCRIPT = '''\
"""Draws the figure {id} again, from its data in {stem}.nc.

Written by: {command}
"""

from pathlib import Path

import attnflow as af
import xarray as xr

here = Path(__file__).parent
data = xr.load_dataset(here / "{stem}.nc", engine="scipy")  # print(data) lists arrays and parameters
figure = af.figures.draw(data{options})
# Change the matplotlib figure here, as in figure.axes[0].set_xlabel("t").
af.figures.save(figure, here / "{stem}-again.png")  # or .pdf, .svg
'''


def stamped(figure: Figure, data: xr.Dataset, *, is_quick: bool) -> xr.Dataset:
    """The dataset with long names of its variables, and attributes that name figure, parameters, seed and version."""
    parameters = figure.parameters_of(is_quick)
    attributes = {
        "figure": figure.id,
        "figure_title": figure.title,
        "figure_source": figure.source,
        "figure_parameters": json.dumps(parameters, ensure_ascii=False),
        "figure_seed": parameters.get("seed", "none"),
        "figure_command": figure.command(is_quick),
        "attnflow_version": attnflow.__version__,
    }
    named = data.copy()
    for name in named.variables:
        described = named[name].attrs
        named[name].attrs = attributes_of(figure.id, str(name)) | {
            key: _writable(one) for key, one in described.items()
        }
    return named.assign_attrs({key: _writable(value) for key, value in data.attrs.items()} | attributes)


def write_data(data: xr.Dataset, path: Path) -> Path:
    """Write a dataset as netCDF."""
    with written_beside(path) as beside:
        data.to_netcdf(beside, engine="scipy")
    return path


def read_data(path: Path) -> xr.Dataset:
    """The dataset of a netCDF file, in memory."""
    return xr.load_dataset(path, engine="scipy")


def write_script(figure: Figure, folder: Path, *, is_quick: bool, drawing: dict[str, Any]) -> Path:
    """Write a Python script that draws the figure from the data beside it."""
    stem = figure.stem(is_quick)
    options = "".join(f", {name}={_quoted(value)}" for name, value in drawing.items())
    command = figure.command(is_quick) + command_options(drawing)
    path = folder / f"{stem}.py"
    with written_beside(path) as beside:
        text = SCRIPT.format(id=figure.id, stem=stem, command=command, options=options)
        beside.write_text(text, "utf-8")
    return path


def _quoted(value: Any) -> str:
    """A value as Python code with double quotation marks."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def figure_id(data: Any) -> str:
    """The id of the figure that a dataset is of; InputError for other objects."""
    if not isinstance(data, xr.Dataset) or "figure" not in data.attrs:
        raise InputError(
            "`data` must be the dataset of a figure, as `attnflow reproduce NAME` writes it to NAME.nc, but it is "
            f"{'a dataset without the attribute `figure`' if isinstance(data, xr.Dataset) else type(data).__name__}."
        )
    return str(data.attrs["figure"])


def _writable(value: Any) -> Any:
    """An attribute as netCDF holds it: numbers, lists of numbers and text stay, all else becomes JSON."""
    if isinstance(value, list | tuple) and value and np.asarray(value).dtype.kind in "if":
        return np.asarray(value)
    is_kept = isinstance(value, str | int | float | np.generic | np.ndarray) and not isinstance(value, bool)
    return value if is_kept else json.dumps(value)
