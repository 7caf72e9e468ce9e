"""Requests of the page: which are read, which are refused, and with what sentence."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnflow._common.checks import InputError
from attnflow.experiments import scenarios, specs
from attnflow.explorer import page_requests, prompt_scenarios
from attnflow.explorer.descriptions import WHAT_TO_WATCH
from attnflow.explorer.export.exports import SUFFIXES
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.steer_scenarios import STEER


def message(**fields):
    return json.dumps(fields)


def test_requests_are_read():
    asked = page_requests.parse(
        message(type="start", scenario="sphere", changes={"n": 8, "beta": 2}, later=[[1.5, {"beta": 3}]])
    )

    assert asked == page_requests.Start("sphere", {"n": 8, "beta": 2.0}, ((1.5, {"beta": 3.0}),))
    assert page_requests.parse(message(type="speed", factor=1e9)) == page_requests.SetSpeed(page_requests.SPEEDS[1])
    assert page_requests.parse(message(type="seek", share=-4)) == page_requests.Seek(0.0)


@pytest.mark.parametrize(("asked", "set_to"), [(0.01, 0.01), (1e-9, 1e-3), (-1, 1e-3), (50, 50), (1e9, 1e3)])
def test_speeds_lie_between_a_thousandth_and_a_thousand(asked, set_to):
    assert page_requests.parse(message(type="speed", factor=asked)) == page_requests.SetSpeed(set_to)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "at most 32,768 bytes"),
        ("[" * 20_000, "must be JSON"),
        ("[1]", "JSON object"),
        (message(type="eval", code="1"), "`type` 'eval' is not known"),
        ('{"type": "seek", "share": NaN}', "must be finite"),
        (message(type="seek", share="0.5"), "`share` must be a finite number"),
        (message(type="change", changes={"n": 3.5}), "`n` must be a whole number"),
        (message(type="change", changes={"n": True}), "`n` must be a whole number"),
        (message(type="change", changes={"betta": 3}), "Did you mean 'beta'"),
        (message(type="change", changes={"mask": "x" * 3000}), "at most 2,000 characters"),
        (message(type="start", scenario="sphere", later=[[1]]), "a list of a time and changes"),
        (message(type="play", plays=1), "true or false"),
    ],
)
def test_malformed_requests_are_refused_with_a_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        page_requests.parse(text)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": 10_001}, "`n` must be at most 10,000"),
        ({"d": 513}, "`d` must be at most 512"),
        ({"n": 9_000, "d": 100}, "n times d must be at most"),
        ({"heads": 17}, "`heads` must be at most 16"),
        ({"value": "/etc/secret.npy"}, "names a file"),
        ({"start": "tokens.csv"}, "names a file"),
        ({"mask": "causal+mask.npy"}, "names a file"),
        ({"mask": "+".join(["causal"] * 9)}, "masks joined in `mask` must be at most 4"),
        ({"mask": "window:inf"}, "numbers in `mask` must be finite"),
        ({"attention": "sinkhorn:1000001"}, "iterations in `attention` must be at most 199"),
        ({"attention": "sinkhorn:nan"}, "numbers in `attention` must be finite"),
        ({"attention": "sinkhorn:99", "n": 5_000}, "work of one step"),
        ({"heads": 16, "n": 9_000}, "work of one step"),
        ({"redraw": 1e-12}, "redrawings, `end` over `redraw`, must be at most 10,000"),
        ({"solver": "layers:1e-9"}, "steps to `end` must be at most 1,000,000"),
        ({"solver": "kvaerno5", "n": 500}, "n times d with the solver kvaerno5 must be at most 600"),
    ],
)
def test_settings_that_are_too_large_or_name_a_file_are_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        changed_settings(scenarios.get("sphere").settings, changes)


@pytest.mark.parametrize("number", ["inf", "nan", "2.5"])
def test_a_count_in_a_setting_is_a_whole_number(number):
    with pytest.raises(InputError, match="takes a whole number"):
        specs.attention(f"sinkhorn:{number}", 1.0)


def test_a_run_through_all_metastable_states_has_a_limit_of_its_own():
    with pytest.raises(InputError, match="`n` of a run through all metastable states must be at most 1,000"):
        LiveRun(1, page_requests.Start("metastable", {"n": 2_000}), lambda *_: None)


def test_an_optional_part_can_be_removed():
    assert scenarios.get("noisy").settings.kappa == 8.0
    assert changed_settings(scenarios.get("noisy").settings, {"kappa": None}).kappa is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "share", "changes", "later", "n", "scenario"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(["start", "change", "seek", "row", "seen", "step"]),
)
@settings(max_examples=150, deadline=None)
def test_any_json_is_a_request_or_a_sentence(value, kind):
    given_message = (
        {**value, "type": kind}
        if isinstance(value, dict)
        else {"type": kind, "changes": value, "share": value, "token": value}
    )
    try:
        found = page_requests.parse(json.dumps(given_message))
    except InputError as error:
        found = str(error)
    assert isinstance(found, page_requests.PageRequest) or found.endswith((".", "?"))


def test_every_scenario_has_a_description():
    others = (prompt_scenarios.LAYERS.name, prompt_scenarios.HEADS.name, STEER.name)
    assert set(WHAT_TO_WATCH) == {*scenarios.CATALOGUE, *others}


def test_a_typed_matrix_is_the_value_matrix():
    typed = changed_settings(scenarios.get("hyperplanes").settings, {"value": "matrix:0,1,-2,0.5"})

    np.testing.assert_array_equal(scenarios.build(typed).flow.heads[0].value_matrix, [[0.0, 1.0], [-2.0, 0.5]])
    with pytest.raises(InputError, match=r"needs d\^2 = 4 numbers after the colon \(ROW,BY,ROW,...\), but it has 3"):
        scenarios.build(changed_settings(typed, {"value": "matrix:1,2,3"}))


def test_every_kind_of_export_has_a_suffix():
    assert set(page_requests.EXPORTS) == set(SUFFIXES)
