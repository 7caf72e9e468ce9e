"""Files and arguments of version 0.1.0 are still understood."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnflow as af

COALESCING = Path(__file__).parent / "files_of_0_1_0" / "coalescing.nc"


def test_a_coalescing_file_of_0_1_0_has_the_present_names():
    run = af.load(COALESCING)
    assert "attnflow_version" not in run.attrs  # version 0.1.0 did not write it
    assert json.loads(run.attrs["limits"]) == {"log_end": 14.0, "shortcuts": True, "max_steps": 1_000_000}
    assert int(run.quadrature_merges) == 2
    assert int(run.subcycled_steps) == 0
    assert 0 < float(run.quadrature_error) < 1e-9
    for name in ("forecast_log_duration", "forecast_error", "runner_up_log_duration"):
        assert run[name].dims == ("merge",)
    assert not {"meetings", "meeting_error", "sprints", "rival_log_duration"} & set(run.variables)


def test_a_coalescing_file_of_0_1_0_is_run_again():
    """Bits depend on the processor, so that other machines may take another step; tolerances are of `rtol`."""
    run = af.load(COALESCING)
    again = af.rerun(COALESCING, progress=False)
    np.testing.assert_array_equal(again.initial_tokens, run.initial_tokens)
    np.testing.assert_array_equal(again["first"], run["first"])
    np.testing.assert_array_equal(again["second"], run["second"])
    np.testing.assert_allclose(again.merge_log_time, run.merge_log_time, atol=1e-4)
    np.testing.assert_allclose(again.tokens[-1], run.tokens[-1], atol=1e-5)
    assert again.attrs["perturbed"] == run.attrs["perturbed"]


def test_a_file_of_0_1_0_with_present_names_can_be_written_and_read(tmp_path):
    run = af.load(COALESCING)
    assert af.load(af.save(run, tmp_path / "again.nc")).equals(run)


def test_until_is_the_former_name_of_log_end():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(5.0))
    tokens = af.initial.circle(4, rng=0)
    with pytest.warns(FutureWarning, match="`until` is now called `log_end`"):
        former = af.coalesce(flow, tokens, until=1.0, progress=False)
    with pytest.warns(FutureWarning, match="`until` is now called `log_end`"):
        again = af.rerun(former, until=0.5, progress=False)
    assert abs(float(again.log_time[-1]) - 0.5) <= 1e-12  # the rounding of log t that ends a run
    assert former.equals(af.coalesce(flow, tokens, log_end=1.0, progress=False))
