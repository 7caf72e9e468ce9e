"""One JavaScript module in place of many, so that a page loads with one request: `bundle(path)`.

It reads the two forms of import and the exports that the modules of this project have, and refuses all others.
"""

import re
from pathlib import Path

IMPORT = re.compile(r'^import (?:\{ (?P<names>[^}]+) \}|\* as (?P<all>\w+)) from "\./(?P<file>[\w.]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?P<kind>async function|function\*?|class|const) (?P<name>\w+)", re.MULTILINE)
UNKNOWN = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(entry: Path) -> str:
    """The text of a module and of all that it imports, each in a function that returns its exports."""
    texts: dict[str, str] = {}
    _collect(entry, texts, ())
    return "\n".join(texts.values())


def _collect(path: Path, texts: dict[str, str], importing: tuple[str, ...]) -> None:
    """Add the modules that a module imports and then itself."""
    if path.name in importing:
        raise ValueError(f"{path.name} imports itself by {', '.join(importing)}: such modules cannot be joined.")
    text = path.read_text("utf-8")
    for found in IMPORT.finditer(text):
        if found["file"] not in texts:
            _collect(path.with_name(found["file"]), texts, (*importing, path.name))
    texts[path.name] = _as_function(path.name, text)


def _as_function(name: str, text: str) -> str:
    exported = [found["name"] for found in EXPORT.finditer(text)]
    body = EXPORT.sub(r"\g<kind> \g<name>", IMPORT.sub(_constants, text))
    if unknown := UNKNOWN.search(body):
        raise ValueError(f"{name} has the line {unknown[0]!r}, which cannot be joined with others.")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _constants(found: re.Match[str]) -> str:
    """The names of an import, taken from what the function of its module has returned."""
    module = _variable(found["file"])
    return f"const {found['all'] or '{ ' + found['names'].replace(' as ', ': ') + ' }'} = {module};"


def _variable(file: str) -> str:
    return f"module_{file.removesuffix('.js')}"
