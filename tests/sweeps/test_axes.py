"""Axes of sweeps: values from text, lists and tables, and what is refused."""

import pytest

from attnflow._common.checks import InputError
from attnflow.sweeps.axes import Axis, require_axes, table_axis


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("beta", "4:256:7log", (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)),
        ("beta", "0:1:3", (0.0, 0.5, 1.0)),
        ("beta", "1, 2.5", (1.0, 2.5)),
        ("n", "50,100,200", (50, 100, 200)),
        ("n", "10:1000:3log", (10, 100, 1000)),
        ("mask", "full, causal,window:8", ("full", "causal", "window:8")),
        ("value", "diagonal:1,0.5;diagonal:1,2", ("diagonal:1,0.5", "diagonal:1,2")),
        ("value", "diagonal:1,0.5;", ("diagonal:1,0.5",)),
        ("solver", "euler:0.1,euler:0.05", ("euler:0.1", "euler:0.05")),
    ],
)
def test_text_gives_values(name, text, values):
    assert Axis.of(name, text).columns == {name: values}


def test_a_list_gives_values_of_the_kind_of_the_setting():
    values = Axis.of("beta", [1, 2]).columns["beta"]
    assert values == (1.0, 2.0)
    assert all(type(value) is float for value in values)
    assert type(Axis.of("n", [5.0]).columns["n"][0]) is int


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("betta", "1,2", "`axis` 'betta' is not known. Did you mean 'beta'"),
        ("beta", "1,2,1", "Axis `beta` has the value 1.0 2 times"),
        ("beta", "", "Axis `beta` is empty"),
        ("beta", [], "Axis `beta` is empty"),
        ("beta", "1:2:0", "Axis `beta` is empty"),
        ("beta", "1,,2", "has an empty value"),
        ("beta", "1:2", "a range is LOW:HIGH:COUNT"),
        ("beta", "2:1:5", "a range has LOW < HIGH"),
        ("beta", "0:1:5log", "a range has 0 < LOW < HIGH"),
        ("beta", "one", "must be a finite number, but it is 'one'"),
        ("beta", ["nan"], "must be a finite number"),
        ("beta", [True], "must be a finite number"),
        ("n", "1.5", "must be a whole number"),
        ("n", "1:2:5log", "has the value 1"),
        ("mask", [3], "must be a word"),
        ("value", "diagonal:1,0.5", "commas both between and inside words"),
        ("start", "tokens.npy,sphere", "names the file tokens.npy"),
        ("end", "1,2", "all cells have the same times"),
        ("runs", "1,2", "it is the number of runs of each cell"),
        ("beta", 3.0, "must be a list of values"),
    ],
)
def test_bad_axes_are_refused(name, given, message):
    with pytest.raises(InputError) as refusal:
        Axis.of(name, given)
    assert message in str(refusal.value)


def test_a_setting_has_one_axis():
    with pytest.raises(InputError, match="`beta` is varied by 2 axes"):
        require_axes([Axis.of("beta", "1,2"), Axis("row", {"beta": (1.0,), "n": (3,)})])


def test_a_table_is_one_axis(tmp_path):
    (tmp_path / "rows.csv").write_text("beta, mask, n\n1, full, 5\n\n4, causal, 6\n")

    axis = table_axis(tmp_path / "rows.csv")

    assert axis.name == "row"
    assert axis.places() == [{"beta": 1.0, "mask": "full", "n": 5}, {"beta": 4.0, "mask": "causal", "n": 6}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta,n\n1,\n", "Row 1 of the table {path} has no `n`"),
        ("beta,n\n1,2\n3\n", "Row 2 of the table {path} has 1 fields instead of 2"),
        ("beta,beta\n1,2\n", "Column 'beta' stands 2 times"),
        ("bete\n1\n", "'bete' is not known. Did you mean 'beta'"),
        ("beta\nx\n", "`beta` in row 1 of the table {path} must be a finite number"),
        ("beta\n1\n2\n1.0\n", "Rows 1 and 3 of the table {path} are equal"),
        ("beta\n", "needs a heading and one or more rows"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "rows.csv"
    path.write_text(text)

    with pytest.raises(InputError) as refusal:
        table_axis(path)
    assert message.format(path=path) in str(refusal.value)


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no\.csv cannot be read: No such file"):
        table_axis(tmp_path / "no.csv")
