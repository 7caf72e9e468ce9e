"""Files of settings: what is written is read again, and every fault of a file is one sentence."""

import os
import tomllib

import numpy as np
import pytest
from tests.helpers.systems import needs_posix

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.configs.prepared_run import prepare
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.results import records


def written(tmp_path, text, name="a.toml"):
    """The path of a file with this text."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same_arguments(first, second):
    """Whether two prepared runs have the same method and arguments; seeds are compared by their state."""
    found = []
    for prepared in (first, second):
        arguments = dict(prepared.arguments)
        rng = arguments.pop("rng", None)
        arguments["rng"] = rng.generate_state(4) if isinstance(rng, np.random.SeedSequence) else rng
        found.append((prepared.method, records.record(arguments)))
    return found[0] == found[1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_scenario_is_written_and_read_without_a_change(name, tmp_path):
    config = RunConfig({"scenario": name})

    path = af.save_config(config, tmp_path / "a.toml")

    assert same_arguments(prepare(af.load_config(path)), prepare(config))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_written_scenario_does_not_depend_on_the_catalogue(name, tmp_path):
    """Every setting that acts is in the file: it describes the same run without the name of the scenario."""
    config = RunConfig({"scenario": name})

    path = af.save_config(config, tmp_path / "a.toml")

    assert same_arguments(prepare(af.load_config(path).change(scenario=None)), prepare(config))


def test_the_comparison_of_arguments_can_fail():
    """The control."""
    assert not same_arguments(
        prepare(RunConfig({"scenario": "noisy"})), prepare(RunConfig({"scenario": "noisy", "seed": 1}))
    )
    assert not same_arguments(
        prepare(RunConfig({"scenario": "sphere"})), prepare(RunConfig({"scenario": "sphere", "end": 14.0}))
    )


@pytest.mark.parametrize(
    "values",
    [
        {"scenario": "noisy", "n": 6, "end": 0.3},
        {"scenario": "redrawn", "n": 6, "end": 1.5, "saves": 4, "float32": True},
        {"scenario": "renyi", "n": 6, "end": 3.0, "clustered": 0.5},
        {"scenario": "staircase", "perturb": 1e-6, "seed": 3, "end": 1e9},
        {"scenario": "causal", "n": 4, "method": "stream", "end": 1e4, "saves": 5},
    ],
    ids=lambda values: values["scenario"],
)
def test_a_written_run_is_computed_bit_for_bit(values, tmp_path):
    run = RunConfig(values).run()

    again = af.load_config(af.save_config(RunConfig(values), tmp_path / "a.toml")).run()

    assert again.identical(run)


ALL = """
space = "rescaled"
attention = "unnormalised:0.5"
beta = 2
mask = ["causal", [[1, 0, 0], [1, 1, 0], [0, 1, 1]]]
masses = [1, 2, 0.5]
frozen = [false, true, false]
mlp = "tanh"
mlp_weight = [[1, 0], [0, 2]]
mlp_bias = [0.1, 0.2]
rescaling = "identity"
start = "tokens.csv"
times = [0, 0.5, 2]
solver = "dopri8"
rtol = 1e-7
max_steps = 100
float32 = false
observables = {energy = "energy:2", "any name" = "order-parameter"}
keep_tokens = true

[[head]]
query = [[1, 0.5]]
key = "row.npy"
value = [[1, 0], [0, 3]]

[[head]]
switches = [0.25]
[[head.piece]]
query_key = "goe"
value = "identity"
[[head.piece]]
value = "gaussian"

[[head]]
redraw = 0.5
seed = 3
query_key = "gaussian"
value = "minus_query_key"

[[stop]]
settled = 1e-9
[[stop]]
clustered = 0.01
count = 2
"""


def test_every_key_reaches_the_run(tmp_path, monkeypatch):
    written(tmp_path, "x,y\n1,2\n3,4\n5,6\n", "tokens.csv")
    np.save(tmp_path / "row.npy", [[2.0, 3.0]])
    path = written(tmp_path, ALL)
    monkeypatch.chdir("/")  # names of files are relative to the file of settings

    arguments = prepare(af.load_config(path)).arguments

    flow = arguments["flow"]
    first, second, third = flow.heads
    assert (type(flow), flow.attention) == (af.RescaledAttention, af.Unnormalised(2.0, 0.5))
    np.testing.assert_array_equal(first.key, [[2.0, 3.0]])
    np.testing.assert_array_equal(first.value, np.diag([1.0, 3.0]))
    np.testing.assert_array_equal(second.switches, [0.25])
    np.testing.assert_array_equal(second.heads[0].query, second.heads[0].query.T)
    assert (third.seed, third.value, float(third.period)) == (3, "minus_query_key", 0.5)
    assert repr(flow.mask) == "masks.causal & masks.boolean(3 x 3)"
    np.testing.assert_array_equal(flow.masses, [1, 2, 0.5])
    np.testing.assert_array_equal(flow.frozen, [False, True, False])
    np.testing.assert_array_equal(flow.mlp.bias, [0.1, 0.2])
    np.testing.assert_array_equal(flow.rescaling, np.eye(2))
    np.testing.assert_array_equal(arguments["tokens"], [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(arguments["times"], [0, 0.5, 2])
    assert (arguments["solver"].order, arguments["solver"].max_steps, float(arguments["solver"].rtol)) == (8, 100, 1e-7)
    assert arguments["stop"] == [af.Settled(1e-9), af.Clustered(0.01, 2)]
    assert list(arguments["observables"]) == ["energy", "any name"]
    # and all of it once more, from what is written of it
    assert same_arguments(
        prepare(af.load_config(af.save_config(af.load_config(path), tmp_path / "b.toml"))),
        prepare(af.load_config(path)),
    )


def test_sizes_follow_from_arrays_unless_they_are_given(tmp_path):
    found = prepare(RunConfig({"value": np.diag([2.0, 1.0]), "masses": np.array([1.0, 2.0, 3.0])})).arguments
    assert found["tokens"].shape == (3, 2)


def test_large_arrays_are_written_beside_the_file(tmp_path):
    tokens = af.initial.sphere(40, 3, rng=0)
    config = RunConfig({"start": tokens, "head": [{"value": np.eye(3) * 2}], "end": 1.0})
    os.mkdir(tmp_path / "there")

    path = af.save_config(config, tmp_path / "there" / "a.toml")

    assert sorted(os.listdir(tmp_path / "there")) == ["a-start.npy", "a.toml"]
    assert tomllib.loads(path.read_text())["start"] == "a-start.npy"
    np.testing.assert_array_equal(prepare(af.load_config(path)).arguments["tokens"], tokens)
    with pytest.raises(InputError, match="exists already"):
        af.save_config(config, path)
    path.unlink()
    with pytest.raises(InputError, match=r"a-start.npy exists already"):
        af.save_config(config, path)
    assert not path.exists()


def test_names_of_files_are_kept_when_a_file_is_written_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("data")
    os.makedirs("deep/settings")
    os.symlink("deep/settings", "link")
    np.save("data/tokens.npy", af.initial.circle(3, rng=0))
    config = RunConfig({"scenario": "kuramoto", "start": "data/tokens.npy"})

    for folder, name in {
        "deep/settings": "../../data/tokens.npy",
        "link": "../../data/tokens.npy",
        ".": "data/tokens.npy",
    }.items():
        path = af.save_config(config, f"{folder}/{folder.replace('/', '-')}.toml")
        assert tomllib.loads(path.read_text())["start"] == name
        assert same_arguments(prepare(af.load_config(path)), prepare(config))


BAD = {
    "empty": ("", "there are no settings. Write at least a line such as scenario = \"sphere\"."),
    "comment": ("# nothing\n", "there are no settings"),
    "syntax": ("n = \n", "it is not valid TOML: Invalid value (at line 1, column 5)."),
    "twice": ("n = 3\nn = 4\n", "it is not valid TOML: Cannot overwrite a value (at line 2, column 6)."),
    "latin": ("# größe\nn = 3\n".encode("latin-1"), "it is not a text file in UTF-8."),
    "binary": (bytes(range(256)), "it is not a text file in UTF-8."),
    "deep": ("start = " + "[" * 5000 + "]" * 5000, "it is not valid TOML"),
    "unknown key": ("betta = 2\n", "`key` 'betta' is not known. Did you mean 'beta'"),
    "unknown table": ("[[heat]]\nvalue = 1\n", "`key` 'heat' is not known. Did you mean 'head'"),
    "unknown key of a head": ('[[head]]\nquary = "identity"\n', "`key of head` 'quary' is not known. Did you mean 'query'"),
    "word for a number": ('beta = "hot"\n', "`beta` must be a number, but it is 'hot'."),
    "number for a word": ("space = 3\n", "`space` must be text in quotes, but it is 3."),
    "truth for a number": ("n = true\n", "`n` must be a whole number, but it is True."),
    "fraction": ("n = 2.5\n", "`n` must be a whole number, but it is 2.5."),
    "date": ("end = 2024-01-01\n", "`end` must be a number, but it is datetime.date(2024, 1, 1)."),
    "ragged": ("value = [[1, 2], [3]]\n", "`value` must be a word, the name of a file, or rows of numbers"),
    "empty rows": ("value = [[], []]\n", "`value` must be a word, the name of a file, or rows of numbers"),
    "words in rows": ('value = [["a", "b"]]\n', "`value` must be a word, the name of a file, or rows of numbers"),
    "no list": ("masses = 3\n", "`masses` must be a list of numbers or the name of a .npy, .npz, .csv or .txt file, but it is 3."),
    "no file": ('masses = "heavy"\n', "`masses` must be a list of numbers or the name of a .npy"),
    "missing file": ('start = "no.npy"\n', "no.npy, which cannot be used: there is no such file."),
    "table for a list": ("[head]\nvalue = 3\n", "`head` must be one or more tables [[head]]"),
    "list for tables": ("stop = [3]\n", "`stop` must be one or more tables [[stop]]"),
    "two conditions": ("[[stop]]\nsettled = 1\ndiverged = 2\n", "`stop` must name one of clustered, settled, diverged in each table, but one names 2."),
    "grey mask": ("mask = [[0.5, 1], [1, 1]]\n", "`mask` must be a word, the name of a file, rows of 0 and 1"),
    "NaN": ("beta = nan\n", "`beta` must be one finite number, but it is nan."),
    "NaN in a matrix": ("value = [[nan, 0], [0, 1]]\n", "`value` must be finite, but 1 of 4 numbers are not"),
    "infinite token": ('space = "euclidean"\nstart = [[inf, 0]]\n', "`tokens` must be finite"),
    "scenario": ('scenario = "spere"\n', "`scenario` 'spere' is not known. Did you mean 'sphere'"),
    "method": ('method = "guess"\n', "`method` 'guess' is not known."),
    "idle beta": ('attention = "hardmax"\nbeta = 3\n', "`beta` would change nothing here: hardmax has no temperature."),
    "idle merge": ("merge = 1e-3\n", "`merge` would change nothing here"),
    "idle end": ("end = 3\ntimes = [0, 1]\n", "`end` would change nothing here: `times` is given."),
    "idle value": ('value = "goe"\n[[head]]\nvalue = "goe"\n', "`value` would change nothing here: `head` is given."),
    "idle n": ("n = 3\nstart = [[1, 0]]\n", "`n` would change nothing here: `start` is given."),
    "weight alone": ("mlp_weight = [[1]]\n", "`mlp_weight` needs `mlp`, which is not given."),
    "common alone": ("common_noise = true\n", "`common_noise` needs `kappa`, which is not given."),
    "step of fixed steps": ('solver = "rk4:0.1"\nmin_step = 0.1\n', "`min_step` belongs to adaptive solvers"),
    "rescaling on the sphere": ('rescaling = "identity"\n', "`rescaling` belongs to the space 'rescaled'"),
    "sizes": ("start = [[1, 0, 0], [0, 1, 0]]\nmasses = [1, 2, 3]\n", "`masses` must have one entry for each token, 2, but it has 3."),
    "pieces": ('[[head]]\nswitches = [1]\n[[head.piece]]\nvalue = "goe"\n', "`switches` must increase and `heads` must be one longer"),
    "switches alone": ("[[head]]\nswitches = [1]\n", "`head` needs `switches` and tables [[head.piece]] together"),
    "half a head": ('[[head]]\nquery = "goe"\nvalue = "goe"\n', "`query` and `key` together"),
    "query and product": ('[[head]]\nquery = "goe"\nkey = "goe"\nquery_key = "goe"\nvalue = "goe"\n', "`head.query` has no meaning beside `head.query_key`"),
    "seed": ("noise_seed = -3\n", "`noise_seed` must be a whole number, or {entropy"),
    "observable": ('observables = {a = "enargy"}\n', "`observables.a` 'enargy' is not known. Did you mean 'energy'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_fault_of_a_file_is_one_sentence_with_file_and_key(name, tmp_path):
    text, sentence = BAD[name]
    path = written(tmp_path, text)

    with pytest.raises(InputError) as caught:
        prepare(af.load_config(path)).require_valid()
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_posix
def test_paths_that_are_no_files_are_refused(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    os.symlink(tmp_path / "nothing", tmp_path / "link.toml")

    for name, reason in {
        "folder.toml": "it is not a file",
        "pipe.toml": "not a file",
        "link.toml": "no such",
        "x\0.toml": "no such",
    }.items():
        with pytest.raises(InputError, match=reason):
            af.load_config(tmp_path / name)
    with pytest.raises(InputError, match=r"A file of settings is written as `.toml`"):
        af.save_config(RunConfig({"n": 3}), tmp_path / "a.yaml")


def test_a_mark_of_encoding_and_windows_line_ends_are_read(tmp_path):
    path = written(tmp_path, '\ufeffscenario = "sphere"\r\nn = 3\r\n')

    assert af.load_config(path).values == {"scenario": "sphere", "n": 3}


def test_text_of_any_kind_survives(tmp_path):
    names = ['a "quoted" name', "a\\b", "tab\tline\nend", "\x7f\x01", "größe"]
    config = RunConfig({"scenario": "sphere", "observables": dict.fromkeys(names, "diameter")})

    assert list(af.load_config(af.save_config(config, tmp_path / "a.toml")).values["observables"]) == names
