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


@pytest.mark.parametrize("kind", ["16 bits", "turned", "palette"])
def test_files_of_other_kinds_have_the_colours_that_are_seen(models, tmp_path, kind):
    """Grey of 16 bits is scaled, a photo is turned as its camera says, and a transparent palette raises no warning."""
    grey = np.arange(144, dtype=np.uint8).reshape(12, 12)
    expected, path = grey / 255, tmp_path / "image.png"
    if kind == "16 bits":
        Image.fromarray(grey.astype(np.uint16) * 257).save(path)
    elif kind == "turned":
        turned = Image.fromarray(grey)
        about = turned.getexif()
        about[0x0112] = 3  # taken upside down
        turned.save(path, exif=about)
        expected = expected[::-1, ::-1]
    else:
        Image.fromarray(grey).convert("P").save(path, transparency=bytes(range(256)))

    picture = af.models.load(models["deit"].origin).encode(path).picture
    np.testing.assert_allclose(picture, np.repeat(expected[..., None], 3, axis=2), atol=1e-12)


def test_numbers_of_32_bits_are_no_colours(models, tmp_path):
    Image.fromarray(np.ones((12, 12), np.float32)).save(tmp_path / "image.tiff")
    with pytest.raises(InputError, match="8 or 16 bits"):
        models["deit"].trajectory(tmp_path / "image.tiff")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"image_mean": [0.5, "a", 0.5]}, "`image_mean` in preprocessor_config.json must be three numbers"),
        ({"resample": [2]}, "`resample`"),
        ({"size": {"height": 14, "width": 12}}, "preprocessor_config.json makes images of 14 x 12. Correct"),
    ],
)
def test_preparations_that_cannot_be_followed(tmp_path, photo, said, sentence):
    folder = image_models.write("deit", tmp_path / "deit")
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match=sentence):
        af.models.load(folder).encode(photo)


def test_entries_that_are_null_are_absent(tmp_path, photo):
    """As newer versions of transformers write those that they leave to the model."""
    folder = image_models.write("deit", tmp_path / "deit")
    without = af.models.load(folder).encode(photo).pixels
    nothing = dict.fromkeys(["size", "crop_size", "image_mean", "image_std", "resample"])
    (folder / "preprocessor_config.json").write_text(json.dumps(nothing))
    np.testing.assert_array_equal(af.models.load(folder).encode(photo).pixels, without)


def test_the_longer_side_is_a_quotient_of_whole_numbers(tmp_path):
    """343 x 784 pixels with a shorter side of 224 are 224 x 512: 784 * (224 / 343) rounds to a little less than 512."""
    folder = image_models.write("dinov2", tmp_path / "dinov2")
    said = {"size": {"shortest_edge": 224}, "do_center_crop": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    assert af.models.load(folder).encode(np.zeros((784, 343, 3), np.uint8)).pixels.shape == (3, 512, 224)


def test_the_picture_ends_where_the_patches_end(models):
    """An image of 7 x 10 pixels has 1 x 2 patches of side 4; the others would shift what is drawn over them."""
    prompt = models["dinov2"].encode(np.random.default_rng(0).random((3, 7, 10)))
    assert prompt.grid == (1, 2)
    assert prompt.picture.shape == (4, 8, 3)
    np.testing.assert_array_equal(prompt.picture, 0.5 + 0.5 * np.moveaxis(prompt.pixels[:, :4, :8], 0, 2))


def test_repeated_image_has_one_patch_in_every_place(models):
    _, prompt, _ = af.trained.controlled(models["vit"], PIXELS["vit"], "repeated")
    middle = PIXELS["vit"][:, 4:8, 4:8]
    np.testing.assert_array_equal(prompt.pixels, np.tile(middle, (1, 3, 3)))


def test_titles_do_not_quote_patches(models):
    report = af.trained.prompt_report(models["vit"], PIXELS["vit"], progress=False)
    assert af.show.prompt(report).get_suptitle().startswith("An image of 3 x 3 patches in vit")


def test_the_caption_of_patches_names_blocks_by_their_layers(models):
    """On a column panels are not above each other: a block is told by its numbers. One cluster is no plural."""
    figure = af.show.patches(models["vit"].trajectory(PIXELS["vit"], attention=True), angle=3.0)
    words = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    assert "block 0 leads from layer 0 to layer 1" in words
    assert "layer 3: 1 cluster" in [axes.get_title(loc="left") for axes in figure.axes]


def test_towers_of_a_clip_in_memory(models):
    folder = models["clip"].origin
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    arrays = image_models.tensors("clip")
    given = af.models.from_arrays(config, arrays, tower="vision")
    np.testing.assert_array_equal(
        given.trajectory(PIXELS["clip"]).tokens, models["clip"].trajectory(PIXELS["clip"]).tokens
    )
    with pytest.raises(InputError, match="must be text or vision"):
        af.models.from_arrays(config, arrays)
