"""Optional packages: the table agrees with pyproject.toml, and what is missing is named with the line that installs it."""

import re
import tomllib
from pathlib import Path

import pytest

from attnflow._common import extras
from attnflow._common.checks import InputError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
DEPENDENCIES = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
NOT_FOR_USERS = {"all", "docs", "test", "lint"}


def packages(extra):
    """Names of the packages that an extra installs, with those of the extras that it includes."""
    names = set()
    for requirement in DEPENDENCIES[extra]:
        if included := re.fullmatch(r"attnflow\[(.+)\]", requirement):
            names |= {name for one in included[1].split(",") for name in packages(one)}
        else:
            names.add(re.match(r"[\w-]+", requirement)[0])
    return names


def test_the_table_lists_the_extras_of_the_project():
    assert set(extras.MODULES) == set(DEPENDENCIES) - NOT_FOR_USERS


@pytest.mark.parametrize("extra", extras.MODULES)
def test_modules_of_an_extra_come_with_it(extra):
    line = extras.pip_line(*extras.MODULES[extra])

    assert set(line.removeprefix("pip install ").split()) <= packages(extra)


def test_what_is_missing_is_named_and_what_is_there_is_not(monkeypatch):
    monkeypatch.setitem(extras.MODULES, "explore", ("json", "no_such_server", "no_such_page"))

    assert extras.missing("explore") == ("no_such_server", "no_such_page")
    assert not extras.is_installed("explore")
    with pytest.raises(InputError) as refusal:
        extras.require_extra("explore", "The explorer")
    assert str(refusal.value) == (
        "The explorer needs no-such-server and no-such-page, which are not installed. "
        "Install them with: pip install no-such-server no-such-page"
    )


def test_an_optional_module_is_imported_or_refused():
    import json

    assert extras.imported("json", "Reading") is json
    with pytest.raises(InputError, match="Reading needs no-such-module, which is not installed"):
        extras.imported("no_such_module", "Reading")
