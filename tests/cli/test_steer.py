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


def test_the_norms_of_the_speed_limit_are_named(tmp_path):
    words = (
        "--from",
        "sphere",
        "--to",
        "sphere",
        "--n",
        "2",
        "--no-picture",
        "--overwrite",
        "--out",
        tmp_path / "a.nc",
    )
    assert "the least that the operator norms of the weights allow" in " ".join(steered(*words).stdout.split())
    facts = json.loads(steered(*words, "--json").stdout)
    assert facts["gap"] == pytest.approx(facts["time"] / facts["shortest time of these operator norms"])


def test_two_targets_are_taken_by_two_of_the_tokens(tmp_path):
    np.save(tmp_path / "b.npy", np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]))
    out = tmp_path / "run.zarr"
    words = ("--from", "sphere", "--n", "5", "--to", tmp_path / "b.npy", "--rule", "stay", "--no-picture", "--json")
    facts = json.loads(steered(*words, "--out", out).stdout)
    assert facts["largest error"] < 1e-10
    assert facts["pieces"] < 5


def test_all_tokens_end_near_one_of_two_targets(tmp_path):
    np.save(tmp_path / "b.npy", np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]))
    words = ("--from", "sphere", "--n", "3", "--to", tmp_path / "b.npy", "--rule", "nearest", "--no-picture")
    words += ("--pieces", "2", "--objective", "label", "--radius", "0.4", "--out", tmp_path / "run.zarr")
    done = steered(*words)
    assert done.exit_code == 0
    assert "arrived" in done.stdout
    assert "yes" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "sphere", "--to", "ball"], "must lie on the unit sphere"),
        (["--from", "sphere", "--to", "sphere", "--time", "0.01", "--norm", "1"], "The time must be at least"),
        (["--from", "sphere", "--to", "sphere", "--objective", "energy"], "`--objective` is of a search"),
        (["--from", "angles:0,1", "--to", "angles:0,2", "--d", "2", "--norm", "2"], "`--norm` has no effect"),
        (["--from", "angles:0,1,2,3", "--to", "angles:0,2,1,3", "--d", "2"], "order of tokens 1 and 2"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, message, tmp_path):
    done = steered(*words, "--out", tmp_path / "run.zarr", "--no-picture")
    assert done.exit_code != 0
    assert message in str(done.exception) + done.output
    assert not (tmp_path / "run.zarr").exists()
