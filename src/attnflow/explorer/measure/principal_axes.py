"""Principal axes of a configuration of tokens."""

import numpy as np


def principal_axes(tokens: np.ndarray) -> list[list[float]]:
    """Up to three orthonormal directions of largest variance, largest first, each with its largest entry positive."""
    centred = tokens - tokens.mean(axis=0)
    axes = np.linalg.svd(np.concatenate([centred, np.zeros((3, tokens.shape[1]))]), full_matrices=False)[2][:3]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.where(largest < 0, -1, 1)).tolist()
