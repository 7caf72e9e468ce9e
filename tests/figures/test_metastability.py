"""Figures of arXiv:2410.06833: merge times against SciPy and the formula of a pair, levels against their definition."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attnflow.analyse import plateau_forecasts
from attnflow.figures.entries import metastability
from attnflow.figures.entries.joined_runs import separated
from attnflow.figures.entries.metastability import FIVE


def test_five_tokens_meet_when_an_accurate_solver_says():
    """The last two clusters are a millionth apart, the merging distance, at the time the figure prints."""
    beta, first = 4.0, np.array(FIVE)

    def rate(_, angles):
        gaps = angles[None, :] - angles[:, None]
        weights = np.exp(beta * np.cos(gaps))
        return np.sum(weights * np.sin(gaps), axis=1) / weights.sum(axis=1)

    meets = lambda _, angles: 2 * np.sin(abs(angles[2] - angles[0]) / 2) - 1e-6
    meets.terminal = True
    angles = np.arctan2(first[:, 1], first[:, 0]) % (2 * np.pi)
    run = solve_ivp(rate, (0, 400), angles, events=meets, rtol=1e-10, atol=1e-12)
    data = metastability.compute_five(False, tokens=FIVE, beta=beta)
    numbers = metastability.five_numbers(data)
    # The approach takes e^{-t}: a relative error of 1e-6 in the distance is one of 1e-6 in t.
    assert numbers["time of the merge that leaves 1, two being closer than 1e-06"] == pytest.approx(
        run.t_events[0][0], rel=1e-3
    )
    assert numbers["longest plateau, clusters"] == 2


@pytest.fixture(scope="module")
def staircase():
    return metastability.compute_staircase(False, betas=[1000, 4000], units=[0, 0.5, 2, 4, 7])


def test_levels_of_the_staircase_are_sums_of_squared_shares(staircase):
    levels = [(4 + 1 + 1 + 1) / 25, (9 + 1 + 1) / 25, (9 + 4) / 25]
    np.testing.assert_allclose(staircase.level_before[-1, 1:], levels)
    numbers = metastability.staircase_numbers(staircase)
    assert numbers["levels of the plateaus, sum of squared shares"] == "0.28, 0.44, 0.52"
    # e^(-4000 (1 - cos)) of the nearest clusters is far below 4000 times the rounding error of a cosine.
    assert numbers["largest distance of the energy from its level before a merge, largest beta"] == "0 ± 9e-13"


def test_the_last_merge_takes_as_long_as_two_clusters_alone(staircase):
    """Masses 3 and 2 of 5 at angle th: log t = beta (1 - cos th) - log(beta sin^2 th), to leading order."""
    runs = metastability.staircase_runs(staircase)
    assert list(runs) == ["β = 1000", "β = 4000"]
    for beta, run in zip((1000, 4000), runs.values(), strict=True):
        state = int(np.argmax(run.clusters.values == 2))
        angles = np.arctan2(run.tokens[state, :, 1], run.tokens[state, :, 0])
        angle = float(angles.max() - angles.min())
        expected = beta * (1 - np.cos(angle)) - np.log(beta * np.sin(angle) ** 2)
        assert float(run.merge_log_time[-1]) == pytest.approx(expected, abs=0.1)  # 1 + O(1/beta) as a factor of t


def test_plateaus_of_runs_of_different_lengths_are_counted():
    data = metastability.compute_plateaus(False, n=5, beta=30.0, starts=3, seed=0)
    runs = separated(data)
    assert len({run.sizes["state"] for run in runs}) > 1
    numbers = metastability.plateau_numbers(data)
    assert numbers["merges"] == 12
    assert (
        numbers["plateaus forecast at their start"]
        == sum(int(plateau_forecasts.is_forecast(run).sum()) for run in runs)
        > 2
    )
    assert 0 < numbers["largest error of the formula there, in log t"] < plateau_forecasts.MAX_FORECAST_ERROR


def test_the_tree_tells_its_longest_plateau():
    data = metastability.compute_tree(False, n=6, beta=40.0, seed=1)
    numbers = metastability.tree_numbers(data)
    times = np.sort(data.merge_log_time.values)
    gaps = times[1:] - times[:-1]
    left = 6 - 1 - int(np.argmax(gaps))
    assert (numbers["tokens"], numbers["clusters on the longest plateau"]) == (6, left)
    assert numbers["log t at which one cluster is left"] == times[-1]
