"""The command line: its commands in groups, and `main`. Commands import heavy libraries when called."""

import atexit
import gc
import inspect
import os
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from attnflow.cli import (
    bench,
    completion,
    convert,
    explore,
    figures,
    listing,
    results,
    run,
    steer,
    stream,
    studies,
    sweep,
    theory,
    trained_heads,
    trained_prompts,
    trained_studies,
)
from attnflow.cli.console import AsJson, print_facts, print_json_or


class GroupedCommands(TyperGroup):
    """The help text lists commands under the heading of their group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each heading, in the order in which commands were added."""
        commands = [self.commands[name] for name in self.list_commands(ctx)]
        widest = max(len(command.name or "") for command in commands)
        for heading in dict.fromkeys(_heading(command) for command in commands):
            rows = [
                ((command.name or "").ljust(widest), command.get_short_help_str(limit=200))
                for command in commands
                if _heading(command) == heading
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help text where there are no arguments."""
        if not args and not ctx.resilient_parsing:  # the shell that completes a command parses none
            print(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, args)


class OptionsOnce(TyperCommand):
    """A command that refuses options given twice or without their value, and words for numbers.

    Of an option given twice only the last value would count.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after a look at their text and at the order in which options are given."""
        if ctx.resilient_parsing:  # the line is not complete yet
            return super().parse_args(ctx, args)
        function: Any = self.callback
        annotations = {one.name: one.annotation for one in inspect.signature(function).parameters.values()}
        texts, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            if option.param_type_name == "option" and not option.multiple and given.count(option) > 1:
                raise _bad_input(f"`{option.opts[0]}` is given {given.count(option)} times. Give it once.")
            _require_own_value(ctx.command, option.opts[0], texts.get(option.name))
            _require_number(option.opts[0], annotations.get(option.name), texts.get(option.name))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C, which typer turns into an exit code without a word, is said."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("attnflow: interrupted.", file=sys.stderr)
            raise typer.Exit(130) from None


def _require_own_value(command: Any, option: str, given: Any) -> None:
    """Raise InputError if the text of an option is the name of another option, which stands in place of a value."""
    names = {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    for text in given if isinstance(given, list | tuple) else [given]:
        if isinstance(text, str) and text.partition("=")[0] in names:
            raise _bad_input(f"`{option}` needs a value, but the option {text} follows it. Write a value between them.")


def _require_number(option: str, annotation: Any, given: Any) -> None:
    """Raise InputError if the text of an option that is annotated as a number is none."""
    types = _types_in(annotation)
    read, words = (int, "a whole number") if int in types else (float, "a number") if float in types else (str, "text")
    for text in given if isinstance(given, list | tuple) else [given]:
        try:
            if isinstance(text, str):
                read(text)
        except ValueError:
            raise _bad_input(f"`{option}` must be {words}, but it is {text!r}.") from None


def _types_in(annotation: Any) -> set[Any]:
    """The types of which an annotation such as `Annotated[int | None, ...]` is made."""
    parts = get_args(annotation)
    return {annotation} if not parts else set().union(*map(_types_in, parts))


def _bad_input(sentence: str) -> ValueError:
    from attnflow._common.checks import InputError  # imports NumPy, which takes a tenth of a second

    return InputError(sentence)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"attnflow {version('attnflow')}")
        raise typer.Exit


def options_of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Self-attention dynamics: simulate, explain and show how tokens gather into clusters."""
    del version  # the callback has printed it


def _heading(command: Any) -> str:
    return str(getattr(command, "rich_help_panel", None) or "Commands")


app = typer.Typer(
    cls=GroupedCommands,
    callback=options_of_all,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


ScenarioName = Annotated[
    str | None,
    typer.Option(help="Also print what computes the runs of this scenario.", autocompletion=completion.scenarios),
]


def doctor(flow: ScenarioName = None, as_json: AsJson = False) -> None:
    """Print versions, missing extras, and whether a small run has the known result."""
    from attnflow.cli.doctor import diagnose, path_of

    path = {} if flow is None else {f"{flow} is computed by": path_of(flow)}
    facts = diagnose() | path
    print_json_or(as_json, facts, lambda: print_facts("attnflow doctor", facts))
    if not facts["healthy"]:
        raise typer.Exit(1)


def cite() -> None:
    """Print how to cite this version of attnflow, as BibTeX."""
    from attnflow.cli.citation import bibtex

    print(bibtex())


run.register(app)
listing.register(app)
results.register(app)
stream.register(app)
steer.register(app)
sweep.register(app)
theory.register(app)
studies.register(app)
trained_heads.register(app)
trained_prompts.register(app)
trained_studies.register(app)
convert.register(app)
figures.register(app)
explore.register(app)
bench.register(app)
app.command(epilog="Example: attnflow doctor", rich_help_panel="Figures, page, installation")(doctor)
app.command(epilog="Example: attnflow cite >> references.bib", rich_help_panel="Figures, page, installation")(cite)
for registered in app.registered_commands:
    registered.cls = OptionsOnce


def _use_compilation_cache() -> None:
    """Keep compiled programs between commands, unless the user has set this otherwise."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(base / "attnflow" / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def main() -> None:
    """Run the command line: bad input is one sentence and exit code 2."""
    # Imports create about a million objects that stay; collecting garbage among them takes an eighth of a short run.
    gc.set_threshold(100_000, 20, 100)
    atexit.register(gc.freeze)  # else Python looks through them once more when it ends: a fifth of a short run
    _use_compilation_cache()
    usage_error: Any = typer.BadParameter.__base__  # of the click that typer uses, its own or the one installed
    try:
        code = app(standalone_mode=False, prog_name="attnflow")
        sys.exit(code or 0)
    except usage_error as error:
        command = error.ctx.command_path if error.ctx is not None else "attnflow"
        sentence = error.format_message()
        sentence += "" if sentence.endswith((".", "?")) else "."
        print(f"attnflow: {sentence} '{command} --help' lists what can be given.", file=sys.stderr)
        sys.exit(2)
    except ValueError as error:
        from attnflow._common.checks import InputError

        if not isinstance(error, InputError):
            raise
        print(f"attnflow: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError as error:
        print(f"attnflow: memory is not sufficient: {error}. Use fewer tokens, runs or times.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("attnflow: interrupted.", file=sys.stderr)
        sys.exit(130)
