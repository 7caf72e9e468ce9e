"""The figures of control at small sizes: what is computed, and captions that follow from it."""

import numpy as np
import pytest

import attnflow as af
from attnflow.figures.entries import control, control_labels, control_obstructions, control_sequences


def test_the_construction_and_the_search_arrive():
    data = control.compute_sphere(False, n=2, d=3, pieces=2, seed=0)
    numbers = control.sphere_numbers(data)
    assert numbers["error of the construction"] < 1e-8
    assert numbers["error of the search"] < 1e-8
    assert 1.0 <= numbers["gap of the search"] < numbers["gap of the construction"]
    assert f"{numbers['pieces of the construction']} pieces" in control.draw_sphere(data).caption
    assert control.draw_sphere(data).caption.count("by the operator norms of its weights") == 2
    assert control.draw_sphere(data).title.endswith("one after the other 2 arrive, all at once 2")


def test_a_search_that_stalls_is_told_in_the_title():
    data = control.compute_sphere(False, n=2, d=3, pieces=2, seed=0)
    moved = data.search_tokens.values.copy()
    moved[-1, 0] = -data.search_target.values[0]
    stalled = data.assign(search_tokens=(data.search_tokens.dims, moved))
    assert control.draw_sphere(stalled).title.endswith("one after the other 2 arrive, all at once 1")


def test_points_of_the_plane_arrive_and_pieces_are_counted():
    data = control.compute_plane(False, n=3, counts=[2, 4], draws=3, seed=0)
    numbers = control.plane_numbers(data)
    assert numbers["error"] < 1e-8
    assert numbers["mean number of pieces, 4 points"] >= 4
    assert len(control.draw_plane(data).panels) == 3


def test_labels_are_learnt_and_permuted_ones_are_not_predicted():
    data = control_labels.compute_labels(
        False, counts=[8], n=8, shift=1.5, pieces=2, radius=0.8, held_out=20, draws=2, seed=0
    )
    shares = data.held_out.sel(way="search").mean(("prompts", "draw"))
    assert float(shares.sel(labels="true")) < 0.1
    assert float(shares.sel(labels="permuted")) > 0.15
    np.testing.assert_array_equal(data.train.sel(way="construction"), 0.0)
    assert "permuted" in control_labels.draw_labels(data).caption


def test_draws_that_are_equal_have_no_interval():
    """Three equal shares say nothing of the spread; three others have Student's interval, t = 4.3027."""
    assert control_labels.in_words([0.5, 0.5, 0.5], 2) == "0.50 in each of 3 draws"
    assert control_labels.in_words([0.25], 2) == "0.25 in the only draw"
    assert control_labels.in_words([0.0, 0.5, 1.0], 2) == f"0.50 ± {4.3027 * 0.5 / np.sqrt(3):.2f}"
    assert np.isnan(control_labels.interval(np.zeros((2, 3)))[1]).all()


def test_a_piece_by_scipy_is_that_of_the_package():
    found = af.control.match_prompts(af.initial.sphere(6, 3, rng=0).reshape(2, 3, 3), np.eye(3)[:2], rng=0)
    prompts = found.prompts
    for piece in found.control.pieces:
        prompts = control_labels.after_piece(piece, 0.0, prompts)
    np.testing.assert_allclose(prompts, np.broadcast_to(np.eye(3)[:2, None], prompts.shape), atol=1e-3)


def test_blocks_do_not_depend_on_the_length():
    data = control_sequences.compute_sequences(False, sequences=[2], lengths=[3, 5], d=3, outputs=2, beta=2.0, seed=0)
    assert data.blocks.values.tolist() == [[[10, 10]], [[10, 10]]]
    assert data.stated.values.tolist() == [[[13, 13]], [[14, 14]]]
    assert "in 4 of 4 cases, and the least difference is 3" in control_sequences.draw_sequences(data).caption


def test_ends_of_a_family_are_possible_and_others_are_not():
    data = control_obstructions.compute_obstructions(False, n=5, end=2.0, beta=1.0, draws=4, seed=0)
    called = data.is_called_impossible.sum("draw")
    assert int(called.sel(side="with").sum()) == 0
    assert int(called.sel(side="without").min()) >= 1
    assert "0 of 16 runs" in control_obstructions.draw_obstructions(data).caption


def test_the_interval_of_a_share():
    low, high = control_obstructions.share_with_interval(np.zeros(100, bool))[1:]
    assert low == 0.0
    assert high == pytest.approx(0.037, abs=1e-3)
