"""Block coupling: Jacobians of one token, their leading singular vectors, and the mismatch between blocks."""

import jax
import numpy as np
import pytest
import xarray as xr
from tests.helpers import tiny_models
from tests.helpers.tiny_models import IDS

import attnflow as af
from attnflow import trained
from attnflow._common.checks import InputError
from attnflow.trained import coupling

SVD = np.linalg.svd


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: af.models.load(tiny_models.write(name, folder / name)) for name in ("bert", "albert", "gpt2", "llama")
    }


def test_jacobians_are_those_of_finite_differences(models):
    block, tokens = models["bert"].block(1), models["bert"].trajectory(IDS).tokens.values[1]
    found = coupling._jacobian(block, tokens, 2)
    step, columns = 1e-6, []
    for direction in np.eye(12):
        moved = np.zeros_like(tokens)
        moved[2] = step * direction
        with jax.enable_x64(True):
            change = (np.asarray(block(tokens + moved)) - np.asarray(block(tokens - moved)))[2] / (2 * step)
        columns.append(change - direction)
    np.testing.assert_allclose(found, np.stack(columns, axis=1), atol=1e-6)


def test_a_wide_blocks_jacobian_is_made_in_batches(models, monkeypatch):
    block, tokens = models["bert"].block(0), models["bert"].trajectory(IDS).tokens.values[0][:3]
    whole = coupling._jacobian(block, tokens, 2)
    monkeypatch.setattr(coupling, "DIRECTIONS_AT_ONCE", 4)  # of 12
    jax.clear_caches()
    np.testing.assert_allclose(coupling._jacobian(block, tokens, 2), whole, rtol=0, atol=1e-13)
    jax.clear_caches()


def test_blocks_that_share_directions_are_coupled():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(2))
    shared = [left @ np.diag(np.sort(rng.random(8))[::-1]) @ right.T for _ in range(2)]
    mismatch, _ = coupling.coupling_of(np.stack([*shared, rng.normal(size=(8, 8))]), 3)
    assert mismatch[:2, :2].max() < 1e-12
    assert mismatch[0, 2] > 0.3
    assert mismatch[2, 0] > 0.3


def test_blocks_that_act_with_opposite_sign_are_coupled():
    """Singular vectors are known up to their sign, and so is the diagonal."""
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    np.testing.assert_allclose(coupling.coupling_of(np.stack([matrix, -matrix]), 3)[0], 0, atol=1e-12)


def test_the_mismatch_in_random_directions_is_a_mean_over_draws():
    matrices, rng = np.random.default_rng(1).normal(size=(2, 6, 6)), np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((3, 6, 2)))[0] for _ in range(2))
    all_sizes = np.linalg.svd(matrices, compute_uv=False)[:, :2]
    for matrix, sizes, found in zip(
        matrices, all_sizes, coupling.random_mismatch(matrices, all_sizes, draws=3), strict=True
    ):
        seen = [np.abs(left[draw].T @ matrix @ right[draw]) - np.diag(sizes) for draw in range(3)]
        assert found == pytest.approx(np.mean([np.linalg.norm(one) for one in seen]) / np.linalg.norm(sizes))


def test_random_directions_give_the_mismatch_of_blocks_that_share_nothing():
    """Blocks with the same singular values and independent singular vectors have it; coupled ones are far below."""
    rng, sizes = np.random.default_rng(0), np.diag(np.linspace(2, 0.1, 60))
    turned = lambda: np.linalg.qr(rng.normal(size=(60, 60)))[0]
    alone = np.stack([turned() @ sizes @ turned() for _ in range(6)])
    mismatch, found = coupling.coupling_of(alone, 5)
    off = mismatch[~np.eye(6, dtype=bool)].mean()
    np.testing.assert_allclose(coupling.random_mismatch(alone, found).mean(), off, rtol=0.03)


@pytest.mark.parametrize("decades", [0, 4, 8])
def test_leading_singular_vectors_are_those_of_the_whole_decomposition(decades, monkeypatch):
    """Where singular values fall by more than three decades, the squares in J^T J are not used."""
    rng, calls = np.random.default_rng(0), []
    matrix = rng.normal(size=(40, 40)) @ np.diag(np.logspace(0, -4 * decades, 40))
    whole = np.linalg.svd(matrix)
    monkeypatch.setattr(np.linalg, "svd", lambda one, **options: calls.append(one.shape) or SVD(one, **options))
    left, sizes, right = coupling._leading(matrix, 10)
    assert calls == [(40, 10), (40, 40)][: 1 if decades == 0 else 2]
    np.testing.assert_allclose(sizes, whole[1][:10], rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(left * whole[0][:, :10], axis=0)), 1, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(right * whole[2][:10], axis=1)), 1, atol=1e-12)


def test_measures_of_a_run_are_those_of_its_prompt(models):
    """A run that is handed over is not made again; one of another model, or without attention, is refused."""
    model, other = models["llama"], models["gpt2"]
    run = model.trajectory(IDS, attention=True)
    for measure in (trained.block_coupling, trained.displacements, trained.frames):
        xr.testing.assert_identical(measure(model, run), measure(model, IDS))
        for wrong in (run, xr.Dataset()):
            with pytest.raises(InputError, match="or a run of gpt2 made by"):
                measure(other, wrong)
        with pytest.raises(
            InputError, match="`layers` must be left out with a run, which has 3 layers here, but it is 1"
        ):
            measure(model, run, 1)
    with pytest.raises(InputError, match="a run without attention"):
        trained.displacements(model, model.trajectory(IDS))


def test_coupling_of_a_models_blocks(models):
    found = trained.block_coupling(models["albert"], IDS, 4, top=3)
    assert found.mismatch.shape == (4, 4)
    np.testing.assert_allclose(np.diag(found.mismatch), 0, atol=1e-9)
    with pytest.raises(InputError, match="`token` must be from -7 to 6, but it is 7"):
        trained.block_coupling(models["albert"], IDS, token=7)
    with pytest.raises(InputError, match="`top` must be at most 12"):
        trained.block_coupling(models["albert"], IDS, top=13)
