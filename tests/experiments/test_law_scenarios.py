"""Scenarios of the mean field: their settings, their runs, and what is refused."""

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.cli import completion
from attnflow.cli.laws import law_facts, readable_law
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.law_scenarios import LAWS


def test_names_are_unique_and_completed():
    assert list(LAWS) == completion.LAWS


def test_printed_numbers_are_above_their_errors():
    """The order of ripples that are symmetric is zero up to rounding; the energy of a Gaussian at beta s = 1 is infinite."""
    symmetric = af.law_scenario("meanfield-zonal", end=0.01, saves=2, rtol=1e-4)
    gaussian = af.law_scenario("meanfield-line", end=1.0, saves=2)
    shown = [readable_law(law_facts(af.mean_field.evolve(**one.arguments()))) for one in (symmetric, gaussian)]

    assert shown[0]["order"].startswith("0 ± 1e-14 at first, ")
    assert shown[1]["energy"] == "decided by tails that the box cuts off at first, 0.5303 at the end"


def test_scenarios_show_what_they_say():
    """Four clusters on the circle; on S^2 a cap and a ring at t = 8, which is a second cap at the end."""
    circle = af.mean_field.evolve(**af.law_scenario("meanfield", saves=2, rtol=1e-5).arguments()).density[-1].values
    zonal = af.law_scenario("meanfield-zonal", rtol=1e-5)
    arguments = zonal.arguments() | {"times": [0.0, 8.0, zonal.times[-1]]}
    _, early, late = af.mean_field.evolve(**arguments).density.values

    assert np.sum((circle > np.roll(circle, 1)) & (circle >= np.roll(circle, -1)) & (circle > 0.3)) == 4
    assert early[0] > 1
    assert early[-1] < 0.01 < 0.3 < early[300:350].max()
    assert min(late[0], late[-1]) > 1 > 1000 * late[128:384].max()


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
