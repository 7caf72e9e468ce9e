"""`attnflow run` of a scenario of the mean field: files, facts, repetition, and what is refused."""

import json

from tests.helpers.command_line import attnflow

import attnflow as af


def test_a_law_is_computed_written_drawn_shown_and_repeated(tmp_path):
    printed, _ = attnflow("run", "meanfield", "--end", "1", "--saves", "3", "--json", cwd=tmp_path)
    facts = json.loads(printed)
    law = af.load(tmp_path / "meanfield.zarr")

    assert (tmp_path / "meanfield.png").is_file()
    assert facts["outcome"] == law.attrs["outcome"]
    assert facts["order"][1] == float(law.order[-1])
    assert facts["settings"]["beta"] == 9.0
    assert law.attrs["scenario"] == "meanfield"
    printed, _ = attnflow("rerun", "meanfield.zarr", cwd=tmp_path)
    assert "bit for bit" in printed
    assert "equal" in printed


def test_laws_are_listed_and_wrong_options_are_one_sentence(tmp_path):
    assert "2606.05140" in attnflow("list", "meanfield-transition", cwd=tmp_path)[0]
    assert "meanfield-sphere" in attnflow("list", cwd=tmp_path)[0]
    assert "infinitely many" in attnflow("run", "meanfield", "--n", "4", cwd=tmp_path, code=2)[1]
    assert "of runs of tokens" in attnflow("run", "meanfield", "--settled", "1", cwd=tmp_path, code=2)[1]
