"""Whatever a result file holds, reading it gives the result or one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.results.contents import require_contents
from attnflow.results.provenance import ResultKind, flow_of, kind_of

OLD_FILES = Path(__file__).parent / "files_of_0_1_0"
WRONG = {
    "kind": [["a", "list"], 3, "other"],
    "memory": ["much", [1.0, 2.0], -1.0],
    "keep_tokens": ["yes"],
    "dtype": ["float16", 3, "object"],
    "outcomes": ["[1]", "no JSON"],
    "requested_times": ["{", "[]", '["a"]', "[0, null]", "[[0, 1]]", 7],
    "seed": ["[]", '{"entropy": -1, "spawn_key": []}', '{"entropy": [], "spawn_key": []}', '{"entropy": 1}'],
    "stop": ["{}", '["now"]'],
    "observables": ["[]", '{"m": 3}'],
    "solver": ["", "null", '{"is": "AbstractSolver"}', '{"is": "Head"}', '{"is": ["Adaptive"]}'],
    "flow": [
        *("", "null", "[" * 100_000, '{"is": "AbstractDynamics"}', '{"is": "SphereAttention"}', '{"is": 3}', "{}"),
        *('{"is": "SphereAttention", "heads": 3}', '{"is": "Softmax"}', '{"is": "function"}', '{"is": "array"}'),
        '{"is": "array", "dtype": "object", "shape": [1], "numbers": [1]}',
        '{"is": "array", "dtype": "float64", "shape": [7], "numbers": [1]}',
        '{"is": "array", "dtype": "float64", "shape": [1], "bytes": "!"}',
    ],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.fixture(scope="module")
def run():
    flow = af.SphereAttention(af.Head.identity(2))
    return af.simulate(flow, af.initial.circle(4, rng=0), np.linspace(0, 1, 3), progress=False)


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_wrong_attribute_is_one_sentence(name, value, run, tmp_path):
    """The file is stamped with the digest of what it holds, so that only checks of its contents can refuse it."""
    damaged = run.assign_attrs({name: value})
    with pytest.raises(InputError):
        af.rerun(damaged, progress=False)
    try:
        path = af.save(damaged, tmp_path / "run.zarr")
    except InputError:
        return  # no file can be written
    for command in (["rerun", path], ["verify", "--run", path]):
        if name in ("memory", "stop", "observables", "solver") and command[0] == "verify":
            continue  # may be answered without that attribute
        _, said = attnflow(*command, cwd=tmp_path, code=2)
        assert said.startswith("attnflow: ")
        assert "Traceback" not in said


@pytest.mark.parametrize("name", sorted(path.name for path in OLD_FILES.iterdir()))
def test_files_of_0_1_0_pass(name):
    assert kind_of(af.load(OLD_FILES / name)) in ResultKind


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_an_altered_attribute_is_recognised(suffix, run, tmp_path):
    path = af.save(run, tmp_path / f"run{suffix}")
    file = path / "zarr.json" if suffix == ".zarr" else path
    written = file.read_bytes()
    beta = written.index(b"numbers", written.index(b"Softmax"))
    place = next(index for index in range(beta, beta + 40) if written[index : index + 1] == b"1")
    file.write_bytes(written[:place] + b"2" + written[place + 1 :])

    with pytest.raises(ValueError, match="is damaged: its numbers or attributes are not those"):
        af.load(path)


def test_an_attribute_that_was_taken_away_is_recognised(run, tmp_path):
    path = af.save(run, tmp_path / "run.zarr")
    for name in ("attnflow_version", "outcomes"):
        text = json.loads((path / "zarr.json").read_text())
        del text["attributes"][name]
        (path / "zarr.json").write_text(json.dumps(text))
        with pytest.raises(ValueError, match="is damaged"):
            af.load(path)


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("value", [1, 1.5, True, "", "ü", [3], [1, 2.5], np.float32(0.1), np.arange(3)])
def test_attributes_of_users_are_kept(value, suffix, run, tmp_path):
    path = af.save(run.assign_attrs(note=value), tmp_path / f"run{suffix}")
    assert np.all(np.ravel(af.load(path).attrs["note"]) == np.ravel(value))


@pytest.mark.parametrize("value", [{"a": 1}, None, ["a", "b"], [[1], [2, 3]]])
def test_an_attribute_that_a_format_cannot_hold_is_refused(value, run, tmp_path):
    with pytest.raises(InputError, match="cannot hold"):
        af.save(run.assign_attrs(note=value), tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["final_tokens", "steps", "time"])
def test_a_missing_variable_is_refused(name, run, tmp_path):
    path = af.save(run.drop_vars(name), tmp_path / "run.nc")
    with pytest.raises(InputError, match=f"lacks the variable `{name}`"):
        af.load(path)


def test_variables_over_other_dimensions_are_refused(run, tmp_path):
    path = af.save(run.assign(final_tokens=run.final_tokens.rename(token="other")), tmp_path / "run.nc")
    with pytest.raises(InputError, match=r"`final_tokens` of .* must be numbers over"):
        af.load(path)


def test_a_file_that_claims_to_be_huge_is_refused(run, tmp_path):
    path = af.save(run, tmp_path / "run.zarr")
    for name, axis in {"tokens": 1, "initial_tokens": 0, "final_tokens": 0}.items():
        text = json.loads((path / name / "zarr.json").read_text())
        text["shape"][axis] = 10**12
        (path / name / "zarr.json").write_text(json.dumps(text))
    with pytest.raises(InputError, match="TB of memory"):
        af.load(path)


def test_the_whole_record_is_restored(run):
    """The control of the first test: unaltered, everything passes."""
    require_contents(run, "run")
    assert isinstance(flow_of(run), af.SphereAttention)
    assert xr.Dataset.equals(run, af.rerun(run, progress=False))
