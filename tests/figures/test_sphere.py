"""Figures of arXiv:2312.10794 at a small size: their arrays and numbers against SciPy and closed forms."""

import numpy as np
import pytest
from tests.helpers import oracle
from tests.helpers.sweeping import first_tokens_of

from attnflow.analyse import clusters
from attnflow.figures.entries import phase_diagrams, sphere
from attnflow.model import initial
from attnflow.show.parts.composition import compose

TIMES = np.linspace(0, 6, 5)


def path_of(tokens, beta, times):
    n, d = tokens.shape
    weights = oracle.Weights(np.eye(d), np.eye(d), np.eye(d))
    return oracle.solve(oracle.Sphere([weights], oracle.softmax(beta), oracle.mask(n)), tokens, times)[0]


@pytest.fixture(scope="module")
def clustering():
    return sphere.compute_clustering(False, n=6, betas=[1.0, 9.0], end=TIMES[-1], saves=len(TIMES), frames=3, seed=1)


def test_every_row_of_globes_is_the_flow_at_its_beta(clustering):
    for beta in (1.0, 9.0):
        expected = path_of(initial.sphere(6, 3, rng=1), beta, TIMES)
        np.testing.assert_allclose(clustering.tokens.sel(beta=beta), expected, atol=1e-6)  # solver's rtol is 1e-8
    assert np.abs(clustering.tokens.sel(beta=1.0) - clustering.tokens.sel(beta=9.0)).max() > 0.1


def test_energies_beside_the_globes_are_those_of_the_definition(clustering):
    numbers = sphere.clustering_numbers(clustering)
    for beta in (1.0, 9.0):
        path = path_of(initial.sphere(6, 3, rng=1), beta, TIMES)
        energies = [np.mean(np.exp(beta * (tokens @ tokens.T - 1))) for tokens in (path[0], path[-1])]
        printed = numbers[f"energy at the start and at the end, beta = {beta:g}"]
        np.testing.assert_allclose([float(word) for word in printed.split(", ")], energies, atol=1e-4)  # four digits
    first = sphere.clustering_numbers(clustering.isel(time=slice(0, 1)))
    assert first["clusters at t = 0, beta = 1"] == 6  # tokens that are apart


def test_verdicts_are_of_the_row_they_stand_for(clustering):
    verdicts = sphere.clustering_verdicts(clustering)
    assert [one.id for one in verdicts] == ["single-cluster", "energy-sa"] * 2
    assert [one.verdict for one in verdicts[1::2]] == ["holds", "holds"]


PHASES = {
    "n": 4, "dimensions": [2, 64], "least_beta": 0.5, "largest_beta": 2.0, "betas": 2, "end": 8.0, "saves": 17,
    "runs": 3, "cosine": 0.999, "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def phases():
    return phase_diagrams.compute_phases(False, **PHASES, published_n=128, store="")


@pytest.mark.parametrize("d", [2, 64])
def test_shares_of_close_pairs_are_those_of_the_flow(phases, d):
    pairs, count = np.triu_indices(4, 1), PHASES["runs"]
    for beta in (0.5, 2.0):
        starts = first_tokens_of(phase_diagrams.phase_spec(**PHASES), {"beta": beta, "d": d}, count)
        paths = [path_of(tokens, beta, phases.time.values) for tokens in starts]
        cosines = np.array([[(tokens @ tokens.T)[pairs] for tokens in path] for path in paths])
        shares = (cosines > 0.999).mean(axis=2)
        expected, error = shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(count)
        found = phases.share.sel(dimension=d, beta=beta).values
        # In float32 a pair that crosses the threshold right at a saved time may fall on either side.
        assert np.mean(np.abs(found - expected) > 1e-6) < 0.1
        assert np.mean(np.abs(phases.error.sel(dimension=d, beta=beta).values - error) > 1e-6) < 0.1
        assert expected[-1] > 0.3


def test_nearly_orthogonal_tokens_meet_when_the_curve_says(phases):
    numbers = phase_diagrams.phase_numbers(phases)
    curve = numbers["time on the curve at beta = 0.5, n = 4"]
    assert abs(numbers["time at which half of the pairs are close, d = 64"] / curve - 1) < 0.1  # cosines start at 1/8
    assert phases.published_arrival[0] > phases.arrival[0]


def test_a_share_that_never_reaches_one_half_has_no_half_time():
    assert np.isnan(phase_diagrams.half_time(TIMES, np.full(5, 0.4)))
    assert phase_diagrams.half_time(TIMES, np.full(5, 0.6)) == 0


@pytest.mark.parametrize("n", [2, 5])
def test_the_curve_at_beta_zero_is_known(n):
    """rho' = 2 (1 - rho)((n-1) rho + 1) / n from 0: rho = (e^{2t} - 1) / (e^{2t} + n - 1); tanh t for two tokens."""
    growth = np.exp(2 * TIMES)
    found = sphere.equiangular_cosines(n, 0.0, TIMES)
    np.testing.assert_allclose(found, (growth - 1) / (growth + n - 1), atol=1e-9)
    time = np.log((1 + 0.999 * (n - 1)) / (1 - 0.999)) / 2
    np.testing.assert_allclose(phase_diagrams.arrival(n, 0.0, 0.999), time, rtol=1e-9)


def test_histograms_are_of_the_tokens_of_their_time():
    data = sphere.compute_cosines(False, n=6, d=3, beta=1.0, times=TIMES.tolist(), bins=20, seed=1)
    path = path_of(initial.sphere(6, 3, rng=1), 1.0, TIMES)
    pairs = np.triu_indices(6, 1)
    for place, tokens in enumerate(path):
        counts, _ = np.histogram(np.clip((tokens @ tokens.T)[pairs], -1, 1), np.linspace(-1, 1, 21))
        np.testing.assert_allclose(data.density[place] * 15 * 0.1, counts, atol=1e-9)
    means = sphere.cosine_numbers(data)
    assert means["mean inner product at t = 6"] == pytest.approx((path[-1] @ path[-1].T)[pairs].mean(), abs=1e-6)


def test_the_title_counts_the_clusters_of_every_row_and_all_rows_share_a_camera(clustering):
    figure = compose(sphere.draw_clustering(clustering))

    for beta in (1.0, 9.0):
        count = int(clusters.count(clustering.sel(beta=beta), sphere.CLUSTER_DISTANCE)[-1])
        words = "one cluster" if count == 1 else f"{count} clusters"
        assert f"{words} at β = {beta:g}" in figure.get_suptitle()
    first, second = (figure.axes[place].collections[-2].get_offsets() for place in (0, len(figure.axes) // 2))
    np.testing.assert_allclose(first, second)  # the start, as it is seen
