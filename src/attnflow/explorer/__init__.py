"""The explorer: a web page on which attention gathers tokens while one turns its knobs.

It stands above scenarios, theorems and show, since it needs all three. Data goes one way:
`stepper` integrates with the library (or `passage` has a trained model's layers), `recording` keeps what was computed,
`viewer` plays it for one visitor, `subject` and `panels` measure it, `protocol` puts it into messages, `server`
carries them to `page/`.
PROTOCOL.md has every message.
"""

from pathlib import Path

PAGE = Path(__file__).parent / "page"
"""Folder of the files that a browser loads."""
