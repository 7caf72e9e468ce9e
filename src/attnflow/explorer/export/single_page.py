"""The explorer's page as one self-contained HTML file with its modules, style and the messages of a run."""

import base64
import re
from html import escape
from pathlib import Path
from typing import Any

from attnflow.explorer import PAGE
from attnflow.explorer.protocol import json_text

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
PREFIX = "attnflow/"  # of module names, which replace addresses inside a single page


def single_page(messages: dict[str, Any]) -> str:
    """The page that plays the messages of a finished run."""
    text = (PAGE / "index.html").read_text("utf-8")
    text = re.sub(r'<link rel="stylesheet" href="([\w.-]+)">', lambda match: _style(match[1]), text)
    text = re.sub(
        r'<link rel="icon" href="([\w.-]+)"', lambda match: f'<link rel="icon" href="{_icon(match[1])}"', text
    )
    text = text.replace('<script type="module" src="main.js"></script>', _scripts(messages))
    title = escape(messages["started"]["scenario"])
    text = re.sub(r"<title>.*?</title>", lambda _: f"<title>{title} - attnflow</title>", text)
    policy = f'<meta charset="utf-8">\n  <meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return text.replace('<meta charset="utf-8">', policy, 1)


def _style(name: str) -> str:
    return f"<style>\n{(PAGE / name).read_text('utf-8')}</style>"


def _icon(name: str) -> str:
    return f"data:image/svg+xml;base64,{_base64((PAGE / name).read_text('utf-8'))}"


def _scripts(messages: dict[str, Any]) -> str:
    addresses = {
        PREFIX + path.name: f"data:text/javascript;base64,{_base64(_module(path))}"
        for path in sorted(PAGE.glob("*.js"))
    }
    return "\n  ".join([
        f'<script type="application/json" id="recorded-run">{_json(messages)}</script>',
        f'<script type="importmap">{_json({"imports": addresses})}</script>',
        f'<script type="module">import "{PREFIX}main.js";</script>',
    ])  # fmt: skip


def _module(path: Path) -> str:
    """The text of a module whose imports are names, since modules inside a page have no address."""
    return re.sub(r'((?:from|import) ")\./', rf"\1{PREFIX}", path.read_text("utf-8"))


def _json(value: Any) -> str:
    """JSON text that cannot end the script element that contains it."""
    return json_text(value, separators=(",", ":")).replace("<", "\\u003c")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
