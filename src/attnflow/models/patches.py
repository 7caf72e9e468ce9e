"""Patches of an image as tokens: their vectors, and position vectors for images of another size."""

import numpy as np


def patch_vectors(pixels: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The image of each patch of pixels (3, h, w) under a map (d, 3, p, p), row after row of patches, (patches, d).

    Pixels at the right and lower edge that do not fill a patch are left out.

    Examples
    --------
    >>> patch_vectors(np.arange(12.0).reshape(3, 2, 2), np.ones((1, 3, 2, 2))).tolist()
    [[66.0]]
    """
    p = matrix.shape[-1]
    rows, columns = pixels.shape[1] // p, pixels.shape[2] // p
    cut = pixels[:, : rows * p, : columns * p].reshape(3, rows, p, columns, p)
    flat = np.moveaxis(cut, (1, 3), (0, 1)).reshape(rows * columns, -1)
    return flat.astype(matrix.dtype) @ matrix.reshape(len(matrix), -1).T


def enlarged(table: np.ndarray, first: int, grid: tuple[int, int]) -> np.ndarray:
    """Position vectors for a grid of patches: those of a square grid, interpolated by cubic convolution.

    `first` vectors before those of the patches stay. A grid of the size of the table is returned as it is.
    """
    side = round((len(table) - first) ** 0.5)
    if grid == (side, side):
        return table
    square = table[first:].reshape(side, side, -1)
    rows, columns = (_cubic(side, size).astype(table.dtype) for size in grid)
    found = np.einsum("ri,cj,ijd->rcd", rows, columns, square, optimize=True)
    return np.concatenate([table[:first], found.reshape(-1, table.shape[1])])


def _cubic(old: int, new: int) -> np.ndarray:
    """The (new, old) matrix of cubic convolution with parameter -3/4, as torch and OpenCV have it; edges are repeated.

    Weights of the four neighbours at distance s: 1 - (a+3) s^2 + (a+2) s^3 for s < 1, and a (s^3 - 5 s^2 + 8 s - 4) for
    1 < s < 2 (Keys 1981), with a = -3/4.
    """
    a, matrix = -0.75, np.zeros((new, old))
    for row in range(new):
        place = (row + 0.5) * old / new - 0.5
        low = int(np.floor(place))
        for neighbour in range(low - 1, low + 3):
            s = abs(place - neighbour)
            near, far = 1 - (a + 3) * s**2 + (a + 2) * s**3, a * (s**3 - 5 * s**2 + 8 * s - 4)
            matrix[row, min(max(neighbour, 0), old - 1)] += near if s < 1 else far
    return matrix
