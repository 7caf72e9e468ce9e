"""Figures of arXiv:2411.04990 at a small size: against SciPy, brute force and random-matrix laws."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.helpers import oracle
from tests.helpers.sweeping import first_tokens_of

from attnflow.figures.entries import causal, renyi_centres, two_token_force, value_spectrum
from attnflow.model import initial
from attnflow.show.parts.page import drawing_on, page_of
from attnflow.show.parts.tables import Table

N, BETA = 10, 16.0
SPECTRA = [[1.0, 1.0, 1.0], [1.0, 1.0, 0.2], [1.0, 0.3, -0.5], [-1.0, -3.0, -3.0]]


def path_of(tokens, value, beta, times):
    n, d = tokens.shape
    sees = oracle.mask(n, lambda i, j: j <= i)
    weights = oracle.Weights(np.eye(d), np.eye(d), np.asarray(value))
    return oracle.solve(oracle.Sphere([weights], oracle.softmax(beta), sees), tokens, times)[0]


# -- Figure 1 and Table 1


@pytest.fixture(scope="module")
def limits():
    return causal.compute_limits(False, spectra=SPECTRA, n=5, beta=1.0, end=60.0, saves=4, starts=2, seed=0)


def test_every_case_is_the_causal_flow_of_its_matrix(limits):
    start = initial.sphere(5, 3, rng=0, runs=2)[1]
    for case in (1, 3):
        expected = path_of(start, np.diag(SPECTRA[case]), 1.0, limits.time.values[:4])
        np.testing.assert_allclose(limits.tokens.isel(case=case, run=1)[:4], expected, atol=1e-6)


def test_the_measured_table_is_what_theorem_and_conjectures_say(limits):
    numbers = causal.limit_numbers(limits)
    arrived = [numbers[f"positive, multiplicity {count}"].endswith("arrived: 2 of 2") for count in (3, 2, 1)]
    assert arrived == [True, True, True]
    assert "no limit point" in numbers["negative, multiplicity 1"]
    assert [one.verdict for one in causal.limit_verdicts(limits)] == ["holds"] * 3


def test_angles_to_the_limits_of_the_table():
    first = np.array([[[0.6, 0.0, 0.8]]])
    final = np.array([[[0.0, 1.0, 0.0]]])
    angle = lambda *spectrum: float(causal.angles_to_limit(np.array(spectrum), first, final)[0, 0])
    assert angle(1.0, 1.0, 1.0) == pytest.approx(np.pi / 2)  # to x_1(0)
    assert angle(1.0, 1.0, 0.0) == pytest.approx(np.pi / 2)  # to e_1, its projection
    assert angle(-1.0, -1.0, -2.0) == 0  # inside L
    assert angle(2.0, 1.0, 1.0) == pytest.approx(np.pi / 2)  # to the nearer of +-e_1
    assert causal.angles_to_limit(np.array([1.0, 2.0, 0.0]), first, -final)[0, 0] == 0


def test_a_run_that_has_not_arrived_is_not_counted(limits):
    early = limits.isel(time=slice(0, 2))
    assert causal.limit_numbers(early)["positive, multiplicity 3"].endswith("arrived: 0 of 2")


def test_one_start_is_told_as_one(limits):
    numbers = [causal.limit_numbers(one)["positive, multiplicity 3"] for one in (limits, limits.isel(run=[1]))]
    assert ["median" in text for text in numbers] == [True, False]
    assert numbers[1].endswith("arrived: yes")
    early = limits.isel(run=[1], time=slice(0, 2))
    assert causal.limit_numbers(early)["positive, multiplicity 3"].endswith("arrived: no")


@pytest.mark.parametrize(("size", "has_table"), [("column", False), ("page", False), ("14x8", True)])
def test_what_the_table_says_is_in_the_caption_of_narrow_pages(limits, size, has_table):
    with drawing_on(page_of(size, None, None)):
        picture = causal.draw_limits(limits)
    assert any(isinstance(panel, Table) for row in picture.rows for panel in row.panels) == has_table
    told = [cell in picture.caption for row in causal._rows(limits) for cell in row[2:]]
    assert all(told) if not has_table else not any(told)


# -- Figure 5


def test_the_spectrum_is_that_of_the_whole_value_matrix():
    data = value_spectrum.compute_spectrum(False, width=40, head_width=6, heads=1, deviation=0.5, seed=3)
    inward, outward = np.random.default_rng(3).normal(scale=0.5, size=(2, 6, 40))
    whole = np.linalg.eigvals(outward.T @ inward)
    largest = whole[np.argsort(-np.abs(whole))][:6]
    found = data.real_part[0].values + 1j * data.imaginary_part[0].values
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(largest), atol=1e-9)
    assert np.abs(np.sort(-np.abs(whole))[6:]).max() < 1e-6  # the others are zero


def test_sizes_of_eigenvalues_follow_the_law_of_products():
    data = value_spectrum.compute_spectrum(False, width=240, head_width=120, heads=3, deviation=0.1, seed=0)
    numbers = value_spectrum.spectrum_numbers(data)
    # The median of 360 correlated sizes is within a few per cent, the edge within one more order of k^-1/2.
    assert numbers["median size"] == pytest.approx(numbers["median size in the limit"], rel=0.03)
    assert numbers["largest eigenvalue in size, mean over heads"] == pytest.approx(0.01 * np.sqrt(120 * 240), rel=0.1)
    positive = int(np.sum(data.real_part.values.max(axis=1) > 0))
    assert numbers["heads whose leading eigenvalue is positive"] == f"{positive} of 3"


# -- Figures 2 and 3


def greedy(tokens, delta):
    """Renyi centres and strong ones, from the definitions."""
    angle = lambda i, j: np.arccos(np.clip(tokens[i] @ tokens[j], -1, 1))
    found, strong = [], []
    for k in range(len(tokens)):
        if all(angle(k, j) > delta for j in range(k)):
            strong.append(k)
        if all(angle(k, j) > delta for j in found):
            found.append(k)
    return found, strong


def test_centres_and_their_numbers_are_those_of_the_definitions():
    moments = {"end": 8.0, "saves": 4, "moments": [0.0, 8.0], "frames": 2}
    data = renyi_centres.compute_centres(False, n=N, beta=BETA, c=4.0, **moments, seed=7)
    found, strong = greedy(initial.circle(N, rng=7), 4 / np.sqrt(BETA))
    np.testing.assert_array_equal(np.flatnonzero(data.centre), found)
    np.testing.assert_array_equal(np.flatnonzero(data.strong), strong)
    numbers = renyi_centres.centre_numbers(data)
    assert (numbers["Renyi centres"], numbers["strong Renyi centres"]) == (len(found), len(strong))
    path = path_of(initial.circle(N, rng=7), np.eye(2), BETA, data.time.values)
    moved = np.linalg.norm(path[-1] - path[0], axis=1)
    stayed = int(np.sum(2 * np.arcsin(moved[found] / 2) < 0.25))
    assert numbers["Renyi centres within beta^-1/2 of their start at t = 8"] == stayed


def test_captured_fractions_are_those_of_the_definition():
    settings = {"n": N, "beta": BETA, "c": 4.0, "radius": 1.0, "end": 8.0, "saves": 4, "runs": 2, "seed": 0}
    data = renyi_centres.compute_captured(False, **settings, store="")
    for run, tokens in enumerate(first_tokens_of(renyi_centres.captured_spec(**settings), {}, 2)):
        path = path_of(tokens, np.eye(2), BETA, data.time.values)
        for kind, members in zip(renyi_centres.KINDS, greedy(tokens, 1.0), strict=True):
            cosines = np.einsum("tid,tjd->tij", path, path[:, members])
            expected = (cosines.max(axis=2) >= np.cos(0.25)).mean(axis=1)
            np.testing.assert_allclose(data.captured.sel(kind=kind)[run], expected)


# -- Figure 4


def test_the_peak_of_the_force_is_where_a_search_finds_it():
    data = two_token_force.compute_force(False, beta=10.0, points=11)
    force = lambda angle: np.exp(10 * (np.cos(angle) - 1)) * np.sin(angle)
    found = minimize_scalar(lambda angle: -force(angle), bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    numbers = two_token_force.force_numbers(data)
    assert numbers["tau*"] == pytest.approx(found.x, abs=1e-7)
    assert numbers["h(tau*)"] == pytest.approx(-found.fun, rel=1e-12)
    np.testing.assert_allclose(data.force, force(data.angle.values), atol=1e-15)
    assert [one.verdict for one in two_token_force.force_verdicts(data)] == ["holds"] * 3
