"""The command `attnflow explore`: the explorer's page, served to a browser."""

from typing import Annotated

import typer

from attnflow.cli.console import AsJson, print_json


def explore(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="A scenario to begin with; 'attnflow list' shows them, and there are minilm-layers and minilm-heads."
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port. Default the first free one from 8000 on.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; with 127.0.0.1 other computers cannot reach the page.")
    ] = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(help="Another host name of the page; may repeat.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a web page in which the settings of a run are changed while it goes on; Ctrl-C ends it."""
    from attnflow.explorer import catalogue, server

    server.require_installed()
    if scenario is not None:
        catalogue.get(scenario)
    port = server.free_port(host, port)
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)
    address = f"http://{shown}:{port}/" + (f"#scenario={scenario}" if scenario else "")

    def announce() -> None:
        if as_json:
            print_json({"address": address})
        else:
            print(f"The explorer is at {address}\nCtrl-C ends it.", flush=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    server.serve(host, port, announce, (shown.lower(), host.lower(), *(name or [])))
    server.end_process()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: attnflow explore renyi", rich_help_panel="Figures, page, installation")(explore)
