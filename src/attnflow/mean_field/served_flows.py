"""Flows whose mean-field limit `evolve` integrates, and the domain on which it does."""

import enum
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.mean_field.circle_field import constant_heads
from attnflow.model import masks
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.normalisation import Post


class Domain(enum.StrEnum):
    """The space of a density; the value is the attribute `domain` of a dataset."""

    CIRCLE = "circle"
    ZONAL = "zonal"
    """S^2, densities of the polar angle only."""
    SPHERE = "sphere"
    LINE = "line"
    PLANE = "plane"

    @property
    def is_spectral(self) -> bool:
        """Whether the unknowns are coefficients, as opposed to places of characteristics."""
        return self in (Domain.CIRCLE, Domain.ZONAL, Domain.SPHERE)

    @property
    def most_modes(self) -> int:
        """The default of `max_modes`: seconds to minutes on one processor."""
        return {"circle": 2048, "zonal": 1024, "sphere": 128, "line": 256, "plane": 64}[self.value]


def domain_of(flow: AbstractDynamics, is_zonal: bool) -> Domain:
    """The domain of a flow, for a start that is zonal or not; a flow that is not served raises InputError."""
    reason = reason_not_served(flow)
    if reason:
        raise InputError(
            "`mean_field.evolve` takes SphereAttention with d = 2 or 3 and Post normalisation, or EuclideanAttention "
            "or RescaledAttention with d = 1 or 2 and without noise, with softmax or unnormalised attention, a full "
            f"mask and constant heads, but the flow has {reason}."
        )
    if not isinstance(flow, SphereAttention):
        return Domain.LINE if flow.dimension == 1 else Domain.PLANE
    if flow.dimension == 2:
        return Domain.CIRCLE
    return Domain.ZONAL if is_zonal and keeps_zonal(flow) else Domain.SPHERE


def keeps_zonal(flow: AbstractDynamics) -> bool:
    """Whether zonal densities stay zonal: V = diag(v, v, w) for all heads, and Q^T K = b I, which S^2 needs anyway."""
    values = [np.asarray(head.value_matrix) for head in constant_heads(flow)]
    return all(np.array_equal(value, np.diag([value[0, 0], value[0, 0], value[2, 2]])) for value in values)


def reason_not_served(flow: Any) -> str:
    """What in a flow is not served, in words; nothing if all of it is."""
    if not isinstance(flow, SphereAttention | EuclideanAttention | RescaledAttention):
        return f"the type {type(flow).__name__}"
    is_on_sphere = isinstance(flow, SphereAttention)
    tests = {
        f"d = {flow.dimension}": flow.dimension not in ((2, 3) if is_on_sphere else (1, 2)),
        f"the attention {flow.attention!r}": not isinstance(flow.attention, Softmax | Unnormalised),
        f"the mask {flow.mask!r}": flow.mask != masks.full,
        "another normalisation": is_on_sphere and not isinstance(flow.normalisation, Post),
        "a head that changes in time": not all(isinstance(head, Head) for head in flow.heads),
        "an MLP": flow.mlp is not None,
        "a perceptron": flow.perceptron is not None,
        "masses": flow.masses is not None,
        "frozen tokens": flow.frozen is not None,
        "noise that is common to all tokens": flow.noise is not None and flow.noise.common,
        "noise in R^d, which moving nodes do not follow": flow.noise is not None and not is_on_sphere,
    }
    found = next((words for words, is_so in tests.items() if is_so), "")
    if found or not is_on_sphere or flow.dimension == 2:
        return found
    products = [np.asarray(head.query_key) for head in constant_heads(flow)]
    is_isotropic = all(np.array_equal(product, product[0, 0] * np.eye(3)) for product in products)
    return "" if is_isotropic else "Q^T K that is no multiple of I, which only the circle and R^d allow"
