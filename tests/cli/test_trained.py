"""The commands about trained models: files, tables, JSON, and bad input."""

import csv
import json
import re

import numpy as np
import pytest
from tests.helpers import tiny_models
from tests.helpers.command_line import attnflow
from typer.testing import CliRunner

from attnflow import show, trained
from attnflow._common.checks import InputError
from attnflow.cli import trained_heads, trained_summaries
from attnflow.cli.app import app
from attnflow.cli.numbers import interval_text, rounding_of
from attnflow.cli.trained_options import prompt_of
from attnflow.models import load
from attnflow.trained.head_limits import KINDS

IDS = ",".join(str(one) for one in tiny_models.IDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.write("bert", tmp_path_factory.mktemp("models") / "bert")


def run(*arguments):
    """What a command prints; errors come out as they are."""
    found = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_heads_print_write_and_draw(folder, tmp_path):
    table, picture = tmp_path / "heads.csv", tmp_path / "heads.png"
    found = json.loads(run("heads", folder, "--layers", "1", "--out", table, "--picture", picture, "--json"))
    assert len(found["rows"]) == tiny_models.HEADS
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["real_part"]) for row in rows] == [row["real_part"] for row in found["rows"]]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [row["control"] for row in found["controls"]][:2] == ["trained", "Q = K = 0"]
    text = run("heads", folder, "--layers", "1", "--controls", 2)
    agreeing, undecided = (sum(row[name] for row in found["rows"]) for name in ("agreeing", "undecided"))
    verbs = "have" if agreeing != 1 else "has", "are" if undecided != 1 else "is"
    assert f" Of 4 simulations {agreeing} {verbs[0]} the predicted limit; {undecided} {verbs[1]} undecided." in joined(
        text
    )
    assert "controls, on 2 heads" in text
    assert "2 simulations are too few to tell a difference (Fisher's exact test, p < 0.05)." in joined(text)
    text = run("heads", folder, "--layers", "0,2", "--runs", 0, "--untrained")
    assert "(untrained)" in text
    assert f"{2 * tiny_models.HEADS} heads: " in text
    assert "beta = sqrt(d) |sym B|_F" in text


def test_the_lens_prints_the_word_that_each_layer_predicts(tmp_path):
    model = tiny_models.write("gpt2", tmp_path / "gpt2")
    rows = json.loads(run("prompt", model, IDS, "--lens", "--json"))["logit_lens"]
    assert rows[-1]["agreement"] == 1.0
    text = run("prompt", model, IDS, "--lens")
    assert f"{rows[0]['last_word']} {100 * rows[0]['probability']:.0f} %" in text
    with pytest.raises(InputError, match="no unembedding"):
        run("prompt", tiny_models.write("bert", tmp_path / "bert"), IDS, "--lens")


def joined(text):
    """The text in one line, however it was wrapped."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    "command",
    [
        ["heads", "--layers", "0", "--runs", "0"],
        ["ladder", IDS],
        ["flow", "--by-kind", "--n", "3", "--end", "1", "--saves", "6"],
        ["flow", "--by-heads", "--n", "3", "--end", "1", "--saves", "6"],
    ],
)
def test_where_files_went_is_printed(folder, tmp_path, command):
    name, *options = command
    written = {"picture": tmp_path / "a.png"} | ({} if name == "flow" else {"csv": tmp_path / "a.csv"})
    files = ["--picture", written["picture"], *(["--out", written["csv"]] if "csv" in written else [])]
    text = run(name, folder, *options, *files)
    for kind, path in written.items():
        assert f"{kind}: {path}\n" in text
        assert path.exists()


def table_of(text, title):
    """The rows of the table under a title, as lists of words; headings are left out."""
    lines = text.split(f"{title}\n")[1].split("\n\n")[0].splitlines()
    return [line.split() for line in lines if line.strip()[:1].isdigit()]


def test_the_ladder_prints_its_rungs(folder, tmp_path):
    found = json.loads(run("ladder", folder, IDS, "--depth", 1, "--out", tmp_path / "ladder.csv", "--json"))
    assert found["distance_to_model"] < 1e-12
    assert [row["rung"] for row in found["rows"]][::5] == ["attention only", "+ positions"]
    assert "+ LayerNorm" in run("ladder", folder, IDS, "--depth", 1)
    assert (tmp_path / "ladder.csv").read_text().startswith("rung,")


def test_a_prompt_is_followed(folder, tmp_path):
    options = ["--coupling", "--split", "symmetry", "--frames", "--betas", "2", "--json"]
    found = json.loads(run("prompt", folder, IDS, "--out", tmp_path / "prompt.zarr", *options))
    assert found["tokens"] == len(tiny_models.IDS)
    assert list(found["energy"]) == ["2"]
    assert set(found["displacement"]) == {"attractive", "repulsive", "rotational"}
    assert set(found["cosine_in_frame"]) == {"x", "V", "S", "A"}
    assert len(found["block_coupling"]) == tiny_models.LAYERS
    picture = tmp_path / "way.png"
    text = run("prompt", folder, IDS, "--picture", picture, *options[:-1])
    for name in ("", "-displacement", "-frames", "-coupling"):
        assert (tmp_path / f"way{name}.png").read_bytes().startswith(b"\x89PNG")
    # The tables hold the numbers of the JSON, and the mismatch is that of each block with the next.
    split = table_of(text, "output of attention, split by parts of V")
    lengths = found["displacement"]["rotational"]["length"]
    np.testing.assert_allclose([float(row[3]) for row in split[1:]], lengths, rtol=1e-2)
    framed = table_of(text, "mean cosine in frames that move with V, S and A")
    np.testing.assert_allclose([float(row[3]) for row in framed], found["cosine_in_frame"]["S"], rtol=1e-2)
    coupled, layers = found["block_coupling"], table_of(text, "what each layer does")
    np.testing.assert_allclose([float(row[4]) for row in layers[1:3]], [coupled[0][1], coupled[1][2]], rtol=1e-2)
    assert [len(row) for row in layers] == [1, 6, 6, 5]  # the embedding has none, the last block no next one
    asked = json.loads(run("prompt", folder, IDS, "--coupling", "--token", 2, "--top", 3, "--json"))["block_coupling"]
    np.testing.assert_array_equal(asked, trained.block_coupling(load(folder), tiny_models.IDS, token=2, top=3).mismatch)
    assert not np.allclose(asked, coupled)
    run("show", tmp_path / "prompt.zarr")
    assert (tmp_path / "prompt.png").read_bytes().startswith(b"\x89PNG")
    text = run("prompt", folder, IDS, "--control", "untrained")
    assert "(untrained)" in text
    assert "energy falls" in text


def test_pictures_beside_the_first_are_not_overwritten(folder, tmp_path):
    (tmp_path / "way-frames.png").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"way-frames\.png"):
        run("prompt", folder, IDS, "--picture", tmp_path / "way.png", "--frames")
    assert not (tmp_path / "way.png").exists()


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("heads", "--layers", "99"), ("heads", "--runs", -1), ("heads", "--seed", -1),
        ("flow", "--start", "cube"), ("flow", "--heads", "99"), ("flow", "--layer", 99), ("flow", "--saves", 1),
        ("flow", "--n", 1), ("flow", "--seed", -1),
        ("prompt", "--angle", -1), ("prompt", "--betas", "a"), ("prompt", "--classes", "none"),
        ("prompt", "--split", "half"), ("prompt", "--control", "no"),
        ("prompt", "--depth", 99), ("prompt", "--seed", -1),
        ("ladder", "--head", 99), ("ladder", "--mask", "no"), ("ladder", "--depth", 99), ("ladder", "--angle", 0),
    ],
    ids=lambda one: str(one),
)  # fmt: skip
def test_that_a_picture_exists_is_said_last(folder, tmp_path, command, option, value):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"mine")
    text = [IDS] if command in ("prompt", "ladder") else []
    with pytest.raises(InputError) as error:
        run(command, folder, *text, option, value, "--picture", picture)
    assert "exists already" not in str(error.value)
    with pytest.raises(InputError, match="exists already"):
        run(command, folder, *text, "--picture", picture)


@pytest.mark.parametrize(
    "command", [["heads", "--runs", 0], ["flow", "--n", 3, "--end", 1, "--saves", 5], ["prompt", IDS], ["ladder", IDS]]
)
def test_pictures_have_the_size_and_style_asked_for(folder, tmp_path, command):
    from PIL import Image

    picture, (name, *rest) = tmp_path / "a.png", command
    drawing = ["--size", "column", "--style", "dark", "--no-title"]
    run(name, folder, *rest, *drawing, "--picture", picture, "--json")
    opened = Image.open(picture).convert("RGB")
    assert opened.width == 680  # 3.4 inches
    assert max(opened.getpixel((0, 0))) < 50
    with pytest.raises(InputError, match="none is asked for"):
        run(name, folder, *rest, *drawing)


def test_the_summary_of_a_prompt_in_sentences():
    summary = {"clusters": [5, 3, 3, 3, 1], "longest_plateau": 2.0, "collapse_time": 4.0, "plateau_to_collapse": 0.5}
    assert (
        trained_summaries._plateau(summary) == "the number is constant for 2 of the 4 layers until it is 1: ratio 0.50"
    )
    pairs = [{"words": ["cat", "dog"], "share": 0.31}]
    falls = [
        {"half": "mlp", "layer": 0, "change": -0.1, "pairs": []},
        {"half": "mlp", "layer": 2, "change": -0.2, "pairs": pairs},
    ]
    said = "by attention in 0, the MLP in 2 of 6 layers; most by the MLP of layer 3, -0.2: “cat” and “dog” 31 %"
    assert trained_summaries._falls(falls, 6) == said
    assert trained_summaries._falls([], 6) == "nowhere"
    assert trained_summaries._clusters([["a", "b"], ["c"] * 21]) == "a b\n" + "c x 21"
    merges = [{"after_layer": 3, "parts": [["a"], ["b", "c"]]}] * 10
    told = trained_summaries._merges(merges).splitlines()
    assert told[0] == "10: 10 in layer 3"
    assert told[8:] == ["layer 3: a + b c", "and 2 more, see --json"]
    assert trained_summaries._merges(merges[:1]) == "layer 3: a + b c"
    faint = [{"half": "mlp", "layer": 2, "change": -0.2, "pairs": [{"words": ["cat", "dog"], "share": 1e-5}]}]
    assert trained_summaries._falls(faint, 6).endswith("-0.2: no pair has more than 1 % of it")


@pytest.mark.parametrize("layers", [6, 48, 128])
def test_every_row_tells_of_the_layer_that_is_named(layers, capsys):
    """A value that is its own layer's number is printed beside that number, with an embedding before it or without."""
    whole, of_layers = list(map(float, range(layers + 1))), list(map(float, range(1, layers + 1)))
    trained_summaries.print_by_layer("", layers, {"a": whole, "b": of_layers, "c": [None] * layers})
    heading, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert heading == ["layer", "a", "b"]
    assert rows[0] == ["0", "0"]
    assert all(row[0] == row[1] == row[2] for row in rows[1:])
    assert len(rows) == min(layers + 1, trained_summaries.MAX_LAYERS)
    assert rows[-1][0] == str(layers)


def test_numbers_below_their_error_are_zero_with_it(capsys):
    """Tokens that agree have a variability of 1.5e-32, which is rounding."""
    trained_summaries.print_by_layer("", 1, {"variability": [0.25, 1.5e-32]}, errors={"variability": 1e-28})
    assert "0 ± 1e-28" in capsys.readouterr().out
    trained_summaries.print_by_layer("", 1, {"second eigenvalue": [0.25, 1e-9]}, rounding_of("float32"))
    assert "0 ± 5e-06" in capsys.readouterr().out
    trained_summaries.print_by_layer("", 1, {"large": [1.0, 1e32], "small": [0.25, 0.5]})
    assert "0.2500" in capsys.readouterr().out  # the error of a column is relative to its own largest number
    ratios = {"divisor": [1.0, 2.0], "divisor_least": [1.5e-32, 1.0], "divisor_greatest": [1.0, 8.0]}
    assert "tokens have 0 ± 1e-14 to 4 times the median" in trained_summaries.divisors_sentence(ratios)


def test_numbers_are_text_where_there_is_a_tokenizer_unless_ids_are_asked_for(folder):
    class Reader:
        reads_text = True

    assert prompt_of(Reader, "1, 2, 3", ids=False) == "1, 2, 3"
    assert prompt_of(Reader, "1, 2, 3", ids=True) == [1, 2, 3]
    Reader.reads_text = False
    assert prompt_of(Reader, "5", ids=False) == [5]
    assert prompt_of(Reader, "5 and 6", ids=False) == "5 and 6"
    assert not load(folder).reads_text


def test_a_flow_is_run_drawn_and_filmed(folder, tmp_path):
    files = ["--picture", tmp_path / "flow.png", "--movie", tmp_path / "flow.gif", "--out", tmp_path / "flow.zarr"]
    options = ["--heads", "1", "--start", "prompt", "--text", IDS, "--end", 1, "--saves", 6, "--json"]
    found = json.loads(run("flow", folder, *options, *files))
    assert found["heads"] == [1]
    assert (tmp_path / "flow.gif").read_bytes().startswith(b"GIF")
    assert (tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG")
    assert found["clusters"] >= 1


def test_flows_by_number_of_heads_are_drawn(folder, tmp_path):
    options = ["--by-heads", "--n", 3, "--end", 1, "--saves", 6, "--picture", tmp_path / "counts.png", "--json"]
    found = json.loads(run("flow", folder, *options))
    assert [len(row["heads"]) for row in found["rows"]] == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 4]
    assert "Means over random subsets of heads" in run("flow", folder, *options[:-3], "--subsets", 1)
    assert (tmp_path / "counts.png").read_bytes().startswith(b"\x89PNG")


def test_heads_of_each_kind_are_compared(folder, tmp_path):
    """Each row is the run that `--heads KIND` makes, and the picture holds its misalignment."""
    options = ["--n", 5, "--end", 2, "--saves", 9]
    found = json.loads(run("flow", folder, "--by-kind", "--picture", tmp_path / "kinds.png", *options, "--json"))
    assert (tmp_path / "kinds.png").read_bytes().startswith(b"\x89PNG")
    kinds = [row["kind"] for row in found["rows"]]
    assert kinds == [kind for kind in KINDS if kind in trained.head_table(load(folder), runs=0).kind.values]
    assert len(kinds) > 1
    for row in found["rows"]:
        alone = json.loads(run("flow", folder, "--heads", row["kind"], *options, "--json"))
        assert {name: row[name] for name in alone} == alone
    text = run("flow", folder, "--by-kind", *options)
    assert all(f"{row['kind']} " in text and f" {row['layer']}/{row['heads'][0]} " in text for row in found["rows"])
    runs = trained.flows_by_kind(load(folder), n=5, end=2.0, saves=9, progress=False)
    lines = show.head_kinds(runs).axes[len(kinds)].get_lines()
    np.testing.assert_allclose([line.get_ydata()[-1] for line in lines], [row["misalignment"] for row in found["rows"]])


def test_the_strongest_head_is_sought_in_the_layer_that_is_named(folder):
    opened = load(folder)
    kinds = {
        layer: set(trained.head_table(opened, [layer], runs=0, progress=False).kind.values.ravel()) for layer in (0, 1)
    }
    for layer, found in kinds.items():
        for kind in found:
            assert trained_heads._which_heads(opened, layer, kind)[0] == layer


REFUSED = {
    "text, no prompt": (["flow", "--text", IDS], "--text cannot be used with --start sphere"),
    "n of a prompt": (["flow", "--start", "prompt", "--text", IDS, "--n", 3], "--n cannot be used with --start prompt"),
    "by heads": (["flow", "--by-heads", "--heads", "1", "--movie", "x.gif"], "--heads and --movie cannot be used with"),
    "by kind": (["flow", "--by-kind", "--out", "x.zarr"], "--out cannot be used with --by-kind, which is many runs"),
    "both": (["flow", "--by-kind", "--by-heads"], "--by-kind cannot be used with --by-heads"),
    "numbers": (["heads", "--layers", "one"], "`layers` must be whole numbers with commas between"),
    "suffix": (["heads", "--out", "table.xlsx"], "written as `.csv`, but the path is table.xlsx. Use table.csv"),
    "betas": (["prompt", IDS, "--betas", "hot"], "`betas` must be numbers with commas between"),
    "token alone": (["prompt", IDS, "--token", "2"], "--token belongs to --coupling. Add --coupling"),
    "far token": (["prompt", IDS, "--coupling", "--token", 99], "`token` must be from -7 to 6"),
    "no tokenizer": (["prompt", "a text"], "has no tokenizer.json"),
    "superscripts": (["prompt", "²,3"], "has no tokenizer.json"),
    "no ids": (["prompt", "²,3", "--ids"], "`ids` must be whole numbers with commas between, such as 1,4, but it is"),
    "huge ids": (["prompt", "5," + "9" * 30], "must be a text or a list of whole numbers"),
    "ids out of range": (["prompt", "5,-1"], "1 of 2 are not: the first is -1 at position 1"),
    "iterated": (["ladder", IDS, "--control", "iterated"], "`layers` must be at most 3"),
    "depth of a prompt": (["prompt", IDS, "--depth", "9"], "`--depth` must be at most 3"),
    "depth of a ladder": (["ladder", IDS, "--depth", "0"], "`--depth` must be a whole number, at least 1"),
    "depth of a study": (["study", "--depth", "9"], "`--depth` must be at most 3"),
    "layers of heads": (["heads", "--layers", "9"], "`layers` must be from 0 to 2"),
    "heads": (["flow", "--heads", "9"], "numbers from 0 to 3"),
    "no value": (["prompt", IDS, "--split", "--frames"], "`--split` needs a value, but the option --frames follows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence(folder, case):
    (command, *options), sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence):
        run(command, folder, *options)


def test_the_command_ends_with_two_and_no_traceback(tmp_path):
    _, errors = attnflow("heads", "no such model!", cwd=tmp_path, code=2)
    assert errors.startswith("attnflow: There is no model at no such model!")
    assert "Traceback" not in errors


@pytest.mark.parametrize("saves", [2, 4])
def test_a_flow_of_few_kept_times_has_no_rate(folder, saves):
    text = run("flow", folder, "--heads", 0, "--n", 4, "--end", 0.1, "--saves", saves)
    assert f"a rate needs 5 kept times or more, and there are {saves}" in joined(text)


def test_numbers_of_heads_are_printed_with_intervals(folder):
    options = ("--by-heads", "--n", 4, "--end", 0.5, "--saves", 6, "--subsets", 2)
    text = run("flow", folder, *options)
    found = trained.count_rows(json.loads(run("flow", folder, *options, "--json"))["rows"])
    one = found[0]
    assert f" {one['mean_cosine']:.4g} " in text
    assert interval_text(one["mean_cosine_low"], one["mean_cosine_high"]) in text
    assert "2 of 4" in text
    assert "1 of 1" in text
    assert f"1 head {one['with_rate']} of 2; 2 heads " in joined(text)
    assert "95 % t intervals" in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bert", "Heads act on the tokens as they are. Left out of B and V: biases."),
        ("gpt2", "root mean square 1, since a norm precedes them; .* Left out of B and V: biases."),
        ("llama", "root mean square 1, since a norm precedes them; .* Left out of B and V: rotary positions."),
        ("llama3", "Left out of B and V: biases and rotary positions."),
    ],
)
def test_what_heads_leave_out_is_printed(tmp_path, name, words):
    text = run("heads", tiny_models.write(name, tmp_path), "--layers", "0", "--runs", 0)
    assert re.search(words, " ".join(text.split()))


@pytest.mark.parametrize("entry", ["num_hidden_layers", "hidden_size", "intermediate_size"])
def test_a_size_beyond_memory_is_one_sentence(tmp_path, entry):
    config = tiny_models.CONFIGS["bert"] | {entry: 10**12}
    tiny_models.write("bert", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = ("prompt", tmp_path, IDS, "--control", "untrained")
    with pytest.raises(InputError, match=r"config\.json"):
        run(*command)
