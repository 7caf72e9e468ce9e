"""Studies on tiny models: equal to one prompt at a time, controls that do what they say, parts that are kept."""

import itertools
import json

import numpy as np
import pytest
import xarray as xr
from PIL import Image
from tests.helpers import image_models, tiny_models

import attnflow as af
from attnflow import trained
from attnflow._common.checks import InputError
from attnflow._common.file_locks import locked_file
from attnflow.models.transformer import Model
from attnflow.trained.studies import layer_states
from attnflow.trained.studies import study as study_module
from attnflow.trained.studies.layer_measures import OVER_HEADS
from attnflow.trained.studies.variants import CONTROLS, shuffled, variants_of, with_swapped_heads, without_scores

PROMPTS = [
    [5, 17, 3, 39, 17, 0, 22],
    [5, 17, 5, 17],
    [1, 2, 3, 4],
    [9, 8, 9, 8],
    [7, 7, 7, 6],
    [5, 17, 3, 39, 17, 0, 23],
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: af.models.load(tiny_models.write(name, folder / name)) for name in ("bert", "gpt2", "llama")}


@pytest.fixture(scope="module")
def found(models):
    return trained.study(models["bert"], PROMPTS, ladder=True, angle=0.8, progress=False)


def test_every_prompt_has_the_numbers_of_its_own_report(models, found):
    of_model = found.sel(model="bert", variant="trained")
    for place in (0, 1):
        report = trained.prompt_report(models["bert"], PROMPTS[place], angle=0.8, progress=False)
        one = of_model.sel(prompt=place)
        for name in ("mean_cosine", "clusters", "effective_rank"):
            np.testing.assert_allclose(one[name].values, report[name].values, rtol=1e-9)
        np.testing.assert_allclose(one.energy.values.T, report.energy.values, rtol=1e-9)
        np.testing.assert_allclose(one.energy_by_mlp.values[1:].T, report.change.sel(half="mlp").values, atol=1e-12)
        np.testing.assert_allclose(one.cka.values[1:], report.cka.values, rtol=1e-9)
        for name in ("attention_rank", "second_eigenvalue"):
            np.testing.assert_allclose(one[name].values[1:], report[name].mean("head").values, rtol=1e-9)
        np.testing.assert_allclose(one.variability.values, report.variability.values, rtol=1e-9)
        path = report.tokens.values
        steps = np.diff(path, axis=0)
        total = (steps / np.linalg.norm(steps, axis=-1, keepdims=True)).sum(axis=0)
        np.testing.assert_allclose(one.line_shape_score, np.mean(3 / np.linalg.norm(total, axis=1)))
    assert np.isnan(of_model.cka.values[:, 0]).all()


def test_the_rungs_are_those_of_the_ladder(models, found):
    climbed = trained.ladder(models["bert"], PROMPTS[0], angle=0.8, progress=False)
    rungs = climbed.rung.values[:-1].tolist()
    assert found.variant.values.tolist() == ["trained", *CONTROLS, *rungs]
    for rung in rungs:
        for name in ("mean_cosine", "effective_rank"):
            ours = found[name].sel(model="bert", variant=rung, prompt=0)
            np.testing.assert_allclose(ours.values, climbed[name].sel(rung=rung).values, rtol=1e-8)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_controls_change_what_they_say_and_nothing_else(models, name):
    model, tokens = models[name], np.random.default_rng(0).standard_normal((5, tiny_models.WIDTH))
    attention = model.block(1).attention
    weights = np.asarray(attention.weights(tokens))
    equal = np.asarray(without_scores(attention).weights(tokens))
    is_seen = weights[0] > 0
    np.testing.assert_allclose(
        equal, np.broadcast_to(is_seen / is_seen.sum(axis=1, keepdims=True), weights.shape), rtol=1e-6
    )
    assert np.abs(weights - equal).max() > 0.05
    swapped = with_swapped_heads(attention)
    by = attention.heads // len(attention.W_K)
    np.testing.assert_allclose(np.asarray(swapped.weights(tokens)), np.roll(weights, -by, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(swapped.W_V, attention.W_V)
    np.testing.assert_array_equal(swapped.W_O, attention.W_O)


def test_shuffled_tokens_keep_both_ends_and_all_ids():
    ids = np.arange(100, 112)
    moved = shuffled(ids, np.random.default_rng(3))
    assert (moved[0], moved[-1]) == (100, 111)
    assert sorted(moved) == ids.tolist()
    assert moved.tolist() != ids.tolist()
    assert [shuffled(np.arange(n), np.random.default_rng(0)).tolist() for n in (1, 2)] == [[0], [0, 1]]


def test_untrained_weights_are_drawn_several_times(found):
    """Equal prompts in one draw agree; the prompts of this study are in four draws."""
    embedding = found.sel(model="bert", variant="untrained").mean_cosine.values[:, 0]
    assert len(np.unique(embedding.round(12))) == len(PROMPTS)


def test_results_do_not_depend_on_batches_or_memory(models, found, monkeypatch):
    monkeypatch.setattr(layer_states, "BATCH_BYTES", 1)
    again = trained.study(models["bert"], PROMPTS, ladder=True, angle=0.8, memory=700.0, progress=False)  # one prompt
    for name in ("mean_cosine", "energy", "second_eigenvalue", "line_shape_score"):
        np.testing.assert_allclose(again[name], found[name], rtol=1e-9, atol=1e-12)


def test_models_of_different_depth_share_a_dataset(models, tmp_path):
    both = trained.study(
        [models["bert"], models["gpt2"]], PROMPTS, controls=["equal attention"], layers=2, progress=False
    )
    assert both.model.values.tolist() == ["bert", "gpt2"]
    assert both.sizes["layer"] == 3
    rows = trained.study_rows(both, ["mean_cosine", "energy"])
    assert {row["beta"] for row in rows if row["measure"] == "energy"} == {1.0, 4.0, 16.0}
    one = next(
        row for row in rows if row["model"] == "gpt2" and row["variant"] == "equal attention" and row["layer"] == 2
    )
    values = both.mean_cosine.sel(model="gpt2", layer=2)
    gap = values.sel(variant="trained") - values.sel(variant="equal attention")
    np.testing.assert_allclose(one["trained_minus"], gap.mean())
    np.testing.assert_allclose([one["mean"], one["deviation"]], [values[1].mean(), values[1].std(ddof=1)])
    figure = af.show.study(both, tmp_path / "study.png", measures=["mean_cosine", "energy"])
    assert len(figure.axes) == 3


def test_titles_of_panels_side_by_side_do_not_overlap(models):
    """At the natural size, too, a title ends before that of the next panel begins."""
    one = trained.study([models["bert"]], PROMPTS, controls=[], progress=False)
    figure = af.show.study(one)
    figure.canvas.draw()
    boxes = [axes._left_title.get_window_extent() for axes in figure.axes if axes.get_title("left")]
    assert len(boxes) == 6
    assert boxes[2].x1 < figure.bbox.x1
    assert boxes[5].x1 < figure.bbox.x1
    for row in (boxes[:3], boxes[3:]):
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(row))


def test_models_with_different_numbers_of_heads_share_a_dataset(models, tmp_path):
    """Measures of single heads are missing beyond the heads of a model, and its mean is over its own."""
    config = tiny_models.CONFIGS["bert"] | {"num_attention_heads": 2}
    wide = af.models.from_arrays(config, tiny_models.tensors("bert"))
    both = trained.study([models["bert"], wide], PROMPTS, controls=["swapped heads"], out=tmp_path / "a.nc", progress=False)  # fmt: skip

    assert both.sizes["head"] == tiny_models.HEADS == 4
    for model in (models["bert"], wide):
        alone = trained.study(model, PROMPTS, controls=["swapped heads"], progress=False)
        for name in OVER_HEADS:
            own = both[name].sel(model=model.name)
            np.testing.assert_array_equal(own.sel(head=alone["head"]), alone[name].sel(model=model.name))
            assert np.isnan(own.values[..., alone.sizes["head"] :]).all()
        rows = [row for row in trained.study_rows(both) if row["model"] == model.name]
        assert rows == trained.study_rows(alone)


def test_a_stopped_study_goes_on_with_the_same_numbers(models, tmp_path, monkeypatch):
    out, real, calls = tmp_path / "study.nc", study_module.layer_states, itertools.count()

    def interrupted(*arguments):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    asked = {"controls": ["untrained", "shuffled tokens"], "out": out, "progress": False}
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "layer_states", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained.study(models["llama"], PROMPTS, **asked)
    assert len(list((tmp_path / "study.nc.parts").glob("*.nc"))) == 3
    with pytest.raises(InputError, match=r"other settings.*different: seed"):
        trained.study(models["llama"], PROMPTS, seed=1, **asked)
    busy = locked_file(tmp_path / "study.nc.parts" / "lock", "another study")
    with busy, pytest.raises(InputError, match=r"study\.nc is being written by another process \(process \d+"):
        trained.study(models["llama"], PROMPTS, **asked)
    (tmp_path / "study.nc.parts" / "0-trained-0-0.nc").write_bytes(b"damaged")
    whole = trained.study(models["llama"], PROMPTS, **asked)
    assert not (tmp_path / "study.nc.parts").exists()
    with pytest.raises(InputError, match=r"is a study of many prompts.*`trained\.load_study` reads its file"):
        af.load(out)
    xr.testing.assert_identical(trained.load_study(out), xr.load_dataset(out, engine="scipy"))
    direct = trained.study(models["llama"], PROMPTS, **(asked | {"out": None}))
    xr.testing.assert_equal(whole, direct)
    assert json.loads(whole.attrs["models"])["llama"] == models["llama"].origin


def test_a_model_without_tokenizer_gets_random_ids(models):
    found = trained.study(models["bert"], controls=[], layers=1, progress=False)
    assert found.sizes["prompt"] == len(trained.built_in_prompts()) == 64
    assert (found.length == tiny_models.POSITIONS).all()


def test_one_head_cannot_be_swapped(models):
    names = [variant.name for variant in variants_of(models["bert"], CONTROLS, has_ladder=False)]
    assert names == ["trained", *CONTROLS]
    single = Model.__new__(Model)
    single.config = type("Config", (), {"heads": 1, "is_causal": False})()
    assert "swapped heads" not in [variant.name for variant in variants_of(single, CONTROLS, has_ladder=False)]


def test_bad_input_is_one_sentence(models, tmp_path):
    model, blank, foreign = models["bert"], tmp_path / "blank.txt", tmp_path / "foreign.nc"
    blank.write_text("\n  \n")
    xr.Dataset({"a": 1.0}).to_netcdf(foreign, engine="scipy")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    cases = [
        (lambda: trained.study(model, blank), "has no prompts"),
        (lambda: trained.study(model, tmp_path / "none.txt"), "cannot be read as a file of prompts"),
        (lambda: trained.study(model, tmp_path / "bytes.txt"), "not a text in UTF-8"),
        (lambda: trained.study(model, []), "it is empty"),
        (lambda: trained.study(model, [[1], [99]]), "Prompt 2 of 2 cannot be used with bert"),
        (lambda: trained.study([model, model], [[1]]), "different names"),
        (lambda: trained.study([], [[1]]), "at least one model"),
        (lambda: trained.study(model, [[1]], controls=["untrianed"]), "untrained"),
        (lambda: trained.study(model, [[1]], controls=["untrained"] * 2), "must be different"),
        (lambda: trained.study(model, [[1, 2]], memory=10), r"a prompt, in bert up to \d+ bytes, but it is 10"),
        (lambda: trained.study(model, [[1]], out=tmp_path / "a.csv"), "written as `.nc`"),
        (lambda: trained.load_study(foreign), "is not a study"),
        (lambda: trained.load_study(tmp_path / "no.nc"), "There is no study"),
        (lambda: trained.study_rows(xr.Dataset()), "is not a study"),
    ]
    for call, expected in cases:
        with pytest.raises(InputError, match=expected):
            call()


def test_a_study_of_images_is_that_of_each_and_its_patches_are_shuffled(tmp_path):
    """The numbers are those of one image at a time; shuffled patches are the same pixels elsewhere."""
    vit = af.models.load(image_models.write("vit", tmp_path / "vit"))
    rng = np.random.default_rng(0)
    paths = [str(tmp_path / f"{number}.png") for number in range(2)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(path)
    (tmp_path / "images.txt").write_text("\n".join(paths))

    found = af.trained.study(vit, tmp_path / "images.txt", controls=["shuffled tokens"], progress=False)

    for number, path in enumerate(paths):
        report = af.trained.prompt_report(vit, path, progress=False)
        np.testing.assert_allclose(found.mean_cosine[0, 0, number], report.mean_cosine, atol=1e-12)
    assert np.abs(found.mean_cosine[0, 1] - found.mean_cosine[0, 0]).max() > 1e-6
    image = vit.encode(paths[0])
    other = image.shuffled(np.random.default_rng(1))
    cut = lambda one: sorted(one.pixels.reshape(3, 3, 4, 3, 4).transpose(1, 3, 0, 2, 4).reshape(9, -1).tolist())
    assert cut(other) == cut(image)
    assert not np.array_equal(other.pixels, image.pixels)
    with pytest.raises(InputError, match="of which this package has none"):
        af.trained.study(vit, progress=False)


def test_a_file_may_hold_ids_for_a_model_without_a_tokenizer(tmp_path):
    model = af.models.load(tiny_models.write("bert", tmp_path / "bert"))
    (tmp_path / "ids.txt").write_text("5,17,3\n7, 7, 3, 9\n")
    found = af.trained.study(model, tmp_path / "ids.txt", controls=[], progress=False)
    given = af.trained.study(model, [[5, 17, 3], [7, 7, 3, 9]], controls=[], progress=False)
    np.testing.assert_array_equal(found.mean_cosine, given.mean_cosine)
