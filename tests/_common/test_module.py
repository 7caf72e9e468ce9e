"""Models print in one line that shows numbers, names and shapes; copies and equal models compare equal."""

import copy

import jax
import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (af.Softmax(4.0), "Softmax(beta=4)"),
        (af.Softmax(0.1), "Softmax(beta=0.1)"),
        (af.Unnormalised(-2.5, 1.0), "Unnormalised(beta=-2.5, offset=1)"),
        (af.masks.causal & af.masks.window(3), "masks.causal & masks.window(3)"),
        (af.masks.strictly_causal, "masks.strictly_causal"),
        (af.masks.alibi(0.5), "masks.alibi(0.5)"),
        (af.masks.boolean(np.eye(7, dtype=bool)), "masks.boolean(7 x 7)"),
        (af.Head.bilinear(np.diag([1.0, 2.0]), np.eye(2)), "Head(query=2 x 2, key=identity 2 x 2, value=identity 2 x 2)"),
        (af.PiecewiseHead([1.0], [af.Head.identity(2)] * 2), "PiecewiseHead(switches=[1], heads=2 of "
         "Head(query=identity 2 x 2, key=identity 2 x 2, value=identity 2 x 2))"),
        (af.Euler(0.25), "Euler(step=0.25)"),
    ],
)  # fmt: skip
def test_repr_shows_numbers_and_shapes(part, text):
    assert repr(part) == text


def test_repr_of_a_flow_names_masses_and_frozen_tokens_only_where_given():
    flow = af.EuclideanAttention([af.Head.identity(5)] * 12, frozen=[True, False], masses=np.ones(9))
    head = "Head(query=identity 5 x 5, key=identity 5 x 5, value=identity 5 x 5)"
    assert repr(flow) == (
        f"EuclideanAttention(heads=12 of {head}, attention=Softmax(beta=1), mask=masks.full, masses=9 entries, "
        "frozen=[True, False])"
    )


def test_repr_inside_a_compiled_function_does_not_need_values():
    texts = []
    jax.jit(lambda beta: texts.append(repr(af.Softmax(beta))))(2.0)
    assert texts == ["Softmax(beta=traced)"]


def test_a_copy_equals_its_model_and_another_parameter_does_not():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(4.0), af.masks.causal)
    assert copy.deepcopy(flow) == flow
    assert copy.copy(flow) == flow
    assert (flow == 3) is False
    assert flow != af.SphereAttention(af.Head.identity(3), af.Softmax(4.5), af.masks.causal)
    assert flow != af.SphereAttention(af.Head.identity(3), af.Softmax(4.0))


def _models():
    head = af.Head(value=np.diag([2.0, 1.0, 0.5]))
    yield af.SphereAttention([head, af.Head.identity(3)], af.Softmax(4.0), af.masks.causal & af.masks.alibi(0.5))
    yield af.EuclideanAttention(head, masses=[1.0, 2.0], frozen=[True, False], mask=af.masks.boolean(np.eye(2) > 0))
    yield af.SphereAttention(af.PiecewiseHead([1.0], [head, af.Head.identity(3)]), noise=af.Noise(0.1))
    yield af.Adaptive(rtol=1e-6)


@pytest.mark.parametrize("model", list(_models()), ids=lambda model: type(model).__name__)
def test_equal_models_have_equal_hashes(model):
    again = copy.deepcopy(model)
    assert again is not model
    assert hash(again) == hash(model)
    assert {model: "kept"}[again] == "kept"


def test_a_hash_tells_numbers_shapes_and_types_apart_but_not_the_two_zeros():
    parts = [af.Softmax(4.0), af.Softmax(5.0), af.Unnormalised(4.0), af.Softmax(np.float64(0.0))]
    assert len({hash(part) for part in parts}) == len(parts)
    assert len({*parts, af.Softmax(-0.0)}) == len(parts)
    assert hash(af.Head.identity(2)) != hash(af.Head.identity(3))
    assert hash(af.Head(value=[[1.0, 2.0], [3.0, 4.0]])) != hash(af.Head(value=[[1.0, 3.0], [2.0, 4.0]]))


def test_a_traced_model_cannot_be_hashed():
    with pytest.raises(TypeError, match="inside a compiled function"):
        jax.jit(lambda beta: hash(af.Softmax(beta)))(2.0)


def test_arrays_of_a_model_are_its_own_and_cannot_be_written_to():
    matrix, flags = np.eye(2) > 0, np.array([True, False])
    flow = af.EuclideanAttention(af.Head.identity(2), mask=af.masks.boolean(matrix), frozen=flags)
    before = hash(flow)
    matrix[:], flags[:] = True, True
    assert hash(flow) == before
    for array in (flow.heads[0].query, flow.attention.beta, flow.mask.matrix, flow.frozen):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


def test_a_mask_that_is_called_says_to_drop_the_brackets():
    with pytest.raises(InputError, match=r"`masks\.causal` is a mask already: write it without brackets"):
        af.masks.causal()
    with pytest.raises(InputError, match="joined with a mask"):
        af.masks.causal & 3


def test_a_head_of_a_value_matrix_alone_has_identity_query_and_key():
    value = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    head = af.Head(value=value)
    np.testing.assert_array_equal(head.query_key, np.eye(3))
    np.testing.assert_array_equal(head.value_matrix, value)
    for wrong in ({"query": np.eye(2), "value": np.eye(2)}, {"query": np.eye(2), "key": np.eye(2)}, {}):
        with pytest.raises(InputError, match="`query` and `key` together"):
            af.Head(**wrong)
