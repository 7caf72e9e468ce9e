"""Exact times as sums of floats."""

from fractions import Fraction

import pytest

from attnflow.streaming.exact_time import component_count, components_of, elapsed


def test_exact_times_resolve_2_to_the_minus_60_at_the_largest_float():
    last, step = Fraction(2**1024, 3), Fraction(1, 2**60)  # all bits of `last` are needed
    count = component_count(float(last))
    difference = lambda count: elapsed(components_of(last - step, count), components_of(last, count))
    assert difference(count) == pytest.approx(float(step), rel=1e-6)
    assert difference(count - 2) == 0  # control: fewer components do not resolve it
