"""Maps of values over a grid: all cells are whole."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from attnflow.show.parts.heatmaps import HeatMap


@pytest.mark.parametrize("yscale", ["linear", "log"])
def test_cells_at_the_edges_are_as_large_as_the_others(yscale):
    x, y = np.array([0.0, 1.0, 2.0]), np.geomspace(1, 100, 3) if yscale == "log" else np.array([1.0, 3.0, 5.0])
    axes = Figure().subplots()

    HeatMap(x, y, np.zeros((3, 3)), yscale=yscale).draw(axes)

    height = np.log(axes.get_ylim()) if yscale == "log" else np.array(axes.get_ylim())
    between = np.log(y[1] / y[0]) if yscale == "log" else y[1] - y[0]
    assert np.ptp(axes.get_xlim()) == pytest.approx(3 * (x[1] - x[0]))
    assert np.ptp(height) == pytest.approx(3 * between)
    assert all(x[0] <= tick <= x[-1] for tick in axes.get_xticks())
