"""What a result records of its making."""

import json
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow.results.provenance import ResultKind, kind_of, require_result, seed_of, stamp


def test_settings_become_numbers_text_or_json():
    seed = np.random.SeedSequence(5, spawn_key=(1,))
    attributes = stamp(
        ResultKind.TRAJECTORY,
        "Reached t = 1.",
        flow=af.SphereAttention(af.Head.identity(2), af.Softmax(3.0)),
        times=np.array([0.0, 1.0]),
        seed=seed,
        keep_tokens=True,
        memory=1e9,
        dtype="float64",
    )

    assert attributes["kind"] == "attnflow trajectory"
    assert type(attributes["kind"]) is str  # not a member of the enumeration, which files could not hold
    assert attributes["attnflow_version"] == version("attnflow")
    assert attributes["outcome"] == "Reached t = 1."
    assert json.loads(attributes["flow"])["attention"]["beta"]["numbers"] == 3.0
    assert json.loads(attributes["times"]) == [0.0, 1.0]
    assert json.loads(attributes["seed"]) == {"entropy": 5, "spawn_key": [1]}
    assert (attributes["keep_tokens"], attributes["memory"], attributes["dtype"]) == (1, 1e9, "float64")


@pytest.mark.parametrize("kind", ResultKind)
def test_the_kind_of_a_dataset_is_read_from_its_attributes(kind):
    assert kind_of(xr.Dataset(attrs={"kind": kind.value})) is kind


@pytest.mark.parametrize("foreign", [None, 3, "attnflow stream", xr.Dataset(), xr.Dataset(attrs={"kind": "other"})])
def test_other_objects_have_no_kind(foreign):
    assert kind_of(foreign) is None
    with pytest.raises(ValueError, match="`run` is not a whole result of attnflow"):
        require_result(foreign, "`run`")


def test_a_result_without_one_of_its_attributes_is_refused():
    attributes = dict.fromkeys(("flow", "merge", "rtol", "limits"), "")
    whole = xr.Dataset({"initial_tokens": 0.0}, attrs={"kind": ResultKind.COALESCENCE.value, **attributes})
    assert require_result(whole, "`run`") is ResultKind.COALESCENCE
    del whole.attrs["rtol"]
    with pytest.raises(ValueError, match="not a whole result"):
        require_result(whole, "`run`")


@pytest.mark.parametrize("entropy", [7, [7, 8], [1, 2, 3]])
def test_seeds_of_one_or_more_words_are_restored(entropy):
    seed = np.random.SeedSequence(entropy, spawn_key=(4,))
    recorded = xr.Dataset(attrs=stamp(ResultKind.TRAJECTORY, "", seed=seed))

    np.testing.assert_array_equal(seed_of(recorded).generate_state(4), seed.generate_state(4))


def test_a_run_out_of_an_ensemble_has_the_seed_spawned_for_it_and_the_ensemble_its_own():
    seed = np.random.SeedSequence(7)
    ensemble = xr.Dataset(coords={"run": np.arange(3)}, attrs=stamp(ResultKind.TRAJECTORY, "", seed=seed))

    state = lambda sequence: sequence.generate_state(4).tolist()
    assert state(seed_of(ensemble)) == state(seed)
    assert state(seed_of(ensemble.isel(run=2))) == state(seed.spawn(3)[2])
