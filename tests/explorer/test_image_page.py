"""A model of images on the page: patches on the image by cluster, attention of a patch, another image, both exports."""

import numpy as np
import pytest
from PIL import Image
from tests.helpers import image_models
from tests.helpers.browser_page import needs_chromium, pause, wait_for

from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests, pictures, trained_models
from attnflow.explorer.export.exports import exported_file, snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.settings_changes import changed_settings


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    """A file whose left half is red and whose right half is blue."""
    path = tmp_path_factory.mktemp("pictures") / "two halves.png"
    colours = np.zeros((12, 12, 3), np.uint8)
    colours[:, :6, 0] = colours[:, 6:, 2] = 200
    Image.fromarray(colours).save(path)
    return path


@pytest.fixture(scope="module")
def name(tmp_path_factory, photo):
    image = pictures.add(photo)
    added = trained_models.add(str(image_models.write("vit", tmp_path_factory.mktemp("models") / "tiny-vit")))
    yield added
    trained_models.forget(added)
    pictures.forget(image)


def started(scenario, **changes):
    """A run that has computed three frames after the first."""
    run = LiveRun(1, page_requests.Start(scenario, changes), lambda *_: None)
    for _ in range(3):
        while not run.forward(1.0):
            pass
    return run


def test_the_first_image_of_the_command_line_is_the_prompt(name, photo):
    settings = catalogue.get(f"{name}-layers").settings
    found = catalogue.picture(settings)

    assert settings.prompt == "two-halves"
    assert (found["rows"], found["columns"], found["first"]) == (3, 3, 1)
    assert found["names"] == ["two-halves", "shapes"]
    assert catalogue.labels(settings)[:3] == ("[CLS]", "0,0", "0,1")
    run = started(f"{name}-layers")
    expected = trained_models.get(name).trajectory(photo, progress=False).tokens.values
    directions = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(run.recording.frames[-1].tokens, directions[-1], atol=1e-6)


def test_the_background_of_the_drawn_image_grows_brighter_to_the_right():
    edge = pictures.drawn()[0].astype(int)  # no shape reaches the upper edge

    assert np.all(np.diff(edge, axis=0) >= 0)
    assert np.all(edge[-1] - edge[0] > 40)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": "/etc/passwd"}, "`prompt`"),
        ({"prompt": "another"}, "two-halves"),
        ({"second": "shapes"}, "one image is shown at a time"),
    ],
)
def test_a_page_can_name_only_images_of_the_command_line(name, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        changed_settings(catalogue.get(f"{name}-layers").settings, changes)


def test_a_file_that_is_no_image_is_refused(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(InputError, match="not an image that can be read"):
        pictures.add(tmp_path / "text.png")
    assert "text" not in pictures.names()


def test_files_of_one_name_are_two_images(photo, tmp_path):
    """In another directory the name has a number; the same file again is the same image."""
    Image.fromarray(np.zeros((12, 12, 3), np.uint8)).save(tmp_path / photo.name)
    first, second = pictures.add(photo), pictures.add(tmp_path / photo.name)
    try:
        assert (first, second) == ("two-halves", "two-halves-2")
        assert pictures.get(first).max() == 200
        assert pictures.get(second).max() == 0
        assert pictures.add(photo) == first
    finally:
        pictures.forget(second)


@pytest.mark.parametrize("image", ["two-halves", "shapes"])
def test_the_code_repeats_the_run(name, image):
    found = {}
    exec(exported_file(snapshot_of(started(f"{name}-layers", prompt=image)), "code")[1].decode(), found)
    np.testing.assert_array_equal(found["run"].tokens, trained_models.trajectory(name, image).tokens)

    run = started(f"{name}-heads", prompt=image, layer=1)
    exec(exported_file(snapshot_of(run), "code")[1].decode(), found)
    np.testing.assert_allclose(found["run"].tokens[-1], run.frame.tokens, atol=1e-6)


@pytest.mark.parametrize("tower", ["vision", "text"])
def test_the_code_names_the_tower_of_a_clip(photo, tmp_path, tower):
    """Neither program runs without it, since a CLIP has two."""
    added = trained_models.add(str(image_models.write("clip", tmp_path / "tiny-clip")), tower)
    try:
        for scenario in (f"{added}-layers", f"{added}-heads"):
            found = {}
            code = exported_file(snapshot_of(started(scenario)), "code")[1].decode()
            assert f"tower='{tower}'" in code
            exec(code, found)
            assert found["model"].config.patch == trained_models.get(added).config.patch
            assert found["run"].sizes["time"] > 1
    finally:
        trained_models.forget(added)


@needs_chromium
def test_clusters_and_attention_are_drawn_on_the_image(page, explorer, name):
    page.goto(f"{explorer.address}#scenario={name}-layers&t=2")
    wait_for(page, "window.explorer?.frame?.time === 2 && explorer.stage.attention")
    pause(page)
    expected = trained_models.get(name).trajectory(pictures.get("two-halves"), attention=True, progress=False)
    weights = expected.attention.values[1].mean(axis=0)
    share = f"{100 * weights[0, 1:].sum():.0f}%"
    wait_for(page, f"document.getElementById('image-now').textContent === 'attention of [CLS]: {share} to patches'")
    assert page.locator("#patches").is_visible()
    ends = "['image-now', 'patches'].map((name) => document.getElementById(name).getBoundingClientRect().right)"
    words, image = page.evaluate(ends)
    assert words <= image + 1
    assert page.locator("textarea[name=prompt]").is_hidden()

    box = page.locator("#patches").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.44, box["y"] + box["height"] * 0.5)  # the last patch of the middle row
    wait_for(page, "explorer.stage.hovered === 6")
    wait_for(page, "document.getElementById('image-now').textContent.startsWith('attention of 1,2')")
    shown = page.evaluate("() => Array.from(explorer.patches.row)")
    np.testing.assert_allclose(shown, weights[6], atol=1e-5)
    assert len(set(page.evaluate("() => Array.from(explorer.stage.frame.labels)"))) > 1  # colours to be drawn

    page.select_option("#image-name", "shapes")
    wait_for(page, "explorer.model.settings.prompt === 'shapes' && explorer.stage.frame?.n === 10")
    wait_for(page, "location.hash.includes('prompt=shapes')")
    page.select_option("#scenario", f"{name}-heads")
    wait_for(page, f"explorer.model.scenario === '{name}-heads' && explorer.frame?.index > 1")
    assert page.locator("#patches").is_visible()

    page.select_option("#scenario", "sphere")
    wait_for(page, "explorer.model.scenario === 'sphere'")
    assert page.locator("#patches").is_hidden()


@needs_chromium
def test_an_exported_page_shows_the_image(new_page, explorer, name, tmp_path):
    path = tmp_path / "run.html"
    path.write_bytes(exported_file(snapshot_of(started(f"{name}-layers")), "html")[1])
    page = new_page()
    page.goto(path.as_uri())
    wait_for(page, "window.explorer?.frame && explorer.stage.attention")
    assert page.locator("#patches").is_visible()
    assert page.locator("#image-name").is_hidden()
    wait_for(page, "document.getElementById('image-now').textContent.startsWith('attention of [CLS]')")
