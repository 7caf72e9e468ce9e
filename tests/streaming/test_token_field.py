"""The velocity of one token and its Jacobian: against the flow's own velocity and finite differences."""

import numpy as np
import pytest

import attnflow as af
from attnflow.streaming.token_field import Chart, TokenField

RNG = np.random.default_rng(3)
HEADS = [af.Head(*RNG.normal(size=(3, 3, 3)) / 2) for _ in range(2)]
TOKENS = np.asarray(af.initial.sphere(5, 3, rng=1))
FLOWS = {
    "sphere": af.SphereAttention(HEADS, af.Softmax(2.0), af.masks.causal, masses=np.linspace(1.0, 2.0, 5)),
    "unnormalised": af.SphereAttention(HEADS, af.Unnormalised(1.5, 0.5), af.masks.causal),
    "R^d": af.EuclideanAttention(HEADS, af.Softmax(2.0), af.masks.causal & af.masks.alibi(0.2)),
}


@pytest.fixture(params=FLOWS)
def flow(request):
    return FLOWS[request.param]


def field_and_seen(flow):
    """The field of the last token, and the keys and values of the others at one time."""
    field = TokenField.of(flow, 4, 5)
    return field, field.keys_and_values(TOKENS[None, field.seen])


def test_at_the_centre_of_the_chart_it_is_the_velocity_of_the_flow(flow):
    field, seen = field_and_seen(flow)
    chart = Chart.around(TOKENS[4], field.is_on_sphere)
    velocity, _ = field.velocity(chart, np.zeros((1, 2 if field.is_on_sphere else 3)), seen)
    in_space = chart.basis @ velocity[0] if chart.basis is not None else velocity[0]
    np.testing.assert_allclose(in_space, np.asarray(af.velocity(flow, TOKENS))[4], atol=1e-13)


def test_the_jacobian_is_that_of_finite_differences(flow):
    field, seen = field_and_seen(flow)
    chart = Chart.around(TOKENS[4], field.is_on_sphere)
    y = np.array([[0.3, -0.2]]) if field.is_on_sphere else np.array([[0.3, -0.2, 0.5]])
    _, jacobian = field.velocity(chart, y, seen)
    step = 1e-5
    ahead, behind = ([field.velocity(chart, y + sign * step * unit, seen)[0][0] for unit in np.eye(y.shape[1])]
                     for sign in (1, -1))  # fmt: skip
    np.testing.assert_allclose(jacobian[0], (np.array(ahead) - np.array(behind)).T / (2 * step), atol=1e-9)


def test_rounding_of_scores_counts_where_they_are_large_and_nearly_equal():
    """Scores of 1e18 are rounded to 128: they do not decide between two tokens, but between one and its opposite."""
    plain = af.EuclideanAttention(af.Head.identity(2), af.Softmax(1.0), af.masks.causal)
    field, point = TokenField.of(plain, 2, 3), np.array([1e9, 0.0])
    rounding = lambda others: field.rounding(point, field.keys_and_values(np.array([others])))
    assert rounding([[1e9, 1.0], [1e9, -1.0]]) > 1.0
    assert rounding([[-1e9, 1.0], [-1e9, -1.0]]) == 0.0
    assert field.rounding(point / 1e9, field.keys_and_values(np.array([[[1.0, 1.0], [1.0, -1.0]]]))) < 1e-14
    assert TokenField.of(FLOWS["sphere"], 4, 5).rounding(TOKENS[4], []) == 0.0
