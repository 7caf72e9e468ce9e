"""The factors of scaled rotary positions."""

import math

import pytest

from attnflow.models.config_entries import Entries
from attnflow.models.rotary import _yarn_length

FACTOR = 4.0


@pytest.mark.parametrize(
    ("entries", "length"),
    [
        ({}, 1 + 0.1 * math.log(FACTOR)),
        ({"attention_factor": 1.7}, 1.7),
        ({"mscale": 0.7, "mscale_all_dim": 0.3}, (1 + 0.07 * math.log(FACTOR)) / (1 + 0.03 * math.log(FACTOR))),
        ({"mscale": 0.7}, 1 + 0.1 * math.log(FACTOR)),  # one of the two alone has no effect
    ],
)
def test_the_length_of_yarn(entries, length):
    assert _yarn_length(Entries(entries, "a model"), FACTOR) == pytest.approx(length, rel=1e-14)


def test_a_factor_of_at_most_one_changes_no_length():
    assert _yarn_length(Entries({}, "a model"), 0.5) == 1
