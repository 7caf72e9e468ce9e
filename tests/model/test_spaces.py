"""Distances, tangent vectors and retraction on the sphere and in R^d."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import double
from attnflow.model.spaces import Euclidean, Sphere, tangent_basis


@pytest.mark.parametrize("angle", [1e-12, 1e-3, 1.0, 3.0, np.pi])
def test_the_distance_on_the_sphere_is_the_angle(angle):
    with double():
        first, second = jnp.asarray(af.initial.on_circle(np.array([0.0, angle]), 3))
        assert float(Sphere().distance(first, second)) == pytest.approx(angle, rel=1e-7)
        assert float(Euclidean().distance(first, second)) == pytest.approx(2 * np.sin(angle / 2), rel=1e-7)


def test_tangent_parts_are_orthogonal_and_tangent_vectors_are_kept():
    rng = np.random.default_rng(0)
    tokens, vectors = af.initial.sphere(5, 4, rng=0), rng.normal(size=(5, 4))
    with double():
        tangent = np.asarray(Sphere().tangent_part(jnp.asarray(tokens), jnp.asarray(vectors)))
        again = np.asarray(Sphere().tangent_part(jnp.asarray(tokens), jnp.asarray(tangent)))

    np.testing.assert_allclose(np.sum(tangent * tokens, axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(again, tangent, atol=1e-14)
    along = vectors - tangent
    np.testing.assert_allclose(np.abs(np.sum(along * tokens, axis=1)), np.linalg.norm(along, axis=1), atol=1e-14)


def test_retraction_and_drift_go_by_the_length():
    tokens = np.array([[3.0, 4.0], [0.6, 0.8]])
    with double():
        np.testing.assert_allclose(Sphere().retract(jnp.asarray(tokens)), [[0.6, 0.8], [0.6, 0.8]])
        assert float(Sphere().drift(jnp.asarray(tokens))) == pytest.approx(4.0)
        np.testing.assert_array_equal(Euclidean().retract(jnp.asarray(tokens)), tokens)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_tangent_basis_is_orthonormal_and_orthogonal_to_its_point(sign):
    point = sign * af.initial.sphere(1, 5, rng=3)[0]
    basis = tangent_basis(point)

    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(point @ basis, 0, atol=1e-14)
