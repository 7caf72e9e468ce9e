"""The specs in the folder `sweeps` of the repository: valid, those of their figures, and computed in a small part."""

from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow.figures.catalogue import find
from attnflow.figures.entries import (
    collapse_times,
    euler_steps,
    noise_and_beta,
    phase_diagrams,
    polytope_counts,
    random_weights,
    renyi_centres,
    sphere_clusters,
)
from attnflow.sweeps.cells import cells_of, times_of
from attnflow.sweeps.spec_files import spec_named, spec_of_values
from attnflow.sweeps.sweep_spec import SweepSpec, differences

FOLDER = Path(__file__).parents[2] / "sweeps"
SPECS = sorted(FOLDER.glob("*.toml"))
FIGURES = {
    "phase_diagram": ("phase-diagrams", phase_diagrams.phase_spec, ("published_n",)),
    "captured_fraction": ("captured-fraction", renyi_centres.captured_spec, ()),
    "cluster_number": ("cluster-number-sphere", sphere_clusters.cluster_spec, ("c", "draws")),
    "polytope_counts": ("polytope-counts", polytope_counts.counts_spec, ()),
    "causal_collapse": ("causal-collapse", collapse_times.collapse_spec, ()),
    "normalisation": ("normalisation-schemes", collapse_times.schemes_spec, ()),
    "noise": ("noise-phases", noise_and_beta.order_spec, ()),
    "euler_step": ("euler-step", euler_steps.euler_spec, ()),
    "conjecture1": ("conjecture1-random", random_weights.weights_spec, ()),
}
"""By the name of the file: its figure, the function of the figure's spec, and settings that only the picture has."""


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_is_that_of_its_figure(path):
    name, spec, of_picture = FIGURES[path.stem]
    settings = find(name).settings
    own = {key: value for key, value in settings.items() if key not in ("store", *of_picture)}

    assert differences(spec_named(path, {}, {}), spec_of_values(spec(**own), Path())) == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_cell_of_a_spec_is_valid(path):
    spec = spec_named(path, {}, {})

    assert len(times_of(spec, cells_of(spec)[:: max(1, spec.cell_count // 5)])) >= 2


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
