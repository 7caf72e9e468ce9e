"""Sentences about scenarios: those of the scenario's own settings are not said of others."""

from dataclasses import replace

import pytest

from attnflow.experiments import scenarios
from attnflow.explorer.descriptions import sentences_of


@pytest.mark.parametrize("name", list(scenarios.CATALOGUE))
def test_changed_settings_are_named_and_nothing_else_is_claimed(name):
    scenario = scenarios.get(name)

    assert sentences_of(scenario, scenario.settings) == sentences_of(scenario)
    assert sentences_of(scenario, replace(scenario.settings, seed=7, runs=None)) == sentences_of(scenario)
    changed = replace(scenario.settings, beta=17.5, mask="window:3")
    assert sentences_of(scenario, changed) == [f"The scenario {name} with beta = 17.5, mask = window:3."]


def test_changes_made_while_a_run_played_are_named_with_their_times():
    scenario = scenarios.get("sphere")
    later = [(3.25, {"beta": 6.0}), (5.0, {"mask": "causal"})]

    assert sentences_of(scenario, replace(scenario.settings, n=8), later) == [
        "The scenario sphere with n = 8, from t = 3.25 on with beta = 6, from t = 5 on with mask = causal."
    ]
