"""The command line, run as a user would."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.command_line import attnflow, attnflow_process
from typer.main import get_command

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.cli.app import app


def test_run_writes_a_result_and_a_picture_and_says_how_it_went(tmp_path):
    text, _ = attnflow_process("run", "polytope", "--n", 12, "--seed", 4, cwd=tmp_path)

    for word in (
        "RescaledAttention, Softmax beta = 1",
        "12 in dimension 2",
        "steps",
        "clusters",
        "attention rank",
        "Reached t = 20",
    ):
        assert word in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["polytope.png", "polytope.zarr"]
    assert (tmp_path / "polytope.png").read_bytes().startswith(b"\x89PNG")
    assert af.load(tmp_path / "polytope.zarr").sizes["token"] == 12


def test_json_has_the_same_numbers_as_the_file(tmp_path):
    text, _ = attnflow(
        "run", "sphere", "--n", 6, "--runs", 3, "--end", 40, "--out", "s.nc", "--no-picture", "--json", cwd=tmp_path
    )

    found, run = json.loads(text), af.load(tmp_path / "s.nc")
    assert found["steps"] == run.steps.values.tolist()
    assert found["clusters"] == [1, 1, 1]
    assert found["attention_rank"] == [1, 1, 1]
    assert found["outcome"] == run.outcome
    assert (found["value"], found["dtype"], found["settings"]["seed"]) == ("I", "float64", 0)
    assert "rtol 1e-08" in found["solver"]
    assert [path.name for path in tmp_path.iterdir()] == ["s.nc"]


def test_every_option_reaches_the_model(tmp_path):
    options = {
        "n": 7, "d": 3, "beta": -1.5, "seed": 9, "end": 1.5, "saves": 4, "spacing": "log", "space": "sphere",
        "value": "eigenvalues:2,1,-0.5", "query-key": "goe", "heads": 2, "attention": "sinkhorn:3",
        "mask": "causal+alibi:0.5", "normalisation": "ngpt:0.7", "mlp": "tanh", "start": "hemisphere",
        "solver": "rk4:0.05", "settled": 1e-9, "memory": 1e8,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", value)]

    attnflow("run", "polytope", *words, "--float32", "--no-picture", "--out", "all.zarr", cwd=tmp_path)

    run = af.load(tmp_path / "all.zarr")
    flow, solver = json.loads(run.attrs["flow"]), json.loads(run.attrs["solver"])
    assert (run.sizes["token"], run.sizes["coordinate"], run.sizes["time"]) == (7, 3, 4)
    assert (flow["is"], len(flow["heads"]), flow["attention"]["is"]) == ("SphereAttention", 2, "Sinkhorn")
    assert flow["attention"]["beta"]["numbers"] == -1.5
    assert flow["mask"]["second"]["slope"]["numbers"] == 0.5
    assert flow["normalisation"]["alpha"]["numbers"] == 0.7
    assert flow["mlp"]["activation"] == "tanh"
    assert (solver["is"], solver["step"]["numbers"]) == ("RK4", 0.05)
    assert run.tokens.dtype == np.float32
    value = np.array(flow["heads"][0]["value"]["numbers"])
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(value).real), [-0.5, 1, 2], atol=1e-12)


def test_tokens_and_matrices_can_come_from_files(tmp_path):
    np.save(tmp_path / "tokens.npy", af.initial.circle(5, rng=0))
    np.savetxt(tmp_path / "value.csv", np.diag([2.0, 1.0]), delimiter=",")

    attnflow("run", "kuramoto", "--start", "tokens.npy", "--value", "value.csv", "--no-picture", cwd=tmp_path)

    run = af.load(tmp_path / "kuramoto.zarr")
    np.testing.assert_array_equal(run.initial_tokens, np.load(tmp_path / "tokens.npy"))
    idle = attnflow("run", "kuramoto", "--start", "tokens.npy", "--n", 7, cwd=tmp_path, code=2)
    assert "`n` would change nothing here" in idle[1]


def test_rerun_compares_and_show_draws(tmp_path):
    """The result is the same bit for bit in another process."""
    attnflow("run", "noisy", "--n", 8, "--end", 0.5, "--no-picture", "--out", "a.zarr", cwd=tmp_path)

    text, _ = attnflow_process("rerun", "a.zarr", "--out", "b.zarr", "--json", cwd=tmp_path)
    picture, _ = attnflow("show", "a.zarr", "--out", "a.pdf", cwd=tmp_path)

    assert json.loads(text)["bit_for_bit"] is True
    np.testing.assert_array_equal(af.load(tmp_path / "a.zarr").tokens, af.load(tmp_path / "b.zarr").tokens)
    assert picture.strip() == "a.pdf"
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_pictures_have_the_size_and_style_asked_for(tmp_path):
    result = tmp_path / "sphere.zarr"
    small = ("--n", 6, "--runs", 3, "--end", 2, "--out", result)
    attnflow("run", "sphere", *small, "--size", "column", "--no-title", cwd=tmp_path)
    sides = [png_size(result.with_suffix(".png"))]
    for number, options in enumerate((["--size", "5x4"], ["--style", "slides"])):
        attnflow("show", result, "--out", tmp_path / f"{number}.png", *options, cwd=tmp_path)
        sides.append(png_size(tmp_path / f"{number}.png"))
    assert [width for width, _ in sides] == [680, 1000, 2666]  # at 200 dots an inch
    assert [height for _, height in sides[1:]] == [800, 1500]


def png_size(path):
    """Width and height of a PNG file in dots."""
    header = path.read_bytes()[16:24]
    return int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")


@pytest.mark.parametrize("option", [["--size", "colum"], ["--style", "papr"], ["--size", "page", "--no-picture"]])
def test_a_wrong_size_or_style_computes_nothing(tmp_path, option):
    _, said = attnflow("run", "sphere", "--out", tmp_path / "sphere.zarr", *option, cwd=tmp_path, code=2)
    assert option[0].strip("-") in said
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_variables_that_were_added_later_is_repeated_bit_for_bit(tmp_path):
    run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])
    af.save(run.drop_vars("status"), tmp_path / "old.zarr")

    text, _ = attnflow("rerun", "old.zarr", "--json", cwd=tmp_path)

    assert json.loads(text)["bit_for_bit"] is True


def test_a_rerun_that_differs_exits_with_one(tmp_path):
    run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])
    run["final_tokens"] = run.final_tokens + 1e-12
    af.save(run, tmp_path / "changed.zarr")

    text, _ = attnflow("rerun", "changed.zarr", "--json", cwd=tmp_path, code=1)

    assert json.loads(text)["bit_for_bit"] is False


def test_a_run_that_fails_whole_exits_with_one(tmp_path):
    """e^800 overflows."""
    text, _ = attnflow("run", "sphere-usa", "--n", 4, "--beta", 800, "--no-picture", "--json", cwd=tmp_path, code=1)

    assert json.loads(text)["failed"] == 1


def test_two_times_on_a_logarithmic_scale_are_start_and_end(tmp_path):
    text, _ = attnflow("run", "minus-identity", "--n", 4, "--saves", 2, "--no-picture", "--json", cwd=tmp_path)

    assert json.loads(text)["time"] == 1000.0


def test_list_shows_every_scenario(tmp_path):
    text, _ = attnflow("list", "--json", cwd=tmp_path)
    table, _ = attnflow("list", cwd=tmp_path)

    names = {entry["name"] for entry in json.loads(text)}
    assert names >= {
        "boolean", "polytope", "polytope-3d", "hyperplanes", "hyperplanes-3d", "codim2", "mixed", "minus-identity",
        "multihead", "sphere", "sphere-usa", "causal", "renyi", "kuramoto", "hardmax", "noisy", "layernorm-post",
        "layernorm-pre", "layernorm-mix", "layernorm-peri", "layernorm-ngpt", "layernorm-sqrt",
    }  # fmt: skip
    assert all(name in table for name in names)


def test_doctor_finds_a_healthy_installation(tmp_path):
    text, _ = attnflow("doctor", "--json", cwd=tmp_path)

    assert json.loads(text)["healthy"] is True


def test_doctor_names_the_path_of_a_scenario(tmp_path):
    for name, words in {"sphere": "native runs", "noisy": "since the flow has noise"}.items():
        text, _ = attnflow("doctor", "--json", "--flow", name, cwd=tmp_path)
        assert words in json.loads(text)[f"{name} is computed by"]

    assert "sphere" in attnflow("doctor", "--flow", "spere", cwd=tmp_path, code=2)[1]


BAD = {
    "unknown scenario": (["run", "polytop"], "`scenario` 'polytop' is not known. Did you mean 'polytope'"),
    "unknown spectrum": (["run", "sphere", "--value", "identiti"], "Did you mean 'identity'"),
    "unknown mask": (["run", "sphere", "--mask", "casual"], "Did you mean 'causal'"),
    "unknown attention": (["run", "sphere", "--attention", "soft"], "Did you mean 'softmax'"),
    "unknown solver": (["run", "sphere", "--solver", "rk5"], "Did you mean 'rk4'"),
    "unknown activation": (["run", "mlp", "--mlp", "sigmoid"], "`mlp` 'sigmoid' is not known. Known: relu, tanh, gelu, identity."),
    "unknown start": (["run", "sphere", "--start", "cube"], "is not known"),
    "unknown space": (["run", "sphere", "--space", "torus"], "Known: euclidean, rescaled, sphere."),
    "numbers in a word": (["run", "sphere", "--start", "box:a,b"], "must be a name, then a colon and numbers"),
    "too many numbers": (["run", "sphere", "--mask", "causal:3"], "takes no number after the colon"),
    "negative count": (["run", "sphere", "--n", "-5"], "`n` must be a whole number, at least 1, but it is -5"),
    "one save": (["run", "sphere", "--saves", "1"], "`saves` must be a whole number, at least 2"),
    "negative end": (["run", "sphere", "--end", "-1"], "`end` must be above zero"),
    "not a number": (["run", "sphere", "--beta", "hot"], "`--beta` must be a number, but it is 'hot'."),
    "no whole number": (["run", "sphere", "--n", "abc"], "`--n` must be a whole number, but it is 'abc'."),
    "no whole number in a list": (["robustness", "--n", "4", "--n", "2.5"], "`--n` must be a whole number, but it is '2.5'."),
    "no value": (["run", "sphere", "--n"], "Option '--n' requires an argument."),
    "unknown option": (["run", "sphere", "--zeta", "1"], "'attnflow run --help' lists what can be given."),
    "NaN beta": (["run", "sphere", "--beta", "nan"], "`beta` must be one finite number"),
    "beta beyond rounding": (["run", "staircase", "--beta", "1e20"], "must be at most 1e+08 for `coalesce`"),
    "wrong start": (["run", "sphere", "--start", "box"], "must lie on the unit sphere"),
    "wrong V": (["run", "sphere", "--value", "eigenvalues:1,2"], "needs d = 3 numbers after the colon (FIRST,SECOND,...), but it has 2"),
    "published V of another size": (["run", "hyperplanes", "--d", "3"], "is a matrix of size 2, but d is 3"),
    "idle beta": (["run", "hardmax", "--beta", "3"], "`beta` would change nothing here: hardmax"),
    "idle tolerance": (["run", "sphere", "--solver", "rk4:0.1", "--rtol", "1e-3"], "`rtol` would change nothing here"),
    "negative seed": (["run", "sphere", "--seed", "-1"], "`seed` must be a whole number, at least 0"),
    "negative period": (["run", "redrawn", "--redraw", "-1"], "`redraw` must be above zero"),
    "normalisation in R^d": (["run", "polytope", "--normalisation", "pre"], "belongs to the sphere"),
    "mask that hides": (["run", "sphere", "--mask", "strictly-causal"], "hides everything from token 1"),
    "missing file": (["run", "sphere", "--start", "no.npy"], "names the file no.npy, which cannot be used: there is no such file"),
    "broken window": (["run", "sphere", "--mask", "window:2.5"], "takes a whole number"),
    "suffix": (["run", "sphere", "--out", "a.csv"], "is written as `.zarr` or `.nc`"),
    "folder": (["run", "sphere", "--out", "no/such/a.zarr"], "is not a directory"),
    "picture suffix": (["run", "sphere", "--picture", "a.doc"], ".png"),
    "missing result": (["rerun", "no.zarr"], "There is no result file"),
    "missing result to show": (["show", "no.zarr"], "There is no result file"),
    "name too long to rerun": (["rerun", 300 * "n"], "There is no result file"),
    "name too long for a status": (["sweep", "--status", 300 * "n"], "There is no sweep at"),
    "name too long to convert": (["convert", 300 * "n", "out"], "There is no file"),
    "name too long to explore": (["explore", f"{300 * 'n'}/x", "--no-browser"], "is neither"),
    "unknown command": (["runn"], "No such command"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_exit_code_two(name, tmp_path):
    arguments, sentence = BAD[name]

    printed, error = attnflow(*arguments, cwd=tmp_path, code=2)

    assert sentence in error.replace("\n", " ")
    assert error.startswith("attnflow: ")
    assert error.count("\n") == 1
    assert printed == ""
    assert not list(tmp_path.iterdir())


def test_the_version_is_printed(tmp_path):
    assert attnflow("--version", cwd=tmp_path) == (f"attnflow {af.__version__}\n", "")


def test_without_arguments_the_help_is_printed(tmp_path):
    assert "Run and repeat:" in attnflow(cwd=tmp_path)[0]


def test_a_value_matrix_that_is_not_square_is_one_sentence(tmp_path):
    np.save(tmp_path / "value.npy", np.ones((2, 3)))

    printed, error = attnflow("run", "polytope", "--value", "value.npy", cwd=tmp_path, code=2)

    assert "2 x 3" in error.replace("\n", " ")
    assert "Traceback" not in error
    assert printed == ""


def test_bad_input_ends_the_process_with_two(tmp_path):
    printed, error = attnflow_process("run", "polytop", cwd=tmp_path, code=2)
    assert printed == ""
    assert error.startswith("attnflow: ")
    assert "Traceback" not in error


def test_an_existing_output_is_kept(tmp_path):
    (tmp_path / "sphere.zarr").mkdir()
    (tmp_path / "sphere.zarr" / "precious").write_text("data")
    (tmp_path / "other.png").write_text("picture")

    _, error = attnflow("run", "sphere", "--n", 4, cwd=tmp_path, code=2)
    assert "sphere.zarr exists already" in error
    _, error = attnflow("run", "sphere", "--n", 4, "--out", "other.zarr", cwd=tmp_path, code=2)
    assert "other.png exists already" in error
    assert (tmp_path / "sphere.zarr" / "precious").read_text() == "data"
    assert (tmp_path / "other.png").read_text() == "picture"


def test_a_damaged_result_is_refused(tmp_path):
    (tmp_path / "broken.nc").write_bytes(b"CDF\x01 nothing more")

    _, error = attnflow("show", "broken.nc", cwd=tmp_path, code=2)

    assert "damaged" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["rerun"], ["show"], ["doctor"]])
def test_help_loads_nothing_heavy(command, tmp_path):
    """What makes help slow is loading libraries; half a second of CPU is asserted with room for a busy machine."""
    before = os.times()

    text, _ = attnflow_process(*command, "--help", cwd=tmp_path)

    after = os.times()
    assert "Usage" in text
    assert command == [] or "Example: attnflow" in text
    assert _seconds_of_children(after) - _seconds_of_children(before) < 2.0


def _seconds_of_children(times):
    """Processor seconds of processes that have ended; zero on Windows, which does not count them."""
    return times.children_user + times.children_system


COMMANDS = get_command(app).commands
SINGLE_OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and not option.multiple
]


@pytest.mark.parametrize(("name", "option"), SINGLE_OPTIONS, ids=lambda one: getattr(one, "name", one))
def test_an_option_given_twice_is_refused(name, option):
    words = [option.opts[0]] if option.is_flag else [option.opts[0], "1"]

    with pytest.raises(InputError, match=f"`{option.opts[0]}` is given 2 times"):
        COMMANDS[name].make_context(name, [*words, *words])


def test_options_that_may_repeat_are_all_taken():
    context = COMMANDS["robustness"].make_context("robustness", ["--law", "box", "--law", "gaussian"])

    assert ["box", "gaussian"] in [list(value) for value in context.params.values() if isinstance(value, list | tuple)]


def test_help_does_not_import_jax():
    program = "import sys; sys.argv = ['attnflow', '--help']\nfrom attnflow.cli.app import main\ntry: main()\nexcept SystemExit: pass\n"
    program += "heavy = {'jax', 'numpy', 'matplotlib', 'xarray'} & set(sys.modules)\nassert not heavy, heavy"

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("arguments", "said", "unsaid"),
    [
        (
            ["renyi", "--beta", 100, "--n", 30, "--end", 5],
            "30 tokens on the circle, softmax attention, beta = 100",
            "64",
        ),
        (["polytope", "--value", "pair:0.5"], "V of eigenvalues 0.5+1i, 0.5-1i", "V = I"),
        (["polytope", "--beta", "-1"], "beta = -1, V = I: one cluster at t = 20", "polygon"),
    ],
)
def test_the_headline_is_that_of_the_run(arguments, said, unsaid, tmp_path):
    text, _ = attnflow("run", *arguments, "--json", "--no-picture", cwd=tmp_path)

    found = json.loads(text)
    assert said in found["headline"]
    assert unsaid not in found["headline"]
