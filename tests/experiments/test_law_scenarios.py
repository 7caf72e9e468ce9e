"""Scenarios of the mean field: their settings, their runs, and what is refused."""

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.cli import completion
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.law_scenarios import LAWS


def test_names_are_unique_and_completed():
    assert list(LAWS) == completion.LAWS


@pytest.mark.parametrize("command", [["predict"], ["sweep", "--over", "beta=1,2", "--from"], ["stream"]])
def test_commands_that_need_tokens_say_so_of_a_law(command, tmp_path):
    _, error = attnflow(*command, "meanfield", cwd=tmp_path, code=2)
    assert "The scenario 'meanfield' has no flow of tokens." in error
    assert "attnflow run meanfield" in error
    assert not LAWS.keys() & CATALOGUE.keys()


@pytest.mark.parametrize("name", LAWS)
def test_every_scenario_can_be_integrated(name):
    setup = af.law_scenario(name, end=0.01, saves=3, rtol=1e-4)
    law = af.mean_field.evolve(**setup.arguments(), modes=40 if setup.flow.dimension == 2 else None)

    np.testing.assert_allclose(law.time, [0.0, 0.005, 0.01])
    assert float(law.least_density.min()) > 0


@pytest.mark.parametrize("name", ["meanfield", "meanfield-sphere", "meanfield-line"])
def test_a_run_is_repeated_bit_for_bit_from_its_file(name, tmp_path):
    setup = af.law_scenario(name, end=0.02, saves=3, rtol=1e-4)
    law = af.mean_field.evolve(**setup.arguments())
    loaded = af.load(af.save(law, tmp_path / "law.nc"))

    assert af.rerun(loaded).equals(law)
    assert not af.rerun(loaded, flow=af.law_scenario(name, beta=2.0).flow).equals(law)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("meanfeld", {}, "meanfield"),
        ("meanfield", {"n": 5}, "change nothing"),
        ("meanfield", {"mask": "causal"}, "change nothing"),
        ("meanfield", {"start": "box:-1,1"}, "density in R"),
        ("meanfield-line", {"start": "wave:3,0.1"}, "circle or S"),
        ("meanfield-line", {"kappa": 3.0}, "noise in R"),
        ("meanfield", {"start": "waves"}, "wave"),
        ("meanfield", {"d": 4}, "circle or S"),
    ],
)
def test_bad_input_gets_one_sentence(name, changes, words):
    with pytest.raises(InputError, match=words):
        af.law_scenario(name, **changes)
