"""What commands print: tables for people, JSON for machines."""

import json
from typing import Any


def print_json(value: Any) -> None:
    """Indented JSON."""
    print(json.dumps(value, indent=2))


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Names and what belongs to them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, show_header=False, box=None, title_justify="left", title_style="bold cyan")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, Text(str(fact)))  # as it is: brackets are not markup
    Console().print(table)
