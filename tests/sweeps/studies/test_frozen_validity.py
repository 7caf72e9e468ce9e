"""Which starts and weights make the frozen-attention prediction right for longer."""

import numpy as np
import pytest

import attnflow as af


@pytest.fixture(scope="module")
def study():
    return af.frozen_validity(["gaussian"], sizes=[0.5, 1.0, 2.0], betas=[0.25, 1.0, 4.0], n=6, seeds=3)


def test_it_is_right_for_longest_where_attention_is_nearly_uniform_or_nearly_hard(study):
    mean = study.valid_until_interval.sel(bound="mean", law="gaussian")
    by_strength = [
        float(mean.sel(size=size, beta=beta)) for size, beta in ((0.5, 0.25), (1, 0.25), (1, 1), (1, 4), (2, 4))
    ]
    worst = int(np.argmin(by_strength))
    assert worst == 2  # beta |z|^2 of order one
    assert by_strength[:3] == sorted(by_strength[:3], reverse=True)
    assert by_strength[2:] == sorted(by_strength[2:])
    low, high = (study.valid_until_interval.sel(bound=bound) for bound in ("low", "high"))
    assert np.all(low <= high)


def test_only_beta_times_the_squared_size_matters(study):
    """Twice the size is four times beta: z / 2 obeys the same equation. Times are interpolated on a grid of 1/40."""
    at = lambda size, beta: study.valid_until.sel(law="gaussian", size=size, beta=beta).values
    np.testing.assert_allclose(at(2.0, 0.25), at(1.0, 1.0), atol=1e-4)
    np.testing.assert_allclose(at(1.0, 1.0), at(0.5, 4.0), atol=1e-4)
    assert np.abs(at(1.0, 0.25) - at(1.0, 1.0)).min() > 0.05


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="`laws`"):
        af.frozen_validity(["cube"])
    with pytest.raises(ValueError, match="`seeds` must be a whole number, at least 2"):
        af.frozen_validity(seeds=1)
    with pytest.raises(ValueError, match="`end` must be at most 1000, but it is 1e\\+300"):
        af.frozen_validity(end=1e300)
