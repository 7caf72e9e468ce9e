"""The whole quick report from the command line."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from attnflow.cli.app import app
from attnflow.explorer.export.recorded_run import recorded_run
from attnflow.figures import runs
from attnflow.figures.catalogue import catalogue
from attnflow.figures.data_file import read_data
from attnflow.results.provenance import require_result

SEVERAL_RUNS = {
    "boolean-exceptions": 5,
    "multihead-more-tokens": 2,
    "sphere-clustering": 2,
    "causal-limits": 5,
    "energy-staircase": 6,
    "plateau-lengths": 6,
    "normalisation-rates": 3,
    "hardmax-leaders": 4,
    "steer-sphere": 2,
}
"""Numbers of runs in quick figures of more than one."""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Everything, once."""
    folder = tmp_path_factory.mktemp("figures")
    finished = CliRunner().invoke(app, ["reproduce", "--quick", "--json", "--out", str(folder)], catch_exceptions=False)
    assert finished.exit_code == 0
    return folder, json.loads(finished.stdout)


def test_every_figure_is_made_or_says_what_it_needs(report):
    folder, facts = report

    assert [one["id"] for one in facts["figures"]] == list(catalogue())
    for one in facts["figures"]:
        if one["state"] == "skipped":
            assert "pip install" in one["note"]
            continue
        assert one["state"] == "made"
        assert one["numbers"], one["id"]
        suffixes = {name.rpartition(".")[2] for name in one["files"]}
        assert {"png", "pdf", "nc", "py"} <= suffixes
        assert ("gif" in suffixes) == (catalogue()[one["id"]].movie is not None)
        assert all(0 < (folder / name).stat().st_size < 1.2e7 for name in one["files"]), one["id"]


def test_runs_of_figures_are_whole_results(report):
    folder, facts = report
    names = {one["id"]: next((name for name in one["files"] if name.endswith(".nc")), None) for one in facts["figures"]}
    found = {key: runs(read_data(folder / name)) for key, name in names.items() if name}

    for run in (run for figure in found.values() for run in figure.values()):
        assert require_result(run, "run")
        assert np.isfinite(run.tokens).all()
        assert len(recorded_run(run).times) > 1
    assert {name: len(one) for name, one in found.items() if len(one) > 1} == SEVERAL_RUNS
    assert sum(len(one) == 1 for one in found.values()) > 15


def test_no_theorem_fails_on_a_figure(report):
    verdicts = [(one["id"], verdict) for one in report[1]["figures"] for verdict in one["verdicts"]]

    assert len(verdicts) > 10
    assert not [(name, verdict["id"]) for name, verdict in verdicts if verdict["verdict"] == "fails"]
    assert sum(verdict["verdict"] == "holds" for _, verdict in verdicts) > len(verdicts) / 2


def test_the_page_holds_all_figures_and_says_that_they_are_quick(report):
    folder, facts = report
    text = (folder / "report-quick.html").read_text()

    shown = [one["id"] for one in facts["figures"] if one["state"] == "made"]
    assert text.count('<img src="data:image/png;base64,') == len(shown)
    assert text.count("Quick version:") == len(catalogue())
    for name, figure in catalogue().items():
        assert f'<a href="#{name}">' in text
        assert f'<article id="{name}">' in text
        assert f"attnflow reproduce {name} --quick" in text or figure.needs
    assert not re.search(r"src=.(?:https?:|//)|@import|url\(", text)


def test_a_second_call_keeps_everything(report):
    folder, facts = report
    finished = CliRunner().invoke(app, ["reproduce", "--quick", "--json", "--out", str(folder)], catch_exceptions=False)

    again = json.loads(finished.stdout)

    assert again["made"] == 0
    assert again["kept"] == facts["made"]
    assert [one["numbers"] for one in again["figures"]] == [one["numbers"] for one in facts["figures"]]


def test_the_list_names_every_figure_and_its_time():
    finished = CliRunner().invoke(app, ["list", "figures", "--json"], catch_exceptions=False)

    assert [one["id"] for one in json.loads(finished.stdout)] == list(catalogue())


def test_the_time_is_said_before_it_starts(report):
    name = next(one["id"] for one in report[1]["figures"] if one["state"] == "made")
    arguments = ["reproduce", name, "--quick", "--out", str(report[0])]

    finished = CliRunner().invoke(app, arguments, catch_exceptions=False)

    assert finished.stderr.startswith("1 figure, quick: about ")
    assert f"[1/1] {name}: kept" in finished.stderr
    assert finished.stdout.strip().endswith("report-quick.html")
    assert (report[0] / "report-quick.html").read_text().count("<article") > 1  # the others stay in it
