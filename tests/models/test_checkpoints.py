"""Revisions of the hub, folders of checkpoints, and weights that several of them share."""

import shutil
import sys

import huggingface_hub
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers import tiny_models

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.models.checkpoints import repeated_weights, step_of

IDS = tiny_models.IDS
PROMPTS = [IDS, IDS[:4], IDS[2:], IDS[1:5], IDS[::-1]]


def changed(folder, target, factor, names=None):
    """A copy of a checkpoint with some tensors times a factor."""
    shutil.copytree(folder, target)
    arrays = load_file(target / "model.safetensors")
    scaled = {key: factor * value if names is None or names in key else value for key, value in arrays.items()}
    save_file(scaled, target / "model.safetensors")
    return target


@pytest.fixture
def training(tmp_path):
    """Three states of a tiny model, the last two of which are the same."""
    first = tiny_models.write("bert", tmp_path / "run" / "checkpoint-90")
    changed(first, tmp_path / "run" / "checkpoint-200", 1.5)
    changed(first, tmp_path / "run" / "checkpoint-1000", 1.5)
    (tmp_path / "run" / "logs").mkdir()
    return tmp_path / "run"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub on disk with two revisions of one repository; the network is not asked."""
    cache = tmp_path / "cache"
    repository = cache / "models--someone--tiny"
    for commit, factor in (("a" * 40, 1.0), ("b" * 40, 2.0)):
        source = tiny_models.write("gpt2", tmp_path / commit[:1])
        changed(source, repository / "snapshots" / commit, factor)
    (repository / "refs").mkdir()
    for branch, commit in (("main", "a"), ("step1000", "b"), ("step0", "a")):
        (repository / "refs" / branch).write_text(commit * 40)
    real = huggingface_hub.try_to_load_from_cache
    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache", lambda *args, **kwargs: real(*args, cache_dir=str(cache), **kwargs)
    )
    asked = []

    def unreachable(repository, file, revision=None, **_):
        asked.append((file, revision))
        raise huggingface_hub.errors.EntryNotFoundError(f"{file} of {repository} is not there")

    monkeypatch.setattr(huggingface_hub, "hf_hub_url", unreachable)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    return asked


def test_a_revision_is_that_of_the_hub(hub):
    main, late = af.models.load("someone/tiny"), af.models.load("someone/tiny", revision="step1000")
    assert (main.name, late.name) == ("tiny", "tiny@step1000")
    np.testing.assert_allclose(late.head_weights(0)[0].W_Q, 2 * main.head_weights(0)[0].W_Q)
    assert late.trajectory(IDS, progress=False).attrs["revision"] == "step1000"
    assert not late.reads_text  # tokenizer.json is asked for at the same revision
    assert ("tokenizer.json", "step1000") in hub


def test_revisions_are_in_the_order_of_their_steps(hub):
    found = af.models.load_checkpoints("someone/tiny", ["step1000", "step0"])
    assert [one.name for one in found] == ["tiny@step0", "tiny@step1000"]


def test_an_unknown_revision_and_one_of_a_directory_are_refused(hub, monkeypatch, training):
    def without(*_, **__):
        response = type("Response", (), {"headers": {}, "request": None, "status_code": 404})()
        raise huggingface_hub.errors.RevisionNotFoundError("no such revision", response=response)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", without)
    monkeypatch.setattr(huggingface_hub, "hf_hub_url", without)
    with pytest.raises(InputError, match="`revision` must be a branch, a tag or a commit of someone/tiny"):
        af.models.load("someone/tiny", revision="nowhere")
    with pytest.raises(InputError, match="is on this machine"):
        af.models.load(training / "checkpoint-90", revision="step0")
    with pytest.raises(InputError, match="must be a list of branches"):
        af.models.load_checkpoints("someone/tiny", "step0")


def test_a_misspelt_name_is_no_directory_where_the_hub_cannot_be_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        InputError, match=r"`minilmm` is not a directory, and fetching it from .* needs huggingface-hub"
    ):
        af.models.load("minilmm")


def test_a_folder_of_checkpoints_is_read_in_order(training):
    assert [one.name for one in af.models.load_checkpoints(training)] == [
        "checkpoint-90",
        "checkpoint-200",
        "checkpoint-1000",
    ]
    with pytest.raises(InputError, match="3 of its folders do"):
        af.models.load(training)
    with pytest.raises(InputError, match="no folder with a config"):
        af.models.load_checkpoints(training / "logs")


def test_a_study_along_training_has_steps_and_names_repeated_weights(training, tmp_path):
    study = af.trained.study(training, PROMPTS, controls=[], progress=False)
    assert study.step.values.tolist() == [90, 200, 1000]
    assert study.attrs["repeated_weights"].startswith("checkpoint-200 and checkpoint-1000 have the same weights")
    cosines = study.mean_cosine.sel(variant="trained")
    np.testing.assert_array_equal(cosines.sel(model="checkpoint-200"), cosines.sel(model="checkpoint-1000"))
    figure = af.show.training(study, tmp_path / "training.png", measures=["mean_cosine", "energy"])
    assert len(figure.axes) == 2
    with pytest.raises(InputError, match="two or more checkpoints"):
        af.show.training(af.trained.study(training / "checkpoint-90", PROMPTS, controls=[], progress=False))


def test_checkpoints_without_a_step_are_left_out_along_training(training, tmp_path):
    """The last state of a training is often a folder "final"; two folders with the same step have no order."""
    shutil.copytree(training / "checkpoint-90", training / "final")
    study = af.trained.study(training, PROMPTS, controls=[], progress=False)
    np.testing.assert_array_equal(study.step, [90, 200, 1000, np.nan])
    figure = af.show.training(study, measures=["mean_cosine"])
    assert "Left out, since no step is in the name: final." in " ".join(
        " ".join(text.get_text() for text in figure.texts).split()
    )
    assert figure.get_suptitle() == "Along training: 3 checkpoints"


def test_the_axis_of_steps_from_zero_has_no_empty_decades(training):
    study = af.trained.study(training, PROMPTS, controls=[], progress=False).assign_coords(
        step=("model", [0, 500, 100_000])
    )
    figure = af.show.training(study, measures=["mean_cosine"])
    assert figure.axes[0].xaxis.get_transform().linthresh == 500


def test_tensors_that_are_not_trained_are_counted(tmp_path):
    first = tiny_models.write("bert", tmp_path / "step1")
    second = changed(first, tmp_path / "step2", 2.0, "attention")
    models = [af.models.load(one) for one in (first, second)]
    shared = sum("attention" not in name for name in load_file(first / "model.safetensors"))
    total = len(load_file(first / "model.safetensors"))
    assert repeated_weights(models) == f"{shared} of {total} tensors are the same in all 2 models."
    assert repeated_weights([models[0], af.models.load(changed(first, tmp_path / "step3", 3.0))]) == ""


def test_steps_are_numbers_of_training_and_no_other():
    assert [step_of(name) for name in ("step-10", "1000", "smollm2", "rxnfp-ft-10k", "x@ckpt_7")] == [
        10,
        1000,
        None,
        None,
        7,
    ]
