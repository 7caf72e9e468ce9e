"""Attention sinks and massive activations, which raise cosines and lower ranks although no tokens gather.

Definitions: a head has a sink at the first token if that token receives more than 0.3 of the attention, as a mean over
the queries (Gu et al., arXiv:2410.10781); an activation is massive if it is larger than 100 and than a thousand
times the median of its layer (Sun et al., arXiv:2402.17762).
"""

import numpy as np

SINK_THRESHOLD = 0.3  # share of attention
MASSIVE_SIZE, MASSIVE_RATIO = 100.0, 1000.0


def first_token_attention(attention: np.ndarray) -> np.ndarray:
    """The attention that the first token receives from all tokens, a mean over queries: one number a head.

    `attention` are weights (heads, n, n).

    Examples
    --------
    >>> first_token_attention(np.array([[[1.0, 0.0], [0.8, 0.2]]]))
    array([0.9])
    """
    return attention[..., 0].mean(axis=-1)


def sink_share(attention: np.ndarray) -> float:
    """The share of heads that have a sink at the first token.

    Examples
    --------
    >>> sink_share(np.array([[[1.0, 0.0], [0.8, 0.2]], [[0.1, 0.9], [0.2, 0.8]]]))
    0.5
    """
    return float(np.mean(first_token_attention(attention) > SINK_THRESHOLD))


def most_received(attention: np.ndarray) -> float:
    """The largest attention that one token receives in one head, a mean over the queries that see it.

    Tokens that fewer than half of the queries see, as under a causal mask, are not counted: the last of them
    receives the attention of few queries only.

    Examples
    --------
    >>> most_received(np.array([[[0.2, 0.8], [0.4, 0.6]]]))
    0.7
    """
    n = attention.shape[-1]
    is_causal = not np.triu(attention, 1).any()
    seen = n - np.arange(n) if is_causal else np.full(n, n)
    counted = 2 * seen >= n
    return float((attention.sum(axis=-2)[:, counted] / seen[counted]).max())


def massive_activations(tokens: np.ndarray) -> int:
    """The number of massive activations among the coordinates of all tokens.

    Examples
    --------
    >>> tokens = np.ones((4, 3))
    >>> tokens[0, 1] = 2000.0
    >>> massive_activations(tokens)
    1
    """
    sizes = np.abs(tokens)
    return int(np.sum((sizes > MASSIVE_SIZE) & (sizes > MASSIVE_RATIO * np.median(sizes))))


def length_ratio(tokens: np.ndarray) -> float:
    """The length of the longest token divided by the median length.

    Examples
    --------
    >>> length_ratio(np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]]))
    5.0
    """
    lengths = np.linalg.norm(tokens, axis=1)
    median = np.median(lengths)
    return float(lengths.max() / median) if median > 0 else np.nan
