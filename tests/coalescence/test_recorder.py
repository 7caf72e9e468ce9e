"""The dataset of a run: provenance, files, and runs repeated from it."""

import json
from importlib.metadata import version

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, flow

import attnflow as af
from attnflow.coalescence.cluster_state import MAX_DENSE_CLUSTERS
from attnflow.model.native import library


def test_a_dataset_records_version_model_and_all_settings_that_acted():
    model, tokens = flow(20.0, 3), af.initial.sphere(6, 3, rng=0)
    options = {"log_end": 3.0, "merge": 1e-7, "rtol": 1e-5, "max_steps": 500, "perturb": 1e-3, "rng": 4}
    attributes = af.coalesce(model, tokens, **options, progress=False).attrs
    assert attributes["attnflow_version"] == version("attnflow")
    assert json.loads(attributes["flow"])["is"] == "SphereAttention"
    assert (attributes["merge"], attributes["rtol"]) == (1e-7, 1e-5)
    assert json.loads(attributes["limits"]) == {"log_end": 3.0, "shortcuts": True, "max_steps": 500}
    assert json.loads(attributes["perturbed"]) == {"amount": 1e-3, "seed": "4", "spawn_key": []}
    accelerations = {"pair_quadrature": True, "slow_partition": True, "subcycling": library.is_built()}
    assert json.loads(attributes["accelerations"]) == accelerations


def test_a_dataset_records_which_accelerations_were_available(monkeypatch):
    available = lambda model, **options: json.loads(
        af.coalesce(model, CIRCLE(np.arange(3.0)), log_end=0.0, progress=False, **options).attrs["accelerations"]
    )
    assert not any(available(flow(5.0), shortcuts=False).values())
    turned = af.SphereAttention(af.Head.bilinear(np.eye(2), np.diag([2.0, 1.0])), af.Softmax(5.0))
    assert available(turned) == {"pair_quadrature": False, "slow_partition": True, "subcycling": False}
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    assert available(flow(5.0)) == {"pair_quadrature": True, "slow_partition": True, "subcycling": False}


def test_the_first_state_is_kept_when_states_are_thinned_out(monkeypatch):
    """With room for few numbers every other state goes, again and again, but the first and the last."""
    monkeypatch.setattr("attnflow.coalescence.recorder.MAX_NUMBERS", 300)
    run = af.coalesce(flow(40.0), af.initial.circle(8, rng=0), progress=False)
    assert run.tokens.size <= 300
    assert run.log_time[0] == -np.inf
    assert int(run.clusters[-1]) == 1
    assert run.sizes["merge"] == 7


def test_a_repeated_run_records_the_perturbation_of_the_first():
    first = af.coalesce(flow(6.0), [[1.0, 0.0], [-1.0, 0.0]], perturb=1e-4, rng=0, progress=False)
    again = af.rerun(first, progress=False)
    assert again.perturbed == first.perturbed
    np.testing.assert_array_equal(again.merge_log_time, first.merge_log_time)
    other = af.rerun(first, perturb=1e-3, rng=1, progress=False)
    assert json.loads(other.perturbed)["amount"] == 1e-3


@pytest.mark.parametrize("n", [MAX_DENSE_CLUSTERS - 10, MAX_DENSE_CLUSTERS + 50])
@pytest.mark.parametrize(
    ("rule", "scores"),
    [(af.Softmax(9.0), 1.0), (af.Unnormalised(9.0, 1.0), 1.0), (af.Softmax(9.0), 0.5)],
    ids=["softmax", "unnormalised", "other scores"],
)
def test_energy_is_the_sum_over_all_pairs_and_each_cluster_with_itself(n, rule, scores):
    """Above 400 clusters the energy comes from the sums of the velocity, to which the own terms m_i^2 are added.

    The energy is that of beta and <x, y>, also where the scores are beta <x, y> / 2 and the sums are of no use.
    """
    masses = np.random.default_rng(0).uniform(0.5, 2.0, n)
    model = af.SphereAttention(af.Head.bilinear(scores * np.eye(3), np.eye(3)), rule, masses=masses)

    run = af.coalesce(model, af.initial.sphere(n, 3, rng=0), max_steps=3, progress=False)

    fractions = masses / masses.sum()
    for state in range(run.sizes["state"]):
        tokens = run.tokens.values[state]
        expected = fractions @ np.exp(9.0 * (tokens @ tokens.T - 1)) @ fractions
        # The sums are those of the end of a step before the tokens are put back onto the sphere.
        assert float(run.energy[state]) == pytest.approx(expected, rel=1e-12 if state == 0 else 1e-8)
    assert float(run.level[0]) == pytest.approx(np.sum(fractions**2), rel=1e-12)
    assert float(run.level[0]) < 0.1 * float(run.energy[0])


def test_a_perturbation_is_recorded():
    tokens = CIRCLE(np.array([0.0, np.pi]))
    found = af.coalesce(flow(6.0), tokens, perturb=1e-3, rng=7, log_end=0.0, progress=False)
    told = json.loads(found.attrs["perturbed"])
    assert told == {"amount": 1e-3, "seed": "7", "spawn_key": []}
    assert 0 < np.abs(found.initial_tokens.values - tokens).max() < 5e-3
    assert "perturbed" not in af.coalesce(flow(6.0), tokens, log_end=0.0, progress=False).attrs


def test_a_run_is_written_read_and_repeated(tmp_path):
    found = af.coalesce(flow(40.0), af.initial.circle(6, rng=0), progress=False)
    for name in ("long.zarr", "long.nc"):
        af.save(found, tmp_path / name)
        again = af.load(tmp_path / name)
        np.testing.assert_array_equal(again.log_time, found.log_time)
        np.testing.assert_array_equal(again["first"], found["first"])
        assert af.rerun(again, progress=False).equals(found)
