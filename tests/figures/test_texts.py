"""Texts of figures: no number of tokens, heads, starts or layers that a setting could change."""

import re

import pytest

from attnflow.figures.catalogue import catalogue

NUMBER = r"(\d+|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|fifty|sixty|hundred)"
COUNTED = re.compile(rf"\b{NUMBER} (random |Gaussian )?(tokens|starts|runs|layers|dimensions)\b", re.IGNORECASE)


FIVE_GIVEN_TOKENS = {"five-tokens", "energy-staircase"}  # the settings of these figures list the five tokens


@pytest.mark.parametrize("name", [name for name in catalogue() if name not in FIVE_GIVEN_TOKENS])
def test_titles_and_sentences_state_no_number_of_a_setting(name):
    figure = catalogue()[name]

    assert not COUNTED.findall(figure.title)
    assert not COUNTED.findall(figure.shows)


def test_a_fixed_number_would_be_noticed():
    """The control."""
    assert COUNTED.search("Forty tokens of the line")
    assert COUNTED.search("128 tokens in dimension 128")
