"""The attention matrix as an image, and its rows; n x n weights are not formed for many tokens."""

import numpy as np

from attnflow.explorer.recording import Frame
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model.dynamics import AbstractDynamics

MAX_SIDE = 256  # rows and columns of an image on the page
MOST_WEIGHTS = 24  # more lines from one token cannot be told apart


def attention_image(flow: AbstractDynamics, frame: Frame, max_side: int = MAX_SIDE) -> np.ndarray | None:
    """P(t), averaged over heads, in at most `max_side` blocks of tokens; None if some token is not finite.

    A block of rows is represented by the row of its middle token; the columns of a block are summed, which is the
    weight that its tokens have together.
    """
    n = len(frame.tokens)
    weights = _rows(flow, frame, block_middles(n, min(n, max_side)))
    return None if weights is None else summed_columns(weights, max_side)


def block_middles(n: int, blocks: int) -> np.ndarray:
    """Indices of the middle tokens of equal blocks of n tokens."""
    return (2 * np.arange(blocks) + 1) * n // (2 * blocks)


def summed_columns(rows: np.ndarray, max_side: int) -> np.ndarray:
    """Rows of weights, their columns summed in at most `max_side` blocks: token j is in block floor(j side / n)."""
    n = rows.shape[1]
    side = min(n, max_side)
    return np.add.reduceat(rows, -(-np.arange(side) * n // side), axis=1)


def attended_tokens(
    flow: AbstractDynamics, frame: Frame, token: int, image: np.ndarray | None = None
) -> list[list[float]]:
    """The tokens with the largest weights in one row of P(t), read from the frame's image if that has all rows."""
    if image is not None and len(image) == len(frame.tokens):
        row = image[token]
    elif (weights := _rows(flow, frame, np.array([token]))) is not None:
        row = weights[0]
    else:
        return []
    return largest_weights(row)


def largest_weights(weights: np.ndarray, most: int = MOST_WEIGHTS) -> list[list[float]]:
    """At most `most` pairs (token, weight) of the largest weights, those below 1e-4 left out."""
    largest = np.argsort(-weights)[:most]
    return [[int(token), round(float(weights[token]), 6)] for token in largest if weights[token] > 1e-4]


def _rows(flow: AbstractDynamics, frame: Frame, rows: np.ndarray) -> np.ndarray | None:
    tokens = frame.full_tokens
    if not np.all(np.isfinite(tokens)):
        return None
    weights = attention_matrix(flow, tokens, frame.time, rows=rows)
    return weights if weights.ndim == 2 else weights.mean(axis=0)
