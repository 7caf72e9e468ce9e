"""The native kernel against plain NumPy, and against XLA's own sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.model.native import attention_sums, library
from attnflow.model.pair_sums import Pairs

pytestmark = pytest.mark.skipif(library.reason_unused() is not None, reason=f"native kernel: {library.reason_unused()}")

RULES = [af.Softmax(3.0), af.Softmax(-2.0), af.Unnormalised(0.5, offset=1.0), af.Sinkhorn(1.0, iterations=3)]
MASKS = [
    af.masks.full,
    af.masks.causal,
    af.masks.strictly_causal,
    af.masks.window(3),
    af.masks.causal & af.masks.window(5),
]
SIZES = [(1, 1), (3, 2), (4, 3), (33, 5), (200, 2)]  # below, at and beyond whole vectors


def draw(n, d, rng=0):
    return np.random.default_rng(rng).normal(size=(3, n, d))


def kernel(
    queries,
    keys,
    values,
    log_weights=None,
    scale=None,
    reach=(2**40, 2**40),
    relative=True,
    dtype="float64",
    factor=1.0,
):
    with double():
        arrays = [
            None if array is None else jnp.asarray(array, dtype) for array in (queries, keys, values, log_weights)
        ]
        return np.asarray(attention_sums.weighted_sums(*arrays, scale, factor=factor, reach=reach, relative=relative))


def averages(sums):
    """The sums of every row over that of its weights: a row may be multiplied by any number."""
    return sums[:, :-1] / np.maximum(sums[:, -1:].astype(float), 1e-300)


def numpy_sums(queries, keys, values, log_weights, scale, reach, relative):
    i, j = np.indices((len(queries), len(keys)))
    visible = (j >= i - reach[0]) & (j <= i + reach[1])
    logits = np.where(visible, queries @ keys.T, -np.inf)
    if scale is not None:
        logits = scale * (logits - _largest(logits))
    logits = logits + log_weights
    weights = np.exp(logits - _largest(logits) if relative else logits)
    return np.column_stack([weights @ values, weights.sum(axis=1)])


def _largest(logits):
    largest = logits.max(axis=1, keepdims=True)
    return np.where(np.isfinite(largest), largest, 0)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("reach", [(2**40, 2**40), (2**40, 0), (2**40, -1), (2, 2)])
@pytest.mark.parametrize("scale", [None, 7.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 2e-5)])
def test_sums_are_those_of_numpy(size, reach, scale, dtype, tolerance):
    # 16 units in the last place a term of 200, times logits of size 30 whose own rounding the exponential magnifies
    queries, keys, values = draw(*size)
    log_weights = np.log(np.random.default_rng(1).uniform(0.5, 3, size[0]))
    found = averages(kernel(queries, keys, values, log_weights, scale, reach, True, dtype))
    expected = averages(numpy_sums(queries, keys, values, log_weights, scale, reach, True))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max() + 1e-300)


def test_exponential_is_right_over_its_whole_range():
    exponents = np.concatenate([np.linspace(-706.9, 709.78, 4001), [0.0, 1e-300, -1e-17, 0.34657, -0.34658]])
    ones = np.ones((len(exponents), 1))
    found = kernel(exponents[:, None], ones, ones, reach=(0, 0), relative=False)[:, -1]
    np.testing.assert_allclose(found, np.exp(exponents), rtol=2 * np.finfo(float).eps)


def test_exponential_ends_in_zero_infinity_and_nan():
    exponents = np.array([-707.1, -1e9, -np.inf, 709.79, 1e9, np.inf, np.nan])
    found = [kernel([[1.0]], [[x]], [[1.0]], relative=False)[0, 1] for x in exponents]
    np.testing.assert_array_equal(found, [0, 0, 0, np.inf, np.inf, np.inf, np.nan])


def test_a_scale_of_zero_makes_all_visible_tokens_equal():
    queries, keys, values = draw(6, 2)
    found = kernel(queries, keys, values, scale=0.0, reach=(2**40, 0))
    np.testing.assert_allclose(found[:, -1], np.arange(1, 7), rtol=1e-15)


def test_hidden_tokens_change_no_bit():
    queries, keys, values = draw(50, 3)
    whole = kernel(queries, keys, values, reach=(2**40, 0))
    for n in (1, 7, 32, 49):
        np.testing.assert_array_equal(kernel(queries[:n], keys[:n], values[:n], reach=(2**40, 0)), whole[:n])


def test_threads_change_no_bit():
    queries, keys, values = draw(1500, 2)  # large enough for several threads
    whole = kernel(queries, keys, values)
    alone = kernel(queries[700:703], keys, values)  # small enough for one
    np.testing.assert_array_equal(whole[700:703], alone)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_sums_and_derivatives_agree_with_xla(rule, mask, monkeypatch):
    queries, keys, values = draw(20, 2)
    direction = draw(20, 2, rng=1)[0]
    masses = np.random.default_rng(2).uniform(1, 3, 20)

    def sums_and_derivatives():
        with double():
            sums = lambda q: Pairs(
                cast(rule, "float64"), mask, q, jnp.asarray(keys), jnp.asarray(masses)
            ).weighted_sums(jnp.asarray(values))
            along = jax.jvp(sums, (jnp.asarray(queries),), (jnp.asarray(direction),))
            back = jax.grad(lambda q: jnp.sum(jnp.sin(sums(q))))(jnp.asarray(queries))
            return *map(np.asarray, along), np.asarray(back), np.asarray(sums(jnp.asarray(queries)))

    native = sums_and_derivatives()
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    for found, expected in zip(native, sums_and_derivatives(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


def test_kernel_is_used_where_it_applies(monkeypatch):
    calls = []
    monkeypatch.setattr(attention_sums, "weighted_sums", lambda *args, **options: calls.append(1) or np.zeros((5, 3)))
    tokens = jnp.asarray(draw(5, 2)[0])
    for rule, mask in [
        (af.Softmax(1.0), af.masks.causal),
        (af.Hardmax(), af.masks.full),
        (af.Softmax(1.0), af.masks.others),
    ]:
        Pairs(rule, mask, tokens, tokens).weighted_sums(tokens)
    assert len(calls) == 1


@pytest.mark.parametrize(("n", "d"), [(2, 1), (9, 2), (40, 5), (700, 3)])
@pytest.mark.parametrize("every", [1, 3])
def test_sums_of_others_leave_the_token_itself_out_and_lose_nothing(n, d, every, monkeypatch):
    queries, keys, values = draw(n, d)
    rows = np.arange(n)[::-every]
    queries = 40 * queries[rows]  # exponents of several hundred: most weights are far below the smallest float
    log_weights = np.random.default_rng(1).normal(size=n)
    sums, best = attention_sums.sums_of_others(queries, keys, values, log_weights, rows)
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    expected, largest = attention_sums.sums_of_others(queries, keys, values, log_weights, rows)
    exponents = queries @ keys.T + log_weights
    exponents[np.arange(len(rows)), rows] = -np.inf
    np.testing.assert_allclose(largest, exponents.max(axis=1))
    np.testing.assert_allclose(best, largest, rtol=1e-13)
    np.testing.assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)


def test_sums_of_others_keep_what_is_small_but_not_below_rounding():
    keys = np.array([[0.0], [0.0], [-1.0]])
    values = np.array([[1.0], [1.0], [2.0]])
    for exponent in (30.0, 49.0, 60.0):
        sums, best = attention_sums.sums_of_others(np.array([[exponent]]), keys, values, np.zeros(3), np.array([0]))
        np.testing.assert_allclose(best, 0.0)
        np.testing.assert_allclose(sums[0, 0] - 1.0, 2 * np.exp(-exponent), atol=2e-16)


@pytest.mark.parametrize(
    ("rows", "columns", "d", "channels"), [(1, 1, 1, 0), (7, 40, 2, 3), (600, 600, 3, 3), (90, 2000, 6, 1)]
)
@pytest.mark.parametrize("reach", [(None, None), (None, 0), (0, None), (3, 2)])
@pytest.mark.parametrize("size", [1.0, 60.0])  # of the queries: exponents within and beyond those that need no shift
def test_sums_within_reach_are_those_of_numpy(rows, columns, d, channels, reach, size, monkeypatch):
    rng = np.random.default_rng(0)
    queries, keys = size * rng.normal(size=(rows, d)), rng.normal(size=(columns, d))
    values, log_weights = rng.normal(size=(columns, channels)), rng.normal(size=columns)
    sums, shifts = attention_sums.sums_within_reach(queries, keys, values, log_weights, *reach)
    monkeypatch.setattr(attention_sums, "is_built", lambda: False)
    expected, largest = attention_sums.sums_within_reach(queries, keys, values, log_weights, *reach)

    # Relative to the largest term of each row, which both have or stand for.
    np.testing.assert_allclose(sums * np.exp(shifts - largest)[:, None], expected, rtol=1e-11, atol=1e-11)
    assert np.any(shifts != 0) or size == 1 or rows < 50
    assert not np.any(shifts) or size > 1


WINDOW = (3, 2)  # positions before and after


def exact_averages(queries, keys, values, reach):
    """The averages in extended precision."""
    wide = [np.asarray(array, np.longdouble) for array in (queries, keys, values)]
    sums = numpy_sums(*wide, 0, None, reach, True)
    return (sums[:, :-1] / np.maximum(sums[:, -1:], 1e-300)).astype(float)


@pytest.mark.parametrize("n", [1, 7, 33, 600])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 17])
@pytest.mark.parametrize("reach", [(2**40, 2**40), (2**40, 0), WINDOW], ids=["full", "causal", "window"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [1.0, 40.0])  # of the scores: within and beyond the bound of float32
def test_averages_have_few_units_in_the_last_place_of_error(n, d, reach, dtype, size):
    """4 units for sums and quotient, and 2 for each unit of the largest score, whose rounding the weights magnify."""
    arrays = [array.astype(dtype) for array in draw(n, d)]
    arrays[0] *= np.asarray(size / np.abs(arrays[0] @ arrays[1].T).max(), dtype)
    largest = np.linalg.norm(arrays[0], axis=1).max() * np.linalg.norm(arrays[1], axis=1).max()
    found = averages(kernel(*arrays, reach=reach, dtype=dtype))
    allowed = (4 + 2 * largest) * np.finfo(dtype).eps * np.abs(arrays[2]).max()

    np.testing.assert_allclose(found, exact_averages(*arrays, reach), rtol=0, atol=allowed)


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 300.0), ("float32", 30.0)])
@pytest.mark.parametrize("ratio", [0.99, 1.01, 3.0, 100.0])  # of the scores to the largest that need no maximum
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_scores_neither_overflow_nor_vanish(dtype, limit, ratio, sign):
    size = limit * ratio
    keys = np.array([[1.0], [1.0 - 1 / size], [1.0 - 2 / size]]).astype(dtype)
    values = 1e10 * np.eye(3, dtype=dtype)
    queries = np.full((3, 1), sign * size, dtype)
    sums = kernel(queries, keys, values, dtype=dtype)

    assert np.all(np.isfinite(sums))
    expected = exact_averages(queries, keys, values, (2**40, 2**40))
    np.testing.assert_allclose(averages(sums), expected, rtol=10 * size * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("which", [1, 2], ids=["keys", "values"])
@pytest.mark.parametrize("d", [2, 5])
def test_a_hidden_token_changes_no_bit_whatever_it_holds(bad, which, d):
    arrays = draw(40, d)
    for reach, seeing in (((2**40, 0), np.arange(40) >= 20), (WINDOW, np.abs(np.arange(40) - 20.5) < 4)):
        changed = arrays.copy()
        changed[which, 20] = bad
        before, after = kernel(*arrays, reach=reach), kernel(*changed, reach=reach)
        np.testing.assert_array_equal(after[~seeing], before[~seeing])
        assert not np.array_equal(after[20], before[20])  # the token sees itself


def test_a_visible_nan_makes_its_rows_nan():
    queries, keys, values = draw(20, 3)
    keys[4, 1] = np.nan
    found = kernel(queries, keys, values, reach=(2**40, 0))

    assert not np.isnan(found[:4]).any()
    assert np.isnan(found[4:]).all()


@pytest.mark.parametrize("sizes", [(3, 32, 3), (5, 9, 2), (2, 300, 3)], ids=str)
def test_many_sets_have_the_bits_of_each_alone(sizes):
    queries, keys, values = np.random.default_rng(0).normal(size=(3, *sizes))
    masses = np.random.default_rng(1).uniform(0.5, 2, sizes[:2])
    with double():
        sums = lambda *arrays: attention_sums.weighted_sums(*arrays, None, factor=1.0, reach=(2**40, 0), relative=True)
        together = np.asarray(jax.vmap(sums)(*map(jnp.asarray, (queries, keys, values, np.log(masses)))))
        alone = [
            np.asarray(sums(*map(jnp.asarray, one))) for one in zip(queries, keys, values, np.log(masses), strict=True)
        ]

    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 2e-5)])
@pytest.mark.parametrize("size", [(24, 1), (25, 2), (31, 3), (32, 4), (33, 3), (100, 4), (256, 2)], ids=str)
def test_each_exponential_of_symmetric_scores_serves_both_tokens(size, dtype, tolerance, relative):
    """Numbers of whole and of broken vectors; values of their own; a column that is far from all others."""
    keys, values = np.random.default_rng(2).normal(size=(2, *size)).astype(dtype)
    keys[0] *= 1.5
    for received in (keys, values):
        found = kernel(keys, keys, received, dtype=dtype, factor=0.7, relative=relative)
        wide = keys.astype(float)
        expected = numpy_sums(0.7 * wide, wide, received.astype(float), 0.0, None, (2**40, 2**40), relative)
        given, wanted = (averages(found), averages(expected)) if relative else (found, expected)
        np.testing.assert_allclose(given, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("n", [23, 24, 40])
def test_symmetric_scores_have_the_sums_of_scores_that_are_not_known_to_be_symmetric(n):
    """Keys moved by one rounding error are no longer the queries, and the general kernel sums them."""
    tokens = np.random.default_rng(3).normal(size=(n, 3))
    symmetric, general = (kernel(tokens, keys, tokens) for keys in (tokens, tokens * (1 + 2**-52)))

    assert np.any(symmetric != general)
    np.testing.assert_allclose(symmetric, general, rtol=1e-13)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_wrong_token_among_symmetric_scores_reaches_the_rows_of_the_general_kernel(wrong):
    tokens = np.random.default_rng(4).normal(size=(30, 2))
    tokens[7] = wrong

    with np.errstate(invalid="ignore"):
        symmetric, general = (kernel(tokens, keys, tokens) for keys in (tokens, tokens * (1 + 2**-52)))

    np.testing.assert_array_equal(np.isnan(symmetric), np.isnan(general))
    assert np.isnan(symmetric).any()


def test_many_symmetric_sets_have_the_bits_of_each_alone():
    tokens = np.random.default_rng(5).normal(size=(70, 32, 3))
    with double():
        sums = lambda x: attention_sums.weighted_sums(
            x, x, x, None, None, factor=2.0, reach=(2**40, 2**40), relative=True
        )
        together, alone = np.asarray(jax.vmap(sums)(jnp.asarray(tokens))), [sums(jnp.asarray(x)) for x in tokens]

    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("size", [600.0, -600.0])
def test_log_weights_beyond_the_exponential_are_shifted_even_where_scores_are_small(size):
    """The sum of scores and log weights decides whether a row needs a shift, and not the scores alone."""
    queries, keys, values = draw(9, 2)
    log_weights = np.linspace(size - 2, size + 200 * np.sign(size), 9)
    scores = queries @ keys.T + log_weights
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ values / weights.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(averages(kernel(queries, keys, values, log_weights)), expected, rtol=1e-10, atol=1e-12)


def test_rows_longer_than_a_task():
    """A task has about 65,536 pairs; a row of more columns is a task of its own."""
    rng = np.random.default_rng(0)
    queries, keys = rng.standard_normal((3, 2)), rng.standard_normal((70_000, 2))
    found = kernel(queries, keys, keys, relative=False)
    weights = np.exp(queries @ keys.T)
    np.testing.assert_allclose(found, np.column_stack([weights @ keys, weights.sum(axis=1)]), rtol=1e-11)
