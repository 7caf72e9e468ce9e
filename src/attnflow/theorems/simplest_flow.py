"""The simplest flow with the same velocities, in which theorems recognise their setting."""

import dataclasses

import numpy as np

from attnflow.model.attention import Hardmax, Sinkhorn, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.model.masks import AbstractMask, Alibi, Boolean, Both, Causal, Full
from attnflow.model.perceptron import Perceptron


def simplest(flow: AbstractDynamics, n: int | None = None) -> AbstractDynamics:
    """The flow without parts that change nothing for n tokens (None: for any number).

    They are equal masses, flags of which none freezes a token, masks that are full or causal under another name,
    Sinkhorn attention with one iteration, a rescaling by V itself or by zero, a perceptron with W = 0 beside heads,
    and a factor k of Q^T K = k I, which becomes part of beta.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Sinkhorn(2.0, iterations=1), af.masks.window(5))
    >>> type(simplest(flow, 5).attention).__name__, type(simplest(flow, 5).mask).__name__
    ('Softmax', 'Full')
    """
    changes: dict = {"mask": simplest_mask(flow.mask, n)}
    if flow.frozen is not None and not np.any(np.asarray(flow.frozen)):
        changes["frozen"] = None
    if flow.masses is not None and np.ptp(np.asarray(flow.masses)) == 0:
        changes["masses"] = None
    if isinstance(flow.attention, Sinkhorn) and flow.attention.iterations == 1:
        changes["attention"] = Softmax(flow.attention.beta)
    drift = flow.perceptron
    if isinstance(drift, Perceptron) and flow.heads and not np.any(np.asarray(drift.outer)):
        changes["perceptron"] = None
    return _in_own_frame(_with_unit_scores(dataclasses.replace(flow, **changes)))


def simplest_mask(mask: AbstractMask, n: int | None) -> AbstractMask:
    """`Full` or `Causal` where a mask for n tokens is one of them, otherwise the mask."""
    if isinstance(mask, Full | Causal):
        return mask
    if isinstance(mask, Both):
        first, second = simplest_mask(mask.first, n), simplest_mask(mask.second, n)
        if isinstance(first, Full) or isinstance(second, Full):
            return second if isinstance(first, Full) else first
        mask = Both(first, second)
    if isinstance(mask, Alibi):
        return Full() if float(mask.slope) == 0 else mask
    if isinstance(mask, Boolean):
        matrix = np.asarray(mask.matrix)
        if np.all(matrix):
            return Full()
        return Causal() if np.array_equal(matrix, np.tril(np.ones_like(matrix))) else mask
    reach = mask.reach()
    if reach is None or n is None:
        return mask
    # Positions before and after its own that a token of n sees.
    before, after = reach
    if before >= n - 1 and after >= n - 1:
        return Full()
    return Causal() if before >= n - 1 and after == 0 else mask


def _with_unit_scores(flow: AbstractDynamics) -> AbstractDynamics:
    """The flow with Q^T K = I where beta Q^T K = b I: beta is then b, and beta (score - offset) stays the same."""
    head, rule = next(iter(flow.heads), None), flow.attention
    if len(flow.heads) > 1 or not isinstance(head, Head):
        return flow
    scores, identity = np.asarray(head.query_key), np.eye(flow.dimension)
    multiple = float(scores[0, 0])
    is_uniform = flow.beta == 0 or not np.any(scores)
    if not (is_uniform or np.array_equal(scores, multiple * identity)) or np.array_equal(scores, identity):
        return flow
    if isinstance(rule, Hardmax):
        new = rule if multiple > 0 else None
    elif isinstance(rule, Unnormalised):
        new = _with_offset(rule, multiple, is_uniform)
    elif isinstance(rule, Softmax | Sinkhorn):
        new = dataclasses.replace(rule, beta=0.0 if is_uniform else multiple * float(rule.beta))
    else:
        new = None
    if new is None:
        return flow
    return dataclasses.replace(flow, heads=(dataclasses.replace(head, query=identity, key=identity),), attention=new)


def _with_offset(rule: Unnormalised, multiple: float, is_uniform: bool) -> Unnormalised | None:
    """The rule for scores divided by `multiple`; None where a constant weight e^{-beta offset} is not one."""
    beta, offset = float(rule.beta), float(rule.offset)
    if is_uniform:
        return Unnormalised(0.0) if beta * offset == 0 else None
    return Unnormalised(multiple * beta, offset / multiple)


def _in_own_frame(flow: AbstractDynamics) -> AbstractDynamics:
    """The rescaled flow without its `rescaling` where that is V, and the flow of x where it is zero."""
    if not isinstance(flow, RescaledAttention) or flow.rescaling is None:
        return flow
    rescaling = np.asarray(flow.rescaling)
    if len(flow.heads) == 1 and isinstance(flow.heads[0], Head) and flow.mlp is None:
        if np.array_equal(rescaling, np.asarray(flow.heads[0].value_matrix)):
            return dataclasses.replace(flow, rescaling=None)
        if not np.any(rescaling):
            parts = {
                part.name: getattr(flow, part.name) for part in dataclasses.fields(flow) if part.name != "rescaling"
            }
            return EuclideanAttention(**parts)
    return flow
