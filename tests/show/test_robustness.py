"""The picture of `robustness`: no panel twice, and what is left out is counted in the caption."""

import numpy as np
import pytest

from attnflow import show
from attnflow.sweeps.studies.robustness import robustness


@pytest.fixture(scope="module")
def dataset():
    return robustness(["gaussian"], [6, 8], [2], seeds=4, end=10.0, seed=0)


def labels(figure):
    return [axes.get_ylabel() for axes in figure.axes]


def test_counts_equal_to_the_vertices_have_no_panel(dataset):
    same = dataset.assign(clusters=dataset.vertices, leaders=dataset.vertices)
    figure = show.robustness(same)

    assert labels(figure) == ["vertices", "rate"]
    assert "clusters equals that of vertices in 8 of 8 starts, the number of leaders in 8 of 8" in (
        figure.get_supxlabel().replace("\n", " ")
    )


def test_counts_that_differ_have_their_panel(dataset):
    """The control."""
    other = dataset.assign(clusters=dataset.vertices + 1, leaders=dataset.vertices)
    figure = show.robustness(other)

    assert labels(figure) == ["vertices", "clusters", "rate"]
    assert "vertices in 0 of 8 starts" in figure.get_supxlabel().replace("\n", " ")


def test_the_axis_of_the_rate_shows_differences_from_one(dataset):
    low, high = show.robustness(dataset).axes[-1].get_ylim()

    assert 0 < low < 1 < high
    assert high - low < 3 * float(np.ptp(np.append(dataset.rate_interval.values, 1.0)))
