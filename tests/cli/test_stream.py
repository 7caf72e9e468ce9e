"""The command `attnflow stream`."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import attnflow as af
from attnflow.cli.app import app


def test_stream_writes_a_complete_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["stream", "renyi", "--n", "4", "--beta", "9", "--saves", "20", "--json", "--no-picture"]
    finished = CliRunner().invoke(app, [*asked, "--end", "1e15"])
    facts = json.loads(finished.stdout)
    assert facts["clusters"] == 1
    assert facts["farthest_from_first"] < 1e-8
    times = af.load("renyi-long.zarr").time.values
    assert (len(times), times[0]) == (20, 0.0)
    np.testing.assert_allclose(times[1:], np.geomspace(0.01, 1e15, 19))
    for refused, sentence in (
        (["--solver", "rk4:0.1"], "`solver` would change nothing here: `stream` chooses its steps"),
        (["--end", "-3"], "`end` must be above zero"),
        (["--mask", "full"], "sees token"),
    ):
        with pytest.raises(ValueError, match=sentence):
            CliRunner().invoke(app, [*asked, "--overwrite", *refused], catch_exceptions=False)


def test_options_and_flows_are_refused_before_libraries_are_loaded():
    """Options without meaning before jax, flows that `stream` does not support before matplotlib."""
    ask = "import sys; from attnflow.cli.app import app; from typer.testing import CliRunner\n"
    ask += "for asked in (['--solver', 'euler:0.1'], ['--n', '4']):\n"
    ask += "    done = CliRunner().invoke(app, ['stream', 'polytope', *asked])\n"
    ask += "    print(type(done.exception).__name__, 'jax' in sys.modules, 'matplotlib' in sys.modules)\n"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["InputError", "False", "False", "InputError", "True", "False"]
