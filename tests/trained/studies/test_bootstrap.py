"""Intervals of means over prompts: their coverage, and that differences are paired."""

import numpy as np

from attnflow.trained.studies.bootstrap import mean_interval


def coverage(draw, truth, count, trials=400):
    rng = np.random.default_rng(5)
    values = np.stack([draw(rng, count) for _ in range(trials)], axis=1)
    found = mean_interval(values)
    return np.mean((found.low <= truth) & (truth <= found.high))


def test_intervals_cover_the_mean_as_often_as_they_say():
    """95 % within three standard errors of 400 trials (1.1 %), less the known shortfall for skewed values."""
    normal = coverage(lambda rng, count: rng.standard_normal(count), 0.0, 40)
    skewed = coverage(lambda rng, count: rng.exponential(size=count), 1.0, 64)
    assert 0.915 < normal < 0.985
    assert 0.90 < skewed < 0.985


def test_intervals_of_few_prompts_cover_as_often():
    """Student's quantile for five and ten values; without it the shares would be 0.88 and 0.92."""
    for count in (5, 10):
        assert 0.92 < coverage(lambda rng, count: rng.standard_normal(count), 0.0, count, trials=1000) < 0.98


def test_an_interval_of_a_wrong_mean_does_not_cover_it():
    assert coverage(lambda rng, count: rng.standard_normal(count), 1.0, 40) < 0.01


def test_prompts_without_a_value_are_left_out():
    values = np.array([1.0, np.nan, 3.0, 5.0, 7.0, 9.0])
    found, known = mean_interval(values), values[np.isfinite(values)]
    np.testing.assert_allclose([found.mean, found.deviation], [known.mean(), known.std(ddof=1)])
    assert found.prompts == 5
    assert found.low < known.mean() < found.high


def test_too_few_prompts_have_a_mean_but_no_interval():
    found = mean_interval(np.array([[1.0], [2.0], [3.0]]))
    assert found.mean == 2.0
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    none = mean_interval(np.full((7, 2), np.nan))
    assert np.isnan(none.mean).all()
    assert (none.prompts == 0).all()


def test_a_paired_difference_is_sharper_than_two_intervals():
    """Prompts differ by 10, the two models by 0.1 on each prompt: the intervals overlap, that of the difference does not reach 0."""
    rng = np.random.default_rng(1)
    prompts = 10 * rng.standard_normal(50)
    first, second = prompts + 0.1 + 0.02 * rng.standard_normal(50), prompts
    apart, one, other = mean_interval(first - second), mean_interval(first), mean_interval(second)
    assert one.low < other.high
    assert apart.low > 0


def test_columns_with_and_without_missing_values_have_the_intervals_of_each_alone():
    values = np.random.default_rng(2).standard_normal((9, 3))
    values[4, 1] = np.nan
    found = mean_interval(values)
    for column in range(3):
        alone = mean_interval(values[:, column])
        np.testing.assert_allclose([found.low[column], found.high[column]], [alone.low, alone.high], rtol=1e-12)
    other = mean_interval(values, seed=1)  # the resamples of one seed are kept, and not those of another
    assert found.low[0] != other.low[0]


def test_intervals_of_shares_end_at_zero_and_one():
    """Control: without the bounds the same interval passes 1, since it is lengthened around the mean."""
    shares = np.array([0.4, 1.0, 1.0, 1.0, 1.0, 1.0])
    found, free = mean_interval(shares, within=(0.0, 1.0)), mean_interval(shares)

    assert found.high == 1.0 < free.high
    assert found.low == free.low
    assert np.isnan(mean_interval(shares[:3], within=(0.0, 1.0)).high)
