"""Fourier sums by Taylor series in cells, against sums over all pairs."""

import math

import numpy as np
import pytest

from attnflow.model.fast_sums import fourier
from attnflow.model.native import cell_series

pytestmark = pytest.mark.skipif(not cell_series.is_available(), reason="the native library is not built")


def angles_of(kind, n=4000):
    rng = np.random.default_rng(0)
    return {
        "everywhere": rng.uniform(-np.pi, np.pi, n),
        "three places": np.repeat([0.3, 2.0, -3.1], n),
        "one place": np.full(20 * n, 1.234),
        "ends of cells": np.pi * np.arange(-n, n) / 1024,
    }[kind]


def errors(kappa, angles, cells):
    """The errors of some rows over the gross weight; terms are added without rounding errors."""
    columns = np.column_stack([np.cos(angles), np.full(len(angles), 0.1)])
    found = fourier.cell_sums(fourier._coefficients(kappa), cells, angles, angles, columns)
    rows = np.random.default_rng(1).choice(len(angles), 20)
    pairs = np.exp(-2 * kappa * np.sin((angles[rows, None] - angles) / 2) ** 2)
    exact = np.array([[math.fsum(row * column) for column in columns.T] for row in pairs])
    return np.abs(found[rows] - exact).max() / np.abs(columns).sum(axis=0).max()


@pytest.mark.parametrize("kappa", [0.0, 1e-3, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("kind", ["everywhere", "three places", "one place", "ends of cells"])
def test_sums_are_exact_up_to_rounding(kappa, kind):
    assert errors(kappa, angles_of(kind), fourier.cells_of(kappa)) < fourier.CELL_ERROR / 2


def test_control_too_few_cells_show():
    """Negative control: with an eighth of the cells the rest of the series, 8^8 times as large, is seen."""
    angles, cells = angles_of("everywhere"), fourier.cells_of(100.0)

    assert errors(100.0, angles, cells // 8) > 1e3 * errors(100.0, angles, cells)


@pytest.mark.parametrize(
    ("kappa", "n", "is_small"), [(100.0, 5000, True), (100.0, 800, False), (1e6, 10**6, False), (1e4, 10**5, False)]
)
def test_the_small_error_is_promised_only_where_finufft_is_never_called(kappa, n, is_small, monkeypatch):
    assert (fourier.unit_error_of(kappa, n) == fourier.CELL_ERROR) == is_small
    if not is_small:
        return
    angles = np.linspace(-3, 3, n)
    queries = np.column_stack([np.cos(angles), np.sin(angles)])
    monkeypatch.setattr(fourier, "transformed", pytest.fail)

    fourier.CircleKernel(queries, queries, kappa).sums(slice(0, 600), slice(600, 1200), queries[600:1200])


def test_many_cells_of_few_tokens_are_left_to_finufft():
    """Memory and time of the series grow with the cells: 262,144 of them for a million tokens took twice as long."""
    assert not fourier.are_cells_faster(1e6, 10**6)
    assert fourier.are_cells_faster(1e4, 10**6)


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch):
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, 150_000)
    columns = np.ones((len(angles), 1))
    several = cell_series.moments(angles, columns, 256)
    monkeypatch.setattr(cell_series, "CORES", 1)

    assert np.array_equal(cell_series.moments(angles, columns, 256), several)
    assert several[:, 0, 0].sum() == len(angles)
