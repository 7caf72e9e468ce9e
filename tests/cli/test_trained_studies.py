"""The command study: table, files, and bad input in one sentence."""

import csv
import json

import pytest
from tests.helpers import tiny_models
from tests.helpers.command_line import attnflow

from attnflow.trained import load_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tiny_models.write("bert", folder / "bert")
    return folder


def test_study_prints_writes_and_draws(folder):
    asked = (
        "study",
        "bert",
        "--controls",
        "equal attention",
        "--depth",
        "1",
        "--measures",
        "second_eigenvalue,line_shape_score",
    )
    out, _ = attnflow(*asked, "--out", "a.nc", "--csv", "a.csv", cwd=folder)
    assert "second eigenvalue of attention" in out
    assert "0 ± 5e-06 *" in out  # equal weights have no second eigenvalue; the model's is not zero
    assert "64 (built-in)" in out
    study = load_study(folder / "a.nc")
    with (folder / "a.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "mean_cosine"]
    assert len(rows) == 2 * 2
    mean = study.mean_cosine.sel(variant="trained", layer=1).mean()
    assert float(rows[1]["mean"]) == pytest.approx(float(mean))
    found = json.loads(attnflow(*asked[:4], "--depth", "1", "--json", cwd=folder)[0])
    assert found["prompts"] == 64
    assert {row["variant"] for row in found["rows"]} == {"trained", "equal attention"}


def test_bad_input_is_one_sentence(folder):
    (folder / "blank.txt").write_text("\n")
    cases = [
        (("--prompts", "blank.txt"), "has no prompts"),
        (("--measures", "mean_cosin"), "mean_cosine"),
        (("--controls", "random"), "untrained"),
        (("--size", "column"), "--picture"),
        (("--out", "a.zarr"), "written as `.nc`"),
        (("--memory", "-1"), "memory"),
    ]
    for options, expected in cases:
        _, error = attnflow("study", "bert", *options, cwd=folder, code=2)
        assert expected in error
        assert error.count("\n") == 1
