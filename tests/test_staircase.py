"""The picture of a coalescing run."""

import numpy as np
import pytest

import attnflow as af


@pytest.fixture(scope="module")
def run():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(60.0))
    return af.coalesce(flow, af.initial.on_circle(np.array([2.0, 0.0, 2.3, 0.4])), progress=False)


def test_the_tree_has_a_bracket_at_every_merge(run, tmp_path):
    figure = af.show.staircase(run, tmp_path / "tree.png")
    heights = {line.get_ydata()[0] for line in figure.axes[1].lines if np.ptp(line.get_ydata()) == 0}
    assert heights == set(run.merge_log_time.values.tolist())
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == ["0", "2", "1", "3"]
    assert (tmp_path / "tree.png").exists()


def test_the_energy_is_that_of_the_run(run):
    energy = af.show.staircase(run).axes[0].lines[1]
    known = np.isfinite(run.log_time.values)
    np.testing.assert_array_equal(energy.get_ydata(), run.energy.values[known])


def test_other_results_are_refused():
    with pytest.raises(ValueError, match="made by `coalesce`"):
        af.show.staircase(af.simulate(af.SphereAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0]))
