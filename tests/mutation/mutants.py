"""Mutants: the package with one small bug each."""

import ast
import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutation.operators import OPERATORS, Change, changes

LOOKED_AT = ("show", "figures")
"""Packages that draw: sizes, places and colours there are looked at, so that constants and arguments get no bugs."""


class Mutant(NamedTuple):
    """One change of one file."""

    path: str
    """Below the folder of sources."""
    function: str
    lines: range
    """Lines of the statement that is changed."""
    operator: str
    before: str
    after: str
    change: Change
    turn: int
    """1 for the first change of its kind in a function, 2 for an equal second one."""
    constant: str
    """Name of the constant or field that is changed; empty for a change inside a function."""
    is_default: bool
    """Whether it is the default value of an argument."""

    def text(self, source: Path) -> str:
        """The whole file with the change."""
        return _spliced((source / self.path).read_text("utf-8"), self.change)

    @property
    def key(self) -> str:
        """A name that does not depend on line numbers."""
        turn = f" ({self.turn})" if self.turn > 1 else ""
        return f"{self.path} {self.function}: {self.operator}: {self.before} -> {self.after}{turn}"


class Site(NamedTuple):
    """An expression or statement that a bug can change."""

    node: ast.AST
    function: str
    lines: range
    constant: str
    is_default: bool = False


def mutants_of(source: Path, package: str) -> list[Mutant]:
    """All mutants of a package, in the order of files and lines."""
    found = []
    for path in sorted((source / package).rglob("*.py")):
        text = path.read_text("utf-8")
        lines = text.encode().splitlines(keepends=True)
        counts: dict[str, int] = {}
        for site in sites(ast.parse(text)):
            for change in changes(site.node):
                if package in LOOKED_AT and change.operator in ("constant changed", "argument dropped"):
                    continue
                before, after = (" ".join(words.split()) for words in (_segment(lines, change.node), change.after))
                where = str(path.relative_to(source))
                place = (where, site.function, site.lines, change.operator, before, after, change, 1)
                first = Mutant(*place, site.constant, site.is_default)
                counts[first.key] = counts.get(first.key, 0) + 1
                found.append(first._replace(turn=counts[first.key]))
    return found


def sample(source: Path, counts: dict[str, int], seed: int) -> list[Mutant]:
    """A number of mutants of every package, of all operators in turn, at most one a line.

    Mutants are drawn in the order of a hash of the seed and their key, so that a change of one function leaves the
    draws of all others as they were. Packages take turns, so that a run that is stopped has some of each.
    """
    chosen: list[list[Mutant]] = []
    for package, count in counts.items():
        pool = sorted(mutants_of(source, package), key=lambda mutant: _hash(seed, mutant.key))
        queues = {name: [mutant for mutant in pool if mutant.operator == name] for name in OPERATORS}
        taken: list[Mutant] = []
        lines: set[tuple[str, int]] = set()
        while len(taken) < count and any(queues.values()):
            for queue in queues.values():
                free = next((mutant for mutant in queue if (mutant.path, mutant.lines.start) not in lines), None)
                queue[:] = queue[queue.index(free) + 1 :] if free else []
                if free and len(taken) < count:
                    taken.append(free)
                    lines.add((free.path, free.lines.start))
        chosen.append(taken)
    return [mutant for turn in itertools.zip_longest(*chosen) for mutant in turn if mutant]


def sites(tree: ast.Module) -> list[Site]:
    """Expressions and statements that can be changed; no annotations, decorators, messages or docstrings."""
    return list(_sites(tree, "module", range(0), ""))


def _sites(node: ast.AST, function: str, lines: range, constant: str) -> Iterator[Site]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom | ast.arg):
        return
    inside = function != "module" and not function.endswith(".")
    if isinstance(node, ast.stmt):
        lines = _header(node)
        if not inside:
            constant = _target(node)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        own = node.name + ("." if isinstance(node, ast.ClassDef) else "")
        name = own if function == "module" else function.rstrip(".") + "." + own
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value)):
                found = _sites(default, name, range(node.lineno, node.body[0].lineno + 1), "")
                yield from (site._replace(is_default=True) for site in found)
        for child in node.body:
            yield from _sites(child, name, lines, "")
        return
    if (inside or constant) and isinstance(node, ast.expr | ast.If):
        yield Site(node, function, lines, constant)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _sites(child, function, lines, constant)


def _header(node: ast.stmt) -> range:
    """Lines of a statement; of a compound one, those before its body."""
    body = getattr(node, "body", None)
    end = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) else node.end_lineno
    return range(node.lineno, (end or node.lineno) + 1)


def _target(node: ast.stmt) -> str:
    """Name of the constant or field that a statement at the level of a module or class defines."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _segment(lines: list[bytes], node: ast.expr | ast.stmt) -> str:
    """The source text of a node."""
    assert node.end_lineno is not None
    part = lines[node.lineno - 1 : node.end_lineno]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return b"".join(part).decode()


def _spliced(text: str, change: Change) -> str:
    """A file with one node replaced; nothing else of it changes."""
    lines = text.encode().splitlines(keepends=True)
    node = change.node
    assert node.end_lineno is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    start = lines[first][: node.col_offset]
    rest = lines[last][node.end_col_offset :]
    blank = b"\n" * (last - first) if isinstance(node, ast.stmt) else b""
    return b"".join([*lines[:first], start + change.after.encode() + rest + blank, *lines[last + 1 :]]).decode()


def _hash(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
