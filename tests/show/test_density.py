"""Pictures of the law of infinitely many tokens and of its stationary states."""

import numpy as np
import pytest

import attnflow as af
from attnflow import show
from attnflow._common.checks import InputError


@pytest.fixture(scope="module")
def law():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(4.0))
    return af.mean_field.evolve(flow, af.mean_field.uniform(3, 0.1), np.linspace(0, 1, 6))


def test_image_and_curves_are_those_of_the_density(law):
    figure = show.density(law, times=[0.0, 1.0])
    image, curves = figure.axes[0].collections[0], figure.axes[2].get_lines()

    np.testing.assert_allclose(np.reshape(image.get_array(), law.density.shape), law.density.values)
    np.testing.assert_allclose(curves[1].get_ydata(), law.density.values[-1])


def test_stable_states_are_solid_and_unstable_ones_dashed():
    states = af.mean_field.branch(af.Unnormalised(4.0), modes=48, states=40)
    solid, dashed = show.branches(states).axes[0].get_lines()[:2]

    drawn = np.isfinite(dashed.get_ydata())
    last = int(np.flatnonzero(~states.is_stable.values)[-1])
    np.testing.assert_array_equal(np.flatnonzero(drawn), np.arange(last + 2))  # up to the first stable state
    np.testing.assert_array_equal(np.isfinite(solid.get_ydata()), states.is_stable.values)
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")


@pytest.mark.parametrize("draw", [show.density, show.branches])
def test_other_datasets_are_refused(draw):
    run = af.simulate(af.SphereAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0], progress=False)
    with pytest.raises(InputError, match="mean_field"):
        draw(run)


def small_law(domain):
    if domain == "line":
        flow = af.EuclideanAttention(af.Head(value=[[-1.0]]))
        return af.mean_field.evolve(flow, af.mean_field.box([-1.0], [1.0]), [0.0, 0.5])
    start = af.mean_field.zonal_wave(2, 0.3)
    flow = af.SphereAttention(af.Head.identity(3))
    return af.mean_field.evolve(flow, start if domain == "zonal" else lambda points: start(points), [0.0, 0.1])


@pytest.mark.parametrize(("domain", "labels"), [("line", "place"), ("zonal", "polar angle")])
def test_densities_of_one_dimension_are_images_and_curves(domain, labels):
    axes = show.density(small_law(domain)).axes

    assert (axes[0].get_ylabel(), axes[2].get_xlabel()) == (labels, labels)


def test_a_density_on_the_sphere_is_a_map_at_each_time_and_a_movie(tmp_path):
    law = small_law("sphere")
    figure = show.density(law)

    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == ["$t$ = 0", "$t$ = 0.1"]
    assert show.movie(law, tmp_path / "law.gif").stat().st_size > 1000
    assert "on the sphere" in af.display(law).headline
