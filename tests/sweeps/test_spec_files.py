"""Specs: the same from a file and from arguments, and what is refused."""

import numpy as np
import pytest

from attnflow._common.checks import InputError
from attnflow.sweeps.spec_files import spec_named, spec_of_values
from attnflow.sweeps.sweep_spec import SweepSpec, differences

TEXT = """
scenario = "renyi"
end = 5.0
runs = 8
seed = 3
reduce = ["mean"]

[over]
beta = "4:64:3log"
n = [10, 20]

[observables]
order = "mean-cosine"
groups = { measure = "final-clusters:0.1", reduce = ["counts"] }
"""


def test_a_file_and_arguments_give_the_same_spec(tmp_path):
    (tmp_path / "spec.toml").write_text(TEXT)

    of_file = spec_named(tmp_path / "spec.toml", {}, {})
    of_arguments = spec_named(
        "renyi",
        {
            "over": {"beta": [4.0, 16.0, 64.0], "n": "10,20"},
            "runs": 8,
            "seed": 3,
            "reduce": "mean",
            "observables": {
                "order": "mean-cosine",
                "groups": {"measure": "final-clusters:0.1", "reduce": ["counts"]},
            },
        },
        {"end": 5.0},
    )

    assert differences(of_file, of_arguments) == []
    assert of_file.shape == (3, 2)
    assert of_file.reductions == {"order": ("mean",), "groups": ("counts",)}
    assert SweepSpec.of_record(of_file.record()) == of_file


def test_arguments_change_a_file(tmp_path):
    (tmp_path / "spec.toml").write_text(TEXT)

    spec = spec_named(tmp_path / "spec.toml", {"runs": 2, "over": {"n": [5]}}, {"end": 1.0})

    assert (spec.runs, spec.settings["end"]) == (2, 1.0)
    assert [dict(axis.columns) for axis in spec.axes] == [{"beta": (4.0, 16.0, 64.0)}, {"n": (5,)}]


def test_files_of_numbers_are_read_into_the_spec(tmp_path):
    np.save(tmp_path / "v.npy", np.diag([2.0, 1.0]))
    (tmp_path / "spec.toml").write_text('space = "euclidean"\nd = 2\nvalue = "v.npy"\n')

    spec = spec_named(tmp_path / "spec.toml", {}, {})
    (tmp_path / "v.npy").unlink()

    assert spec.record()["settings"]["value"] == [[2.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scenari": "sphere"}, "`key` 'scenari' is not known. Did you mean 'scenario'"),
        ({"budget": 3.0}, "`key` 'budget' is not known"),
        ({"runs": 0}, "`runs` must be a whole number, at least 1"),
        ({"seed": -1}, "`seed` must be a whole number, at least 0"),
        ({"observables": {"a": "mean-cosin"}}, "'mean-cosin' is not known. Did you mean 'mean-cosine'"),
        ({"observables": {"a": "close-pairs:1,2"}}, "takes at most one number"),
        ({"observables": {"a": 3}}, "must be a word"),
        ({"observables": {"a": {"reduce": ["mean"]}}}, "has no `measure`"),
        ({"observables": {"a": {"measure": "step-count", "by": 1}}}, "'by' is not known"),
        ({"observables": {"time": "mean-cosine"}}, "cannot use the name 'time'"),
        ({"observables": {}}, "`observables` must be words by name"),
        ({"reduce": ["median"]}, "`reduce` 'median' is not known"),
        ({"reduce": ["quantiles:0.9,0.1"]}, "increasing levels between 0 and 1"),
        ({"reduce": ["quantiles:2"]}, "increasing levels between 0 and 1"),
        ({"reduce": ["mean:3"]}, "increasing levels"),
        ({"reduce": ["counts"]}, "counts runs by a whole number, but 'mean-cosine' is a real number"),
        ({"reduce": []}, "`reduce` must be words"),
        ({"over": [1]}, "`over` must be a table of axes"),
        ({"table": 3}, "`table` must be the name of a CSV file"),
        ({"beta": 1.0, "over": {"beta": [1.0, 2.0]}}, "`beta` is an axis and a setting"),
        ({"end": "late"}, "`end` must be"),
    ],
)
def test_bad_specs_are_refused(tmp_path, values, message):
    with pytest.raises(InputError) as refusal:
        spec_of_values({"scenario": "sphere"} | values, tmp_path)
    assert message in str(refusal.value)


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "bad.toml").write_text("runs = = 3")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML"):
        spec_named(tmp_path / "bad.toml", {}, {})
    with pytest.raises(InputError, match=r"no\.toml cannot be read: No such file"):
        spec_named(tmp_path / "no.toml", {}, {})
    (tmp_path / "key.toml").write_text("rums = 3")
    with pytest.raises(InputError, match=r"key\.toml: `key` 'rums' is not known. Did you mean 'runs'"):
        spec_named(tmp_path / "key.toml", {}, {})
