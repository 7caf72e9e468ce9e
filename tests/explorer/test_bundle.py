"""Modules of the live page joined into one file: what is imported, and what cannot be joined."""

import importlib.util
from pathlib import Path

import pytest

from attnflow.explorer import PAGE

LIVE = Path(__file__).parents[2] / "docs" / "live"
_SPEC = importlib.util.spec_from_file_location("live_bundle", LIVE / "bundle.py")
assert _SPEC is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)


def test_a_module_follows_those_that_it_imports(tmp_path):
    (tmp_path / "numbers.js").write_text("export const half = 0.5;\nexport function twice(x) { return 2 * x; }\n")
    (tmp_path / "words.js").write_text('import * as numbers from "./numbers.js";\nexport class Word {}\n')
    main = tmp_path / "main.js"
    main.write_text('import { half, twice as double } from "./numbers.js";\nimport { Word } from "./words.js";\n')

    lines = module.bundle(main).splitlines()

    assert [line for line in lines if line.startswith("const module_")] == [
        f"const module_{name} = (() => {{" for name in ("numbers", "words", "main")
    ]
    assert "const { half, twice: double } = module_numbers;" in lines
    assert "const numbers = module_numbers;" in lines
    assert "return { half, twice };" in lines
    assert "export" not in module.bundle(main)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("export default 3;", "which cannot be joined"),
        ('import name from "./other.js";', "which cannot be joined"),
        ("export let count = 0;", "which cannot be joined"),  # a copy would not follow its changes
        ('import { a } from "./main.js";', "imports itself"),
    ],
)
def test_what_would_not_work_as_one_file_is_refused(text, words, tmp_path):
    (tmp_path / "main.js").write_text(text)
    with pytest.raises(ValueError, match=words):
        module.bundle(tmp_path / "main.js")


@pytest.mark.parametrize(("folder", "entry"), [(PAGE, "main.js"), (LIVE / "engine", "worker.js")])
def test_all_modules_of_the_page_and_of_the_engine_are_joined(folder, entry):
    text = module.bundle(folder / entry)
    for path in folder.glob("*.js"):
        assert text.count(f"const module_{path.stem} = (() => {{") == 1, path.name
