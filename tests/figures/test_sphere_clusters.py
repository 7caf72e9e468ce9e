"""Numbers of clusters and centres on spheres at a small size, against definitions."""

import numpy as np
import pytest

from attnflow.analyse import renyi
from attnflow.figures.entries import sphere_clusters
from attnflow.show.parts.composition import compose


@pytest.fixture(scope="module")
def data():
    return sphere_clusters.compute_clusters(
        False, n=24, dimensions=[2, 3], least_beta=16.0, largest_beta=64.0, betas=2, c=4.0, radius=0.5, end=10.0,
        runs=3, draws=60, seed=0, store="",
    )  # fmt: skip


def test_counts_and_their_means(data):
    assert data.sizes == {"dimension": 2, "beta": 2, "run": 3, "kind": 2, "draw": 60}
    assert np.all((data.clusters >= 1) & (data.clusters <= 24))
    assert np.all(data.centres.sel(kind="strong") <= data.centres.sel(kind="renyi"))
    assert float(data.expected.sel(kind="strong", dimension=3, beta=64.0)) == pytest.approx(
        renyi.expected_strong_count(0.5, 3, 24)
    )
    error = data.centres.std("draw", ddof=1) / np.sqrt(60)
    misses = abs(data.centres.mean("draw") - data.expected)
    assert np.all(misses < 4 * error + 0.1 * data.expected)  # caps of one radian are curved


def test_the_control_grows_like_the_circle_and_not_like_the_sphere(data):
    numbers = sphere_clusters.cluster_numbers(data)
    slope = lambda name: float(numbers[name].split()[0])
    control = slope("control: exponent of Renyi centres of tokens on a great circle of S^2, 95 % interval")
    assert control == pytest.approx(slope("d = 2: exponent of Renyi centres, 95 % interval"), abs=0.1)
    assert control < slope("d = 3: exponent of Renyi centres, 95 % interval") - 0.1
    assert numbers["d = 3: (d - 1) / 2"] == 1.0


def test_the_picture_names_the_measured_exponents(data):
    picture = compose(sphere_clusters.draw_clusters(data))
    texts = " ".join(text.get_text() for text in picture.texts) + str(picture.get_suptitle())
    assert len(picture.axes) == 2
    assert "95 % intervals" in " ".join(texts.split())
    assert all(one.verdict == "holds" for one in sphere_clusters.cluster_verdicts(data))
