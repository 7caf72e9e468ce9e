"""Titles and sentences with outcomes: other data give other words."""

import re

import numpy as np
import pytest
import xarray as xr

from attnflow.analyse.renyi_counts import growth_exponent
from attnflow.figures.entries import (
    emergence_attention,
    emergence_rates,
    hardmax,
    long_context,
    metastability,
    multihead,
    noise_and_beta,
    normalisation,
    phase_diagrams,
    polytope_counts,
    renyi_centres,
    sugolov_aubry,
    trained_questions,
)
from attnflow.model import initial


def attention_run(*matrices: np.ndarray) -> xr.Dataset:
    """Attention matrices at t = 0, 1, ... of tokens in dimension 5."""
    dims = ("time", "token", "attended")
    tokens = np.zeros((len(matrices), len(matrices[0]), 5))
    variables = {"attention": (dims, np.stack(matrices)), "tokens": (("time", "token", "coordinate"), tokens)}
    return xr.Dataset(variables, {"time": np.arange(len(matrices), dtype=float)})


EQUAL, IDENTITY = np.full((6, 6), 1 / 6), np.eye(6)


def test_boolean_title_counts_rows():
    boolean = emergence_attention.boolean_title(attention_run(EQUAL, IDENTITY))
    equal = emergence_attention.boolean_title(attention_run(EQUAL, EQUAL))

    assert "0 of 6 rows" in boolean
    assert boolean.endswith("6 at t = 1")
    assert equal.endswith("0 at t = 1")


def test_rank_title_states_both_ranks():
    assert emergence_attention.rank_title(attention_run(IDENTITY, EQUAL)).endswith("rank 6 at t = 0, 1 at t = 1")
    assert emergence_attention.rank_title(attention_run(EQUAL, IDENTITY)).endswith("rank 1 at t = 0, 6 at t = 1")


def test_coordinate_title_counts_both_signs():
    eigenvalues, final = np.array([2.0, 1.0, -1.0]), np.array([[0.5, 0.5, 50.0]])
    run = lambda last: xr.Dataset(
        {
            "rescaled": (("token", "coordinate"), last),
            "eigenvalue": ("coordinate", eigenvalues),
        },
        {"time": [0.0, 3.0]},
    )

    assert "2 of 2 coordinates of positive eigenvalue, 0 of 1" in emergence_rates.coordinate_title(run(final))
    assert "0 of 2 coordinates of positive eigenvalue, 0 of 1" in emergence_rates.coordinate_title(run(99 + final))


@pytest.mark.parametrize(("power", "words"), [(-0.5, "p = 0.500"), (-1.0, "p = 1.000"), (0.0, "p = -0.000")])
def test_title_of_minus_identity_states_the_fitted_power(power, words):
    times = np.geomspace(1, 1000, 61)
    covariance = times[:, None, None] ** (2 * power) * np.eye(2)

    run = xr.Dataset({"covariance": (("time", "row", "column"), covariance)}, {"time": times})

    assert words in emergence_rates.minus_title(run).replace("p = 0.000", "p = -0.000")


def scales(softness: list[float]) -> xr.Dataset:
    times = np.linspace(0, 10, len(softness))
    return xr.Dataset(
        {"softness": ("time", softness), "volume": ("time", np.linspace(2, 1, len(softness)))}, {"time": times}
    )


def test_attention_that_is_never_hardmax_has_no_time_of_hardmax():
    late, never = scales([0.5, 0.1, 0.001, 0.0, 0.0]), scales([0.5] * 5)

    assert "from t = 5, after 50 % of the hull's loss" in emergence_rates.scale_title(late)
    assert "not within 0.01 of hardmax by t = 10" in emergence_rates.scale_title(never)
    assert list(emergence_rates.scale_numbers(never).values()) == ["not within the run"]
    assert np.isinf(emergence_rates.hardmax_time(never))


def test_hardmax_title_counts_tokens_at_leaders():
    tokens = np.array([[[[1.0, 0], [0, 1], [0.5, 0.5]], [[1, 0], [0, 1], [0.999, 0]]]])
    leads = np.array([[[True, True, False]] * 2])
    data = lambda moved: xr.Dataset(
        {"tokens": (("start", "time", "token", "coordinate"), moved), "leads": (("start", "time", "token"), leads)}
    )

    assert "3 of 3 tokens within 0.01 of a leader after 1 layers" in hardmax.leader_title(data(tokens))
    assert "2 of 3 tokens" in hardmax.leader_title(data(tokens[:, ::-1]))


def test_critical_sentence_reads_the_cosine():
    data = lambda cosine: xr.Dataset(
        {"cosine": (("log10_n", "gamma"), [[cosine]])},
        {"log10_n": [6.0], "gamma": [1.25]},
        {"rho": 0.2, "critical": 1.25},
    )

    assert "the cosine is 0.400 for" in long_context.critical_sentence(data(0.4))
    assert "the cosine is 0.900 for" in long_context.critical_sentence(data(0.9))


def test_title_of_merges_counts_them():
    data = lambda times: xr.Dataset({"merge_log_time": ("merge", times), "tokens": (("token",), np.zeros(5))})

    assert metastability.five_title(data(np.log([2.0, 30.0]))) == "5 tokens on the circle: 2 merges, the last at t = 30"
    assert metastability.five_title(data(np.array([]))) == "5 tokens on the circle: 0 merges"


def test_title_of_energies_states_the_distance_from_levels():
    data = lambda energy: xr.Dataset(
        {"energy_before": (("run", "merge"), [energy]), "level_before": (("run", "merge"), [[0.2, 0.3, 0.5]])},
        {"beta": ("run", [500.0])},
    )

    assert "within 0.01 of" in metastability.staircase_title(data([0.9, 0.31, 0.5]))
    assert "within 0.25 of" in metastability.staircase_title(data([0.2, 0.3, 0.75]))


def test_a_distance_from_levels_below_rounding_is_zero_with_that_error():
    """A cosine is known to 2.2e-16, and beta = 500 multiplies its error."""
    levels = np.array([0.2, 0.3, 0.5])
    variables = {"energy_before": (("run", "merge"), [levels + 3e-14]), "level_before": (("run", "merge"), [levels])}
    data = xr.Dataset(variables | {"merge_log_time": (("run", "merge"), [[1.0, 2, 3]])}, {"beta": ("run", [500.0])})

    assert "within 0 ± 1e-13 of" in metastability.staircase_title(data)
    assert "0 ± 1e-13" in metastability.staircase_numbers(data).values()


def heads(last: np.ndarray) -> xr.Dataset:
    variables = {
        "tokens": (("n", "time", "token", "coordinate"), np.stack([last, last])[None]),
        "value": (("head", "row", "column"), VALUE[None]),
    }
    return xr.Dataset(variables, {"time": [0.0, 4.0], "n": [3]})


VALUE = np.diag([2.0, 1.0])


def test_angles_below_the_error_are_printed_as_zero():
    along, across = np.array([[1.0, 0], [-2, 0], [3, 0]]), np.array([[1.0, 0], [0, 1], [1, 1]])

    assert multihead.angle_words(heads(along)).endswith("at t = 4: 0 ± 6e-07°")
    assert multihead.angle_words(heads(across)).endswith("at t = 4: 90°")


def orders(above: float) -> xr.Dataset:
    kappas, betas = np.array([0.2, 8.0]), np.array([0.0, 1.0])
    order = np.stack([[[0.1, 0.1], [above, above]]] * 2)
    coordinates = {"start": list(noise_and_beta.STARTS), "kappa": kappas, "beta": betas}
    return xr.Dataset({"order": (("start", "kappa", "beta"), order)}, coordinates, {"n": 100})


def test_order_sentence_states_the_means():
    assert "0.10 and 0.90 from the uniform start" in noise_and_beta.order_sentence(orders(0.9))
    assert "0.10 and 0.10 from the uniform start" in noise_and_beta.order_sentence(orders(0.1))


def test_the_history_counts_only_where_the_starts_differ():
    data = orders(0.9)
    assert noise_and_beta.hysteresis_sentence(data) == "The two starts differ by 0.00 at most."
    data.order[1, 0, 1] += 0.6
    assert "most at κ = 0.2, β = 1, by 0.60: at that time the state depends" in noise_and_beta.hysteresis_sentence(data)


@pytest.mark.parametrize("power", [0.5, 0.0])
def test_exponent_sentence_states_the_fit(power):
    betas = np.array([4.0, 16.0, 64.0])
    counts = np.broadcast_to((8 * betas**power)[:, None] + [0, 0, 0, 0, 0, 1], (3, 3, 6))
    cases = list(noise_and_beta.CASES)
    data = xr.Dataset({"clusters": (("case", "beta", "run"), counts)}, {"case": cases, "beta": betas})

    sentence = noise_and_beta.exponent_sentence(data)

    fitted = growth_exponent(betas, counts[0])
    assert sentence.count(f"{fitted.slope:.2f} ({fitted.low:.2f} to {fitted.high:.2f})") == 3
    assert abs(fitted.slope - power) < 0.02
    assert fitted.low < fitted.high


def test_equal_counts_have_no_interval_of_zero_width():
    counts = np.full((3, 3, 6), 4.0) * np.array([1, 2, 4])[:, None]
    coordinates = {"case": list(noise_and_beta.CASES), "beta": np.array([4.0, 16.0, 64.0])}
    data = xr.Dataset({"clusters": (("case", "beta", "run"), counts)}, coordinates, {"c": 4.0})

    for text in (noise_and_beta.exponent_sentence(data), str(noise_and_beta.count_numbers(data))):
        assert text.count("(no interval: all 6 runs have the same counts)") == 3
        assert "0.50 to 0.50" not in text
    assert "(no interval from 2 runs)" in noise_and_beta.exponent_sentence(data.isel(run=slice(2)))


def test_rates_of_schemes_are_fitted():
    times = np.linspace(0, 20, 201)
    data = lambda rate: xr.Dataset(
        {"height": (("scheme", "time"), np.exp(-rate * times)[None])}, {"scheme": ["Post-LN"], "time": times}
    )

    assert "Post-LN 2 (2 to 2; 2)." in normalisation.rate_sentence(data(2.0))
    wavy = data(1.0).assign(height=data(1.0).height * (1 + 0.1 * np.sin(times)))
    fit = normalisation.fitted_rate("Post-LN", times, wavy.height[0].values)
    assert fit.low < fit.rate < fit.high
    said = re.search(r"Post-LN ([\d.]+) \(([\d.]+) to ([\d.]+); 2\)\.", normalisation.rate_sentence(wavy))
    assert said
    # Two digits of half the width: each number is within a twentieth of it, however narrow the interval.
    np.testing.assert_allclose(
        [float(one) for one in said.groups()], [fit.rate, fit.low, fit.high], rtol=0, atol=(fit.high - fit.low) / 40
    )
    slightly = data(1.0).assign(height=data(1.0).height * (1 + 1e-4 * np.sin(times)))
    assert len(set(re.findall(r"\d\.\d+", normalisation.rate_sentence(slightly)))) == 3


def test_half_times_are_interpolated_or_missing():
    data = lambda share: xr.Dataset(
        {"share": (("dimension", "beta", "time"), [[share]]), "arrival": ("beta", [1.5])},
        {"dimension": [2], "beta": [1.0], "time": [0.0, 1.0, 2.0]},
    )

    assert "t = 1.25 for d = 2; on the curve t = 1.5." in phase_diagrams.half_time_sentence(data([0.0, 0.4, 0.8]))
    assert "not in the run for d = 2" in phase_diagrams.half_time_sentence(data([0.0, 0.1, 0.2]))


def test_title_of_centres_counts_those_near_their_start():
    first = initial.on_circle(np.array([0.0, 1.0, 2.0, 3.0]))
    kinds = {"centre": ("token", [True, True, True, False]), "strong": ("token", [True, False, False, False])}
    data = lambda last: xr.Dataset(
        {"tokens": (("time", "token", "coordinate"), np.stack([first, last])), **kinds},
        {"time": [0.0, 5.0]},
        {"beta": 64},
    )

    assert "t = 5: 1 of 1 strong Rényi centres, 2 of 2 other" in renyi_centres.centre_title(data(first))
    assert "t = 5: 0 of 1 strong Rényi centres, 0 of 2 other" in renyi_centres.centre_title(data(-first))


def test_captured_sentence_states_the_means():
    captured = np.broadcast_to([[[0.25, 0.75]], [[0.125, 0.5]]], (2, 1, 2))
    data = xr.Dataset(
        {"captured": (("kind", "run", "time"), captured)}, {"kind": list(renyi_centres.KINDS), "time": [0.0, 10.0]}
    )

    assert "0.25 and 0.75 near a centre, 0.12 and 0.50 near a strong one" in renyi_centres.captured_sentence(data)


def test_accuracy_sentence_states_when_the_prediction_fails():
    times = np.linspace(0, 4, 5)
    error = xr.DataArray(np.stack([0 * times, 0.03 * times]), dims=("run", "time"), coords={"time": times})
    data = xr.Dataset({"error": error, "size": ("run", [0.2, 1.0])})

    sentence = sugolov_aubry.accuracy_sentence(data)

    assert "the end for size 0.2" in sentence
    assert "t = 1.7 for size 1" in sentence


@pytest.mark.parametrize(
    ("more", "sentence"), [(0.0, "equal those"), (0.25, "differ from those of vertices by at most 0.25")]
)
def test_numbers_of_vertices_and_leaders_are_compared(more, sentence):
    dims, sizes = ("start", "d", "n"), (1, 1, 2)
    means = {name: (dims, np.full(sizes, 4.0)) for name in ("vertices_mean", "leaders_mean", "rank_mean")}
    means["rank_mean"][1][0, 0, 1] += more
    words = polytope_counts.counts_sentence(xr.Dataset(means, {"start": ["ball:5"], "d": [2], "n": [10, 80]}))

    assert "Means of leaders equal those of vertices." in words
    assert f"Means of the rank {sentence}" in words


def test_controls_that_differ_from_the_trained_heads_are_counted():
    """Six runs at three settings: one control is 0.2 lower at two of them, the other 0.005 lower at all."""
    trained = np.linspace(0.5, 0.6, 6)[:, None] + np.zeros(3)
    cosines = np.stack([trained, trained - [0.2, 0.0, 0.2], trained - 0.005])
    variants = ["trained", "Q = K = 0", "random Q and K"]
    data = xr.Dataset({"mean_cosine": (("variant", "run", "setting"), cosines)}, {"variant": variants})

    assert trained_questions.differing_sentence(data, "starts").endswith("Q = K = 0: 2 of 3; random Q and K: 0 of 3.")
    assert "Fewer than five runs" in trained_questions.differing_sentence(data.isel(run=slice(4)), "starts")
