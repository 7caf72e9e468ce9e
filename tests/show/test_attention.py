"""`attention`: images are the matrices, on an even colour scale."""

import numpy as np
import pytest

from attnflow.show import attention

pytestmark = pytest.mark.filterwarnings("error")


def test_images_are_the_matrices_under_their_times():
    matrices = np.random.default_rng(0).dirichlet(np.ones(6), size=(5, 6))
    panels = [axes for axes in attention(matrices, times=range(5)).axes if axes.images]
    np.testing.assert_array_equal([axes.images[0].get_array() for axes in panels], matrices)
    assert [axes.get_title() for axes in panels] == [f"$t$ = {time}" for time in range(5)]


def test_colours_go_from_zero_to_one():
    scale = attention(0.3 * np.eye(4)).axes[0].images[0].norm
    assert (scale.vmin, scale.vmax) == (0, 1)


def test_colours_reach_weights_above_one():
    assert attention(7.0 * np.eye(4)).axes[0].images[0].norm.vmax == 7


def test_lightness_falls_evenly():
    shades = attention(np.eye(4)).axes[0].images[0].cmap(np.linspace(0, 1, 33))[:, :3]
    linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    lightness = 116 * np.cbrt(np.maximum(luminance, 0.008856)) - 16  # CIE L*
    steps = -np.diff(lightness)
    assert steps.min() > 0.5 * steps.max()


def test_shapes_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match=r"shape \(n, n\), or \(k, n, n\) .* the shape is \(2, 3\)"):
        attention(np.ones((2, 3)))


def test_every_matrix_needs_its_heading():
    with pytest.raises(ValueError, match="`titles` must have one entry a matrix, 2, but it has 1"):
        attention(np.ones((2, 3, 3)), titles=["one"])
