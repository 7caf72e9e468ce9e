"""A mutant in place of its original: in the file, and in the modules that are imported already."""

import ast
import contextlib
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.mutants import Mutant


def make_copy(root: Path, copy: Path) -> None:
    """Bring a copy of the tree up to date; files that are equal keep their time, and so their compiled form."""
    parts = (
        "src",
        "tests",
        "docs",
        "README.md",
        "pyproject.toml",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    )
    wanted = [path for name in parts for path in [root / name, *(root / name).rglob("*")] if path.is_file()]
    wanted = [path for path in wanted if "__pycache__" not in path.parts]
    for path in wanted:
        other = copy / path.relative_to(root)
        other.parent.mkdir(parents=True, exist_ok=True)
        if not other.exists() or other.read_bytes() != path.read_bytes():
            shutil.copy2(path, other)
    kept = {copy / path.relative_to(root) for path in wanted}
    for path in copy.rglob("*.py"):
        if path not in kept:
            path.unlink()


@contextlib.contextmanager
def in_place(copy: Path, mutant: Mutant) -> Iterator[None]:
    """The copy with one file replaced, for tests that start processes."""
    file = _file(copy, mutant)
    original, status = file.read_bytes(), file.stat()
    try:
        _forget_compiled(file)
        file.write_text(mutant.text(copy / "src" / "attnflow"), "utf-8")
        yield
    finally:
        _forget_compiled(file)
        file.write_bytes(original)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_swappable(copy: Path, mutant: Mutant) -> bool:
    """Whether the change is of a constant of a module, or inside a function that importing the module does not call."""
    if mutant.constant or mutant.is_default:
        return mutant.function == "module"
    called = set()
    for statement in ast.parse(_file(copy, mutant).read_text("utf-8")).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
            functions = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
            called |= {function.id for function in functions if isinstance(function, ast.Name)}
    return mutant.function.split(".")[0] not in called


def functions_by_file() -> dict[str, list[FunctionType]]:
    """All functions of the package that exist, by the file of their code."""
    gc.unfreeze()  # `get_objects` leaves out what a configuration of tests has frozen
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and "/attnflow/" in one.__code__.co_filename:
            found.setdefault(one.__code__.co_filename, []).append(one)
    return found


def swap(copy: Path, mutant: Mutant, known: dict[str, list[FunctionType]]) -> None:
    """Put a mutant, whose file is in place, into the modules that are imported; `known` are their functions."""
    file = _file(copy, mutant)
    name = "attnflow." + mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if name not in sys.modules:
        return  # what is imported later has the file in place
    text = file.read_text("utf-8")
    if mutant.constant:
        _swap_constant(name, mutant.constant, text)
        return
    whole = compile(text, str(file), "exec")
    found: dict[str, list[CodeType]] = {}
    for code in _codes(whole):
        found.setdefault(code.co_qualname, []).append(code)
    functions: dict[str, list[FunctionType]] = {}
    for one in known.get(str(file), []):
        functions.setdefault(one.__code__.co_qualname, []).append(one)
    changed = 0
    for qualname, originals in functions.items():
        lines = sorted({one.__code__.co_firstlineno for one in originals})
        for one in originals:
            place = lines.index(one.__code__.co_firstlineno)
            if place < len(found.get(qualname, [])):
                new = found[qualname][place]
                if (
                    new.co_code != one.__code__.co_code
                    or new.co_consts != one.__code__.co_consts
                    or new.co_names != one.__code__.co_names
                ):
                    one.__code__ = new
                    changed += 1
    assert changed, f"no function of {name} is changed: {mutant.key}"


def _swap_constant(module: str, name: str, text: str) -> None:
    """Compute the new value of a constant and replace the old one wherever it was imported."""
    space = dict(vars(sys.modules[module]))
    old = space[name]
    for node in ast.parse(text).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            exec(compile(ast.Module([node], []), module, "exec"), space)
    for key, other in list(sys.modules.items()):
        if key.startswith("attnflow") and vars(other).get(name) is old:
            setattr(other, name, space[name])


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _file(copy: Path, mutant: Mutant) -> Path:
    return copy / "src" / "attnflow" / mutant.path


def _forget_compiled(file: Path) -> None:
    for found in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        found.unlink()
