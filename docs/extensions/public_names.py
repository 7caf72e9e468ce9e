"""Reference of the public names: a page for every module and for the package itself, from `__all__` and docstrings."""

import importlib
import inspect
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


def _escape(app, what, name, thing, options, lines: list[str]) -> None:
    """Make |x| and a * b literal in docstrings, which reStructuredText would read as marks; code stays as it is."""
    for index, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [part.replace("|", "\\|").replace("*", "\\*") for part in parts[::2]]
            lines[index] = "`".join(parts)


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())
