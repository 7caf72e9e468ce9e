"""Reference of the public names: a page for every module and for the package itself, from `__all__` and docstrings."""

import dataclasses
import importlib
import inspect
import re
from types import ModuleType

from generated import contents, write_page
from sphinx.application import Sphinx

import attnflow

PACKAGES = (
    *("attnflow", "attnflow.show", "attnflow.trained"),
    *("attnflow.models", "attnflow.mean_field", "attnflow.control"),
)
ELSEWHERE = ("figures",)  # the gallery has a section for each of its functions


def setup(app: Sphinx) -> dict:
    """Write the pages before the sources are read."""
    app.connect("builder-inited", lambda app: write_pages(app.srcdir))
    app.connect("autodoc-process-signature", _name_factories)
    app.connect("autodoc-process-docstring", _inherit_parameters, priority=300)
    app.connect("autodoc-process-docstring", _join_returns, priority=300)
    app.connect("autodoc-process-docstring", _escape, priority=400)  # before numpydoc adds marks of its own
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(source: str) -> None:
    """Write one page for each package and public module."""
    modules = [name for name in attnflow.__all__ if inspect.ismodule(getattr(attnflow, name))]
    modules = [name for name in modules if f"attnflow.{name}" not in PACKAGES and name not in ELSEWHERE]
    for package in PACKAGES:
        write_page(source, f"reference/{package}.md", _package_page(package))
    for name in modules:
        write_page(source, f"reference/attnflow.{name}.md", _module_page(name))
    pages = [*PACKAGES, *sorted(f"attnflow.{name}" for name in modules)]
    introduction = "Every public name, from its docstring. `import attnflow as af` is assumed in the examples."
    write_page(source, "reference/index.md", contents("Python", introduction, pages))


def _package_page(package: str) -> str:
    module = importlib.import_module(package)
    things = {name: getattr(module, name) for name in module.__all__}
    classes = [name for name, thing in things.items() if inspect.isclass(thing)]
    functions = [name for name, thing in things.items() if callable(thing) and name not in classes]
    parts = [f"# {package}", inspect.cleandoc(module.__doc__ or "").split("\n\n")[0]]
    for title, names in (("Functions", functions), ("Classes", classes)):
        if names:
            parts += [f"## {title}", *(_entry(package, name, things[name]) for name in sorted(names))]
    return "\n\n".join(parts) + "\n"


def _module_page(name: str) -> str:
    module: ModuleType = getattr(attnflow, name)
    public = [(key, getattr(module, key)) for key in module.__all__]
    of_package = [getattr(attnflow, key) for key in attnflow.__all__]
    is_own = lambda thing: callable(thing) and thing.__module__ == module.__name__ and thing not in of_package
    own = [(key, thing) for key, thing in public if is_own(thing)]
    entries = [_entry(f"attnflow.{name}", key, thing) for key, thing in own]
    introduction = inspect.cleandoc(module.__doc__ or "")
    return "\n\n".join([f"# attnflow.{name}", introduction, *entries]) + "\n"


def _entry(module: str, name: str, thing: object) -> str:
    kind = "autoclass" if inspect.isclass(thing) else "autofunction"
    options = ":members:\n" if kind == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {kind}:: {module}.{name}\n{_indented(options)}```"


def _name_factories(app, what, name, thing, options, signature: str | None, returned: str | None):
    """Write `Softmax()` for a default that a dataclass makes; Sphinx cannot read a signature with "<factory>"."""
    for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) and signature else ():
        if field.default_factory is not dataclasses.MISSING:
            made = f"{field.default_factory.__name__}()"
            signature = re.sub(rf"(\b{field.name}: .*?) = <factory>", rf"\1 = {made}", signature, count=1)
    return signature, returned


def _inherit_parameters(app, what, name, thing, options, lines: list[str]) -> None:
    """Insert the parameters that the docstring of a base class explains, if that of the class has none."""
    if what != "class" or "Parameters" in lines:
        return
    for base in thing.__mro__[1:]:
        given = inspect.cleandoc(base.__doc__ or "").splitlines() if base.__module__.startswith("attnflow") else []
        if "Parameters" in given:
            place = lines.index("Examples") if "Examples" in lines else len(lines)
            lines[place:place] = [*_section(given, "Parameters"), ""]
            return


def _join_returns(app, what, name, thing, options, lines: list[str]) -> None:
    """Put a sentence under "Returns" into one line, which numpydoc would take for a list of types line by line."""
    if "Returns" not in lines:
        return
    start = lines.index("Returns") + 2
    end = start + len(_section(lines, "Returns")) - 2
    given = [line for line in lines[start:end] if line]
    if given and not any(line.startswith(" ") for line in given):
        lines[start:end] = [" ".join(given), ""]


def _section(lines: list[str], title: str) -> list[str]:
    """A section of a docstring, from its title to the next one or the end."""
    start = lines.index(title)
    rest = range(start + 2, len(lines))
    end = next((line - 1 for line in rest if lines[line] and not lines[line].strip("-")), len(lines))
    return lines[start:end]


def _escape(app, what, name, thing, options, lines: list[str]) -> None:
    """Make |x| and a * b literal in docstrings, which reStructuredText would read as marks; code stays as it is.

    Fields of named tuples without a docstring have one from Python, "Alias for field number 0", which says nothing.
    """
    lines[:] = [line for line in lines if not line.startswith("Alias for field number")]
    for index, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [part.replace("|", "\\|").replace("*", "\\*") for part in parts[::2]]
            lines[index] = "`".join(parts)


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())
