"""Gaussian laws: closed forms in one dimension, tokens in three, and refusals."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

mean_field = af.mean_field


@pytest.mark.parametrize(("value", "product"), [(-1.0, 1.0), (0.8, -0.5), (0.6, 1.5)])
def test_variance_in_one_dimension(value, product):
    flow = af.EuclideanAttention(af.Head.bilinear([[product]], [[value]]), af.Softmax(1.3))
    times = np.linspace(0, 0.9 / (2 * 1.3 * abs(value * product) * 0.7), 5)
    law = mean_field.gaussian(flow, [0.2], [[0.7]], times)

    expected = 0.7 / (1 - 2 * 1.3 * value * product * 0.7 * times)
    np.testing.assert_allclose(law.covariance.values.ravel(), expected, rtol=1e-8)


def test_the_time_at_which_the_variance_is_infinite():
    law = mean_field.gaussian(af.EuclideanAttention(af.Head.identity(1)), [0.0], [[2.0]], [0.0, 0.1, 1.0])

    assert float(law.blow_up_time) == pytest.approx(0.25, rel=1e-8)
    assert law.time.values.tolist() == [0.0, 0.1]
    assert "infinite at t = 0.25" in law.outcome


def test_tokens_tend_to_the_law_as_their_number_grows():
    rng = np.random.default_rng(3)
    value, product = -0.5 * np.eye(3) + 0.2 * rng.normal(size=(3, 3)), 0.3 * rng.normal(size=(3, 3))
    heads = [af.Head.bilinear(product, value), af.Head.bilinear(product.T, 0.3 * value.T)]
    flow, mean, covariance = af.EuclideanAttention(heads), np.array([0.3, -0.2, 0.1]), np.diag([1.0, 0.5, 0.2])
    law = mean_field.gaussian(flow, mean, covariance, [0.0, 1.0])
    errors = []
    for n in (100, 1600):
        tokens = rng.multivariate_normal(mean, covariance, (8, n))
        last = af.simulate(flow, tokens, [0.0, 1.0], progress=False).final_tokens.values
        spread = np.array([np.cov(one.T) for one in last])
        errors.append(np.sqrt(np.mean((spread - law.covariance.values[-1]) ** 2)))

    assert errors[1] < 0.03
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.6)  # n^-1/2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flow": af.SphereAttention(af.Head.identity(2))}, "EuclideanAttention"),
        ({"flow": af.EuclideanAttention(af.Head.identity(2), af.Unnormalised(1.0))}, "softmax"),
        ({"flow": af.EuclideanAttention(af.Head.identity(2), mask=af.masks.causal)}, "full mask"),
        ({"covariance": np.eye(3)}, "shapes"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive semidefinite"),
        ({"covariance": [[1.0, np.inf], [np.inf, 1.0]]}, "finite"),
    ],
)
def test_bad_input_gets_one_sentence(changes, words):
    arguments = {
        "flow": af.EuclideanAttention(af.Head.identity(2)),
        "mean": np.zeros(2),
        "covariance": np.eye(2),
        "times": [0.0, 1.0],
    }
    with pytest.raises(InputError, match=words):
        mean_field.gaussian(**(arguments | changes))
