"""The build of the live page where there is no compiler to WebAssembly."""

import importlib.util

from tests.helpers.live_page import BUILD


def test_without_emcc_the_page_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("live_page_build", BUILD)
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(BUILD.parent)  # as for a script, which finds the modules beside it
    spec.loader.exec_module(build)
    monkeypatch.setattr(build.shutil, "which", lambda _: None)

    build.main(tmp_path / "live")

    assert [path.name for path in (tmp_path / "live").iterdir()] == ["index.html"]
    assert build.NOT_BUILT in (tmp_path / "live" / "index.html").read_text("utf-8")
    assert capsys.readouterr().out == build.NOT_BUILT + "\n"
