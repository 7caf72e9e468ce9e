"""Models of images agree with transformers (references/record_images.py); images are prepared as their files say."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.helpers import image_models
from tests.helpers.image_models import PIXELS

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import trained_models

TOWERS = {"clip": "vision", "clip_text": "text"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    folders = {name: image_models.write(name, folder / name) for name in image_models.CONFIGS}
    return {
        name: af.models.load(folders[name.removesuffix("_text")], tower=TOWERS.get(name))
        for name in (*folders, "clip_text")
    }


@pytest.fixture(scope="module")
def recorded():
    return dict(np.load(image_models.REFERENCES / "images.npz", allow_pickle=False))


@pytest.mark.parametrize("name", [*image_models.CONFIGS, "clip_text"])
def test_hidden_states_and_attention(models, recorded, name):
    """CLIP's last norm is applied by its own library to one token of an image only: its last state is before the norm."""
    prompt = image_models.IDS if name == "clip_text" else PIXELS[name]
    run = models[name].trajectory(prompt, attention=True)
    last = run.tokens.values[-1] if name == "clip" else run.normed_tokens.values

    np.testing.assert_allclose(run.tokens[:-1], recorded[f"{name}_hidden"][:-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(last, recorded[f"{name}_last"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.attention, recorded[f"{name}_attention"], rtol=0, atol=1e-9)
    assert recorded[f"{name}_attention"].max() > 0.5  # far from uniform


def test_patches_are_tokens(models):
    run = models["deit"].trajectory(PIXELS["deit"])

    assert run.word.values.tolist()[:4] == ["[CLS]", "[DIST]", "0,0", "0,1"]
    assert (run.attrs["patch_rows"], run.attrs["patch_columns"], run.sizes["token"]) == (3, 3, 11)
    assert run.picture.shape == (12, 12, 3)


def test_names_of_transformers_in_memory_are_those_of_files(models):
    """transformers 5 holds a ViT as layers.0.attention.q_proj and saves it under the names of older versions."""
    from attnflow.models.handover import saved_names

    own = dict.fromkeys(["vit.layers.3.mlp.fc1.weight", "layers.0.attention.o_proj.bias", "layernorm.weight"], 0)
    assert list(saved_names(own, "vit")) == [
        "vit.encoder.layer.3.intermediate.dense.weight",
        "encoder.layer.0.attention.output.dense.bias",
        "layernorm.weight",
    ]
    assert list(saved_names(own, "bert")) == list(own)


def test_heads_and_ladder(models):
    """What is computed of a text is computed of an image."""
    model = models["dinov2"]
    steps = af.trained.ladder(model, PIXELS["dinov2"], layers=2, progress=False)

    assert steps.attrs["distance_to_model"] < 1e-12
    assert model.left_out_of_heads(0) == ("biases",)
    assert af.trained.head_table(model, [1], runs=0).sizes["head"] == 4


@pytest.fixture
def photo(tmp_path):
    """A file of 40 x 30 pixels with a gradient and a square."""
    rows, columns = np.mgrid[:30, :40]
    colours = np.stack([6 * columns, 8 * rows, 100 * ((rows > 10) & (columns > 20))], axis=2).astype(np.uint8)
    Image.fromarray(colours).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("resample", [2, 3])
def test_a_file_is_prepared_as_the_model_says(models, photo, resample):
    """Resized by its shorter side, cropped in the middle, standardised: by hand, from the pixels of Pillow."""
    model = models["vit"]
    said = {
        "do_resize": True, "size": {"shortest_edge": 15}, "resample": resample, "do_center_crop": True,
        "crop_size": {"height": 12, "width": 12}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7],
    }  # fmt: skip
    folder = model.origin
    with open(f"{folder}/preprocessor_config.json", "w") as file:
        json.dump(said, file)
    found = af.models.load(folder).encode(photo)

    colours = np.asarray(Image.open(photo).resize((20, 15), resample), dtype=float)[1:13, 4:16] / 255
    expected = (colours - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]
    np.testing.assert_allclose(found.pixels, np.moveaxis(expected, 2, 0), atol=1e-12)
    np.testing.assert_allclose(found.picture, colours, atol=1e-12)
    whole = af.models.load(folder).encode(np.asarray(Image.open(photo)))
    np.testing.assert_array_equal(whole.pixels, found.pixels)


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("missing.png", "There is no image file"),
        ("a sentence", "There is no image file"),
        (np.zeros((3, 10, 12)), "takes images of 12 x 12 pixels"),
        (np.zeros((4, 12, 12)), "must be an image file"),
        ([5, 17, 3], "must be an image file"),
        (np.full((3, 12, 12), np.nan), "finite"),
    ],
)
def test_what_is_no_image(models, prompt, sentence):
    with pytest.raises(InputError, match=sentence):
        models["deit"].trajectory(prompt)


def test_damaged_files(models, photo):
    content = photo.read_bytes()
    for damaged in (b"", b"no image", content[:60], content[: len(content) // 2]):
        photo.write_bytes(damaged)
        with pytest.raises(InputError, match="is not an image that can be read"):
            models["deit"].encode(photo)


def test_towers_are_named(models):
    with pytest.raises(InputError, match="two towers"):
        af.models.load(models["clip"].origin)
    with pytest.raises(InputError, match="`tower` is for CLIP"):
        af.models.load(models["vit"].origin, tower="text")


def test_the_picture(models, tmp_path):
    run = models["vit"].trajectory(PIXELS["vit"], attention=True)
    figure = af.show.patches(run, tmp_path / "patches.png")

    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "image"
    assert sum(title.startswith("layer ") for title in titles) == 4
    assert sum(title.startswith("block ") for title in titles) == 3
    shares = run.attention.values.mean(axis=1)[:, 0, 1:].sum(axis=-1)
    assert titles[-1] == f"block 2: {100 * shares[2]:.0f} %"
    assert (tmp_path / "patches.png").stat().st_size > 1000


@pytest.mark.parametrize("name", list(image_models.CONFIGS))
def test_the_explorer_takes_models_of_images(models, name):
    added = trained_models.add(models[name].origin, TOWERS.get(name))
    shown = trained_models.picture(added, "shapes")
    run = trained_models.trajectory(added, "shapes")

    assert shown["rows"] * shown["columns"] + shown["first"] == run.sizes["token"]
    assert shown["url"].startswith("data:image/png")
    trained_models.forget(added)
