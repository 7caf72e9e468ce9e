"""Exported files give the same numbers again: dataset, code, movie, page."""

import ast
import base64
import json
import re
import runpy

import numpy as np
import pytest
import xarray as xr
from PIL import Image

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests
from attnflow.explorer.export import exports
from attnflow.explorer.export.exports import snapshot_of
from attnflow.explorer.export.single_page import single_page
from attnflow.explorer.live_run import LiveRun
from attnflow.results.provenance import flow_of
from attnflow.show.parts.animation import has_video

SMALL = {"n": 8}  # the shape of the other explorer tests: compiled once


def played(name, frames, factor=4.0, change=None, **changes):
    run = LiveRun(1, page_requests.Start(name, changes), lambda *_: None)
    for frame in range(frames):
        if change and frame == frames // 2:
            run.change(change)
        while not run.forward(factor):
            pass
    return snapshot_of(run)


@pytest.fixture(scope="module")
def changed():
    """A run on the sphere whose beta was changed half-way."""
    return played("sphere", 12, change={"beta": 6.0}, **SMALL)


def executed(snapshot, tmp_path):
    path = tmp_path / "again.py"
    path.write_bytes(exports.exported_file(snapshot, "code")[1])
    return runpy.run_path(str(path))["run"]


def test_the_code_repeats_a_run_and_its_changes(changed, tmp_path, capsys):
    again = executed(changed, tmp_path)

    # Two steppings of a solver with a tolerance of 1e-8.
    np.testing.assert_allclose(again.tokens[-1], changed.frames[-1].tokens, atol=1e-7)
    assert float(again.time[-1]) == changed.frames[-1].time
    assert "clusters:" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "tolerance"), [("layers", 0.0), ("layernorm-pre", 1e-7)])
def test_the_code_repeats_fixed_steps_and_tokens_with_lengths(name, tolerance, tmp_path):
    snapshot = played(name, 6, change={"beta": 3.0}, **SMALL)

    again = executed(snapshot, tmp_path)

    np.testing.assert_allclose(again.tokens[-1], snapshot.frames[-1].tokens, atol=tolerance)


@pytest.mark.parametrize("solvers", [("euler:0.05", "layers"), (None, "layers"), ("layers", None)])
def test_the_code_repeats_changes_of_the_solver(solvers, tmp_path):
    """Whole steps are counted from where a solver takes over, which no step of the next one need hit."""
    first, then = solvers
    snapshot = played("sphere", 8, change={"solver": then}, **SMALL, **({"solver": first} if first else {}))

    again = executed(snapshot, tmp_path)

    # Two steppings of an adaptive solver with a tolerance of 1e-8; fixed steps are the same to the bit.
    np.testing.assert_allclose(again.tokens[-1], snapshot.frames[-1].tokens, atol=1e-7)
    assert again.sizes["time"] > 2


@pytest.fixture(scope="module")
def coalescing():
    return played("staircase", 1)


def test_the_code_repeats_a_coalescing_run(coalescing, tmp_path):
    again = executed(coalescing, tmp_path)

    np.testing.assert_array_equal(again.tokens[-1], coalescing.frames[-1].tokens)
    assert b"af.coalesce" in exports.exported_file(coalescing, "code")[1]


@pytest.mark.parametrize("name", ["sphere", "staircase", "minilm-heads", "minilm-layers"])
def test_the_code_imports_public_names_only(name):
    if name not in catalogue.all_scenarios():
        pytest.skip("the model is not installed: pip install 'attnflow[minilm]'")
    tree = ast.parse(exports.exported_file(played(name, 2), "code")[1])

    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported}
    names = {alias.name for node in imported if isinstance(node, ast.ImportFrom) for alias in node.names}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_package(node.value)}
    assert modules <= {"attnflow", "numpy", "dataclasses"}
    assert names - {"replace"} | used <= set(af.__all__)
    assert used


def is_package(node):
    return isinstance(node, ast.Name) and node.id == "af"


def test_a_coalescing_run_is_a_page_and_a_dataset_in_log_time(coalescing, tmp_path):
    name, content = exports.exported_file(coalescing, "dataset")
    path = tmp_path / name
    path.write_bytes(content)
    messages = messages_in(exports.exported_file(coalescing, "html")[1].decode())

    log_times = af.load(path).log_time.values
    assert messages["started"]["logTime"]
    assert messages["times"][-1] == log_times[-1] > 100
    assert messages["panels"][-1]["clusters"] == 1
    assert messages["panels"][-1]["verdict"]["answer"] == "agrees"


def test_a_movie_of_a_coalescing_run_is_in_log_time(coalescing, tmp_path):
    run = coalescing.run.dataset.isel(state=slice(0, None, 4))

    with Image.open(af.show.movie(run, tmp_path / "run.gif")) as picture:
        assert picture.n_frames == np.isfinite(run.log_time).sum()


def test_the_dataset_has_every_frame_and_is_rerun_from_its_last_change(changed, tmp_path):
    name, content = exports.exported_file(changed, "dataset")
    path = tmp_path / name
    path.write_bytes(content)

    run = af.load(path)

    np.testing.assert_array_equal(run.tokens.values, [frame.tokens for frame in changed.frames])
    np.testing.assert_allclose(af.rerun(run).tokens[-1], run.tokens[-1], atol=1e-7)
    assert "changed at t = " in run.attrs["outcome"]
    assert float(flow_of(run).attention.beta) == 6.0


def test_a_movie_has_as_many_frames_as_the_run(changed, tmp_path):
    name, content = exports.exported_file(changed, "gif")
    path = tmp_path / name
    path.write_bytes(content)

    with Image.open(path) as picture:
        assert picture.n_frames == len(changed.frames)


def test_an_mp4_is_written_or_the_missing_package_is_named(changed):
    if has_video():
        assert exports.exported_file(changed, "mp4")[1][4:8] == b"ftyp"
    else:
        with pytest.raises(InputError, match="Write a GIF, or install it with: pip install imageio-ffmpeg"):
            exports.exported_file(changed, "mp4")


@pytest.mark.parametrize("d", [1, 5])
def test_movies_of_the_line_and_of_many_dimensions(d, tmp_path):
    tokens = np.random.default_rng(0).normal(size=(3, 6, d))
    dims = ("time", "token", "coordinate")
    run = xr.Dataset({"tokens": (dims, tokens), "initial_tokens": (dims[1:], tokens[0])}, {"time": [0.0, 0.5, 1.0]})

    path = af.show.movie(run, tmp_path / "run.gif")

    with Image.open(path) as picture:
        assert picture.n_frames == 3


@pytest.fixture(scope="module")
def run():
    return af.simulate(af.SphereAttention(af.Head.identity(3)), np.eye(3), np.linspace(0, 4, 41))


def messages_in(page):
    return json.loads(re.search(r'id="recorded-run">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_holds_the_run_and_nothing_from_elsewhere(changed):
    page = exports.exported_file(changed, "html")[1].decode()
    messages = messages_in(page)

    assert len(messages["frames"]) == len(changed.frames)
    assert messages["panels"][-1]["clusters"] >= 1
    assert not re.findall(r'(?:src|href)="(?!data:|https://arxiv|#)[^"]+"', page)
    assert "default-src 'none'" in page


def test_a_title_is_escaped(run, tmp_path):
    """A title is text, whatever it has in it: nothing of it ends the script or becomes an element."""
    title = '</script><img src=x onerror="alert(1)">'

    page = af.show.html(run, tmp_path / "run.html", title=title).read_text()

    assert "<img" not in page
    assert messages_in(page)["hello"]["catalogue"][0]["name"] == title


def test_a_page_has_at_most_the_requested_number_of_frames(run, tmp_path):
    messages = messages_in(af.show.html(run, tmp_path / "run.html", frames=5).read_text())

    assert messages["times"] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert messages["shares"] == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"frames": 1}, "`frames`"),
        ({"member": 3}, "`member` must be one of the runs"),
        ({"path": "/nowhere/a.html"}, "cannot be written"),
    ],
)
def test_a_page_that_cannot_be_made_says_why(options, sentence, run, tmp_path):
    with pytest.raises(InputError, match=sentence):
        af.show.html(run, **{"path": tmp_path / "run.html", **options})
    assert not list(tmp_path.iterdir())


def test_a_page_needs_a_result_with_tokens(run, tmp_path):
    with pytest.raises(InputError, match="keep_tokens=False"):
        af.show.html(run.drop_vars("tokens"), tmp_path / "run.html")
    with pytest.raises(InputError, match="not a whole result"):
        af.show.html(run.drop_attrs(), tmp_path / "run.html")


def test_a_run_with_one_frame_cannot_be_exported():
    with pytest.raises(InputError, match="Play a little"):
        snapshot_of(LiveRun(1, page_requests.Start("sphere", SMALL), lambda *_: None))


def test_modules_import_each_other_by_name():
    page = single_page({"started": {"scenario": "x"}})

    modules = json.loads(re.search(r'type="importmap">(.*?)</script>', page)[1])["imports"]
    texts = [base64.b64decode(address.partition(",")[2]).decode() for address in modules.values()]
    wanted = {name for text in texts for name in re.findall(r'^(?:import|export) .*"(.+?)";$', text, re.MULTILINE)}
    assert wanted <= set(modules)
    assert "attnflow/stage.js" in wanted
