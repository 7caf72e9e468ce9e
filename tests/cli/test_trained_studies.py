"""The command study: table, files, and bad input in one sentence."""

import csv
import importlib
import json
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from tests.helpers import image_models, tiny_models
from tests.helpers.command_line import attnflow
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from attnflow import show, trained
from attnflow.models import Model, load
from attnflow.trained import load_study
from attnflow.trained.studies.prompt_sets import name_of_set, prompt_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tiny_models.write("bert", folder / "bert")
    return folder


def test_study_prints_writes_and_draws(folder):
    asked = (
        "study",
        "bert",
        "--controls",
        "equal attention",
        "--depth",
        "1",
        "--measures",
        "second_eigenvalue,line_shape_score",
    )
    out, _ = attnflow(*asked, "--out", "a.nc", "--csv", "a.csv", cwd=folder)
    assert "second eigenvalue of attention" in out
    assert "0 ± 5e-06 *" in out  # equal weights have no second eigenvalue; the model's is not zero
    assert "64 (random ids)" in out
    study = load_study(folder / "a.nc")
    with (folder / "a.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "mean_cosine"]
    assert len(rows) == 2 * 2
    mean = study.mean_cosine.sel(variant="trained", layer=1).mean()
    assert float(rows[1]["mean"]) == pytest.approx(float(mean))
    found = json.loads(attnflow(*asked[:4], "--depth", "1", "--json", cwd=folder)[0])
    assert found["prompts"] == 64
    assert {row["variant"] for row in found["rows"]} == {"trained", "equal attention"}


def test_counts_have_no_rounding_error_and_the_centred_cosine_its_baseline(folder):
    (folder / "five.txt").write_text("5,17\n3,4,5\n7,8\n1,2,9,4\n6,5,4,3,2\n")
    asked = ("study", "bert", "--prompts", "five.txt", "--controls", "equal attention", "--depth", "1")
    out, _ = attnflow(*asked, "--measures", "sink_share,massive_activations,centred_cosine", cwd=folder)
    counts = out.split("cosine")[0]
    assert " 0" in counts
    assert "±" not in counts
    mean = -(1 + 1 / 2 + 1 + 1 / 3 + 1 / 4) / 5
    assert f"-1/(n - 1), which is {mean:.3g} in the mean over these prompts" in " ".join(out.split())
    assert "-1/(n - 1)" not in attnflow(*asked, "--measures", "sink_share", cwd=folder)[0]


def test_an_interrupted_study_says_what_is_kept_and_goes_on(folder):
    """Ctrl-C comes while the second of two variants is measured."""
    asked = ("study", "bert", "--controls", "equal attention", "--depth", "1")
    plan, calls = importlib.import_module("attnflow.trained.studies.study"), []
    computed = plan._computed

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return computed(*arguments)

    with mock.patch.object(plan, "_computed", interrupted):
        _, error = attnflow(*asked, "--out", "stopped.nc", cwd=folder, code=130)
        assert error.endswith("interrupted. Finished parts: 1, kept in stopped.nc.parts; the same command continues.\n")
        _, error = attnflow(*asked, cwd=folder, code=130)
        assert error.endswith("interrupted. Nothing is kept without --out.\n")
    with mock.patch.object(plan, "_computed", lambda *rest: calls.append(2) or computed(*rest)):
        attnflow(*asked, "--out", "stopped.nc", "--json", cwd=folder)
    attnflow(*asked, "--out", "whole.nc", "--json", cwd=folder)
    assert calls.count(2) == 1
    assert load_study(folder / "stopped.nc").equals(load_study(folder / "whole.nc"))


def test_ctrl_c_is_said(folder):
    with mock.patch.object(Model, "trajectory", mock.Mock(side_effect=KeyboardInterrupt)):
        assert attnflow("ladder", "bert", "5,17,3", cwd=folder, code=130)[1] == "attnflow: interrupted.\n"


def test_few_prompts_have_no_intervals_and_say_so(folder):
    (folder / "three.txt").write_text("5,17\n3,4,5\n7,8\n")
    (folder / "five.txt").write_text("5,17\n3,4,5\n7,8\n9,1\n6,6\n")
    said = {}
    for name in ("three", "five"):
        said[name], _ = attnflow("study", "bert", "--prompts", f"{name}.txt", "--depth", "1", "--controls", "equal attention", cwd=folder)  # fmt: skip
        study = trained.study(folder / "bert", folder / f"{name}.txt", controls=[], layers=1, progress=False)
        figure = show.study(study, measures=["mean_cosine"])
        words = " ".join(text.get_text() for text in figure.texts)
        assert ("need 5 prompts" in words) is (name == "three")
        assert "beside its controls" not in words
    assert "no intervals, which need 5 prompts" in said["three"]
    assert "excludes 0" not in said["three"]
    assert "bootstrap intervals over prompts; *" in " ".join(said["five"].split())


def test_rungs_are_not_called_controls(folder):
    study = trained.study(folder / "bert", [[5, 17], [3, 4, 5]], controls=[], ladder=True, layers=1, progress=False)
    assert show.study(study, measures=["mean_cosine"]).get_suptitle() == "bert and the rungs of its ladder"


def test_the_tower_of_a_clip_is_an_option(folder):
    image_models.write("clip", folder / "clip")
    for command in (("prompt", "clip", "5,17,3"), ("ladder", "clip", "5,17,3"), ("heads", "clip", "--runs", "0")):
        _, error = attnflow(*command, cwd=folder, code=2)
        assert "--tower" in error
        assert attnflow(*command, "--tower", "text", "--json", cwd=folder)[0].startswith("{")
    (folder / "ids.txt").write_text("5,17\n3,4,5\n")
    asked = ("study", "clip", "--tower", "text", "--prompts", "ids.txt", "--controls", "none")
    assert "clip (text)" in attnflow(*asked, cwd=folder)[0]
    assert "--revisions" in attnflow(*asked, "--revisions", "step0", cwd=folder, code=2)[1]


def test_training_is_drawn_and_needs_steps_before_anything_is_computed(folder):
    for step in (100, 200):
        tiny_models.write("bert", folder / "training" / f"checkpoint-{step}")
    asked = ("study", "training", "--depth", "1", "--controls", "none", "--training", "steps.png")
    assert "steps.png" in attnflow(*asked, cwd=folder)[0]
    assert (folder / "steps.png").is_file()
    with mock.patch.object(trained, "study", mock.Mock(side_effect=AssertionError("computed"))):
        _, error = attnflow("study", "bert", "--training", "other.png", cwd=folder, code=2)
    assert "--training needs two or more checkpoints" in error


def test_an_image_is_drawn_with_its_clusters(folder):
    image_models.write("vit", folder / "vit")
    Image.fromarray(np.arange(432, dtype=np.uint8).reshape(12, 12, 3)).save(folder / "photo.png")
    said, _ = attnflow("prompt", "vit", "photo.png", "--angle", "0.3", "--picture", "prompt.png", cwd=folder)
    assert "prompt-patches.png" in said
    assert (folder / "prompt-patches.png").is_file()


def test_numbers_that_are_read_as_text_are_said(folder):
    """A model with a tokenizer reads "5,17" as text, and one without as ids; words with commas are never doubtful."""
    tiny_models.write("bert", folder / "reader")
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, ",": 1, "3": 2, "5": 3, "a": 4}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "reader" / "tokenizer.json"))
    (folder / "numbers.txt").write_text("5,17\n3,4,5\n")
    (folder / "words.txt").write_text("5,17\na, b\n")
    asked = {"controls": [], "layers": 1, "progress": False}
    reader, bert = folder / "reader", folder / "bert"
    said = trained.study([reader, bert], folder / "numbers.txt", **asked).attrs["prompts"]
    assert said == "numbers.txt, whose numbers reader read as text, not as ids"
    assert trained.study(bert, folder / "numbers.txt", **asked).attrs["prompts"] == "numbers.txt"
    assert trained.study(reader, folder / "words.txt", **asked).attrs["prompts"] == "words.txt"
    assert trained.study(bert, **asked).attrs["prompts"] == "random ids"
    own, models = prompt_set(None), [load(reader), load(bert)]
    assert name_of_set(own, models[:1], is_own=True) == "built-in"
    assert name_of_set(own, models, is_own=True) == "built-in; random ids in bert"


def test_bad_input_is_one_sentence(folder):
    (folder / "blank.txt").write_text("\n")
    cases = [
        (("--prompts", "blank.txt"), "has no prompts"),
        (("--measures", "mean_cosin"), "mean_cosine"),
        (("--controls", "random"), "untrained"),
        (("--size", "column"), "--picture"),
        (("--out", "a.zarr"), "written as `.nc`"),
        (("--memory", "-1"), "memory"),
    ]
    for options, expected in cases:
        _, error = attnflow("study", "bert", *options, cwd=folder, code=2)
        assert expected in error
        assert error.count("\n") == 1
