"""Several runs in one dataset of a figure: each comes out again as it was recorded."""

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.figures.data_file import read_data, write_data
from attnflow.figures.entries.joined_runs import joined, separated


def sphere_run(beta, n, mask=af.masks.full):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta), mask)
    return af.simulate(flow, af.initial.sphere(n, 3, rng=0), np.linspace(0.0, 2.0, 5), progress=False)


def coalescing_run(beta):
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta))
    return af.coalesce(flow, af.initial.circle(5, rng=1), progress=False)


RUNS = {
    "flows": lambda: [sphere_run(1.0, 4), sphere_run(5.0, 4, af.masks.causal)],
    "sizes": lambda: [sphere_run(2.0, 4), sphere_run(2.0, 7)],
    "lengths": lambda: [coalescing_run(4.0), coalescing_run(30.0)],
}


@pytest.mark.parametrize("case", RUNS)
def test_separated_runs_are_those_that_were_joined(case, tmp_path):
    runs = RUNS[case]()
    data = joined(runs, xr.Variable("case", [0, 1]))

    for run, again in zip(runs, separated(data), strict=True):
        xr.testing.assert_identical(run, again)
        assert {name: again[name].dtype for name in again} == {name: run[name].dtype for name in run}
    write_data(data, tmp_path / "data.nc")
    for run, again in zip(runs, separated(read_data(tmp_path / "data.nc")), strict=True):
        xr.testing.assert_equal(run, again)
        assert af.flow_of(again) == af.flow_of(run)


def test_a_verdict_is_on_the_flow_of_its_own_run():
    """Control: with the flow of the other run, tokens do not move as the recorded equation says."""
    data = joined([sphere_run(1.0, 4), sphere_run(5.0, 4, af.masks.causal)], xr.Variable("case", [0, 1]))
    first, second = separated(data)

    rates = [af.velocity(af.flow_of(one), one.tokens[0].values) for one in (first, second)]
    steps = [(one.tokens[1] - one.tokens[0]).values for one in (first, second)]
    cosine = lambda a, b: np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)
    assert cosine(rates[1], steps[1]) > 0.9 > cosine(rates[0], steps[1])


def test_joined_runs_are_no_run():
    data = joined([sphere_run(2.0, 4), sphere_run(2.0, 5)], xr.Variable("n", [4, 5]))

    with pytest.raises(InputError, match="not a whole result"):
        af.show.html(data, "never.html")


def test_results_along_an_axis_of_a_user_are_refused_in_words():
    data = xr.concat([sphere_run(2.0, 4), sphere_run(3.0, 4)], "beta", data_vars="all", combine_attrs="override")

    for take in (af.verify, af.describe, af.show.trajectories, af.show.summary):
        with pytest.raises(InputError, match=r"has the axis 'beta' beside those of a result"):
            take(data)
