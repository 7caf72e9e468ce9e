"""Reference of the command line, from the commands themselves."""

import inspect
import re

import typer
from generated import write_page
from sphinx.application import Sphinx

from attnflow.cli.app import app as commands


def setup(app: Sphinx) -> dict:
    """Write the page before the sources are read."""
    app.connect("builder-inited", lambda app: write_page(app.srcdir, "reference/command_line.md", page()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def page() -> str:
    """One section for each command: what it does, its arguments and options with their defaults."""
    group = typer.main.get_command(commands)
    sections = [_section(name, command) for name, command in sorted(group.commands.items()) if not command.hidden]
    introduction = (
        "Every command answers to `--help`. Exit codes: 0; 1, where a run or a check failed; 2, where an input is not "
        "valid, with one sentence that says which; 130 after Ctrl-C."
    )
    return "\n\n".join(["# Command line", introduction, *sections]) + "\n"


def _section(name: str, command) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join(["attnflow", name, *(_usage(one) for one in arguments), "[options]" if options else ""]).strip()
    parts = [
        f"## {name}",
        *map(_paragraph, inspect.cleandoc(command.help or "").split("\n\n")),
        f"```text\n{usage}\n```",
    ]
    if arguments or options:
        rows = [_row(_usage(one), one) for one in arguments] + [_row(", ".join(one.opts), one) for one in options]
        parts.append("| Argument or option | Default | Meaning |\n|---|---|---|\n" + "\n".join(rows))
    if command.epilog:
        parts.append(f"```console\n$ {command.epilog.removeprefix('Example: ')}\n```")
    return "\n\n".join(parts)


def _paragraph(text: str) -> str:
    """A paragraph of a help text; one that is set line by line, after a backspace, stays so."""
    if text.startswith("\b"):
        return f"```text\n{text.removeprefix(chr(8)).strip()}\n```"
    return _with_code(" ".join(text.split()))


def _with_code(text: str) -> str:
    """Options and quoted commands as code, other marks of Markdown as they are."""
    text = re.sub(r"([*_<|])", r"\\\1", text)
    return re.sub(
        r"'(attnflow [^']+)'|(?<![\w-])(--[\w-]+)", lambda found: f"`{found[1] or found[2]}`".replace("\\", ""), text
    )


def _usage(argument) -> str:
    name = (argument.metavar or argument.name or "").upper()
    many = "..." if argument.nargs == -1 else ""
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _row(name: str, parameter) -> str:
    default = parameter.default
    is_empty = default is None or default is False or default == ()
    shown = "" if is_empty or callable(default) else f"`{default}`"
    meaning = _with_code(" ".join((getattr(parameter, "help", "") or "").split()))
    return f"| `{name}` | {shown} | {meaning} |"
