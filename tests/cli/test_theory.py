"""The commands about theorems, as a user runs them."""

import json
import math

import pytest
from tests.helpers.command_line import attnflow


def test_verify_prints_verdicts_and_exits_with_zero(tmp_path):
    text, _ = attnflow("verify", "interaction-peak", "wendel", cwd=tmp_path)
    assert "2 statements: 2 hold." in text
    found = json.loads(attnflow("verify", "interaction-peak", "--json", cwd=tmp_path)[0])
    assert (found[0]["id"], found[0]["verdict"], found[0]["proved"]) == ("interaction-peak", "holds", True)


def test_verify_lists_what_there_is(tmp_path):
    found = json.loads(attnflow("verify", "--list", "--json", cwd=tmp_path)[0])
    text, _ = attnflow("verify", "--list", cwd=tmp_path)
    assert {"polytope", "hyperplanes", "identity-value"} <= {one["id"] for one in found}
    assert "conjecture-2" in text


def test_verify_holds_statements_against_a_result(tmp_path):
    attnflow("run", "polytope", "--n", 8, "--end", 20, "--no-picture", cwd=tmp_path)
    found = json.loads(attnflow("verify", "--run", "polytope.zarr", "--json", cwd=tmp_path)[0])
    answers = {one["id"]: one["verdict"] for one in found}
    assert answers["polytope"] == "holds"
    assert answers["identity-value"] == "not_applicable"
    order = [one["verdict"] for one in found]
    assert order == sorted(order, key=["fails", "undecided", "holds", "not_applicable"].index)


def test_verify_prints_the_shares_of_an_ensemble(tmp_path):
    attnflow("run", "polytope", "--n", 6, "--end", 20, "--runs", 3, "--no-picture", cwd=tmp_path)
    options = ["polytope", "--run", "polytope.zarr"]
    (found,) = json.loads(attnflow("verify", *options, "--json", cwd=tmp_path)[0])
    assert found["runs"] == found["applies"] == 3
    assert sum(found["counts"].values()) == 3
    assert "of 3" in attnflow("verify", *options, cwd=tmp_path)[0]
    (one,) = json.loads(attnflow("verify", *options, "--member", 2, "--json", cwd=tmp_path)[0])
    assert one["verdict"] == found["verdicts"]["2"]


def test_a_member_of_a_single_run_is_refused(tmp_path):
    attnflow("run", "polytope", "--n", 6, "--no-picture", cwd=tmp_path)
    _, error = attnflow("verify", "--run", "polytope.zarr", "--member", 3, cwd=tmp_path, code=2)
    assert "holds one run" in error


def test_verify_says_which_steps_survive(tmp_path):
    found = json.loads(attnflow("verify", "layers-falling-energy", "--steps", "0.1,4", "--json", cwd=tmp_path)[0])
    answers = {step: one["verdict"] for step, one in found["layers-falling-energy"].items()}
    assert answers == {"0.1": "holds", "4.0": "fails"}


def test_predict_speaks_of_the_scenario_and_its_changes(tmp_path):
    found = json.loads(attnflow("predict", "hyperplanes", "--json", cwd=tmp_path)[0])
    assert (found["limit"], found["proved"]) == ("hyperplanes", True)
    text, _ = attnflow("predict", "hyperplanes", "--value", "pair:0.5,2", cwd=tmp_path)
    assert "No result applies" in text
    assert "rotating" in text


def test_atlas_draws_and_says_how_far_it_agrees(tmp_path):
    text, _ = attnflow("atlas", "--values", 3, "--runs", 1, "--n", 6, "--out", "a.png", "--json", cwd=tmp_path)
    found = json.loads(text)
    assert 0 <= found["agreement"] <= 1
    assert len(found["predicted"]) == len(found["x"]) == 3
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_robustness_prints_means_with_intervals(tmp_path):
    options = ["--law", "box", "--n", 6, "--d", 2, "--seeds", 3, "--end", 6]
    (row,) = json.loads(attnflow("robustness", *options, "--json", cwd=tmp_path)[0])["rows"]
    low, mean, high = row["vertices"]
    assert low <= mean <= high
    text, _ = attnflow("robustness", *options, "--overwrite", cwd=tmp_path)
    assert "vertices" in text
    assert (tmp_path / "robustness.png").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["atlas", "--kind", "phase"], ["atlas", "--beta", "0"], ["atlas", "--n", "2"], ["atlas", "--seed", "-1"],
        ["robustness", "--law", "cube"], ["robustness", "--seeds", "1"], ["robustness", "--end", "0"],
        ["robustness", "--seed", "-1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_that_a_picture_exists_is_said_last(arguments, tmp_path):
    (tmp_path / "a.png").write_bytes(b"mine")
    _, error = attnflow(*arguments, "--out", "a.png", cwd=tmp_path, code=2)
    assert "exists already" not in error
    _, error = attnflow(arguments[0], "--out", "a.png", cwd=tmp_path, code=2)
    assert "a.png exists already" in error


def test_studies_are_drawn_in_the_size_asked_for(tmp_path):
    from PIL import Image

    drawing = ["--size", "column", "--style", "dark", "--no-title", "--json", "--out", "a.png", "--overwrite"]
    small = {
        "atlas": ["--values", 2, "--runs", 1, "--n", 4],
        "robustness": ["--law", "box", "--n", 4, "--d", 2, "--seeds", 2, "--end", 2],
    }
    for command, options in small.items():
        attnflow(command, *options, *drawing, cwd=tmp_path)
        picture = Image.open(tmp_path / "a.png").convert("RGB")
        assert picture.width == 680  # 3.4 inches
        assert max(picture.getpixel((0, 0))) < 50


def test_conjecture1_is_an_experiment_of_its_own(tmp_path):
    found = json.loads(attnflow("run", "conjecture1", "--runs", 40, "--json", cwd=tmp_path)[0])["experiment"]
    assert found["refutes"]
    assert any("109.3" in line for line in found["report"])
    assert found["share_interval"][0] < 0.367 < found["share_interval"][1]
    assert (tmp_path / "conjecture1.png").exists()


def test_coalescing_scenarios_reach_one_cluster_and_draw_a_staircase(tmp_path):
    found = json.loads(attnflow("run", "staircase", "--json", cwd=tmp_path)[0])
    assert found["merges"] == 4
    assert found["log_time"] > 100
    assert (tmp_path / "staircase.png").read_bytes().startswith(b"\x89PNG")
    assert {"staircase-levels": "holds", "plateau-lengths": "holds"}.items() <= {
        one["id"]: one["verdict"] for one in found["verdicts"]
    }.items()
    again = json.loads(attnflow("verify", "staircase-levels", "--run", "staircase.zarr", "--json", cwd=tmp_path)[0])
    assert [one["verdict"] for one in again] == ["holds"]
    text, _ = attnflow("run", "metastable", "--n", 20, "--beta", 40, "--no-picture", cwd=tmp_path)
    assert "One cluster since" in text
    assert "plateau-lengths" in text.replace("\n", "")
    attnflow("show", "metastable.zarr", cwd=tmp_path)
    assert (tmp_path / "metastable.png").exists()


def test_a_coalescing_scenario_tells_the_settings_that_acted(tmp_path):
    never = lambda constant: pytest.fail(f"{constant} is no JSON")
    command = ["run", "metastable", "--n", 6, "--no-picture", "--json", "--overwrite"]
    whole = json.loads(attnflow(*command, cwd=tmp_path)[0], parse_constant=never)
    assert whole["settings"]["rtol"] == 1e-6
    assert whole["settings"]["log_end"] is None
    assert "end" not in whole["settings"]
    short = json.loads(attnflow(*command, "--end", 20, cwd=tmp_path)[0], parse_constant=never)
    assert short["settings"]["log_end"] == pytest.approx(math.log(20))
    assert ", one cluster at log t = " in whole["headline"]
    assert f", {short['clusters']} clusters at log t = 2.996" in short["headline"]


def test_changed_settings_of_a_coalescing_scenario_are_told(tmp_path):
    changed = ["--n", 2, "--beta", 0, "--end", 1.5, "--no-picture", "--json"]
    found = json.loads(attnflow("run", "metastable", *changed, cwd=tmp_path)[0])
    model = "2 tokens on the circle, softmax attention, beta = 0, V = I"
    assert found["headline"] == f"{model}: 0 merges, 2 clusters at log t = 0.4055"  # it ends before the last
    assert found["log_time"] == pytest.approx(math.log(1.5))
    assert not any(one["verdict"] == "fails" for one in found["verdicts"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["verify", "polytop"], "Did you mean 'polytope'"),
        (["verify", "--run", "no.zarr"], "There is no result file"),
        (["verify", "--steps", "small"], "numbers with commas between"),
        (
            ["verify", "polytope", "--steps", "0.1"],
            "`--steps` is of the statements about layers, layers-single-cluster",
        ),
        (["verify", "--steps", "-1"], "`steps` must be above zero"),
        (["predict", "polytop"], "Did you mean 'polytope'"),
        (["run", "metastable", "--runs", "3"], "`runs` would change nothing here: one start"),
        (["run", "staircase", "--end", "0"], "`end` must be above zero"),
        (["run", "staircase", "--mask", "causal"], "does not support this flow"),
        (["run", "staircase", "--start", "angles"], "needs an angle for every token"),
        (["run", "staircase", "--n", "7"], "`n` would change nothing here"),
        (["run", "staircase", "--memory", "1e6"], "`memory` would change nothing here"),
        (["run", "sphere", "--picture", "a.png", "--no-picture"], "Leave one of them out"),
        (["predict", "polytope", "--end", "5"], "`end` would change nothing here: a prediction"),
        (["predict", "sphere", "--runs", "3"], "`runs` would change nothing here: the first tokens of one run"),
        (["atlas", "--kind", "phase"], "`kind` 'phase' is not known"),
        (["atlas", "--values", "1"], "`values` must be a whole number, at least 2"),
        (["atlas", "--size", "15"], "`size` must be 'column', 'page', 'slide' or a width and a height"),
        (["robustness", "--style", "drak"], "Did you mean 'dark'"),
        (["atlas", "--out", "a.doc"], ".png"),
        (["robustness", "--law", "cube"], "is not known"),
        (["robustness", "--seeds", "1"], "seeds"),
        (["run", "conjecture1", "--value", "jordan:1"], "diagonal"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path):
    _, error = attnflow(*arguments, cwd=tmp_path, code=2)
    assert sentence in error.replace("\n", " ")
    assert "Traceback" not in error


def test_coalescing_scenarios_take_a_merging_distance_and_a_push(tmp_path):
    square = "angles:0,1.5707963267948966,3.141592653589793,4.71238898038469"
    asked = ("--start", square, "--beta", 30, "--no-picture", "--json", "--overwrite")
    rests = json.loads(attnflow("run", "staircase", *asked, cwd=tmp_path)[0])
    assert rests["merges"] == 0
    assert "perturb" in rests["outcome"]
    left = json.loads(attnflow("run", "staircase", *asked, "--perturb", 1e-4, "--merge", 1e-5, cwd=tmp_path)[0])
    assert (left["merges"], left["merge"]) == (3, 1e-5)
    assert json.loads(left["perturbed"])["amount"] == 1e-4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("run", "polytope", "--merge", 1e-5),
            "`merge` would change nothing here: only the scenarios staircase and metastable merge tokens",
        ),
        (
            ("run", "staircase", "--clustered", 0.1),
            "`clustered` would change nothing here: the run ends when all tokens",
        ),
        (("run", "staircase", "--merge", 5), "`merge` must be below the smallest gap at the start, 0.0425"),
    ],
)
def test_options_of_the_other_kind_of_run_are_refused(arguments, sentence, tmp_path):
    _, problem = attnflow(*arguments, cwd=tmp_path, code=2)
    assert sentence in problem
    assert not list(tmp_path.iterdir())
