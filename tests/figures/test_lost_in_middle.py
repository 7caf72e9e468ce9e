"""The influence of places, at a small size: closed form beside iteration, and the control."""

import numpy as np

from attnflow.figures.entries import lost_in_middle


def test_profiles_agree_and_the_control_does_not():
    data = lost_in_middle.compute_influence(
        False, slope=2.0, beta=1.0, width=4.0, factors=[0.5, 2.0], n=120
    )  # fmt: skip
    numbers = lost_in_middle.influence_numbers(data)
    assert 0.2 < numbers["t = 0.5 t_c: place of least influence"] < 0.8  # in the middle
    assert numbers["t = 2 t_c: place of least influence"] == float(data.place[-1])
    for factor in ("0.5", "2"):
        name = f"t = {factor} t_c: largest relative difference from the closed form, "
        assert numbers[name + "strictly causal mask"] < 0.04
        assert numbers[name + "full mask"] > 0.2
    assert [one.verdict for one in lost_in_middle.influence_verdicts(data)] == ["holds"] * 3
    assert np.all(np.isfinite(data.iterated))
    assert len(lost_in_middle.draw_influence(data).panels) == 2
