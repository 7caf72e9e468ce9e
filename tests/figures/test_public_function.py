"""Functions of figures: every figure has one, with its parameters as arguments."""

import inspect
import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.helpers import figure_stub

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.figures.catalogue import catalogue
from attnflow.figures.public_function import OPTIONS


def test_every_figure_has_a_function():
    names = {figure.function_name for figure in catalogue().values()}

    assert names | {"caption", "draw", "numbers", "runs", "save"} == set(af.figures.__all__) == set(dir(af.figures))


@pytest.mark.parametrize("name", list(catalogue()))
def test_a_function_has_the_parameters_of_its_figure(name):
    figure = catalogue()[name]
    function = getattr(af.figures, figure.function_name)
    arguments = inspect.signature(function).parameters

    assert {key: one.default for key, one in arguments.items() if key not in OPTIONS} == (figure.parameters_of(False))
    assert figure.title in function.__doc__
    assert function.__name__ == figure.function_name


def test_figure_and_data_are_returned():
    figure, data = af.figures.polytope_2d(quick=True, n=5, end=1.0, saves=3, progress=False)

    assert isinstance(figure, Figure)
    assert data.sizes["token"] == 5
    assert "n = 5" not in data.attrs["figure_command"]
    assert data.attrs["figure_command"] == (
        "attnflow reproduce polytope-2d --quick --set end=1.0 --set n=5 --set saves=3"
    )
    np.testing.assert_allclose(data.tokens[-1], data.final_tokens)


def test_mathematics_of_a_figure_is_set_as_mathematics():
    figure, data = af.figures.boolean_1d(n=6, moments=[0.0, 12.0], progress=False)

    assert figure.get_suptitle().replace("\n", " ").endswith(r"at $\mathbfit{t}$ = 12")
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["$t$ = 0", "$t$ = 12"]
    assert "log(−log(1 − $P$))" in [axes.get_ylabel() for axes in figure.axes]
    own = af.figures.draw(data, title="t = 0, as typed", palette=["#ff0000"])
    assert own.get_suptitle() == "t = 0, as typed"


def test_a_wrong_argument_is_refused_with_the_parameters():
    with pytest.raises(InputError, match=r"`m` is no parameter of force; the parameters of force are beta = 10.0"):
        af.figures.force(m=1)


def test_data_hold_the_parameters_as_json():
    assert json.loads(af.figures.force(points=7).data.attrs["figure_parameters"]) == {"beta": 10.0, "points": 7}


def test_editors_read_the_signatures_of_the_catalogue():
    """Else: python -m tests.helpers.figure_stub."""
    assert figure_stub.PATH.read_text("utf-8") == figure_stub.text()
