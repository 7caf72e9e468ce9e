"""Files that version 0.1.0 wrote are read, and computed again to the same numbers."""

from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow.results.provenance import ResultKind, flow_of, kind_of, solver_of

FOLDER = Path(__file__).parent / "files_of_0_1_0"
FLOWS = {
    "single_run": af.SphereAttention,
    "noisy_ensemble": af.SphereAttention,
    "piecewise_hardmax": af.RescaledAttention,
    "layers": af.EuclideanAttention,
}
SOLVERS = {
    "single_run": af.Adaptive,
    "noisy_ensemble": af.StochasticHeun,
    "piecewise_hardmax": af.RK4,
    "layers": af.Layers,
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_run_of_0_1_0_is_loaded_with_its_model_and_solver(name):
    run = af.load(FOLDER / f"{name}.nc")

    assert run.attrs["attnflow_version"] == "0.1.0"
    assert kind_of(run) is ResultKind.TRAJECTORY
    assert type(flow_of(run)) is FLOWS[name]
    assert type(solver_of(run)) is SOLVERS[name]


@pytest.mark.parametrize("name", FLOWS)
def test_a_run_of_0_1_0_is_computed_again(name):
    """Other processors round differently: 1e-12 is far above that, and 1e-6 is for the file in single precision."""
    old = af.load(FOLDER / f"{name}.nc")
    again = af.rerun(FOLDER / f"{name}.nc", progress=False)

    assert set(again.variables) == {*old.variables, "status"}  # which 0.1.0 did not write
    tolerance = 1e-12 if old.attrs["dtype"] == "float64" else 1e-6
    for variable in old.data_vars:
        np.testing.assert_allclose(again[variable], old[variable], rtol=tolerance, atol=tolerance, err_msg=variable)
    assert af.flow_of(again) == af.flow_of(old)  # its record names parts that 0.1.0 did not have
    for attribute in set(old.attrs) - {"attnflow_version", "flow"}:
        assert again.attrs[attribute] == old.attrs[attribute]


def test_the_noise_of_one_run_of_an_ensemble_is_repeated():
    old = af.load(FOLDER / "noisy_ensemble.nc").isel(run=1)
    again = af.rerun(old, progress=False)

    np.testing.assert_allclose(again.final_tokens, old.final_tokens, atol=1e-12)


def test_another_seed_gives_other_numbers():
    """The control: the numbers above agree because the noise is repeated."""
    old = af.load(FOLDER / "noisy_ensemble.nc")
    other = af.rerun(old, rng=8, progress=False)

    assert np.abs(other.final_tokens - old.final_tokens).max() > 1e-3
