"""`register_html`: how IPython shows objects of a class as the last line of a notebook cell."""

import importlib
import sys
from typing import Any


def register_html(kind: tuple[str, str], function: tuple[str, str]) -> None:
    """Have the running IPython shell show a class by a function; outside IPython nothing is done.

    Both are given as module and name, and are loaded when an object of the class is first shown.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or shell.display_formatter is None:
        return

    def html_of(shown: Any) -> str:
        return getattr(importlib.import_module(function[0]), function[1])(shown)

    shell.display_formatter.formatters["text/html"].for_type_by_name(*kind, html_of)
