"""Numbers of the figures of arXiv:2305.05465, at small sizes, against SciPy and against what theory says."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial import ConvexHull

from attnflow.experiments.scenarios import Settings, build
from attnflow.figures.entries import emergence, emergence_attention, emergence_limits, emergence_rates, leaders_graph
from attnflow.figures.entries.scenario_runs import scenario_run, value_of
from attnflow.show.parts.composition import compose

RESCALED = {"space": "rescaled", "start": "box:-5,5", "n": 8, "seed": 1, "saves": 31}
FIGURES = {figure.id: figure for figure in emergence.FIGURES}


def softmax_rows(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def final_by_scipy(**settings):
    """Rescaled tokens at the end, Q = K = I: z_i' = sum_j P_ij V (z_j - z_i) with the weights of x = e^{tV} z."""
    setup = build(Settings(**settings))
    value = np.asarray(setup.flow.heads[0].value_matrix)

    def rate(time, flat):
        z = flat.reshape(setup.tokens.shape)
        x = z @ expm(time * value).T
        return ((softmax_rows(x @ x.T) @ z - z) @ value.T).ravel()

    span = (0.0, settings["end"])
    return solve_ivp(rate, span, setup.tokens.ravel(), "DOP853", rtol=1e-8, atol=1e-8).y[:, -1].reshape(-1, len(value))


@pytest.fixture(scope="module")
def polygon():
    return emergence_limits.compute_with_frames(False, frames=3, d=2, end=12.0, **RESCALED)


def test_the_polygon_has_the_vertices_that_scipy_finds(polygon):
    """Q = K = V = I: z' = (P - I) Z; vertices of the hull of SciPy's final tokens, those closer than 0.05 taken as one."""
    final = final_by_scipy(d=2, end=12.0, **RESCALED)
    corners = final[ConvexHull(np.round(final, 2)).vertices]

    numbers = emergence_limits.polytope_numbers(polygon)

    assert numbers["vertices of the limit"] == len(corners)
    assert numbers["tokens at vertices"] == sum(np.linalg.norm(corners - z, axis=1).min() < 0.05 for z in final)
    first, last = (ConvexHull(polygon.tokens.values[place]).volume for place in (0, -1))
    np.testing.assert_allclose(numbers["share of the first hull that is left"], last / first, rtol=1e-9)
    assert numbers["largest residual of S at the end"] < 25 * np.exp(-12.0) * 25  # e^-t times |z|^2 at most 50


def test_the_movie_of_the_polygon_moves_tokens(polygon):
    pictures = [picture.copy() for picture in emergence_limits.polytope_movie(polygon).pictures()]

    assert len(pictures) == 3
    assert pictures[0].shape == pictures[-1].shape
    assert all(side % 2 == 0 for side in pictures[0].shape[:2])
    assert np.mean(pictures[0] != pictures[-1]) > 1e-3


def test_hyperplanes_are_levels_of_the_leading_left_eigenvector():
    settings = RESCALED | {"d": 2, "value": "published-2d", "end": 8.0}
    run = scenario_run(False, **settings)
    eigenvalues, rows = np.linalg.eig(value_of(run).T)
    row = rows[:, np.argmax(eigenvalues)]
    heights = final_by_scipy(**settings) @ row * np.sign(row[np.argmax(np.abs(row))])

    numbers = emergence_limits.hyperplane_numbers(run)

    levels = np.unique(np.round(heights, 1))
    assert numbers["parallel lines at the end"] == len(levels) <= 3  # Theorem 4.2
    found = [float(word) for word in numbers["coordinates of each"].split("; ")]
    np.testing.assert_allclose(found, levels, atol=0.06)
    lines = [np.transpose(line.get_data()) for line in compose(emergence_limits.draw_hyperplanes(run)).axes[-1].lines]
    np.testing.assert_allclose(np.ptp([ends @ row for ends in lines], axis=1), 0, atol=1e-9)  # one level a line
    np.testing.assert_allclose(np.sort([abs(ends[0] @ row) for ends in lines]), np.sort(np.abs(found)), atol=0.01)


def test_dots_grow_where_tokens_meet_and_not_where_they_only_share_a_line():
    """At the end of the polygon eight tokens stand in a few places; on two lines they stay apart."""
    polygon = compose(emergence_limits.draw_polytope(scenario_run(False, d=2, end=12.0, **RESCALED)))
    run = scenario_run(False, d=2, value="published-2d", end=8.0, **RESCALED)
    lines = compose(emergence_limits.draw_hyperplanes(run))
    areas = [drawing.axes[-1].collections[-1].get_sizes() for drawing in (polygon, lines)]

    assert np.ptp(areas[0]) > 1
    assert np.ptp(areas[1]) == 0


def test_a_polygon_times_a_line_keeps_the_polygon_of_its_first_coordinates():
    """V = diag(1, 1, -1/2) with Q = K = I: the third coordinate runs away like e^{t/2}, the first two have few limits."""
    run = scenario_run(False, d=3, value="diagonal:1,1,-0.5", end=8.0, **RESCALED)

    numbers = emergence_limits.column_numbers(run)

    below = np.unique(np.round(run.tokens.values[-1, :, :2], 1), axis=0)
    assert numbers["lines"] == len(below)
    assert 0.3 * np.exp(4) < numbers["growth of the third coordinate"] < 2 * np.exp(4)
    assert numbers["largest residual of S in the first two"] < 0.1


def test_leaders_are_the_columns_that_rows_choose():
    run = leaders_graph.compute_leaders(False, n=8, end=10.0, saves=11, seed=0)
    rng = np.random.default_rng(0)
    value, scores = (factor @ factor.T for factor in (rng.uniform(-1, 1, (2, 2)) for _ in range(2)))
    x = run.tokens.values[-1] @ expm(10.0 * value).T

    numbers = leaders_graph.leader_numbers(run)

    assert numbers["leaders at the start"] == 8  # all scores are of order one
    assert numbers["leaders at the end"] == len(set(np.argmax(x @ scores @ x.T, axis=1)))
    assert numbers["rank of P at the end"] <= numbers["leaders at the end"]


@pytest.fixture(scope="module", params=[("box:-3,3", "0, 7", 2), ("box:0.5,1", "7", 1)], ids=["both signs", "one sign"])
def line(request):
    """A start on both sides of 0, and as a control one where nobody follows the least token."""
    start, leaders, rank = request.param
    settings = {"space": "rescaled", "start": start, "n": 8, "d": 1, "end": 12.0, "saves": 49, "seed": 0}
    return emergence_attention.compute_boolean(False, moments=[0, 1, 12], **settings), leaders, rank


def interval(numbers):
    """The ends of the printed interval of a rate."""
    return [float(end) for end in numbers["its 95 % interval"].split(" to ")]


def test_on_the_line_attention_becomes_boolean(line):
    run, leaders, rank = line

    numbers = emergence_attention.boolean_numbers(run)

    assert numbers["leaders"] == leaders
    assert numbers["rank of P at the end"] == rank
    assert numbers["distance of P to Boolean at the end"] < 1e-8
    assert abs(numbers["slope of log(-log(1 - P)), 1 in theory"] - 1) < 0.02  # Theorem 2.1; e^-t corrections
    low, high = interval(numbers)
    assert low <= 1 <= high


def test_the_weights_are_drawn_at_the_moments_asked_for(line):
    titles = [axes.get_title(loc="left") for axes in compose(emergence_attention.draw_boolean(line[0])).axes]

    assert titles[:3] == ["t = 0", "t = 1", "t = 12"]


def test_the_weights_on_the_line_are_those_of_numpy(line):
    run = line[0].isel(time=8)
    z = run.tokens.values[:, 0]

    expected = softmax_rows(np.exp(2 * float(run.time)) * np.outer(z, z))

    np.testing.assert_allclose(run.attention, expected, atol=1e-12)


def test_ranks_are_those_of_numpy():
    run = emergence_attention.compute_rank(False, n=8, d=6, end=6.0, saves=4, seed=0)
    rng = np.random.default_rng(0)
    factor = rng.uniform(-1, 1, (6, 6))
    value = factor @ factor.T / np.linalg.eigvalsh(factor @ factor.T)[-1]
    free = run.initial_tokens.values @ expm(6.0 * value).T
    weights = [softmax_rows(x @ x.T) for x in (run.tokens.values[-1], free)]

    numbers = emergence_attention.rank_numbers(run)

    expected = [np.linalg.matrix_rank(matrix, rtol=1e-6) for matrix in weights]
    assert [numbers["rank of P at the end"], numbers["rank of P at the end of x' = V x"]] == expected
    assert np.abs(run.attention[-1] - weights[0]).max() < 1e-9


def test_coordinates_follow_the_layers_of_numpy():
    run = emergence_rates.compute_coordinates(False, n=5, d=6, end=1.5, step=0.1, seed=0)
    eigenvalues, x = run.eigenvalue.values, run.initial_tokens.values
    for _ in range(15):
        x = x + 0.1 * softmax_rows(x @ x.T) @ x * eigenvalues

    assert np.all(np.abs(eigenvalues) >= 1)
    _, vectors = emergence_rates.sparse_spectrum(6, np.random.default_rng(0))
    assert np.abs(run.initial_tokens.values @ vectors.T).max() < 0.5  # uniform tokens, seen along the eigenvectors
    assert np.abs(run.initial_tokens.values @ vectors).max() > 0.5
    np.testing.assert_allclose(run.rescaled, x / (1 + 0.1 * eigenvalues) ** 15, rtol=1e-9)
    numbers = emergence_rates.coordinate_numbers(run)
    assert numbers["positive eigenvalues"] == np.sum(eigenvalues > 0)
    assert numbers["coordinates with |z| < 1 at the end"] == np.sum(np.abs(run.rescaled).max(axis=0) < 1)


def test_minus_identity_shrinks_like_the_root_of_time():
    settings = FIGURES["minus-identity"].settings | {"n": 8, "saves": 41}
    run = emergence_rates.compute_minus(False, **settings)

    numbers = emergence_rates.minus_numbers(run)

    levels = [float(level) for level in numbers["eigenvalues of 2t cov at the end, 1 in theory"].split(", ")]
    np.testing.assert_allclose(levels, 1, atol=0.01)  # the next order is 1/t
    assert abs(numbers["power of t at which tokens shrink, 0.5 in theory"] - 0.5) < 0.01
    low, high = interval(numbers)
    assert low <= 0.5 <= high
    covariance = np.cov(run.tokens.values[-1].T, bias=True)
    np.testing.assert_allclose(levels, 2000 * np.linalg.eigvalsh(covariance), atol=1e-4)


def test_after_the_hull_has_shrunk_tokens_run_like_e_to_minus_t():
    run = emergence_rates.compute_scales(False, **RESCALED | {"start": "box:-1,1", "d": 2, "end": 14.0, "saves": 57})

    numbers = emergence_rates.scale_numbers(run)

    assert abs(numbers["rate of approach afterwards, 1 in theory"] - 1) < 0.02
    low, high = interval(numbers)
    assert low <= 1 <= high
    moment = numbers["time at which the median token's attention is hardmax within 0.01"]
    z = run.tokens.sel(time=moment).values
    strongest = softmax_rows(np.exp(2 * moment) * z @ z.T).max(axis=1)
    assert np.median(strongest) >= 0.99
