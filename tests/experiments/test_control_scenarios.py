"""Scenarios of control: their settings, the controls that they construct, files, pictures, and what is refused."""

import json

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.cli import completion
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.control_scenarios import CONTROLS, USED
from attnflow.experiments.law_scenarios import LAWS

SMALL = {
    "steer-sphere": {"n": 3},
    "steer-labels": {"n": 3, "runs": 2},
    "interpolate-sequences": {"n": 4, "d": 3, "runs": 2},
    "neural-ode": {"n": 3},
}


def test_names_are_unique_and_completed():
    assert list(CONTROLS) == completion.CONTROLS == list(USED)
    assert not CONTROLS.keys() & (CATALOGUE.keys() | LAWS.keys())
    assert "neural-ode" in completion.scenarios_and_files("neural")


@pytest.mark.parametrize("name", CONTROLS)
def test_every_scenario_arrives_and_another_seed_is_another_request(name):
    found = af.control_scenario(name, **SMALL[name]).find()
    assert found.terminal_error < 1e-8
    assert found.run.target.shape == found.run.final_tokens.shape
    # Control: the targets of another seed are not reached.
    other = af.control_scenario(name, **SMALL[name], seed=1).find()
    assert np.linalg.norm(found.run.final_tokens.values - other.run.target.values, axis=-1).max() > 0.1


def test_prompts_of_one_label_end_on_one_side():
    found = af.control_scenario("steer-labels", n=3, runs=4).find()
    sides = np.sign(found.run.final_tokens.values[..., 0])
    np.testing.assert_array_equal(sides, np.tile([[1.0], [-1.0]], (2, 3)))


def test_on_the_circle_tokens_keep_their_order():
    assert af.control_scenario("steer-sphere", n=3, d=2, start="circle").find().terminal_error < 1e-8


def test_a_control_is_written_drawn_listed_and_repeated(tmp_path):
    printed, _ = attnflow("run", "steer-labels", "--n", "3", "--runs", "2", "--json", cwd=tmp_path)
    facts = json.loads(printed)
    assert (facts["prompts"], facts["tokens"], facts["settings"]["runs"]) == (2, 3, 2)
    assert facts["largest error"] < 1e-8
    run = af.load(tmp_path / "steer-labels.zarr")
    assert run.attrs["scenario"] == "steer-labels"
    picture = af.show.steering(run)
    assert "2 prompts of 3 tokens" in picture.get_suptitle()
    bar = next(one for one in picture.axes[1].collections if len(one.get_paths()) == facts["pieces"])
    assert len(np.unique(bar.get_facecolor(), axis=0)) == 3  # both prompts, and grey where both move
    assert "2411.04551" in attnflow("list", "steer-labels", cwd=tmp_path)[0]
    assert "interpolate-sequences" in attnflow("list", cwd=tmp_path)[0]
    attnflow("show", "steer-labels.zarr", "--out", "again.png", cwd=tmp_path)
    assert (tmp_path / "again.png").is_file()
    assert af.show.movie(run, tmp_path / "labels.gif").stat().st_size > 10_000
    np.testing.assert_array_equal(af.rerun(run).final_tokens, run.final_tokens)
    assert "Leave it out" in attnflow("run", "neural-ode", "--settled", "1", cwd=tmp_path, code=2)[1].replace("\n", " ")


@pytest.mark.parametrize(("d", "has_crosses"), [(3, True), (4, False)])
def test_the_caption_names_crosses_where_they_are_drawn(d, has_crosses):
    picture = af.show.steering(af.control_scenario("steer-sphere", n=2, d=d).find().run)
    caption = " ".join(text.get_text() for text in picture.texts)

    assert "pieces of the control" in caption.replace("\n", " ")
    assert ("Crosses: targets." in caption) == has_crosses


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("steer", {}, "steer-sphere"),
        ("steer-sphere", {"mask": "causal"}, "change nothing"),
        ("steer-sphere", {"runs": 2}, "Its settings are n, d, start, seed"),
        ("steer-sphere", {"n": 0}, "`n`"),
        ("neural-ode", {"places": 2}, "setting"),
    ],
)
def test_bad_input_gets_one_sentence(name, changes, words):
    with pytest.raises(InputError, match=words):
        af.control_scenario(name, **changes)
