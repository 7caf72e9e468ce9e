"""Mutants: the package with one small bug each."""

import ast
import copy
import random
from pathlib import Path
from typing import NamedTuple

COMPARISONS = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


class Mutant(NamedTuple):
    """One change of one file."""

    path: str
    """Below the folder of sources."""
    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""


def mutant(source: Path, path: Path, site: int) -> Mutant:
    """The mutant of one site of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    node = _sites(tree)[site]
    changed = _changed(copy.deepcopy(node))
    assert changed is not None
    before, after = ast.unparse(node), ast.unparse(changed)
    text = ast.unparse(ast.fix_missing_locations(_Replace(node, changed).visit(tree)))
    return Mutant(str(path.relative_to(source)), node.lineno, before, after, text)


def sample(source: Path, packages: list[str], count: int, seed: int) -> list[Mutant]:
    """A number of mutants, as many from each package as its share of all sites, but two of each at least."""
    rng = random.Random(seed)
    pools = {name: _sites_of(source / name) for name in packages}
    total = sum(map(len, pools.values()))
    chosen = []
    for pool in pools.values():
        chosen += rng.sample(pool, min(len(pool), max(2, round(count * len(pool) / total))))
    return [mutant(source, path, site) for path, site in chosen]


def _sites_of(folder: Path) -> list[tuple[Path, int]]:
    """Files with the numbers of their sites that can be changed."""
    return [
        (path, site)
        for path in sorted(folder.rglob("*.py"))
        for site, node in enumerate(_sites(ast.parse(path.read_text("utf-8"))))
        if _changed(node) is not None
    ]


def _sites(tree: ast.Module) -> list[ast.expr]:
    """Expressions inside functions, without annotations, messages and docstrings."""
    found: list[ast.expr] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    found.append(child)
                if isinstance(child, ast.AST):
                    visit(child)

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                visit(statement)
    unique = {id(node): node for node in found}
    return list(unique.values())


def _changed(node: ast.expr) -> ast.expr | None:
    """The expression with one bug; None where this kind of expression gets none."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(operator)]()], comparators)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            if isinstance(left, ast.Constant) and isinstance(left.value, str):
                return None
            return ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            return operand
        case ast.BoolOp(op=operator, values=values):
            return ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.Attribute(value=value, attr="T"):
            return value
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=float(value)) if 0 < value < 0.1:
            return ast.Constant(100 * value)
        case ast.Constant(value=int(value)) if value in (1, 2):
            return ast.Constant(value + 1)
    return None


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST):
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.target else self.generic_visit(node)
