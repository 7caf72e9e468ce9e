"""The weights of single heads as a checkpoint stores them."""

from dataclasses import dataclass

from attnflow._common.arrays import AnyArray
from attnflow.models.attention_part import AttentionPart


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """The weights of one head as stored: column convention, ``W_Q @ x + b_q`` for a token x.

    W_Q, W_K and W_V are k x d, W_O is d x k; b_q, b_k and b_v have k entries, b_o has d and is added
    once for all heads of the layer. A bias is None where the model has none.

    Examples
    --------
    >>> weights = model.head_weights(layer=0)[0]
    >>> weights.W_Q.shape == weights.W_K.shape == weights.W_O.T.shape
    True
    """

    W_Q: AnyArray
    W_K: AnyArray
    W_V: AnyArray
    W_O: AnyArray
    b_q: AnyArray | None
    b_k: AnyArray | None
    b_v: AnyArray | None
    b_o: AnyArray | None


def weights_of_one(part: AttentionPart) -> HeadWeights:
    """The weights of a part with one head."""
    biases = [None if bias is None else bias[0] for bias in (part.b_q, part.b_k, part.b_v)]
    return HeadWeights(part.W_Q[0], part.W_K[0], part.W_V[0], part.W_O[0], *biases, b_o=part.b_o)
