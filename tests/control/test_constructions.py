"""Constructions arrive, by a tight solve that is not part of them, and leave what they should not move."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

TIGHT = af.Adaptive(rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("d", [3, 10])
def test_fifty_tokens_on_the_sphere_one_at_a_time(d):
    """At most 6 pieces a token; in every piece one token moves and all others keep their bits; errors below 1e-10."""
    tokens, targets = af.initial.sphere(50, d, rng=0), af.initial.sphere(50, d, rng=1)
    found = af.control.steer(tokens, targets, rng=0)
    assert len(found.control.pieces) <= 60

    for piece in found.control.pieces:
        alone = af.control.Schedule((piece,))
        moved = alone.run(tokens, solver=TIGHT).final_tokens.values
        others = ~np.all(moved == tokens, axis=1)
        np.testing.assert_array_equal(np.flatnonzero(others), [int(piece.name.split()[1])])
        tokens = moved

    assert np.linalg.norm(tokens - targets, axis=1).max() < 1e-10


def test_the_whole_control_is_saved_and_replayed(tmp_path):
    tokens, targets = af.initial.sphere(4, 3, rng=0), af.initial.sphere(4, 3, rng=1)
    found = af.control.steer(tokens, targets, rng=0)
    assert found.terminal_error < 1e-10
    loaded = af.load(af.save(found.run, tmp_path / "run.zarr"))
    assert af.flow_of(loaded) == found.control.flow()
    np.testing.assert_array_equal(loaded.target, targets)
    np.testing.assert_array_equal(af.rerun(loaded).final_tokens, found.run.final_tokens)
    assert "4 to 4 targets" in str(found)


def test_taken_targets_and_cycles_need_detours():
    """Three tokens change places in a cycle, and two others as a pair."""
    tokens = af.initial.sphere(6, 3, rng=0)
    found = af.control.steer(tokens, tokens[[1, 0, 3, 4, 2, 5]], rng=0)
    assert 5 < len(found.control.pieces) <= 10
    assert "token 5" not in [piece.name for piece in found.control.pieces]


def test_targets_at_antipodes_are_reached_through_caps():
    """Every great circle through a target contains its antipode, so that strips alone do not reach the second of a pair."""
    tokens, poles = af.initial.sphere(4, 3, rng=2), np.concatenate([np.eye(3)[:2], -np.eye(3)[:2]])
    found = af.control.steer(tokens, poles, rng=0)
    assert found.terminal_error < 1e-10
    assert len(found.control.pieces) <= 10


def test_fewer_targets_than_tokens_by_a_rule():
    tokens = af.initial.sphere(5, 3, rng=0)
    targets = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    wanted = af.control.assign(tokens, targets)
    assert np.sum(np.any(wanted != tokens, axis=1)) == 2
    assert af.control.steer(tokens, wanted, rng=0).terminal_error < 1e-10
    nearest = af.control.assign(tokens, targets, "nearest")
    np.testing.assert_array_equal(nearest[:, 0], np.sign(tokens[:, 0]))
    with pytest.raises(InputError, match="6 targets for 5 tokens"):
        af.control.assign(tokens, af.initial.sphere(6, 3, rng=1))
    with pytest.raises(InputError, match="'far' is not known"):
        af.control.assign(tokens, targets, "far")
    with pytest.raises(InputError, match="`assign` makes targets"):
        af.control.steer(tokens, targets)


def test_a_neural_ode_interpolates_in_the_plane():
    rng = np.random.default_rng(0)
    tokens, targets = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    found = af.control.steer(tokens, targets, space="euclidean", rng=0)
    assert found.terminal_error < 1e-10
    assert isinstance(found.control.flow(), af.EuclideanAttention)
    assert found.control.flow().heads == ()


def test_tokens_on_the_circle_in_their_order():
    rng = np.random.default_rng(0)
    tokens = af.initial.on_circle(np.sort(rng.uniform(0, 6.28, 6)))
    targets = af.initial.on_circle(np.roll(np.sort(rng.uniform(0, 6.28, 6)), 2))
    assert af.control.steer_circle(tokens, targets).terminal_error < 1e-8


def test_prompts_collapse_to_points_and_go_to_their_targets():
    prompts = af.initial.sphere(5 * 20, 4, rng=3).reshape(5, 20, 4)
    targets = af.initial.sphere(5, 4, rng=5)
    found = af.control.match_prompts(prompts, targets, rng=0)
    names = [piece.name.split()[0] for piece in found.control.pieces]
    assert names[0] == "gather"
    assert "cluster" in names
    assert len(names) <= 4 * 5  # d N
    assert found.terminal_error < 1e-8
    # The control: in the same time without clustering, tokens of one prompt stay apart.
    assert np.linalg.norm(prompts[0] - prompts[0].mean(axis=0), axis=1).max() > 0.5


def test_prompts_with_one_mean_are_disentangled_before_they_collapse():
    """Two pairs around one pole, in orthogonal planes, would collapse to the pole; equal prompts stay equal."""
    pole, side = np.cos(0.5), np.sin(0.5)
    prompts = np.array([[[side, 0, pole], [-side, 0, pole]], [[0, side, pole], [0, -side, pole]]])
    found = af.control.match_prompts(prompts, np.eye(3)[:2], rng=0)
    assert "disentangle" in [piece.name for piece in found.control.pieces]
    assert found.terminal_error < 1e-8
    with pytest.raises(InputError, match="Are they equal"):
        af.control.match_prompts(prompts[[0, 0]], np.eye(3)[:2], rng=0)


@pytest.mark.parametrize("attention", [af.Hardmax(), af.Softmax(2.0)])
def test_sequences_are_interpolated_within_the_stated_number_of_blocks(attention):
    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(10, 100, 16))
    outputs = [rng.normal(size=(3, 16)) for _ in range(10)]
    found = af.control.interpolate_sequences(sequences, outputs, attention, rng=0)
    assert found.blocks == 2 * 30 + 2 <= found.stated_blocks
    assert found.terminal_error < 1e-6  # rounding errors of s, some 1e-13, times the slope of the bumps, some 1e5
    for j in range(10):  # every output is reached
        reached = np.unique(found.wanted[j], axis=0)
        np.testing.assert_allclose(np.sort(reached, axis=0), np.sort(outputs[j], axis=0))


REFUSED = {
    "d = 2": (lambda: af.control.steer(np.eye(2), -np.eye(2)), "Use `steer_circle`"),
    "nothing": (lambda: af.control.steer(np.eye(3), np.eye(3)), "nothing to do"),
    "merging": (lambda: af.control.steer(np.eye(3), np.eye(3)[[0, 0, 2]]), "tokens 0 and 1 are distinct"),
    "prompts": (lambda: af.control.match_prompts(np.eye(3), np.eye(3)), r"shape \(prompts, n, d\)"),
    "equal targets": (lambda: af.control.match_prompts(np.eye(3)[None].repeat(2, 0), np.eye(3)[[0, 0]]), "distinct"),
    "outputs": (
        lambda: af.control.interpolate_sequences(np.ones((1, 2, 2)), [np.eye(2)[[0, 1, 1]]]),
        "no more outputs",
    ),
    "same": (lambda: af.control.interpolate_sequences(np.ones((2, 2, 2)), [np.eye(2)] * 2), "cannot tell them apart"),
    "piece": (lambda: af.control.Piece(1.0), "it has neither"),
    "duration": (lambda: af.control.Piece(0.0, heads=(af.Head.identity(2),)), "duration"),
    "control": (lambda: af.control.Schedule(()), "there are none"),
    "cap": (lambda: af.control.cap_mover(np.eye(2)[0], np.eye(2)[1], 0.2), "half of the arc"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence(case):
    make, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        make()


def test_a_single_token_has_the_circle_for_itself():
    found = af.control.steer_circle([[1.0, 0.0]], af.initial.on_circle(np.array([2.5])))
    assert found.terminal_error < 1e-8
