"""Colours of a merge tree, and where the words on its plateau stand."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from attnflow.show.merging.merge_tree import MAX_COLOURED_CLUSTERS, _mark_plateau, _shades
from attnflow.show.parts.page import LIGHT


@pytest.mark.parametrize(("coordinates", "place"), [([1.0, 2.0, 8.0, 9.0], 5.0), ([7.0, 8.0, 9.0], 3.5)])
def test_words_stand_in_the_middle_of_the_widest_gap(coordinates, place):
    figure, axes = plt.subplots()
    axes.set_xlim(0.0, 10.0)
    _mark_plateau(axes, (2.0, 6.0), np.array(coordinates))

    (words,) = axes.texts
    assert words.get_position() == (place, 4.0)
    assert words.get_text().startswith(f"{len(coordinates)} clusters from")
    plt.close(figure)


@pytest.mark.parametrize("count", [2, MAX_COLOURED_CLUSTERS, MAX_COLOURED_CLUSTERS + 1])
def test_up_to_eight_clusters_have_colours_and_more_are_grey(count):
    """Pairs of tokens 2k and 2k + 1 merge before the plateau; the last token is alone."""
    merges = [(2 * k, 2 * k + 1, 0.5) for k in range(count)] + [(0, 2, 9.0)]
    shades = _shades(merges, list(range(2 * count + 1)), (1.0, 8.0))

    own = {shades[2 * k] for k in range(count)}
    if count > MAX_COLOURED_CLUSTERS:
        assert set(shades.values()) == {LIGHT.grey}
    else:
        assert len(own) == count
        assert all(shades[2 * k] == shades[2 * k + 1] for k in range(count))
        assert shades[2 * count] == LIGHT.ink
    assert set(_shades(merges, [0, 1, 2], None).values()) == {LIGHT.ink}
