"""Pictures of ensembles: bands are quantiles over runs, outcomes are counted, means have intervals."""

import numpy as np
import pytest
import scipy.stats
from matplotlib.backends.backend_agg import FigureCanvasAgg
from tests.helpers.drawn_figures import artist, caption, heading, simulated

import attnflow as af
from attnflow.analyse.mean_intervals import mean_with_interval
from attnflow.show import summary

TIMES = np.linspace(0, 12, 25)


@pytest.fixture(scope="module")
def ensemble():
    """Twelve runs on the circle that end with different numbers of clusters."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(32.0))
    return simulated(flow, af.initial.circle(15, rng=0, runs=12), TIMES)


def edges(band):
    """Lower and upper edge of a band over its times."""
    points = band.get_paths()[0].vertices
    across = np.unique(points[:, 0])
    heights = [points[points[:, 0] == x, 1] for x in across]
    return across, np.array([h.min() for h in heights]), np.array([h.max() for h in heights])


def test_bands_and_mean_are_those_of_numpy(ensemble):
    axes = summary(ensemble).axes[0]
    counts = np.stack([af.clusters.count(ensemble.isel(run=run), 0.01).values for run in range(12)])
    np.testing.assert_allclose(artist(axes, "mean").get_ydata(), counts.mean(axis=0))
    for name, low, high in (("outer band", 0.1, 0.9), ("inner band", 0.25, 0.75)):
        times, lower, upper = edges(artist(axes, name))
        np.testing.assert_allclose(times, TIMES)
        np.testing.assert_allclose(lower, np.quantile(counts, low, axis=0))
        np.testing.assert_allclose(upper, np.quantile(counts, high, axis=0))


def test_outcomes_are_counted_and_their_mean_has_its_interval(ensemble):
    figure = summary(ensemble)
    numbers = np.array([af.clusters.count(ensemble.final_tokens.values[run], 0.01).item() for run in range(12)])
    bars = figure.axes[2].patches
    found = {round(bar.get_x() + bar.get_width() / 2): int(bar.get_height()) for bar in bars}
    assert found == {int(number): int(np.sum(numbers == number)) for number in np.unique(numbers)}
    low, high = scipy.stats.t.interval(0.95, 11, numbers.mean(), scipy.stats.sem(numbers))
    assert f"mean {numbers.mean():.3g}, 95 % interval {low:.2f} to {high:.2f}" in caption(figure)
    assert "in 12 runs" in heading(figure)
    assert "Run 1" not in caption(figure)


def test_one_run_can_still_be_drawn_with_its_matrices(ensemble):
    figure = summary(ensemble, matrices=[np.eye(15), np.eye(15)], member=3)
    assert "Run 4 of 12" in caption(figure)
    with pytest.raises(ValueError, match="Choose one with `member`"):
        summary(ensemble, matrices=[np.eye(15), np.eye(15)])


def test_runs_that_stop_keep_their_last_value_and_failed_ones_are_left_out():
    flow = af.SphereAttention(af.Head.identity(2))
    run = simulated(flow, af.initial.circle(6, rng=0, runs=5), np.linspace(0, 40, 41), stop=af.Clustered(0.1))
    stops = run.final_time.values
    figure = summary(run)
    last = figure.axes[-1] if figure.axes[-1].patches else figure.axes[-2]
    assert last.get_xlabel() == "time $t$ at which a run stopped"
    assert sum(bar.get_height() for bar in last.patches) == np.sum(stops < 40)
    assert artist(figure.axes[0], "mean").get_ydata()[-1] == np.mean(
        [af.clusters.count(tokens, 0.01).item() for tokens in run.final_tokens.values]
    )
    broken = run.copy(deep=True)
    broken["failed"][0] = True
    assert "Runs that failed and are left out: 1." in caption(summary(broken))
    broken["failed"][:] = True
    assert "Run 1 of 5" in caption(summary(broken))  # nothing else is left


def test_observables_of_an_ensemble_have_bands_too():
    flow = af.SphereAttention(af.Head.identity(3))
    kept = {"keep_tokens": False, "observables": {"mean_cosine": af.observables.mean_cosine}}
    run = simulated(flow, af.initial.sphere(5, 3, rng=0, runs=4), [0.0, 1.0, 2.0], **kept)
    axes = summary(run).axes[0]
    np.testing.assert_allclose(artist(axes, "mean").get_ydata(), run.mean_cosine.mean("run"))
    assert axes.get_ylabel() == "mean cosine"


def test_equal_values_have_no_interval():
    assert mean_with_interval([2, 2, 2]) == "2 in each run"


def test_the_digits_of_a_mean_show_its_interval():
    assert mean_with_interval([1000, 1001, 1002]) == "mean 1001, 95 % interval 998.5 to 1003.5"


def test_legend_and_caption_do_not_overlap(ensemble):
    figure = summary(ensemble)
    FigureCanvasAgg(figure).draw()
    box, text = figure.legends[0].get_window_extent(), figure._supxlabel
    line = text.get_window_extent().height / (text.get_text().count("\n") + 1)
    lowest_letter = text.get_window_extent().y1 - line * len(text.get_text().rstrip().splitlines())

    assert box.y1 <= lowest_letter + 2  # pixels
