"""The specs in the folder `sweeps` of the repository: each cell is valid, and a small part of each is computed."""

from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow.sweeps.cells import cells_of, times_of
from attnflow.sweeps.spec_files import spec_named
from attnflow.sweeps.sweep_spec import SweepSpec

SPECS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.toml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_cell_of_a_spec_is_valid(path):
    spec = spec_named(path, {}, {})

    assert spec.cell_count > 5
    assert len(times_of(spec, cells_of(spec)[:: max(1, spec.cell_count // 20)])) >= 2


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_one_cell_of_a_spec_is_computed(path, tmp_path):
    record = spec_named(path, {}, {}).record()
    axes = [
        {"name": axis["name"], "columns": {name: values[:1] for name, values in axis["columns"].items()}}
        for axis in record["axes"]
        if axis["name"] != "n"
    ]
    small = SweepSpec.of_record(
        record | {"runs": 2, "axes": axes, "settings": record["settings"] | {"n": 6, "end": 0.5}}
    )

    found = af.sweep(small, tmp_path / "a.zarr", progress=False)

    assert found.attrs["runs_computed"] == 2
    for name in small.observables:
        assert np.isfinite(found[f"{name}_mean"]).any()
