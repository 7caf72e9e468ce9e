"""The velocity in the log domain against the plain sum over pairs, for matrices without symmetry."""

import numpy as np
import pytest

import attnflow as af
from attnflow.coalescence.log_field import LogField

TOKENS, MASSES = af.initial.sphere(6, 3, rng=0), np.array([1.0, 2.0, 0.5, 3.0, 1.5, 0.7])
SCORES = np.array([[1.0, 0.8, 0.0], [-0.6, 0.4, 0.3], [0.2, 0.0, -0.9]])
VALUE = np.array([[0.5, -1.0, 0.2], [0.9, 1.2, 0.0], [0.0, 0.4, -0.3]])


@pytest.mark.parametrize("rule", [af.Softmax(3.0), af.Unnormalised(3.0, 0.5)], ids=["softmax", "unnormalised"])
@pytest.mark.parametrize("value", [VALUE, 1.7 * np.eye(3)], ids=["value matrix", "scalar"])
def test_velocities_are_sums_over_all_pairs(rule, value):
    flow = af.SphereAttention(af.Head.bilinear(SCORES, value), rule)
    found = LogField.of(flow, float(MASSES.sum())).velocity(TOKENS, MASSES)

    for i, x in enumerate(TOKENS):
        weights = MASSES * np.exp(3.0 * np.array([x @ SCORES @ y for y in TOKENS]))
        divisor = weights.sum() if isinstance(rule, af.Softmax) else MASSES.sum() * np.exp(3.0 * 0.5)
        pull = sum(weight / divisor * value @ y for weight, y in zip(weights, TOKENS, strict=True))
        expected = pull - (x @ pull) * x
        np.testing.assert_allclose(np.exp(found.log_scale) * found.mantissa[i], expected, rtol=1e-9, atol=1e-12)
