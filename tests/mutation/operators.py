"""The small bugs: what each makes of an expression or statement."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

FLIPPED = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
SWAPPED = {
    "min and max": {
        "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
        "amin": "amax", "amax": "amin", "all": "any", "any": "all",
    },
    "mean and median": {"mean": "median", "median": "mean", "nanmean": "nanmedian", "nanmedian": "nanmean"},
}  # fmt: skip
OPERATORS = (
    "sign flipped", "factor dropped", "transposed", "comparison flipped", "boundary moved", "condition always holds",
    "condition dropped", "tolerance times 100", "constant changed", "argument dropped", "min and max", "mean and median",
    "early return removed",
)  # fmt: skip


class Change(NamedTuple):
    """One bug: the operator, the node, and the text that replaces it."""

    operator: str
    node: ast.expr | ast.stmt
    after: str


def changes(node: ast.AST) -> Iterator[Change]:
    """All bugs of one expression or statement."""
    if isinstance(node, ast.expr):
        for operator, changed in _expressions(node):
            yield Change(operator, node, _text(changed))
    elif isinstance(node, ast.If):
        yield from _of_if(node)


def _of_if(node: ast.If) -> Iterator[Change]:
    if not isinstance(node.test, ast.Constant):
        yield Change("condition always holds", node.test, "True")
    if len(node.body) == 1 and isinstance(node.body[0], ast.Return | ast.Raise) and not node.orelse:
        yield Change("early return removed", node.body[0], "pass")


def _expressions(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Compare(left=left, ops=[kind], comparators=right):
            if type(kind) in FLIPPED:
                yield "comparison flipped", ast.Compare(left, [FLIPPED[type(kind)]()], right)
            if type(kind) in SHIFTED:
                yield "boundary moved", ast.Compare(left, [SHIFTED[type(kind)]()], right)
        case ast.BinOp(left=left, op=kind, right=right) if not _is_text(left) and not _is_text(right):
            if type(kind) in SIGNS:
                yield "sign flipped", ast.BinOp(left, SIGNS[type(kind)](), right)
            if isinstance(kind, ast.Mult | ast.Div):
                yield "factor dropped", left
            if isinstance(kind, ast.MatMult):
                yield "transposed", ast.BinOp(left, kind, ast.Attribute(right, "T"))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign flipped", operand
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield "comparison flipped", operand
        case ast.BoolOp() if len(node.values) > 1:
            yield "condition dropped", ast.BoolOp(node.op, node.values[:-1]) if len(node.values) > 2 else node.values[0]
        case ast.Attribute(value=value, attr="T" | "mT"):
            yield "transposed", value
        case ast.Constant(value=bool(value)):
            yield "constant changed", ast.Constant(not value)
        case ast.Constant(value=float(value)) if 0 < value < 0.1:
            yield "tolerance times 100", ast.Constant(float(f"{100 * value:.6g}"))
        case ast.Constant(value=float(value)) if value >= 0.1:
            yield "constant changed", ast.Constant(1.5 * value)
        case ast.Constant(value=int(value)):
            yield "constant changed", ast.Constant(value + 1)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            for number, keyword in enumerate(keywords):
                if keyword.arg != "strict":  # a check of zip that no input of a correct program reaches
                    yield "argument dropped", ast.Call(function, arguments, keywords[:number] + keywords[number + 1 :])
            yield from ((operator, ast.Call(other, arguments, keywords)) for operator, other in _others(function))
            if isinstance(function, ast.Attribute) and function.attr == "mean" and not _is_library(function.value):
                median = ast.Attribute(ast.Name("np"), "median")
                yield "mean and median", ast.Call(median, [function.value, *arguments], keywords)


def _others(function: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The function that is mistaken for a function."""
    for operator, names in SWAPPED.items():
        match function:
            case ast.Name(id=name) if name in names:
                yield operator, ast.Name(names[name])
            case ast.Attribute(value=value, attr=name) if name in names and (name != "mean" or _is_library(value)):
                yield operator, ast.Attribute(value, names[name])


def _is_library(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "jnp")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text(node: ast.expr) -> str:
    """Source text, in brackets where the expression around it could bind more strongly."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return f"({text})" if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp | ast.Lambda) else text
