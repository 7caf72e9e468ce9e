"""One run of a sweep, computed again."""

import numpy as np
import pytest
from tests.helpers.command_line import attnflow
from tests.helpers.sweeping import numbers_of, small_sweep

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.sweeps.axes import Axis
from attnflow.sweeps.replay import cell_named
from attnflow.sweeps.sweep_spec import SweepSpec


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The path of a small sweep."""
    path = tmp_path_factory.mktemp("sweep") / "small.zarr"
    small_sweep(path, observables=["mean-cosine", "clusters:0.5", "final-clusters:0.5", "step-count"])
    return path


def test_a_run_again_equals_what_the_sweep_has_kept(small):
    again = af.replay(small, {"beta": 9.0, "n": "6"}, run=7)

    assert again.attrs["equals_sweep"] == 1
    np.testing.assert_array_equal(again.mean_cosine, numbers_of(small).mean_cosine.sel(beta=9.0, n=6, run=7))
    assert again.tokens.shape == (3, 6, 3)
    assert af.rerun(again).equals(again)


def test_a_difference_is_noticed(small, tmp_path):
    """The control: one changed bit of one number of one run."""
    small_sweep(tmp_path / "a.zarr")
    for path in (tmp_path / "a.zarr/.sweep/batches").iterdir():
        with np.load(path) as arrays:
            changed = {name: arrays[name] for name in arrays.files}
        changed["mean_cosine"][:, 1] = np.nextafter(changed["mean_cosine"][:, 1], 2)
        np.savez(path, **changed)

    assert af.replay(tmp_path / "a.zarr", {"beta": 9.0, "n": 6}, run=7).attrs["equals_sweep"] == 0
    assert "different" in attnflow("rerun", "a.zarr", "--cell", "beta=9,n=6,run=7", cwd=tmp_path, code=1)[0]


def test_the_command_line_repeats_a_run(small, tmp_path):
    printed, _ = attnflow("rerun", small, "--cell", "beta=9.0,n=6,run=7", "--out", "one.zarr", cwd=tmp_path)

    assert "equal" in printed
    assert af.load(tmp_path / "one.zarr").attrs["sweep_cell"] == "beta = 9.0, n = 6"
    picture, _ = attnflow("show", small, "--out", "a.png", "--at", "n=6", cwd=tmp_path)
    assert picture == "a.png\n"


@pytest.mark.parametrize(
    ("cell", "run", "message"),
    [
        ({"beta": 9.0}, 0, "The cell needs a value of axis `n`. Known: 4, 6"),
        ({"beta": 9.0, "m": 4}, 0, "`axis` 'm' is not known"),
        ({"beta": 8.0, "n": 4}, 0, "Axis `beta` has no value 8.0. Known: 1.0, 9.0"),
        ({"beta": 9.0, "n": 4}, 10, "`run` must be below 10"),
        ({"beta": 9.0, "n": 4}, -1, "`run` must be a whole number, at least 0"),
        ({"beta": "x", "n": 4}, 0, "must be a finite number"),
    ],
)
def test_runs_that_do_not_exist_are_refused(small, cell, run, message):
    with pytest.raises(InputError) as refusal:
        af.replay(small, cell, run=run)
    assert message in str(refusal.value)


def test_the_nearest_of_close_values_is_chosen():
    close = SweepSpec({"scenario": "sphere"}, (Axis.of("beta", [1.0, 1.0 + 2e-10]),))

    assert [cell_named(close, {"beta": value}).index for value in (1.0, "1.0000000002")] == [(0,), (1,)]


def test_a_row_of_a_table_is_chosen_by_its_number(tmp_path):
    (tmp_path / "rows.csv").write_text("beta,mask\n1,full\n4,causal\n")
    small_sweep(tmp_path / "a.zarr", over={"n": [4]}, table=tmp_path / "rows.csv", runs=2)

    again = af.replay(tmp_path / "a.zarr", {"row": 2, "n": 4}, run=1)

    assert again.attrs["equals_sweep"] == 1
    assert af.flow_of(again).is_causal
    with pytest.raises(InputError, match=r"Axis `row` has no value 3\. Known: 1, 2"):
        af.replay(tmp_path / "a.zarr", {"row": 3, "n": 4})
