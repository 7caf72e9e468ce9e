"""The time from which on rounding decides scores, against scores computed with e^{tV} in full."""

import numpy as np
import pytest
import xarray as xr
from scipy.linalg import expm

import attnflow as af
from attnflow.integrate.score_resolution import resolution_note

QUERY, KEY = np.array([[2.0, 0.0], [5.0, 1.0], [0.0, 3.0]]), np.array([[1.0, 4.0], [0.0, 0.5], [0.0, 2.0]])
VALUE = np.array([[1.0, 0.7], [0.0, 0.4]])
"""All entries are positive, so that the bound on the scores is reached by tokens with positive coordinates."""
TIMES = np.linspace(0, 30, 301)


def recorded(tokens, dtype="float64", keep=True):
    """A run whose rescaled tokens rest."""
    tokens = np.asarray(tokens, dtype)
    variables = {"final_tokens": (("token", "coordinate"), tokens), "final_time": ((), TIMES[-1])}
    if keep:
        variables["tokens"] = (("time", "token", "coordinate"), np.repeat(tokens[None], len(TIMES), axis=0))
    return xr.Dataset(variables, {"time": TIMES})


def since(note):
    return float(note.split("From about t = ")[1].split(" on ")[0])


@pytest.mark.parametrize(("beta", "dtype"), [(1.0, "float64"), (50.0, "float64"), (1.0, "float32")])
def test_it_is_the_time_at_which_the_largest_score_has_a_rounding_error_of_one(beta, dtype):
    tokens = np.array([[0.3, 1.7], [2.0, 0.1]])
    corner = tokens.max(axis=0)  # the bound takes the largest of each coordinate
    flow = af.RescaledAttention(af.Head(QUERY, KEY, VALUE), af.Softmax(beta))

    scores = [beta * (QUERY @ expm(t * VALUE) @ corner) @ (KEY @ expm(t * VALUE) @ corner) for t in TIMES]
    expected = np.interp(0.0, np.log(np.array(scores) * np.finfo(dtype).eps), TIMES)

    assert since(resolution_note(flow, recorded(tokens, dtype))) == pytest.approx(expected, rel=0.01)


def test_without_the_tokens_of_all_times_it_is_told_at_the_end():
    flow = af.RescaledAttention(af.Head(QUERY, KEY, VALUE))

    assert since(resolution_note(flow, recorded(np.ones((2, 2)), keep=False))) == TIMES[-1]


def test_the_largest_head_decides():
    small, large = af.Head(1e-3 * QUERY, KEY, VALUE), af.Head(QUERY, KEY, VALUE)
    run = recorded(np.ones((2, 2)))
    pairs = ([large, large], [small, large], [small, small])
    both, one, none = (since(resolution_note(af.RescaledAttention(pair), run)) for pair in pairs)

    assert both == one < none


@pytest.mark.parametrize(
    "flow",
    [
        af.RescaledAttention(af.Head(QUERY, KEY, VALUE), af.Hardmax()),
        af.EuclideanAttention(af.Head(QUERY, KEY, VALUE)),
        af.RescaledAttention(af.Head(QUERY, KEY, -VALUE)),
    ],
    ids=["hardmax", "not rescaled", "shrinking"],
)
def test_other_flows_get_no_note(flow):
    assert resolution_note(flow, recorded(np.ones((2, 2)))) == ""


def test_equal_weights_in_single_precision_warn_of_nothing():
    """At beta = 0 all scores are zero, whatever the precision; warnings are errors in tests."""
    flow = af.RescaledAttention(af.Head.identity(2), af.Softmax(beta=0.0))

    assert resolution_note(flow, af.simulate(flow, np.eye(2), [0.0, 1.0], dtype="float32", progress=False)) == ""
