"""The command `attnflow explore`: the explorer's page, served to a browser."""

import os
from pathlib import Path
from typing import Annotated

import typer

from attnflow.cli import completion
from attnflow.cli.console import AsJson, print_json


def explore(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="A scenario to begin with ('attnflow list' shows them, and there are minilm-layers and minilm-heads), "
            "or a model as with --model: a checkpoint directory, smollm2, ...",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A trained model to add: a checkpoint directory, minilm, smollm2, ..., or a name of the hub."
        ),
    ] = None,
    image: Annotated[
        list[Path] | None, typer.Option(help="An image file, a prompt of models of images; may repeat.")
    ] = None,
    tower: Annotated[str | None, typer.Option(help="The tower of a CLIP: text or vision.")] = None,
    port: Annotated[int | None, typer.Option(help="Port. Default the first free one from 8000 on.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; with 127.0.0.1 other computers cannot reach the page.")
    ] = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(help="Another host name of the page; may repeat.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a web page in which the settings of a run are changed while it goes on; Ctrl-C ends it."""
    from attnflow.explorer import server

    server.require_installed()
    scenario = _first_scenario(scenario, model, image or [], tower)
    listener = server.listening_socket(host, port)
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)
    address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"#scenario={scenario}" if scenario else "")

    def announce() -> None:
        if as_json:
            print_json({"address": address})
        else:
            print(f"The explorer is at {address}\nCtrl-C ends it.", flush=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    server.serve(listener, announce, (shown.lower(), host.lower(), *(name or [])))
    server.end_process()


def _first_scenario(scenario: str | None, model: str | None, images: list[Path], tower: str | None) -> str | None:
    """The scenario to begin with, once model and images are loaded.

    A directory, or the name of a model that comes as a package, in its place is a model.
    """
    from attnflow.explorer import catalogue, pictures, trained_models
    from attnflow.models.registry import PACKAGED

    for path in images:
        pictures.add(path)
    if model is None and scenario is not None and scenario not in catalogue.all_scenarios():
        is_path = os.path.isdir(scenario) or len(Path(scenario).parts) > 1
        if is_path or scenario in PACKAGED:
            scenario, model = None, scenario
    if model is not None:
        added = trained_models.add(model, tower)
        return f"{added}-layers" if scenario is None else catalogue.get(scenario).name
    return None if scenario is None else catalogue.get(scenario).name


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: attnflow explore renyi", rich_help_panel="Figures, page, installation")(explore)
