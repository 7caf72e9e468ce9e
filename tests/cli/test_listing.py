"""`attnflow list`: the settings of one scenario."""

import json

import pytest
from tests.helpers.command_line import attnflow, attnflow_process

from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.options import SCENARIO_OPTIONS


def test_the_settings_of_a_scenario_are_listed(tmp_path):
    text, _ = attnflow("list", "renyi", cwd=tmp_path)

    for words in (
        "Causal attention at beta = 64",
        "arXiv:2411.04990",
        "quasi-stationary: Strong centres",
        "attnflow run renyi",
    ):
        assert words in text
    for name in SCENARIO_OPTIONS:
        assert f"--{name.replace('_', '-')} " in text
    assert "--merge (only the scenarios staircase and metastable merge tokens)" in " ".join(text.split())


@pytest.mark.parametrize("name", ["hardmax", "staircase", "noisy", "redrawn", "conjecture1"])
def test_values_are_those_of_the_scenario_and_idle_options_have_none(name, tmp_path):
    text, _ = attnflow("list", name, "--json", cwd=tmp_path)

    found = json.loads(text)
    rows = {row["option"]: row for row in found["settings"]}
    settings = CATALOGUE[name].settings
    assert rows["--start"]["value"] == settings.start
    assert rows["--value"]["value"] == settings.value
    assert all(row["value"] is None for row in rows.values() if row["no_effect"])
    assert found["run"] == f"attnflow run {name}"
    assert (rows["--beta"]["value"] is None) == (name == "hardmax")
    assert (rows["--saves"]["value"] is None) == (name == "staircase")


def test_an_unknown_name_is_one_sentence(tmp_path):
    assert "`list` 'reny' is not known. Did you mean 'renyi'" in attnflow("list", "reny", cwd=tmp_path, code=2)[1]


def test_letters_that_a_console_lacks_are_replaced(tmp_path, monkeypatch):
    """Consoles and pipes of Windows have an encoding without Greek letters, which titles of figures have."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.delenv("PYTHONUTF8", raising=False)

    text, _ = attnflow_process("list", "figures", cwd=tmp_path)

    assert "R?nyi centres" in text
