"""Models and arrays as JSON and back: every entry, in its place, with its type."""

import json

import jax
import numpy as np
import pytest

import attnflow as af
from attnflow.results.records import MAX_READABLE_ENTRIES, record, restore

RNG = np.random.default_rng(0)
ARRAYS = {
    "few": RNG.normal(size=(3, 5)),
    "wide": RNG.normal(size=(5, 40)),
    "tall": RNG.normal(size=(40, 5)),
    "by columns": np.asfortranarray(RNG.normal(size=(7, 30))),
    "strided": RNG.normal(size=(20, 30))[::2, 1::3],
    "three axes": RNG.normal(size=(3, 5, 9)),
    "booleans": RNG.random((4, 33)) < 0.5,
    "whole numbers": RNG.integers(-9, 9, (3, 50)),
    "single precision": RNG.normal(size=(3, 50)).astype("float32"),
    "other byte order": RNG.normal(size=(3, 50)).astype(">f8"),
    "not finite": np.array([[np.nan, np.inf, -0.0]]),
    "empty": np.zeros((0, 3)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_restored_entry_by_entry(name):
    array = ARRAYS[name]

    restored = restore(json.loads(json.dumps(record(array))), "flow")

    assert restored.shape == array.shape
    assert restored.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(restored, array)


def test_larger_arrays_are_written_as_bytes():
    sizes = (MAX_READABLE_ENTRIES, MAX_READABLE_ENTRIES + 1)
    assert ["bytes" in record(np.zeros((1, size))) for size in sizes] == [False, True]


def test_a_head_of_large_factors_is_restored():
    """Query and key are 3 x 30, value 4 x 30 and output 30 x 4: none is square, all have more than 64 entries."""
    shapes = {"query": (3, 30), "key": (3, 30), "value": (4, 30), "output": (30, 4)}
    head = af.Head(**{name: RNG.normal(size=shape) for name, shape in shapes.items()})

    restored = restore(json.loads(json.dumps(record(af.SphereAttention(head, af.Softmax(2.0))))), "flow")

    for found, expected in zip(jax.tree.leaves(restored), jax.tree.leaves(af.SphereAttention(head)), strict=True):
        assert np.shape(found) == np.shape(expected)
    for name in shapes:
        np.testing.assert_array_equal(getattr(restored.heads[0], name), getattr(head, name))


@pytest.mark.parametrize("diagonal", [np.ones(40), np.linspace(-1, 1, 40), np.where(np.arange(40) % 2, -0.0, 1 / 3)])
def test_a_diagonal_matrix_is_written_by_its_diagonal(diagonal):
    matrix = np.diag(diagonal)
    text = json.dumps(record(matrix))
    assert len(text) < 1500 < matrix.nbytes
    found = restore(json.loads(text), "flow")
    np.testing.assert_array_equal(found.view(np.int64), matrix.view(np.int64))  # bit for bit
    matrix[0, 1] = -0.0  # a zero of negative sign, which the diagonal would lose
    np.testing.assert_array_equal(restore(record(matrix), "flow").view(np.int64), matrix.view(np.int64))
