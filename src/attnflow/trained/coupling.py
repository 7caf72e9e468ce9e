"""Block coupling (arXiv:2407.07810): whether blocks of a model act along the same singular vectors on a prompt.

J_l is the derivative of block l's update f_l = block - identity at one token with respect to one token, a d x d matrix
U S V^T. Blocks i and j are coupled where U_j^T J_i V_j is nearly diagonal with J_i's own singular values.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.linalg import eigh

from attnflow._common.checks import InputError, require_count
from attnflow._common.precision import double
from attnflow._common.threads import on_cores, one_blas_thread
from attnflow.models.block import Block
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained.prompt_runs import run_of

DIRECTIONS_AT_ONCE = 1024  # of the derivative of a block, above which they are cut into batches to save memory


def block_coupling(
    model: Model, prompt: Prompt | xr.Dataset, layers: int | None = None, *, token: int = -1, top: int = 10
) -> xr.Dataset:
    """Measure how far the singular vectors of each block's Jacobian diagonalise that of every other block.

    Parameters
    ----------
    model, layers
        As in `model.trajectory`.
    prompt
        As in `model.trajectory`, or the result of `model.trajectory` or `prompt_report`.
    token
        The token whose update is differentiated, with respect to itself; -1 is the last.
    top
        Number of leading singular vectors.

    Returns
    -------
    A dataset with `mismatch` over (block i, basis j): | |U_j^T J_i V_j| - S_i |_F / |S_i|_F on the `top` singular
    vectors of block j, zero if block i acts along the directions of block j; `random_mismatch` over block, the same
    with random orthonormal vectors in place of those of block j (a mean over 8 draws), the value of blocks that share
    nothing; and `singular_value` over (block, rank).

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.block_coupling(model, [5, 17, 3, 5], top=2)
    >>> found.mismatch.dims
    ('block', 'basis')
    """
    is_run = isinstance(prompt, xr.Dataset)
    n = run_of(model, prompt, layers).sizes["token"] if is_run else len(model.encode(prompt))
    require_coupling_arguments(model, n, token, top)
    run = run_of(model, prompt, layers)
    depth, d = run.sizes["time"] - 1, model.config.width
    jacobians = np.empty((depth, d, d))
    for layer in range(depth):
        jacobians[layer] = _jacobian(model.block(layer % model.config.layers), run.tokens.values[layer], token % n)
    with one_blas_thread():
        mismatch, sizes = coupling_of(jacobians, top)
        random = ("block", random_mismatch(jacobians, sizes))
    return xr.Dataset(
        {
            "mismatch": (("block", "basis"), mismatch),
            "random_mismatch": random,
            "singular_value": (("block", "rank"), sizes),
        },
        {"block": np.arange(depth), "basis": np.arange(depth)},
        {"model": model.name, "token": str(run.word.values[token]), "top": top},
    )


def require_coupling_arguments(model: Model, n: int, token: int = -1, top: int = 10) -> None:
    """Check `token` and `top` of `block_coupling` for a prompt of `n` tokens."""
    require_count(top, "top")
    if top > model.config.width:
        raise InputError(f"`top` must be at most {model.config.width}, the width of {model.name}, but it is {top}.")
    if not -n <= token < n:
        raise InputError(f"`token` must be from {-n} to {n - 1}, but it is {token}.")


def coupling_of(jacobians: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Mismatch (i, j) and leading singular values of square matrices.

    Examples
    --------
    Diagonal matrices share their singular vectors; a rotated one does not.

    >>> turned = np.array([[0.0, 1.0], [1.0, 0.0]]) @ np.diag([3.0, 1.0])
    >>> coupling_of(np.stack([np.diag([3.0, 1.0]), np.diag([2.0, 1.0]), turned]), top=1)[0].round(3)
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    """
    leading = on_cores(partial(_leading, top=top), jacobians)
    left, sizes, right = (np.stack(parts) for parts in zip(*leading, strict=True))
    return _mismatch(jacobians, sizes, left, right), sizes


def random_mismatch(jacobians: np.ndarray, sizes: np.ndarray, draws: int = 8) -> np.ndarray:
    """The mismatch of each matrix in random orthonormal directions, a mean over draws of a fixed seed.

    `sizes` are the leading singular values of each matrix; there are as many directions.

    Examples
    --------
    In high dimension random directions see nothing of a matrix of low rank: the mismatch is near 1.

    >>> low_rank = np.zeros((1, 200, 200))
    >>> low_rank[0, 0, 0] = 1.0
    >>> bool(abs(random_mismatch(low_rank, sizes=np.ones((1, 1)))[0] - 1) < 0.1)
    True
    """
    d, top, rng = jacobians.shape[-1], sizes.shape[-1], np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((draws, d, top)))[0] for _ in range(2))
    return _mismatch(jacobians, sizes, left, np.swapaxes(right, -1, -2)).mean(axis=1)


def _leading(matrix: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leading singular vectors and values of a square matrix J: U (d x top), S, and the rows V^T.

    V are eigenvectors of J^T J, which takes a quarter of the time of the whole decomposition. J^T J has S squared, so
    that vectors with a value below 1e-3 of the largest would lose six digits: then the whole decomposition is made.
    """
    d = len(matrix)
    if 4 * top <= d:
        _, candidates = eigh(matrix.T @ matrix, subset_by_index=(d - top, d - 1))
        left, sizes, turn = np.linalg.svd(matrix @ candidates, full_matrices=False)
        if sizes[-1] > 1e-3 * sizes[0]:
            return left, sizes, turn @ candidates.T
    left, sizes, right = np.linalg.svd(matrix)
    return left[:, :top], sizes[:top], right[:top]


def _mismatch(jacobians: np.ndarray, sizes: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """| |U_j^T J_i V_j| - S_i |_F / |S_i|_F over (i, j)."""
    seen = np.einsum("jak,iab,jlb->ijkl", left, jacobians, right, optimize=True)
    wanted = sizes[:, None, :, None] * np.eye(sizes.shape[-1])
    return np.linalg.norm(np.abs(seen) - wanted, axis=(-1, -2)) / np.linalg.norm(sizes, axis=1)[:, None]


def _jacobian(block: Block, tokens: np.ndarray, token: int) -> np.ndarray:
    """d x d derivative of (block - identity) at one token with respect to it."""
    with double():
        return np.asarray(_columns(block, jnp.asarray(tokens), token), dtype=float).T - np.eye(tokens.shape[1])


@eqx.filter_jit
def _columns(block: Block, tokens: jax.Array, token: int) -> jax.Array:
    """The derivative along each unit vector at the token: rows of the transposed Jacobian."""
    _, derivative = jax.linearize(partial(block.at, tokens, token), tokens[token])
    d = tokens.shape[1]
    directions = jnp.eye(d, dtype=tokens.dtype)
    if d <= DIRECTIONS_AT_ONCE:  # a loop over batches takes a second to compile
        return jax.vmap(derivative)(directions)
    # Batches of at most 512 directions: in a wide block, each holds as many numbers as a token of the MLP. They are of
    # equal size where d allows it, since a smaller last one is compiled by itself.
    return jax.lax.map(derivative, directions, batch_size=-(-d // -(-d // 512)))
