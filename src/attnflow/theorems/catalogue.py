"""All statements by their ids."""

import functools
import importlib

from attnflow._common.checks import require_known
from attnflow.theorems.statement import Computation, Statement

FAMILIES = (
    "euclidean",
    "line",
    "eigendirections",
    "sphere",
    "equiangular",
    "circle",
    "mean_field",
    "metastable",
    "plateaus",
    "causal",
    "causal_energy",
    "centre_formulas",
    "causal_centres",
    "normalised",
    "hardmax",
    "long_context",
    "lost_in_middle",
    "layers",
)


@functools.cache
def catalogue() -> dict[str, Statement | Computation]:
    """All statements by id, in the order of `FAMILIES`: each family is a module of `statements` with its STATEMENTS."""
    modules = [importlib.import_module(f"attnflow.theorems.statements.{family}") for family in FAMILIES]
    statements = [statement for module in modules for statement in module.STATEMENTS]
    return {statement.id: statement for statement in statements}


def find(name: str) -> Statement | Computation:
    """The statement with the id `name`."""
    require_known(name, catalogue(), "statement")
    return catalogue()[name]
