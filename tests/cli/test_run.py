"""`attnflow run` with files of settings, its exit codes, and the order of its checks."""

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow.solvers.status import Status

QUICK = ("--no-picture", "--json")


def test_settings_are_written_and_run(tmp_path):
    options = ("--n", 5, "--value", "gaussian", "--settled", 1e-9, "--end", 2)
    text, _ = attnflow("run", "sphere", *options, "--save-config", "mine.toml", *QUICK, cwd=tmp_path)
    assert json.loads(text)["settings_file"] == "mine.toml"

    text, _ = attnflow("run", "mine.toml", *QUICK, cwd=tmp_path)

    first, second = af.load(tmp_path / "sphere.zarr"), af.load(tmp_path / "mine.zarr")
    assert first.equals(second)
    assert json.loads(text)["scenario"] == "sphere"
    assert first.attrs["command"] == "attnflow run " + shlex.join(
        map(str, ("sphere", *options, "--save-config", "mine.toml", *QUICK))
    )
    assert first.attrs["settings"] == second.attrs["settings"]


def test_options_replace_settings_of_a_file(tmp_path):
    (tmp_path / "mine.toml").write_text('scenario = "sphere"\nn = 5\nend = 2.0\nstart = "hemisphere"\n')

    text, _ = attnflow("run", "mine.toml", "--n", 3, *QUICK, cwd=tmp_path)

    settings = json.loads(text)["settings"]
    assert (settings["n"], settings["end"], settings["start"]) == (3, 2.0, "hemisphere")


def test_a_file_without_a_scenario_is_named_by_itself(tmp_path):
    (tmp_path / "own.toml").write_text(
        "start = [[1, 0], [0, 1]]\nend = 1\nsaves = 3\n[[head]]\nvalue = [[2, 0], [0, 1]]\n"
    )

    text, _ = attnflow("run", "own.toml", *QUICK, cwd=tmp_path)

    found = json.loads(text)
    assert (found["scenario"], found["paper"], found["result"]) == ("own", "", "own.zarr")
    assert found["settings"]["start"] == [[1.0, 0.0], [0.0, 1.0]]
    assert found["settings"]["head"] == [{"value": [[2.0, 0.0], [0.0, 1.0]]}]
    assert found["settings"]["value"] is None, "the table of the head replaces it"


def test_files_of_settings_can_ask_for_the_other_methods(tmp_path):
    (tmp_path / "long.toml").write_text('scenario = "causal"\nmethod = "stream"\nn = 3\nend = 1e5\nsaves = 4\n')
    (tmp_path / "merges.toml").write_text('method = "coalesce"\nbeta = 30\nd = 2\nstart = "angles:0,1,2.5"\n')

    attnflow("run", "long.toml", *QUICK, cwd=tmp_path)
    attnflow("run", "merges.toml", *QUICK, cwd=tmp_path)

    assert "piece_series" in af.load(tmp_path / "long.zarr")
    assert int(af.load(tmp_path / "merges.zarr").clusters[-1]) == 1


def test_the_command_stream_writes_settings(tmp_path):
    attnflow("stream", "causal", "--n", 3, "--end", 1e5, "--save-config", "a.toml", *QUICK, cwd=tmp_path)
    attnflow("run", "a.toml", *QUICK, cwd=tmp_path)

    assert af.load(tmp_path / "causal-long.zarr").equals(af.load(tmp_path / "a.zarr"))


def test_predict_takes_a_file_of_settings(tmp_path):
    (tmp_path / "own.toml").write_text('space = "rescaled"\nvalue = [[2, 0], [0, 1]]\nstart = "box"\n')

    text, _ = attnflow("predict", "own.toml", "--json", cwd=tmp_path)

    assert json.loads(text)["limit"] == "hyperplanes"


FAULTS = {
    "wrong option": (["run", "sphere", "--n", "0"], "`n` must be a whole number"),
    "idle option": (["run", "sphere", "--merge", "0.1"], "`merge` would change nothing here"),
    "tokens off the sphere": (["run", "sphere", "--start", "box"], "must lie on the unit sphere"),
    "tolerance": (["run", "sphere", "--rtol", "-1"], "`rtol` must be above zero"),
    "budget": (["run", "sphere", "--budget", "-1"], "`budget` must be above zero"),
    "memory": (["run", "sphere", "--memory", "0"], "`memory` must be above zero"),
    "merge": (["run", "staircase", "--merge", "1e-30"], "`merge` must be at least"),
    "study": (["run", "conjecture1", "--value", "goe"], "`value` of conjecture1 must be"),
    "stream": (["stream", "causal", "--tolerance", "2"], "`tolerance` must lie between"),
    "stream of a full mask": (["stream", "sphere"], "sees token 2, which comes later"),
    "missing settings": (["run", "no.toml"], "no.toml: there is no such file."),
    "damaged result to show": (["show", "taken.zarr"], "taken.zarr"),
    "missing result to repeat": (["rerun", "missing.zarr"], "There is no result file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_exists_is_mentioned_only_when_everything_else_is_right(name, tmp_path):
    command, sentence = FAULTS[name]
    (tmp_path / "taken.zarr").mkdir()
    (tmp_path / "taken.png").write_text("picture")

    _, error = attnflow(*command, "--out", "taken.zarr" if command[0] != "show" else "taken.png", cwd=tmp_path, code=2)

    assert sentence in error
    assert "exists already" not in error


def test_a_wrong_suffix_is_mentioned_before_a_file_that_exists(tmp_path):
    (tmp_path / "polytope.zarr").mkdir()
    _, error = attnflow("run", "polytope", "--picture", "polytope.eps", cwd=tmp_path, code=2)
    assert "A picture is written as `.png`, `.pdf` or `.svg`, but the path is polytope.eps." in error
    assert "exists already" not in error


@pytest.mark.parametrize(
    ("options", "times"),
    [(["--end", "3"], [0, 1, 2, 3]), (["--saves", "3"], [0, 5, 10]), (["--end", "2", "--saves", "2"], [0, 2])],
)
def test_options_of_times_replace_a_list_of_times_in_a_file(options, times, tmp_path):
    text = 'space = "sphere"\nstart = "sphere"\nn = 3\nd = 3\ntimes = [0, 0.1, 1, 10]\n'
    (tmp_path / "own.toml").write_text(text)
    attnflow("run", "own.toml", "--no-picture", *options, cwd=tmp_path)
    np.testing.assert_allclose(af.load(tmp_path / "own.zarr").time, times)


def test_a_file_that_exists_is_mentioned_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "sphere.zarr").mkdir()
    (tmp_path / "a.toml").write_text("precious")
    for path in ("ensemble", "native_runs"):
        monkeypatch.setattr(f"attnflow.integrate.{path}.integrate", None)  # not callable

    assert "sphere.zarr exists already" in attnflow("run", "sphere", cwd=tmp_path, code=2)[1]
    _, error = attnflow("run", "polytope", "--save-config", "a.toml", cwd=tmp_path, code=2)
    assert "a.toml exists already" in error
    assert (tmp_path / "a.toml").read_text() == "precious"


def test_one_failed_run_of_several_is_exit_code_one(tmp_path):
    """Tokens of the second run are so long that unnormalised weights overflow; the first run goes on."""
    tokens = np.array([[[1.0, 0.0], [0.0, 1.0]], [[40.0, 0.0], [0.0, 40.0]]])
    np.save(tmp_path / "tokens.npy", tokens)
    command = (
        "run",
        "polytope",
        "--space",
        "euclidean",
        "--attention",
        "unnormalised",
        "--start",
        "tokens.npy",
        "--end",
        0.1,
    )

    text, _ = attnflow(*command, *QUICK, cwd=tmp_path, code=1)

    found = json.loads(text)
    assert (found["failed"], found["runs"]) == (1, 2)
    np.testing.assert_array_equal(af.load(tmp_path / "polytope.zarr").failed, [False, True])


def test_a_run_that_is_stopped_as_asked_is_exit_code_zero(tmp_path):
    text, _ = attnflow("run", "sphere", "--n", 3, "--settled", 10, *QUICK, cwd=tmp_path)

    assert "Stopped" in json.loads(text)["outcome"]


def test_ctrl_c_is_exit_code_130_and_the_result_is_written(tmp_path, monkeypatch):
    from attnflow.integrate import simulate

    whole = simulate.ensemble.integrate

    def interrupted(plan, watch):
        found = whole(plan, watch)
        found.status[:] = Status.INTERRUPTED
        return found

    monkeypatch.setattr(simulate.ensemble, "integrate", interrupted)
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")  # the path that is replaced here
    attnflow("run", "sphere", "--n", 3, "--end", 1, *QUICK, cwd=tmp_path, code=130)

    assert "interrupted" in af.load(tmp_path / "sphere.zarr").outcome


def test_the_help_says_what_exit_codes_mean(tmp_path):
    text, _ = attnflow("run", "--help", cwd=tmp_path)

    assert "Exit code 0" in text
    assert "130: Ctrl-C ended the run" in " ".join(text.split())


def test_the_seconds_are_those_of_the_computation(tmp_path, monkeypatch):
    clock = {"seconds": 0.0}
    monkeypatch.setattr("attnflow.cli.run.time", SimpleNamespace(monotonic=lambda: clock["seconds"]))
    monkeypatch.setattr("attnflow.cli.run.draw_run", lambda *_: clock.update(seconds=3600.0))

    text, _ = attnflow("run", "polytope", "--n", 5, "--end", 1, "--json", cwd=tmp_path)

    assert clock["seconds"] == 3600  # the picture was drawn
    assert json.loads(text)["seconds"] == 0
