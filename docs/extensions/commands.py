"""Reference of the command line, from the commands themselves."""

import inspect

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
        "Every command answers to `--help`. Exit codes: 0; 1, where a check failed; 2, where an input is not valid, "
        "with one sentence that says which."
    )
    return "\n\n".join(["# Command line", introduction, *sections]) + "\n"


def _section(name: str, command) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b", "").replace("\\b", "")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join(["attnflow", name, *(_usage(one) for one in arguments), "[options]" if options else ""]).strip()
    parts = [f"## {name}", f"```text\n{usage}\n```", f"```text\n{text}\n```"]
    if arguments or options:
        rows = [_row(_usage(one), one) for one in arguments] + [_row(", ".join(one.opts), one) for one in options]
        parts.append("| Argument or option | Default | Meaning |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _usage(argument) -> str:
    name = (argument.metavar or argument.name or "").upper()
    many = "..." if argument.nargs == -1 else ""
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _row(name: str, parameter) -> str:
    default = parameter.default
    shown = "" if default is None or callable(default) or default == () else f"`{default}`"
    meaning = " ".join((getattr(parameter, "help", "") or "").split()).replace("|", "\\|")
    return f"| `{name}` | {shown} | {meaning} |"
