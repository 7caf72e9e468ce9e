"""The command `attnflow explore`: the explorer in a browser."""

from typing import Annotated

import typer

from attnflow.cli.console import print_json


def explore(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="A scenario to begin with; 'attnflow list' shows them, and there are minilm-layers and minilm-heads."
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; the first free one from 8000 on unless given.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; other computers reach only what is not 127.0.0.1.")
    ] = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(help="A further host name that pages may be asked for by.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON for machines.")] = False,
) -> None:
    """Watch attention gather tokens, in a web page served by this computer; Ctrl-C ends it."""
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: attnflow explore renyi")(explore)
