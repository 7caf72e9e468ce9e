"""The command `attnflow bench`, as a user runs it."""

import json

import pytest
from typer.testing import CliRunner

from attnflow._common.checks import InputError
from attnflow.cli.app import app


def test_a_row_is_printed_and_kept(tmp_path):
    path = tmp_path / "bench.json"
    finished = CliRunner().invoke(app, ["bench", "--quick", "--rows", "polytope", "--json", str(path)])

    assert finished.exit_code == 0, finished.output
    assert "published nested loops" in finished.stdout
    content = json.loads(path.read_text())
    ours, by_scipy, published = content["timings"]
    assert ours["contender"] == "attnflow"
    assert ours["difference"] == 0
    assert by_scipy["difference"] < 1e-6 < published["difference"]  # the published scheme has an error of first order
    assert len(ours["seconds"]) == len(ours["processor_seconds"]) == 3


def test_an_unknown_row_is_refused_before_anything_is_timed():
    finished = CliRunner().invoke(app, ["bench", "--rows", "polytop"])

    assert isinstance(finished.exception, InputError)
    assert "Did you mean 'polytope'?" in str(finished.exception)


@pytest.mark.parametrize("name", ["bench.txt", "missing/bench.json"])
def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, name):
    finished = CliRunner().invoke(app, ["bench", "--rows", "polytope", "--json", str(tmp_path / name)])

    assert isinstance(finished.exception, InputError)
