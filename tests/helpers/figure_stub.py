"""The stub of the figures' functions, from the catalogue: ``python -m tests.helpers.figure_stub`` writes it."""

import inspect
from pathlib import Path
from typing import Any

import attnflow
from attnflow.figures import functions
from attnflow.figures.catalogue import catalogue

PATH = Path(attnflow.__file__).parent / "figures" / "functions.pyi"
HEADER = '''"""Signatures of the functions of all figures, for type checkers and editors; made from the catalogue."""

from collections.abc import Sequence
from typing import Any

from attnflow._common.progress import Progress
from attnflow.figures.public_function import DrawnFigure
from attnflow.show.parts.picture import Title

'''
OPTIONS = {
    "quick": "bool", "size": "str | Sequence[float] | None", "style": "str | None",
    "palette": "str | Sequence[Any] | None", "title": "Title", "progress": "Progress",
}  # fmt: skip


def text() -> str:
    """The whole stub."""
    return HEADER + "\n".join(_definition(figure.function_name) for figure in catalogue().values()) + "\n"


def _definition(name: str) -> str:
    parameters = inspect.signature(getattr(functions, name)).parameters.values()
    lines = "".join(f"    {one.name}: {OPTIONS.get(one.name) or _kind(one.default)} = ...,\n" for one in parameters)
    return f"def {name}(\n    *,\n{lines}) -> DrawnFigure: ..."


def _kind(default: Any) -> str:
    if isinstance(default, list):
        kinds = {_kind(entry) for entry in default}
        return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list[Any]"
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(type(default), "Any")


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
