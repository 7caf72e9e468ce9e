"""Nodes, derivatives and series of Radau collocation."""

import numpy as np
import pytest
from numpy.polynomial import legendre

from attnflow.streaming import radau
from attnflow.streaming.radau import DERIVATIVE, END_DERIVATIVES, NODES, STAGES, START_AND_NODES, series_of


def test_the_nodes_are_the_zeros_of_a_difference_of_legendre_polynomials():
    """On [-1, 1] the right Radau nodes are the zeros of P_s - P_{s-1}."""
    difference = legendre.legval(2 * NODES - 1, np.eye(STAGES + 1)[STAGES] - np.eye(STAGES + 1)[STAGES - 1])
    assert np.abs(difference).max() < 1e-14
    assert np.all(np.diff(NODES) > 0)
    assert NODES[-1] == 1.0


def test_polynomials_of_full_degree_are_differentiated_exactly():
    powers = np.arange(1, STAGES + 1)
    values = NODES[:, None] ** powers
    np.testing.assert_allclose(DERIVATIVE @ values, powers * NODES[:, None] ** (powers - 1), atol=1e-11)
    ends = END_DERIVATIVES @ series_of(START_AND_NODES[:, None] ** powers)
    np.testing.assert_allclose(ends, [powers, powers * (powers - 1)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stiffness", [-1.0, -1e3, -1e12])
def test_a_step_of_the_linear_equation_is_stable_and_of_high_order(stiffness):
    """y' = z y over one step: e^z to rounding at moderate z, and like 12 / z for large z (L-stability)."""
    end = 1 + np.linalg.solve(DERIVATIVE - stiffness * np.eye(STAGES), stiffness * np.ones(STAGES))[-1]
    assert abs(end - np.exp(stiffness)) < (1e-13 if stiffness == -1.0 else 13 / abs(stiffness))


def test_the_truncation_estimate_sees_symmetric_paths_too():
    even = np.cos(3 * (START_AND_NODES - 0.5))[:, None]
    series = series_of(even)
    odd_degree = series.copy()
    odd_degree[-1] = 0.0
    assert radau.truncation_estimate(odd_degree) == np.abs(series[-2]).max() / 10
