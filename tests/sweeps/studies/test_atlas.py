"""The atlas of value matrices: cells, predictions beside simulations, agreement, and its picture."""

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow.analyse.spectra import spectrum
from attnflow.show.theory.atlas import PLACES, majority
from attnflow.show.theory.atlas import atlas as draw
from attnflow.sweeps.studies.atlas import _share, atlas, end_time, value_at
from attnflow.theorems.prediction.limits import WORDS, fulfils

GRID = np.array([-1.0, 0.5, 1.0, 2.0])


@pytest.fixture(scope="module")
def small():
    calls = []
    found = atlas(GRID, n=8, runs=2, progress=lambda share, sentence: calls.append((share, sentence)))
    assert [round(10 * share) for share, _ in calls] == list(range(1, 11))  # empty cells take no time
    return found


def test_cells_are_predicted_and_simulated(small):
    word = lambda x, y: small.predicted.sel(x=x, y=y).item()
    assert word(1.0, 1.0) == "polytope"
    assert word(2.0, 0.5) == "hyperplanes"
    assert word(-1.0, -1.0) == "zero"
    assert word(0.5, -1.0) == "hyperplanes"
    assert not small.proved.sel(x=0.5, y=-1.0)  # -1 is larger in modulus: only conjectured
    assert small.proved.sel(x=2.0, y=0.5)
    assert set(small.simulated.sel(x=1.0, y=1.0).values) == {"polytope"}
    assert set(small.simulated.sel(x=2.0, y=0.5).values) == {"hyperplanes"}
    assert set(small.simulated.sel(x=-1.0, y=-1.0).values) == {"zero"}


def test_cells_above_the_diagonal_are_empty(small):
    is_empty = small.y.values[:, None] > small.x.values
    np.testing.assert_array_equal(small.predicted.values == "", is_empty)
    np.testing.assert_array_equal(np.isnan(small.share.values) & is_empty, is_empty)
    assert small.attrs["cells"] == 10


def test_agreement_is_the_mean_of_the_cells_compared(small):
    counted = []
    for row in range(4):
        for column in range(4):
            promised = small.predicted.values[row, column]
            shown = [word for word in small.simulated.values[row, column] if word != "undecided"]
            if promised not in ("", "unknown") and shown:
                counted.append(np.mean([word == promised for word in shown]))
    assert small.attrs["cells_compared"] == len(counted)
    np.testing.assert_allclose(small.attrs["agreement"], np.mean(counted))
    assert small.attrs["agreement"] == 1.0


def test_exchanged_predictions_agree_less_often(small):
    """The control of the agreement, against the mean over all pairs of compared cells."""
    compared = np.argwhere(np.isfinite(small.share.values))
    predicted, simulated = small.predicted.values, small.simulated.values
    decided = lambda cell: [word for word in simulated[tuple(cell)] if word != "undecided"]
    pairs = [
        np.mean([fulfils(predicted[tuple(one)], word) for word in decided(other)])
        for one in compared
        for other in compared
    ]
    np.testing.assert_allclose(small.attrs["agreement_exchanged"], np.mean(pairs))
    assert small.attrs["agreement_exchanged"] < small.attrs["agreement"]


def test_disagreement_would_be_seen(small):
    """Negative control: runs that show something else count against the promise, and the picture marks their cell."""
    promised, shown = np.array([["polytope", "zero"]]), np.array([[["polytope", "hyperplanes"], ["undecided"] * 2]])
    np.testing.assert_array_equal(_share(promised, shown), [[0.5, np.nan]])
    wrong = small.copy(deep=True)
    wrong["share"][1, 2] = 0.0
    figure = draw(wrong)
    assert len(figure.axes[1].collections[-1].get_offsets()) == 1
    assert len(draw(small).axes[1].collections[-1].get_offsets()) == 0


def test_causal_atlas_on_the_circle():
    found = atlas(([1.0, 2.0], [0.5, 1.0]), space="sphere-causal", n=8, runs=2)
    assert found.predicted.sel(x=2.0, y=0.5).item() == "poles"
    assert found.predicted.sel(x=1.0, y=1.0).item() == "first-token"
    assert found.attrs["agreement"] == 1.0


@pytest.mark.parametrize(("trace", "determinant"), [(1.5, 0.5), (0.0, 1.0), (-1.0, 2.0), (2.0, 1.0)])
def test_trace_and_determinant_are_those_asked_for(trace, determinant):
    value = value_at(trace, determinant, "trace-determinant", eigenvectors="random", seed=1)
    np.testing.assert_allclose([np.trace(value), np.linalg.det(value)], [trace, determinant], atol=1e-6)


def test_further_eigenvalues_follow_the_second():
    np.testing.assert_allclose(np.diag(value_at(2.0, 1.0, d=4)), [2.0, 1.0, 0.5, 0.0])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"kind": "eigenvalue"}, "eigenvalues"),
        ({"space": "torus"}, "space"),
        ({"kind": "trace-determinant", "d": 3}, "d = 2"),
        ({"grid": [1.0]}, "grid"),
        ({"grid": [0.0, np.nan, 1.0]}, "finite"),
        ({"grid": "wide"}, "grid"),
        ({"n": 2}, "n"),
        ({"beta": -1.0}, "beta"),
    ],
)
def test_wrong_arguments_are_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        atlas(**arguments)


def test_majority_leaves_undecided_runs_out():
    words = np.array([["zero", "undecided", "undecided"], ["undecided"] * 3, ["zero", "point", "point"]])
    np.testing.assert_array_equal(majority(words), ["zero", "undecided", "point"])


def test_every_word_has_a_colour():
    assert {*PLACES, "undecided", "unknown"} == set(WORDS)


def test_the_picture_is_written(small, tmp_path):
    figure = draw(small, tmp_path / "atlas.png")
    assert (tmp_path / "atlas.png").stat().st_size > 10_000
    assert [axes.get_title() for axes in figure.axes[:2]] == ["predicted", "simulated"]
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {WORDS["polytope"], WORDS["hyperplanes"], WORDS["zero"], "not proved"} <= labels
    assert "agreement 100 %" in figure.get_suptitle()


def test_other_datasets_are_refused(tmp_path):
    with pytest.raises(ValueError, match="atlas"):
        draw(xr.Dataset(), tmp_path / "atlas.png")


@pytest.mark.parametrize(
    ("eigenvalues", "space", "end"),
    [
        ([0.5, 0.2], "sphere", 100.0),  # 30 over the gap of 0.3
        ([0.2, 0.15], "sphere", 200.0),  # at most
        ([2.0, -2.0], "sphere", 30.0),  # at least
        ([2.0, 1.5], "rescaled", 10.0),  # 5 over the gap
        ([0.01, -1.0], "rescaled", 40.0),
    ],
)
def test_end_times_follow_the_slowest_rate(eigenvalues, space, end):
    value = np.diag(eigenvalues)
    flow = (
        af.RescaledAttention(af.Head(value=value)) if space == "rescaled" else af.SphereAttention(af.Head(value=value))
    )
    assert end_time(spectrum(value), flow) == pytest.approx(end)
