"""Causal attention token by token: against the joint solver, exact times far out, prefixes, and what is refused."""

import numpy as np
import pytest
from scipy.integrate import quad
from tests.helpers import oracle
from tests.helpers.oracle import Weights, mask

import attnflow as af
from attnflow.streaming import newton, stream, token_paths
from attnflow.streaming.radau import DERIVATIVE, NODES
from attnflow.streaming.token_solver import MAX_LOG_GROWTH
from attnflow.theorems.catalogue import find

CIRCLE = af.initial.on_circle
LOG_TIMES = np.r_[0.0, np.geomspace(1.0, 1e20, 9)]


def flow(beta, d=2, mask=af.masks.causal, **options):
    return af.SphereAttention(af.Head.identity(d), af.Softmax(beta), mask, **options)


def angles(tokens):
    """To the first token at its start, through half the chord."""
    return 2 * np.arcsin(np.linalg.norm(tokens - tokens[0, 0], axis=-1) / 2)


RANDOM = af.values.gaussian(3, rng=1)
TURN = np.array([[0.0, 1.0], [-1.0, 0.0]])
CAUSAL = mask(6, lambda i, j: j <= i)
MASSES = np.linspace(1.0, 2.0, 6)
EYE = Weights(np.eye(2), np.eye(2), np.eye(2))
MODELS = {
    "softmax": (flow(9.0), oracle.Sphere([EYE], oracle.softmax(9.0), CAUSAL)),
    "any Q, K, V": (
        af.SphereAttention(af.Head(RANDOM, np.eye(3), RANDOM.T), af.Softmax(4.0), af.masks.causal),
        oracle.Sphere([Weights(RANDOM, np.eye(3), RANDOM.T)], oracle.softmax(4.0), CAUSAL),
    ),
    "unnormalised": (
        af.SphereAttention(af.Head.identity(2), af.Unnormalised(3.0, offset=0.5), af.masks.causal),
        oracle.Sphere([EYE], oracle.unnormalised(3.0, 0.5), CAUSAL),
    ),
    "two heads, masses, window, alibi": (
        af.SphereAttention(
            [af.Head.identity(2), af.Head.bilinear(TURN, np.diag([1.0, 0.5]))],
            af.Softmax(2.0),
            af.masks.causal & af.masks.alibi(0.1) & af.masks.window(3),
            masses=MASSES,
        ),
        oracle.Sphere(
            [EYE, Weights(TURN.T, np.eye(2), np.diag([1.0, 0.5]))],
            oracle.softmax(2.0),
            mask(6, lambda i, j: i - 3 <= j <= i, lambda i, j: np.exp(-0.1 * abs(i - j))),
            masses=MASSES,
        ),
    ),
    "strictly causal, one frozen": (
        flow(5.0, mask=af.masks.strictly_causal, frozen=np.arange(6) == 0),
        oracle.Sphere([EYE], oracle.softmax(5.0), mask(6, lambda i, j: j < i), frozen=np.arange(6) == 0),
    ),
    "R^d": (
        af.EuclideanAttention(af.Head(np.eye(2), np.eye(2), [[0.5, -1.0], [1.0, 0.2]]), mask=af.masks.causal),
        oracle.Euclidean(
            [Weights(np.eye(2), np.eye(2), np.array([[0.5, -1.0], [1.0, 0.2]]))], oracle.softmax(1.0), CAUSAL
        ),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_stream_agrees_with_the_oracle(name):
    """Tolerances of 1e-9 here and less there; the flow magnifies both by less than a hundred."""
    model, plain = MODELS[name]
    tokens, times = af.initial.sphere(6, model.dimension, rng=5), np.linspace(0.0, 4.0, 5)
    found = af.stream(model, tokens, times).tokens.values
    expected = oracle.solve(plain, tokens, times)[0]
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found / size, expected / size, atol=1e-7)


def test_stream_agrees_with_simulate():
    tokens, times = af.initial.sphere(12, 3, rng=5), np.linspace(0.0, 30.0, 5)
    joint = af.simulate(flow(64.0, 3), tokens, times)
    np.testing.assert_allclose(af.stream(flow(64.0, 3), tokens, times).tokens, joint.tokens, atol=1e-6)


def test_simplified_and_full_newton_updates_end_at_the_same_path(monkeypatch):
    """In many dimensions Newton's method starts with the mean Jacobian of all nodes."""
    tokens, times = af.initial.sphere(3, 24, rng=5), [0.0, 1.0, 4.0]
    found = af.stream(flow(9.0, 24), tokens, times)
    monkeypatch.setattr(newton, "MAX_DENSE_UNKNOWNS", 24)
    exact = af.stream(flow(9.0, 24), tokens, times)
    assert float(np.abs(found.tokens - exact.tokens).max()) < 1e-8  # tolerances of 1e-9 in either


def test_a_smaller_tolerance_is_more_exact():
    tokens, times = af.initial.sphere(8, 2, rng=5), np.linspace(0.0, 30.0, 5)
    best = af.stream(flow(9.0), tokens, times, tolerance=1e-12).tokens
    errors = [float(np.abs(af.stream(flow(9.0), tokens, times, tolerance=one).tokens - best).max())
              for one in (1e-4, 1e-7, 1e-10)]  # fmt: skip
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1e-8 > errors[2]


def time_to_turn(beta, start, end):
    """Of a token from one angle to a smaller one to a token that rests: the integral of 1 / its speed."""
    slowness = lambda angle: (1 + np.exp(beta * (1 - np.cos(angle)))) / np.sin(angle)
    return quad(slowness, end, start, points=list(np.linspace(end, start, 12)[1:-1]), limit=500, epsrel=1e-12)[0]


@pytest.mark.parametrize("beta", [32.0, 300.0, 700.0])
def test_a_pair_merges_at_the_exact_time(beta):
    """Up to t = e^650, where floats end: places are exact to 1e-9, which beta magnifies in the logarithm of the time."""
    levels = np.append(1.5 - np.array([0.5, 3.0, 10.0]) / beta, 1e-3)
    times = np.array([time_to_turn(beta, 1.5, level) for level in levels])
    run = af.stream(flow(beta), CIRCLE(np.array([0.0, 1.5])), np.r_[0.0, times[:3], times[3] * (1 + 1e-6 * beta)])
    found = angles(run.tokens.values)[1:, 1]
    # The speed at a level, relative to its own time, says how much an error of 1e-9 beta of the time changes the angle.
    magnified = np.exp([0.5, 3.0, 10.0])
    assert np.all(np.abs(found[:3] - levels[:3]) < 1e-8 * magnified)
    assert found[3] < 1e-3
    assert (
        float(run.piece_length.isel(piece=slice(int(run.pieces[0]) + 1, None)).min()) < 10
    )  # it meets in units of time


@pytest.fixture(scope="module")
def long():
    """Eight tokens at beta = 12 to t = 1e20, far beyond e^24: all tokens have merged with the first."""
    return af.stream(flow(12.0), af.initial.circle(8, rng=0), LOG_TIMES)


def test_all_tokens_end_where_the_first_one_started(long):
    found = angles(long.tokens.values)
    assert found[0].max() > 2
    assert found[-1].max() < 1e-8
    assert not bool(long.failed)
    assert float(long.drift) < 1e-8
    assert {one.verdict for one in af.verify(long, only=["identity-value", "first-token"])} == {"holds"}


def test_a_token_does_not_depend_on_what_follows(long):
    """Bit for bit, in its path too."""
    fewer = af.stream(flow(12.0), long.initial_tokens.values[:5], LOG_TIMES)
    np.testing.assert_array_equal(fewer.tokens, long.tokens[:, :5])
    own = int(fewer.pieces.sum())
    np.testing.assert_array_equal(fewer.piece_series, long.piece_series[:own])


def test_appending_is_the_same_as_all_at_once(long, tmp_path, monkeypatch):
    tokens = long.initial_tokens.values
    first, added, add = af.stream(flow(12.0), tokens[:6], LOG_TIMES), [], token_paths.TokenPaths.with_path
    monkeypatch.setattr(token_paths.TokenPaths, "with_path", lambda paths, path: added.append(1) or add(paths, path))
    for name in ("first.zarr", "first.nc"):
        af.save(first, tmp_path / name)
        assert af.append(af.load(tmp_path / name), tokens[6:]).equals(long)
    assert len(added) == 2 + 2  # no other path is solved for again


def test_appended_tokens_have_mass_one_and_move():
    heavy = flow(3.0, masses=[2.0, 1.0], frozen=[True, False])
    run = af.append(af.stream(heavy, np.eye(2), [0.0, 5.0]), CIRCLE(np.array([2.0])))
    whole = flow(3.0, masses=[2.0, 1.0, 1.0], frozen=[True, False, False])
    assert run.equals(af.stream(whole, run.initial_tokens.values, [0.0, 5.0]))
    assert float(np.abs(run.final_tokens[2] - run.initial_tokens[2]).max()) > 0.1


def test_a_spent_budget_leaves_a_run_that_append_completes():
    tokens, model = af.initial.circle(8, rng=3), flow(9.0, masses=np.ones(8))
    part = af.stream(model, tokens, [0.0, 1e3], budget=1e-6)
    assert part.sizes["token"] == 1
    assert "`append(run, tokens[1:])` adds the others" in part.outcome
    whole = af.append(part, tokens[1:])
    np.testing.assert_array_equal(whole.tokens, af.stream(model, tokens, [0.0, 1e3]).tokens)
    with pytest.raises(ValueError, match="no run of a part"):
        af.stream(MODELS["unnormalised"][0], af.initial.sphere(8, 2, rng=0), [0.0, 1e3], budget=1e-6)


def test_interrupting_keeps_the_tokens_that_are_done():
    def stop(share, _):
        if share > 0.5:
            raise KeyboardInterrupt

    part = af.stream(flow(9.0), af.initial.circle(4, rng=3), [0.0, 10.0], progress=stop)
    assert part.sizes["token"] == 3
    assert "interrupted" in part.outcome


def test_a_budget_ends_a_token_before_its_last_time(monkeypatch):
    monkeypatch.setattr(stream, "MIN_SECONDS_FOR_FIRST_TOKEN", 1e-6)
    with pytest.raises(ValueError, match="0 of 2 tokens only: the time budget was spent"):
        af.stream(flow(9.0), np.eye(2), [0.0, 1e3], budget=1e-6)


GROWING = af.EuclideanAttention(af.Head.identity(2), mask=af.masks.causal)


def test_steps_do_not_shrink_far_from_the_origin():
    """At |x| = e^100, as close to the first token's x' = x as 200 pieces of 1e-9 allow, and in no more of them."""
    run = af.stream(GROWING, 2 * np.eye(2), [0.0, 100.0])
    np.testing.assert_allclose(run.final_tokens[0], [2 * np.exp(100.0), 0.0], rtol=1e-6)
    assert run.pieces.max() < 300


def test_a_run_ends_where_scores_lose_their_digits():
    run = af.stream(GROWING, af.initial.sphere(8, 2, rng=0), [0.0, 200.0])
    assert run.outcome.startswith("Failed after")
    assert "their rounding errors decide its velocity" in run.outcome
    assert "append" not in run.outcome
    assert 1 < run.sizes["token"] < 8
    assert bool(run.failed)


def test_the_error_names_divergence_in_finite_time():
    explosive = af.EuclideanAttention(af.Head.identity(2), af.Unnormalised(1.0), af.masks.causal)
    with pytest.raises(ValueError, match="reaches infinity in finite time"):
        af.stream(explosive, 2 * np.eye(2), [0.0, 10.0])


def test_the_sphere_of_a_line_is_two_points_on_which_tokens_rest():
    run = af.stream(flow(9.0, 1), [[1.0], [-1.0]], [0.0, 1e6])
    np.testing.assert_array_equal(run.final_tokens, [[1.0], [-1.0]])


def test_an_implicit_step_does_not_stay_at_an_unstable_equilibrium():
    """Nearly opposite the first token it rests for long, then leaves: exactly when the integral says."""
    late = time_to_turn(4.0, np.pi - 1e-6, 1.0)
    run = af.stream(flow(4.0), CIRCLE(np.array([0.0, np.pi - 1e-6])), [0.0, late, 1e3 * late])
    np.testing.assert_allclose(angles(run.tokens.values)[1:, 1], [1.0, 0.0], atol=1e-3)  # 1e-9 of the first 1e-6
    growth = (
        np.linalg.solve(DERIVATIVE - MAX_LOG_GROWTH * np.eye(len(NODES)), MAX_LOG_GROWTH * np.ones(len(NODES)))[-1] + 1
    )
    assert growth == pytest.approx(np.exp(MAX_LOG_GROWTH), rel=1e-7)  # what the longest steps make of it


def test_tokens_of_a_cluster_separate_again_so_that_they_cannot_be_merged():
    """Two tokens within 1e-5 of each other separate by 0.2 beta^-1/2 while the first one merges with another."""
    beta = 32.0
    meeting = time_to_turn(beta, 1.0, 0.2)
    times = np.r_[0.0, meeting / 2, meeting + np.linspace(-5.0, 10.0, 121)]
    run = af.stream(flow(beta), CIRCLE(np.array([0.0, 1.0, 1.001])), times)
    gaps = np.linalg.norm(run.tokens[:, 2] - run.tokens[:, 1], axis=1)
    assert gaps[1] < 1e-5
    assert gaps[2:].max() > 0.2 * beta**-0.5


@pytest.fixture(scope="module")
def centres():
    """Ten tokens 0.31 apart at beta = 1000: strong centres 8 beta^-1/2 apart, to t = 1e12."""
    return af.stream(flow(1000.0), CIRCLE(0.31 * np.arange(10)), np.r_[0.0, np.geomspace(1.0, 1e12, 13)])


@pytest.fixture(scope="module")
def leaving(centres):
    """The same under the stronger pull of beta = 500."""
    return af.stream(flow(500.0), centres.initial_tokens.values, centres.time.values)


def test_strong_centres_rest_for_as_long_as_the_lemma_says(centres, leaving):
    """arXiv:2411.04990, Lemma 5.1: for 3e10 units of time and more, not for thirty."""
    pull = float(af.renyi.interaction(8 / np.sqrt(1000.0), 1000.0))
    assert 0.1 * 8 / np.sqrt(1000.0) / (10 * pull) > 3e10
    (found,) = af.verify(centres, only=["quasi-stationary"])
    assert found.verdict == "holds"
    assert 0 < found.measurement.value < 1
    # Control: under the stronger pull of a smaller beta they have left by then, and the measurement sees it.
    statement = find("quasi-stationary")
    assert statement.measure(flow(1000.0), leaving).value > 10


def test_the_centres_are_drawn(centres, leaving, tmp_path):
    left, right = af.show.centres(leaving, tmp_path / "centres.png", title="Ten tokens").axes
    caught = left.lines[0].get_ydata()
    assert caught[0] == 1.0  # all of them are centres
    named = {line.get_label(): line.get_ydata() for line in right.lines if line.get_label().startswith("token")}
    assert "token 1" not in named
    assert len(named) == 7
    assert all(np.isfinite(way).any() for way in named.values())  # every named token has a curve
    still = af.show.centres(centres)
    assert [text.get_text() for text in still.axes[1].texts] == ["No centre has moved by $10^{-8}$."]
    assert "tokens 1, 2, 3, 4, 5, 6, 7, 8, 9, 10." in " ".join(
        " ".join(text.get_text() for text in still.texts).split()
    )
    assert (tmp_path / "centres.png").stat().st_size > 10_000
    for wrong, sentence in ((centres.isel(time=[0]), "two positive times"), (np.eye(2), "must be a dataset")):
        with pytest.raises(ValueError, match=sentence):
            af.show.centres(wrong)


def test_a_run_is_repeated_from_its_file_bit_for_bit(tmp_path):
    run = af.stream(flow(9.0), af.initial.circle(3, rng=0), [0.0, 1e6], tolerance=1e-7)
    af.save(run, tmp_path / "run.nc")
    assert af.rerun(tmp_path / "run.nc").equals(run)
    with pytest.raises(ValueError, match="argument of stream"):
        af.rerun(run, solver=af.Euler(0.1))


REFUSED = {
    "full mask": (lambda: af.SphereAttention(af.Head.identity(2)), "token 1 sees token 2"),
    "noise": (lambda: flow(1.0, noise=af.Noise(5.0)), "noise has no smooth path"),
    "changing weights": (lambda: af.SphereAttention(af.RedrawnHead(2, 1.0, 0), mask=af.masks.causal), "not change"),
    "lengths": (lambda: flow(1.0, normalisation=af.Pre()), "without lengths"),
    "rescaled": (lambda: af.RescaledAttention(af.Head.identity(2), mask=af.masks.causal), "or in R"),
    "hardmax": (lambda: af.SphereAttention(af.Head.identity(2), af.Hardmax(), af.masks.causal), "must be softmax"),
    "mlp": (lambda: flow(1.0, mlp=af.MLP(np.eye(2))), "an MLP"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_flows_are_refused_with_the_reason(name):
    make, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        af.stream(make(), np.eye(2), [0.0, 1.0])


def test_bad_arguments_are_refused(long):
    for tolerance in (0.0, 1e-16, 1.0):
        with pytest.raises(ValueError, match="`tolerance` must"):
            af.stream(flow(1.0), np.eye(2), [0.0, 1.0], tolerance=tolerance)
    with pytest.raises(ValueError, match="Take one run"):
        af.stream(flow(1.0), np.ones((2, 3, 2)) / np.sqrt(2), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"shape \(m, 2\)"):
        af.append(long, np.eye(3))
    with pytest.raises(ValueError, match="made by `stream`"):
        af.append(af.simulate(flow(1.0), np.eye(2), [0.0, 1.0]), np.eye(2))
    with pytest.raises(ValueError, match=r"made by `stream`.* it is of type int"):
        af.append(3, np.eye(2))
    with pytest.raises(ValueError, match="divides by the number of all"):
        af.append(af.stream(MODELS["unnormalised"][0], np.eye(2), [0.0, 1.0]), np.eye(2))


@pytest.mark.parametrize("seed", range(6, 9))
def test_no_piece_is_a_rest_of_rounding(seed):
    """The length of a last piece with a time change is a rounding error off the time that remains."""
    run = af.stream(flow(1.0), CIRCLE(np.random.default_rng(seed).uniform(0, 2 * np.pi, 6)), [0.0, 2.0], progress=False)

    assert float(run.piece_length.min()) > 1e-6
