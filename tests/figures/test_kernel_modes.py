"""The figure of the modes of a kernel density estimate at a small size."""

from attnflow.figures.entries import kernel_modes


def test_the_exponent_is_near_one_half_and_the_control_is_not():
    data = kernel_modes.compute_modes(False, n=400, betas=[10.0, 100.0, 1e3, 1e6, 1e7], runs=6, seed=0)
    numbers = kernel_modes.modes_numbers(data)

    within = float(numbers["exponent of beta log beta, n^1/4 to n^7/4 (expected 1/2)"].split()[0])
    beyond = float(numbers["exponent of beta log beta, other beta (control)"].split()[0])
    assert abs(within - 0.5) < 0.15
    assert beyond < 0.1
    assert "400 standard normal tokens" in kernel_modes.draw_modes(data).caption
