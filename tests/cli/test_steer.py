"""The command `attnflow steer`."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import attnflow as af
from attnflow.cli.app import app


def steered(*words):
    return CliRunner().invoke(app, ["steer", *map(str, words)])


def test_tokens_of_files_go_to_targets_of_files(tmp_path):
    tokens, targets = af.initial.sphere(3, 3, rng=0), af.initial.sphere(3, 3, rng=1)
    np.save(tmp_path / "a.npy", tokens)
    np.save(tmp_path / "b.npy", targets)
    out = tmp_path / "run.zarr"

    done = steered("--from", tmp_path / "a.npy", "--to", tmp_path / "b.npy", "--out", out, "--json")

    facts = json.loads(done.stdout)
    assert (facts["tokens"], facts["pieces"]) == (3, 3)
    assert facts["largest error"] < 1e-10
    run = af.load(out)
    np.testing.assert_array_equal(run.target, targets)
    assert (tmp_path / "run.png").stat().st_size > 10_000
    # The bar of the picture has one field for each piece.
    bar = af.show.steering(run).axes[1].collections[0]
    assert len(bar.get_paths()) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "sphere", "--to", "ball"], "must lie on the unit sphere"),
        (["--from", "sphere", "--to", "sphere", "--time", "0.01", "--norm", "1"], "The time must be at least"),
        (["--from", "angles:0,1,2,3", "--to", "angles:0,2,1,3", "--d", "2"], "order of tokens 1 and 2"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, message, tmp_path):
    done = steered(*words, "--out", tmp_path / "run.zarr", "--no-picture")
    assert done.exit_code != 0
    assert message in str(done.exception) + done.output
    assert not (tmp_path / "run.zarr").exists()
