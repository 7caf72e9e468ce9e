"""Public names that are loaded on first use, listed once: in the stub `__init__.pyi` of their package."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy_names(package: str, init: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose stub imports every public name.

    A line ``from attnflow.model.heads import Head as Head`` of the stub is carried out when `Head` is first used.
    Type checkers read the same file.
    """
    homes = _homes(Path(init).with_suffix(".pyi"))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        # A module, such as `clusters`, is no attribute of its package until it has been imported.
        value = vars(home)[name] if name in vars(home) else importlib.import_module(f"{homes[name]}.{name}")
        if isinstance(value, ModuleType) and "__all__" in vars(value):
            value.__dir__ = lambda: sorted(value.__all__)  # tab completion lists public names only
        setattr(importlib.import_module(package), name, value)
        return value

    return load, lambda: sorted(homes), sorted(homes)


def _homes(stub: Path) -> dict[str, str]:
    imports = [node for node in ast.parse(stub.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}
