"""Fixtures of the tests of pictures."""

import numpy as np
import pytest
from tests.helpers.drawn_figures import simulated

import attnflow as af


@pytest.fixture(scope="session")
def polygon():
    """Twenty tokens that gather at the vertices of a polygon."""
    flow = af.RescaledAttention(af.Head.identity(2))
    return simulated(flow, af.initial.box(20, 2, rng=0), np.linspace(0, 8, 17))
