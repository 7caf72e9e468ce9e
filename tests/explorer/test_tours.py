"""Guided tours: every step can be run, every statement of a caption holds, and the page leads through them."""

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for

import attnflow as af
from attnflow.experiments import scenarios
from attnflow.explorer.tours import TOURS

CLOSENESS = 0.05  # distance within which tokens count as one cluster
STEPS = [(name, index) for name, steps in TOURS.items() for index in range(len(steps))]


def run_of(name, index, **more):
    setup = af.scenario(name, **TOURS[name][index].changes, **more)
    return af.simulate(setup.flow, setup.tokens, setup.times[[0, -1]], solver=setup.solver, rng=setup.rng)


def clusters_at_end(name, index):
    return int(af.clusters.count(run_of(name, index), CLOSENESS)[-1])


@pytest.mark.parametrize(("name", "index"), STEPS)
def test_every_step_is_a_run_that_the_explorer_accepts(name, index):
    step = TOURS[name][index]
    settings = scenarios.change(scenarios.get(name).settings, dict(step.changes))
    assert scenarios.build(settings).tokens.shape == (settings.n, settings.d)
    assert 60 < len(step.words) < 320, "a caption is two or three sentences"


def test_tours_have_three_to_six_steps():
    assert {name: 3 <= len(steps) <= 6 for name, steps in TOURS.items()} == dict.fromkeys(TOURS, True)


def test_the_sphere_at_larger_beta_keeps_six_clusters_that_merge_later():
    assert clusters_at_end("sphere", 0) == 1
    assert clusters_at_end("sphere", 1) == 6
    assert 1 < clusters_at_end("sphere", 2) < 6


def test_minus_identity_lowers_the_energy_on_the_sphere():
    run = run_of("sphere", 3)
    first, last = af.energy.interaction(run, 1.0).values[[0, -1]]
    assert last < first
    assert clusters_at_end("sphere", 3) > 50


def test_ten_times_the_tokens_have_no_more_corners_and_a_causal_mask_leaves_more_clusters():
    assert clusters_at_end("polytope", 0) == 5
    assert clusters_at_end("polytope", 2) <= 5
    assert clusters_at_end("polytope", 3) > 5


def test_lines_have_the_same_direction_from_another_start_and_there_are_none_for_identity():
    for index in (0, 1):
        run = run_of("hyperplanes", index)
        assert 2 <= af.hyperplanes.count(run.tokens.values[-1], af.flow_of(run).heads[0].value_matrix) <= 3
    assert clusters_at_end("hyperplanes", 2) < 10


def test_under_a_causal_mask_the_first_token_rests_for_identity_only():
    run, turned = run_of("causal", 0), run_of("causal", 2)
    np.testing.assert_allclose(run.tokens.values[-1, 0], run.tokens.values[0, 0], atol=1e-12)
    assert clusters_at_end("causal", 0) == 1
    np.testing.assert_allclose(np.abs(turned.tokens.values[-1, :, 0]), 1, atol=1e-3)


def test_fewer_clusters_at_smaller_beta_and_more_at_larger_beta_with_renyi_centres():
    counts = [clusters_at_end("renyi", index) for index in (1, 0, 2)]
    assert counts == sorted(set(counts))


def test_noise_decides_about_order_on_the_circle():
    order = {index: float(af.order.mean_length(run_of("noisy", index))[-1]) for index in (0, 1, 2)}
    assert order[1] < 0.3 < 0.6 < order[0] < order[2]
    assert clusters_at_end("noisy", 2) == 1


def test_hardmax_leaves_five_clusters_from_both_starts_and_softmax_has_the_corners_of_hardmax():
    assert clusters_at_end("hardmax", 0) == clusters_at_end("hardmax", 1) == 5
    hard, soft = (run_of("hardmax", index).tokens.values[-1] for index in (0, 2))
    nearest = np.linalg.norm(hard[:, None] - soft[None], axis=-1).min(axis=1)
    assert np.median(nearest) < 0.1


def test_pre_norm_gathers_the_tokens_later():
    assert clusters_at_end("layernorm-post", 0) == 1
    assert clusters_at_end("layernorm-post", 1) > 1
    assert clusters_at_end("layernorm-post", 2) == 1


@needs_chromium
def test_the_page_leads_through_a_tour_and_its_link_restores_the_step(new_page, explorer):
    page = new_page()
    page.goto(explorer.address + "#scenario=sphere")
    wait_for(page, "window.explorer?.frame?.index > 1")
    page.click("#tour-button")
    assert page.inner_text("#tour-place") == "1 of 4"
    page.click("#tour-next")
    wait_for(page, "explorer.model.settings.beta === 9")
    assert "six clusters" in page.inner_text("#tour-words")
    wait_for(page, "location.hash.includes('tour=sphere.2')")

    other = new_page()
    other.goto(page.url)
    wait_for(other, "window.explorer?.model?.settings.beta === 9")
    assert other.inner_text("#tour-place") == "2 of 4"
    other.click("#tour-back")
    wait_for(other, "explorer.model.settings.beta === 1")
    other.click("#tour-close")
    assert value(other, "document.getElementById('tour').hidden")
    assert value(other, "!document.getElementById('tour-button').hidden")
