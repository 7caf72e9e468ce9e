"""Parameters of figures: as text, from Python, and what is said of those that do not fit."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attnflow._common.checks import InputError
from attnflow.cli.app import app
from attnflow.figures.catalogue import catalogue, find
from attnflow.figures.parameters import changed_figure, from_texts, parameter_list


@pytest.mark.parametrize(
    ("figure", "text", "value"),
    [
        ("polytope-2d", "n=80", 80),
        ("polytope-2d", "n = 80", 80),
        ("polytope-2d", "start=gaussian:2", "gaussian:2"),
        ("force", "beta=3", 3.0),
        ("sphere-clustering", "betas=1,4", [1.0, 4.0]),
        ("sphere-clustering", "betas=[1, 4]", [1.0, 4.0]),
        ("normalisation-rates", "schemes=Post-LN, Pre-LN", ["Post-LN", "Pre-LN"]),
        ("five-tokens", "tokens=[[1, 0], [0, 1]]", [[1.0, 0.0], [0.0, 1.0]]),
        ("hardmax-leaders", 'seeds={"triangle": 4}', {"triangle": 4}),
    ],
)
def test_a_parameter_is_read_in_the_type_of_the_catalogue(figure, text, value):
    entry = find(figure)
    changed = changed_figure(entry, from_texts(entry, [text]))
    name = text.partition("=")[0].strip()

    assert changed.changes == {name: value}
    assert type(changed.settings[name]) is type(entry.settings[name])
    assert entry.settings[name] != value
    assert changed.settings_of(True)[name] == value  # also where the quick figure has a value of its own


def test_arrays_are_lists():
    changed = changed_figure(find("sphere-clustering"), {"betas": np.array([2, 3]), "n": np.int64(5)})

    assert json.dumps(changed.changes) == '{"betas": [2.0, 3.0], "n": 5}'


@pytest.mark.parametrize(
    ("figure", "text", "problem"),
    [
        ("polytope-2d", "m=8", "`m` is no parameter of polytope-2d"),
        ("polytope-2d", "d=3", "`d` cannot be changed in polytope-2d, whose title depends on it"),
        ("polytope-2d", "n", "A parameter must be given as NAME=VALUE, but it is 'n'"),
        ("polytope-2d", "n=many", "`n` of polytope-2d must be a whole number, at least 2, but it is 'many'"),
        ("polytope-2d", "n=1", "at least 2, but it is 1"),
        ("polytope-2d", "n=2.5", "at least 2, but it is 2.5"),
        ("polytope-2d", "n=true", "at least 2, but it is True"),
        ("force", "beta=nan", "`beta` of force must be a finite number, but it is 'nan'"),
        ("polytope-2d", "end=-1", "`end` of polytope-2d must be a finite number above zero, but it is -1"),
        ("sphere-clustering", "betas=1,x", "`betas` of sphere-clustering must be a list"),
        ("sphere-clustering", "betas=[]", "must be a list"),
        ("five-tokens", "tokens=1,2", "a list, each entry of it a list, each entry of it a finite number"),
    ],
)
def test_a_wrong_parameter_is_one_sentence_with_all_parameters(figure, text, problem):
    entry = find(figure)
    with pytest.raises(InputError) as raised:
        changed_figure(entry, from_texts(entry, [text]))

    message = str(raised.value)
    assert problem in message
    assert message.endswith(f"; the parameters of {figure} are {parameter_list(entry)}.")
    assert message.count("; the parameters") == 1


@pytest.mark.parametrize("name", list(catalogue()))
def test_every_value_of_the_catalogue_fits(name):
    figure = catalogue()[name]

    same = changed_figure(figure, figure.parameters_of(False))
    quick = changed_figure(figure, figure.parameters_of(True))

    assert same.changes == {}
    assert quick.changes == {key: value for key, value in figure.quick.items() if value != figure.settings[key]}
    assert set(figure.fixed) <= set(figure.settings)


def test_files_and_command_name_the_changes():
    changed = changed_figure(find("sphere-clustering"), {"n": 8, "betas": [1, 4.5]})

    assert changed.stem(True) == "sphere-clustering-betas-1.0-4.5-n-8-quick"
    assert changed.command(True) == "attnflow reproduce sphere-clustering --quick --set 'betas=[1.0, 4.5]' --set n=8"
    again = changed_figure(
        find("sphere-clustering"), from_texts(find("sphere-clustering"), ["betas=[1.0, 4.5]", "n=8"])
    )
    assert again == changed


def test_a_wrong_parameter_is_said_before_anything_is_made(tmp_path):
    folder = tmp_path / "figures"
    finished = CliRunner().invoke(app, ["reproduce", "force", "--set", "betta=1", "--out", str(folder)])

    assert finished.exit_code != 0
    assert "the parameters of force are beta = 10.0, points = 721." in str(finished.exception)
    assert not folder.exists()


def test_a_seed_where_nothing_is_random_is_refused(tmp_path):
    finished = CliRunner().invoke(app, ["reproduce", "force", "--seed", "1", "--out", str(tmp_path)])

    assert finished.exit_code != 0
    assert "none of the chosen figures has random numbers" in str(finished.exception)


def test_parameters_are_listed():
    plain = CliRunner().invoke(app, ["reproduce", "force", "polytope-2d", "--parameters"], catch_exceptions=False)
    listed = CliRunner().invoke(app, ["reproduce", "force", "--parameters", "--json"], catch_exceptions=False)

    assert "force: The force between two tokens\n    --set beta=10.0\n    --set points=721" in plain.stdout
    assert "    --set n=20\n" in plain.stdout
    assert "--set d=" not in plain.stdout
    assert json.loads(listed.stdout) == {"force": {"beta": 10.0, "points": 721}}


@pytest.mark.parametrize(
    ("figure", "given", "words"),
    [
        ("normalisation-rates", {"schemes": ["Past-LN"]}, "Post-LN"),
        ("multihead-eigenvalues", {"start": "sphere"}, "circle"),
        ("hardmax-leaders", {"n": 3}, "`n` must be at least 6"),
        ("hardmax-leaders", {"seeds": {"triangle": 1}}, "one seed for each"),
        ("causal-limits", {"spectra": [[1.0, 2.0]]}, "three eigenvalues"),
        ("phase-diagrams", {"store": "phases.nc"}, r"is written as `\.zarr`"),
    ],
)
def test_values_that_do_not_fit_each_other_are_refused_in_words(figure, given, words):
    entry = changed_figure(find(figure), given)
    with pytest.raises(InputError, match=words):
        entry.compute(False, **entry.settings_of(True))
